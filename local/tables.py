"""`kubectl get`: the Table rendering of objects, with the printer columns of a CRD or the ones a built-in kind is known by."""

import json
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

from api.clock import parse_time
from local import jsonpaths
from local.kinds import Column, Served
from local.wire import JSON

Cell = Callable[[JSON, datetime], Any]


def age(created: str | None, now: datetime) -> str:
    """A duration as kubectl's human form."""
    if not created:
        return "<unknown>"
    try:
        seconds = int((now - parse_time(created)).total_seconds())
    except ValueError:
        return "<invalid>"
    if seconds < -1:
        return "<invalid>"
    seconds = max(seconds, 0)
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if seconds < 120:
        return f"{seconds}s"
    if minutes < 10:
        return f"{minutes}m{seconds % 60}s" if seconds % 60 else f"{minutes}m"
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return f"{hours}h{minutes % 60}m" if minutes % 60 else f"{hours}h"
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return f"{days}d{hours % 24}h" if hours % 24 else f"{days}d"
    return f"{days}d" if days < 730 else f"{days // 365}y{days % 365}d"


def _path_cell(column: Column) -> Cell:
    def cell(obj: JSON, now: datetime) -> Any:
        found = jsonpaths.evaluate(column.path, obj)
        if not found:
            return None if column.type != "string" else ""
        value = found[0]
        match column.type:
            case "date":
                return age(value, now) if isinstance(value, str) else "<unknown>"
            case "integer" | "number" | "boolean":
                return value
        if len(found) > 1:
            return ",".join(_text(item) for item in found)
        return _text(value)

    return cell


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, separators=(",", ":"))


def _at(path: str, empty: str = "<none>") -> Cell:
    def cell(obj: JSON, now: datetime) -> Any:
        del now
        found = jsonpaths.evaluate(path, obj)
        return ",".join(_text(item) for item in found) if found else empty

    return cell


def _count(path: str) -> Cell:
    def cell(obj: JSON, now: datetime) -> Any:
        del now
        found = jsonpaths.evaluate(path, obj)
        return len(found[0]) if found and isinstance(found[0], (dict, list)) else 0

    return cell


def _age(obj: JSON, now: datetime) -> Any:
    return age(obj["metadata"].get("creationTimestamp"), now)


def _pod_ready(obj: JSON, now: datetime) -> Any:
    del now
    statuses = (obj.get("status") or {}).get("containerStatuses") or ()
    return f"{sum(bool(status.get('ready')) for status in statuses)}/{len((obj.get('spec') or {}).get('containers') or ())}"


def _pod_status(obj: JSON, now: datetime) -> Any:
    del now
    if obj["metadata"].get("deletionTimestamp"):
        return "Terminating"
    status = obj.get("status") or {}
    for container in status.get("containerStatuses") or ():
        waiting = (container.get("state") or {}).get("waiting") or {}
        if waiting.get("reason"):
            return waiting["reason"]
    return status.get("reason") or status.get("phase") or "Unknown"


def _restarts(obj: JSON, now: datetime) -> Any:
    del now
    return sum(int(status.get("restartCount", 0)) for status in (obj.get("status") or {}).get("containerStatuses") or ())


def _ports(obj: JSON, now: datetime) -> Any:
    del now
    ports = (obj.get("spec") or {}).get("ports") or ()
    return ",".join(f"{port.get('port')}/{port.get('protocol', 'TCP')}" for port in ports) or "<none>"


def _selector(obj: JSON, now: datetime) -> Any:
    del now
    selector = (obj.get("spec") or {}).get("selector") or {}
    return ",".join(f"{key}={selector[key]}" for key in sorted(selector)) or "<none>"


def _ready_of(obj: JSON, now: datetime) -> Any:
    del now
    return f"{(obj.get('status') or {}).get('readyReplicas', 0)}/{(obj.get('spec') or {}).get('replicas', 1)}"


def _event_object(obj: JSON, now: datetime) -> Any:
    del now
    involved = obj.get("involvedObject") or {}
    return f"{str(involved.get('kind', '')).lower()}/{involved.get('name', '')}"


def _event_seen(obj: JSON, now: datetime) -> Any:
    return age(obj.get("lastTimestamp") or obj.get("eventTime") or obj["metadata"].get("creationTimestamp"), now)


# Column name (a trailing * marks a wide one) to cell.
BUILT_IN: dict[str, dict[str, Cell]] = {
    "Namespace": {"Status": _at(".status.phase"), "Age": _age},
    "Pod": {
        "Ready": _pod_ready,
        "Status": _pod_status,
        "Restarts": _restarts,
        "Age": _age,
        "IP*": _at(".status.podIP"),
        "Node*": _at(".spec.nodeName"),
        "Nominated Node*": _at(".status.nominatedNodeName"),
        "Readiness Gates*": _at(".spec.readinessGates[*].conditionType"),
    },
    "Service": {
        "Type": _at(".spec.type"),
        "Cluster-IP": _at(".spec.clusterIP"),
        "External-IP": _at(".spec.externalIPs[*]"),
        "Port(s)": _ports,
        "Age": _age,
        "Selector*": _selector,
    },
    "Secret": {"Type": _at(".type"), "Data": _count(".data"), "Age": _age},
    "ConfigMap": {"Data": _count(".data"), "Age": _age},
    "ServiceAccount": {"Secrets": _count(".secrets"), "Age": _age},
    "Event": {
        "Last Seen": _event_seen,
        "Type": _at(".type"),
        "Reason": _at(".reason"),
        "Object": _event_object,
        "Message": _at(".message", ""),
    },
    "Deployment": {
        "Ready": _ready_of,
        "Up-to-date": _at(".status.updatedReplicas", "0"),
        "Available": _at(".status.availableReplicas", "0"),
        "Age": _age,
    },
    "Lease": {"Holder": _at(".spec.holderIdentity", ""), "Age": _age},
    "CustomResourceDefinition": {"Created At": _at(".metadata.creationTimestamp")},
    "ValidatingWebhookConfiguration": {"Webhooks": _count(".webhooks"), "Age": _age},
    "MutatingWebhookConfiguration": {"Webhooks": _count(".webhooks"), "Age": _age},
    "RoleBinding": {"Role": _at(".roleRef.name"), "Age": _age},
    "ClusterRoleBinding": {"Role": _at(".roleRef.name"), "Age": _age},
}
_NUMBERS = frozenset({"Restarts", "Data", "Secrets", "Webhooks"})
_HIDES_NAME = frozenset({"Event"})


def _shown(cell: Cell, obj: JSON, now: datetime) -> Any:
    """The cell. Built-in kinds are stored as they come: one whose status has another shape must not hide all the others."""
    try:
        return cell(obj, now)
    except (AttributeError, KeyError, TypeError, ValueError):
        return "<invalid>"


class Rendering:
    """How one resource is rendered."""

    def __init__(self, served: Served) -> None:
        definitions: list[JSON] = [_definition("Name", "string", "name", 1 if served.kind in _HIDES_NAME else 0)]
        self._cells: list[Cell] = [_at(".metadata.name")]
        if served.custom:
            columns = served.columns or (Column("Age", ".metadata.creationTimestamp", "date"),)
            for column in columns:
                definitions.append(_definition(column.name, column.type, column.format, column.priority, column.description))
                self._cells.append(_path_cell(column))
        else:
            for name, cell in BUILT_IN.get(served.kind, {"Age": _age}).items():
                bare = name.rstrip("*")
                definitions.append(_definition(bare, "integer" if bare in _NUMBERS else "string", "", int(name != bare)))
                self._cells.append(cell)
        self._definitions = definitions

    def row(self, obj: JSON, now: datetime, include: str) -> JSON:
        """One row; `include` is Metadata (default), Object or None."""
        out: JSON = {"cells": [_shown(cell, obj, now) for cell in self._cells]}
        if include == "Object":
            out["object"] = obj
        elif include != "None":
            out["object"] = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": obj["metadata"]}
        return out

    def table(
        self, objects: Iterable[JSON], now: datetime, include: str, metadata: JSON, *, heads: bool = True, version: str = "v1"
    ) -> JSON:
        """The Table."""
        return {
            "kind": "Table",
            "apiVersion": f"meta.k8s.io/{version}",
            "metadata": metadata,
            "columnDefinitions": self._definitions if heads else [],
            "rows": [self.row(obj, now, include) for obj in objects],
        }


def _definition(name: str, kind: str, form: str, priority: int, description: str = "") -> JSON:
    return {"name": name, "type": kind, "format": form, "description": description or name, "priority": priority}
