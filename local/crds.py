"""CustomResourceDefinitions: checked where being wrong matters, read into served resources, and given their status."""

import re
from datetime import datetime

from api.clock import format_time
from local import jsonpaths
from local.kinds import Column, Served
from local.statuses import Cause
from local.wire import JSON


def complete(crd: JSON) -> None:
    """Fill in a definition's own defaults, in place."""
    spec = crd.setdefault("spec", {})
    names = spec.setdefault("names", {})
    kind = str(names.get("kind", ""))
    if not names.get("singular"):
        names["singular"] = kind.lower()
    if not names.get("listKind"):
        names["listKind"] = f"{kind}List"
    spec.setdefault("conversion", {"strategy": "None"})


def faults(crd: JSON) -> list[Cause]:
    """What makes a definition unusable."""
    spec = crd.get("spec") or {}
    names = spec.get("names") or {}
    out = []
    wanted = f"{names.get('plural', '')}.{spec.get('group', '')}"
    if crd["metadata"].get("name") != wanted:
        text = f'Invalid value: "{crd["metadata"].get("name")}": must be spec.names.plural+"."+spec.group'
        out.append(Cause("metadata.name", "FieldValueInvalid", text))
    out += [
        Cause(f"spec.{where}", "FieldValueRequired", "Required value")
        for where, value in (("group", spec.get("group")), ("names.plural", names.get("plural")), ("names.kind", names.get("kind")))
        if not value
    ]
    if spec.get("scope") not in {"Namespaced", "Cluster"}:
        text = f'Unsupported value: "{spec.get("scope", "")}": supported values: "Cluster", "Namespaced"'
        out.append(Cause("spec.scope", "FieldValueNotSupported", text))
    versions = spec.get("versions") or []
    if sum(bool(version.get("storage")) for version in versions) != 1:
        out.append(Cause("spec.versions", "FieldValueInvalid", "Invalid value: must have exactly one version marked as storage version"))
    seen: set[str] = set()
    for index, version in enumerate(versions):
        out += _version_faults(version, f"spec.versions[{index}]", seen)
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        where = f"spec.versions[{index}].schema.openAPIV3Schema"
        if not isinstance(schema, dict):
            out.append(Cause(where, "FieldValueRequired", "Required value: schemas are required"))
        elif schema.get("type") != "object":
            text = f'Invalid value: "{schema.get("type", "")}": must be object at the root'
            out.append(Cause(f"{where}.type", "FieldValueInvalid", text))
    if (spec.get("conversion") or {}).get("strategy") == "Webhook":
        text = "Forbidden: the embedded cluster converts by strategy None only"
        out.append(Cause("spec.conversion.strategy", "FieldValueForbidden", text))
    return out


_VERSION = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?\Z")
_TYPES = ("integer", "number", "string", "boolean", "date")


def _version_faults(version: JSON, where: str, seen: set[str]) -> list[Cause]:
    """A version's name, and columns that nobody could print."""
    name, out = str(version.get("name") or ""), []
    if not _VERSION.match(name) or len(name) > 63:
        text = f"Invalid value: \"{name}\": a DNS-1035 label must consist of lower case alphanumeric characters or '-'"
        out.append(Cause(f"{where}.name", "FieldValueInvalid", text))
    elif name in seen:
        out.append(Cause("spec.versions", "FieldValueInvalid", f'Invalid value: "{name}": must contain unique version names'))
    seen.add(name)
    for index, column in enumerate(version.get("additionalPrinterColumns") or ()):
        at = f"{where}.additionalPrinterColumns[{index}]"
        if not column.get("name"):
            out.append(Cause(f"{at}.name", "FieldValueRequired", "Required value"))
        if column.get("type") not in _TYPES:
            text = f'Invalid value: "{column.get("type", "")}": must be one of {",".join(_TYPES)}'
            out.append(Cause(f"{at}.type", "FieldValueInvalid", text))
        path = str(column.get("jsonPath") or "")
        try:
            usable = path.startswith(".") and bool(jsonpaths.steps(path))
        except ValueError:
            usable = False
        if not usable:
            text = f'Invalid value: "{path}": must be a simple json path starting with .'
            out.append(Cause(f"{at}.JSONPath", "FieldValueInvalid", text))
    return out


def establish(crd: JSON, now: datetime) -> None:
    """The status of a definition that is served."""
    spec, status = crd["spec"], crd.setdefault("status", {})
    storage = next(version["name"] for version in spec["versions"] if version.get("storage"))
    stored = status.get("storedVersions") or []
    status["acceptedNames"] = spec["names"]
    status["storedVersions"] = stored if storage in stored else [*stored, storage]
    if status.get("conditions"):
        return
    at = format_time(now)
    status["conditions"] = [
        {"type": "NamesAccepted", "status": "True", "reason": "NoConflicts", "message": "no conflicts found", "lastTransitionTime": at},
        {
            "type": "Established",
            "status": "True",
            "reason": "InitialNamesAccepted",
            "message": "the initial names have been accepted",
            "lastTransitionTime": at,
        },
    ]


def served_by(crd: JSON) -> list[Served]:
    """One row per served version."""
    spec = crd["spec"]
    storage = next(version["name"] for version in spec["versions"] if version.get("storage"))
    return [_row(spec, version, storage) for version in spec["versions"] if version.get("served")]


def _row(spec: JSON, version: JSON, storage: str) -> Served:
    names = spec["names"]
    subresources = version.get("subresources") or {}
    deprecation = None
    if version.get("deprecated"):
        deprecation = version.get("deprecationWarning") or f"{spec['group']}/{version['name']} {names['kind']} is deprecated"
    return Served(
        group=spec["group"],
        version=version["name"],
        plural=names["plural"],
        kind=names["kind"],
        namespaced=spec["scope"] == "Namespaced",
        singular=names.get("singular") or names["kind"].lower(),
        list_kind=names.get("listKind") or f"{names['kind']}List",
        short=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        subresources=frozenset({"status"} if "status" in subresources else ()),
        columns=tuple(_column(column) for column in version.get("additionalPrinterColumns") or ()),
        schema=version["schema"]["openAPIV3Schema"],
        storage_version=storage,
        custom=True,
        deprecation=deprecation,
        selectable=tuple(field["jsonPath"].removeprefix(".") for field in version.get("selectableFields") or ()),
        unconditional_update=False,
    )


def _column(column: JSON) -> Column:
    return Column(
        column["name"],
        column["jsonPath"],
        column.get("type", "string"),
        column.get("priority", 0),
        column.get("description", ""),
        column.get("format", ""),
    )
