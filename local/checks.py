"""What is refused of built-in kinds: the few checks that keep nonsense out. Their schema is otherwise lenient.

What the real server would refuse and this one does not is listed in docs/local-cluster.md. A member of the wrong type trips its check with
TypeError or ValueError, which the writer answers with 400.
"""

import base64
import binascii
import re
from collections.abc import Callable

from api.clock import parse_time
from local import hookchecks
from local.hookchecks import required
from local.statuses import Cause
from local.wire import JSON

Checker = Callable[[JSON, JSON | None], list[Cause]]

DATA_MAX = 1 << 20
_DATA_KEY = re.compile(r"[-._a-zA-Z0-9]+\Z")


_TYPES: dict[str, type] = {
    "name": str,
    "image": str,
    "nodeName": str,
    "restartPolicy": str,
    "terminationGracePeriodSeconds": int,
}


def _check_types(obj: JSON, path: str) -> None:
    """The members that others rely on have their types. Raises TypeError, which the writer answers with 400."""
    for key, kind in _TYPES.items():
        value = obj.get(key)
        if value is not None and (not isinstance(value, kind) or isinstance(value, bool)):
            raise TypeError(f"cannot unmarshal {type(value).__name__} into field {path}.{key} of type {kind.__name__}")


def _containers(spec: JSON, path: str) -> list[Cause]:
    _check_types(spec, path)
    containers = spec.get("containers") or []
    out = [] if containers else [required(f"{path}.containers")]
    seen: set[str] = set()
    for index, container in enumerate(containers):
        where = f"{path}.containers[{index}]"
        _check_types(container, where)
        name = container.get("name")
        if not name:
            out.append(required(f"{where}.name"))
        elif name in seen:
            out.append(Cause(f"{where}.name", "FieldValueDuplicate", f'Duplicate value: "{name}"'))
        seen.add(name or "")
        if not container.get("image"):
            out.append(required(f"{where}.image"))
    return out


def _check_pod(obj: JSON, old: JSON | None) -> list[Cause]:
    spec = obj.get("spec") or {}
    out = _containers(spec, "spec")
    if old is not None and _frozen_spec(spec) != _frozen_spec(old.get("spec") or {}):
        text = (
            "Forbidden: pod updates may not change fields other than `spec.containers[*].image`, `spec.initContainers[*].image`, "
            "`spec.activeDeadlineSeconds`, `spec.tolerations` (only additions to existing tolerations), "
            "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
        )
        out.append(Cause("spec", "FieldValueForbidden", text))
    return out


def _frozen_spec(spec: JSON) -> JSON:
    """What of a Pod's spec may not change. The node is given once, by whoever plays the scheduler."""
    free = {"activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds", "nodeName", "schedulingGates", "nodeSelector"}
    out = {key: value for key, value in spec.items() if key not in free}
    for where in ("containers", "initContainers"):
        if out.get(where):
            out[where] = [{key: value for key, value in item.items() if key not in {"image", "imagePullPolicy"}} for item in out[where]]
    return out


def _check_workload(obj: JSON, old: JSON | None) -> list[Cause]:
    spec = obj.get("spec") or {}
    template = spec.get("template") or {}
    out = _containers(template.get("spec") or {}, "spec.template.spec")
    selector = spec.get("selector")
    labels = (template.get("metadata") or {}).get("labels") or {}
    if not selector:
        out.append(required("spec.selector"))
    elif any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        text = "Invalid value: `selector` does not match template `labels`"
        out.append(Cause("spec.template.metadata.labels", "FieldValueInvalid", text))
    if old is not None and selector != (old.get("spec") or {}).get("selector"):
        out.append(Cause("spec.selector", "FieldValueInvalid", "Invalid value: field is immutable"))
    return out


def _check_service(obj: JSON, old: JSON | None) -> list[Cause]:
    del old
    spec = obj.get("spec") or {}
    ports = spec.get("ports") or []
    out = []
    if not ports and spec.get("type") != "ExternalName" and spec.get("clusterIP") != "None":
        out.append(required("spec.ports"))
    for index, port in enumerate(ports):
        number = port.get("port")
        if not isinstance(number, int) or not 1 <= number <= 65535:
            text = f"Invalid value: {number}: must be between 1 and 65535, inclusive"
            out.append(Cause(f"spec.ports[{index}].port", "FieldValueInvalid", text))
        if len(ports) > 1 and not port.get("name"):
            out.append(required(f"spec.ports[{index}].name"))
    return out


def _data_faults(obj: JSON) -> list[Cause]:
    """Keys and sizes of a ConfigMap's or a Secret's data."""
    out, size = [], 0
    for where in ("data", "binaryData"):
        for key, value in (obj.get(where) or {}).items():
            if not isinstance(value, str):
                raise TypeError(f"cannot unmarshal {type(value).__name__} into field {where}.{key} of type string")
            size += len(value.encode())
            if not _DATA_KEY.match(key) or len(key) > 253:
                text = f'Invalid value: "{key}": a valid config key must consist of alphanumeric characters, '
                out.append(Cause(f"{where}[{key}]", "FieldValueInvalid", text + "'-', '_' or '.'"))
    if size > DATA_MAX:
        out.append(Cause("[]", "FieldValueTooLong", f"Too long: must have at most {DATA_MAX} bytes"))
    return out


def _check_data(obj: JSON, old: JSON | None) -> list[Cause]:
    out = _data_faults(obj)
    if obj.get("kind") == "Secret":
        data = obj.get("data") or {}
        for key, value in data.items():
            try:
                base64.b64decode(value, validate=True)
            except (binascii.Error, ValueError) as fault:
                raise ValueError(f"data[{key}]: illegal base64 data") from fault
        if old is not None and obj.get("type") != old.get("type"):
            out.append(Cause("type", "FieldValueInvalid", f'Invalid value: "{obj.get("type")}": field is immutable'))
        if obj.get("type") == "kubernetes.io/tls":
            out += [required(f"data[{key}]") for key in ("tls.crt", "tls.key") if key not in data]
    if old is not None and old.get("immutable"):
        kept = ("data", "binaryData", "immutable")
        if any(obj.get(key) != old.get(key) for key in kept):
            out.append(Cause("data", "FieldValueForbidden", "Forbidden: field is immutable when `immutable` is set"))
    return out


def _time(spec: JSON, key: str, path: str) -> None:
    value = spec.get(key)
    if value is None:
        return
    if not isinstance(value, str):
        raise TypeError(f"cannot unmarshal {type(value).__name__} into field {path} of type string")
    parse_time(value)


def _check_lease(obj: JSON, old: JSON | None) -> list[Cause]:
    del old
    spec = obj.get("spec") or {}
    for key in ("acquireTime", "renewTime"):
        _time(spec, key, f"spec.{key}")
    out = []
    for key, least in (("leaseDurationSeconds", 1), ("leaseTransitions", 0)):
        value = spec.get(key)
        if value is None:
            continue
        if not isinstance(value, int) or isinstance(value, bool):
            raise TypeError(f"cannot unmarshal {type(value).__name__} into field spec.{key} of type int32")
        if value < least:
            text = f"Invalid value: {value}: must be greater than {'0' if least else 'or equal to 0'}"
            out.append(Cause(f"spec.{key}", "FieldValueInvalid", text))
    return out


def _check_event(obj: JSON, old: JSON | None) -> list[Cause]:
    """An Event of the newer form, which has an eventTime. The older form, `v1` without one, is taken as it comes."""
    for key in ("eventTime", "firstTimestamp", "lastTimestamp", "deprecatedFirstTimestamp", "deprecatedLastTimestamp"):
        _time(obj, key, key)
    newer = str(obj.get("apiVersion", "")).startswith("events.k8s.io/")
    if obj.get("eventTime") is None:
        return [required("eventTime")] if newer and old is None else []
    controller, note = ("reportingController", "note") if newer else ("reportingComponent", "message")
    out = [required(key) for key in (controller, "reportingInstance", "action", "reason") if not obj.get(key)]
    for key, most in (("reportingInstance", 128), ("action", 128), ("reason", 128), (note, 1024)):
        if len(str(obj.get(key) or "")) > most:
            out.append(Cause(key, "FieldValueInvalid", f"Invalid value: can have at most {most} characters"))
    if newer and obj.get("type") not in {"Normal", "Warning"}:
        out.append(Cause("type", "FieldValueInvalid", f'Invalid value: "{obj.get("type", "")}": has invalid value'))
    series = obj.get("series")
    if newer and series is not None and old is None:
        if series.get("count", 0) < 2:
            out.append(Cause("series.count", "FieldValueInvalid", 'Invalid value: "": should be at least 2'))
        if series.get("lastObservedTime") is None:
            out.append(required("series.lastObservedTime"))
    return out


CHECKS: dict[str, Checker] = {
    "Pod": _check_pod,
    "Deployment": _check_workload,
    "ReplicaSet": _check_workload,
    "Service": _check_service,
    "Secret": _check_data,
    "ConfigMap": _check_data,
    "ValidatingWebhookConfiguration": hookchecks.faults,
    "MutatingWebhookConfiguration": hookchecks.faults,
    "Lease": _check_lease,
    "Event": _check_event,
}


def faults(obj: JSON, old: JSON | None) -> list[Cause]:
    """Field errors of a built-in kind."""
    checker = CHECKS.get(obj.get("kind", ""))
    return checker(obj, old) if checker is not None else []
