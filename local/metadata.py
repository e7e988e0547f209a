"""The rules of `metadata`: what the server fills in, what it keeps, what it refuses."""

import re
import secrets
import uuid
from collections.abc import Callable
from datetime import datetime

from api.clock import format_time, parse_time
from local import statuses
from local.kinds import Served
from local.statuses import Cause
from local.wire import JSON

_SUFFIX = "bcdfghjklmnpqrstvwxz2456789"
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\Z")
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?\Z")
_NAME_PART = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]\Z")
_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?\Z")
ANNOTATIONS_MAX = 262144

SUBDOMAIN_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
LABEL_TEXT = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric "
    "character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
VALUE_TEXT = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
# Kinds whose names need only be fit for a path.
_PATH_NAMES = frozenset({"Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"})
_FINALIZERS = frozenset({"orphan", "foregroundDeletion", "kubernetes"})
_LABEL_NAMES = frozenset({"Namespace", "Service"})


def generated(prefix: str, taken: Callable[[str], bool]) -> str:
    """A name of that prefix, another one should it be taken; 10,000 objects of one prefix do meet by chance."""
    for _ in range(8):
        name = prefix[:58] + "".join(secrets.choice(_SUFFIX) for _ in range(5))
        if not taken(name):
            break
    return name


def new_identity(obj: JSON, served: Served, namespace: str, now: datetime, taken: Callable[[str], bool] | None = None) -> None:
    """Fill in what a new object gets from the server; `taken` tells names that are in use."""
    meta = obj["metadata"]
    if not meta.get("name") and meta.get("generateName"):
        meta["name"] = generated(meta["generateName"], taken or (lambda name: False))
    if namespace:
        meta["namespace"] = namespace
    else:
        meta.pop("namespace", None)
    meta["uid"] = str(uuid.uuid4())
    meta["creationTimestamp"] = format_time(now)
    for key in ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "resourceVersion", "generation"):
        meta.pop(key, None)
    if served.custom or served.generation:
        meta["generation"] = 1


def keep_identity(new: JSON, old: JSON) -> None:
    """What an update cannot touch is as it was."""
    meta, stored = new["metadata"], old["metadata"]
    for key in ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "generateName", "namespace"):
        if key in stored:
            meta[key] = stored[key]
        else:
            meta.pop(key, None)
    meta["name"] = stored["name"]
    meta.pop("selfLink", None)


def faults(obj: JSON, served: Served, old: JSON | None) -> list[Cause]:
    """Field errors of the metadata."""
    meta = obj["metadata"]
    out = list(_name_faults(meta, served)) if old is None else []
    for where in ("labels", "annotations"):
        values = meta.get(where) or {}
        for key, value in values.items():
            out += _key_faults(f"metadata.{where}", key)
            if where == "labels" and not fits_value(value):
                out.append(Cause("metadata.labels", "FieldValueInvalid", f'Invalid value: "{value}": {VALUE_TEXT}'))
    size = sum(len(key.encode()) + len(str(value).encode()) for key, value in (meta.get("annotations") or {}).items())
    if size > ANNOTATIONS_MAX:
        out.append(Cause("metadata.annotations", "FieldValueTooLong", f"Too long: may not be more than {ANNOTATIONS_MAX} bytes"))
    out += _owner_faults(meta)
    out += _finalizer_faults(meta, served)
    if old is not None and old["metadata"].get("deletionTimestamp"):
        added = set(meta.get("finalizers") or ()) - set(old["metadata"].get("finalizers") or ())
        if added:
            text = f"Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers {sorted(added)}"
            out.append(Cause("metadata.finalizers", "FieldValueForbidden", text))
    return out


def _name_faults(meta: JSON, served: Served) -> list[Cause]:
    name = meta.get("name") or ""
    if not name:
        return [Cause("metadata.name", "FieldValueRequired", "Required value: name or generateName is required")]
    if served.kind in _PATH_NAMES:
        if "/" in name or "%" in name or name in {".", ".."}:
            return [Cause("metadata.name", "FieldValueInvalid", f'Invalid value: "{name}": may not contain "/" or "%"')]
        return []
    if served.kind in _LABEL_NAMES:
        fits, text = len(name) <= 63 and _LABEL.match(name), LABEL_TEXT
    else:
        fits, text = len(name) <= 253 and _SUBDOMAIN.match(name), SUBDOMAIN_TEXT
    return [] if fits else [Cause("metadata.name", "FieldValueInvalid", f'Invalid value: "{name}": {text}')]


def fits_key(key: str) -> bool:
    """Whether a label can have that key."""
    prefix, slash, name = key.rpartition("/")
    return (not slash or (len(prefix) <= 253 and bool(_SUBDOMAIN.match(prefix)))) and len(name) <= 63 and bool(_NAME_PART.match(name))


def fits_value(value: str) -> bool:
    """Whether a label can have that value."""
    return len(value) <= 63 and bool(_VALUE.match(value))


def _key_faults(field: str, key: str) -> list[Cause]:
    if fits_key(key):
        return []
    return [Cause(field, "FieldValueInvalid", f'Invalid value: "{key}": a qualified name is [prefix/]name, each in its own alphabet')]


def _finalizer_faults(meta: JSON, served: Served) -> list[Cause]:
    """A finalizer is a qualified name; without a prefix built-in kinds take the API's own only."""
    out = []
    for index, name in enumerate(meta.get("finalizers") or ()):
        if _key_faults("", name):
            text = f'Invalid value: "{name}": a qualified name is [prefix/]name, each in its own alphabet'
            out.append(Cause("metadata.finalizers", "FieldValueInvalid", text))
        elif "/" not in name and not served.custom and name not in _FINALIZERS:
            text = f'Invalid value: "{name}": name is neither a standard finalizer name nor is it fully qualified'
            out.append(Cause(f"metadata.finalizers[{index}]", "FieldValueInvalid", text))
    return out


def _owner_faults(meta: JSON) -> list[Cause]:
    out = []
    controllers = 0
    for index, ref in enumerate(meta.get("ownerReferences") or ()):
        for key in ("apiVersion", "kind", "name", "uid"):
            if not ref.get(key):
                field = f"metadata.ownerReferences[{index}].{key}" if key != "apiVersion" else "metadata.ownerReferences.apiVersion"
                out.append(Cause(field, "FieldValueRequired", "Required value: must not be empty"))
        controllers += bool(ref.get("controller"))
    if controllers > 1:
        text = "Invalid value: Only one reference can have Controller set to true"
        out.append(Cause("metadata.ownerReferences", "FieldValueInvalid", text))
    return out


_ITEMS: dict[str, type] = {"finalizers": str, "ownerReferences": dict, "managedFields": dict}
_REFERENCE: dict[str, type] = {
    "apiVersion": str,
    "kind": str,
    "name": str,
    "uid": str,
    "controller": bool,
    "blockOwnerDeletion": bool,
}


def _check_scalars(meta: JSON) -> None:
    """What the server overwrites has to be readable all the same. Raises 400."""
    for key in ("generation", "deletionGracePeriodSeconds"):
        if meta.get(key) is not None and (not isinstance(meta[key], int) or isinstance(meta[key], bool)):
            raise statuses.UndecodableError(f"cannot unmarshal into Go struct field ObjectMeta.metadata.{key} of type int64")
    for key in ("creationTimestamp", "deletionTimestamp"):
        if meta.get(key) is None:
            continue
        try:
            parse_time(meta[key])
        except (TypeError, ValueError, AttributeError) as fault:
            raise statuses.UndecodableError(f'parsing time "{meta[key]}" as "2006-01-02T15:04:05Z07:00": cannot parse it') from fault


def check_types(obj: JSON) -> None:
    """Refuse metadata that no typed reader could decode. Raises 400."""
    meta = obj.get("metadata")
    if not isinstance(meta, dict):
        raise statuses.UndecodableError("metadata: expected an object")
    for key in ("name", "generateName", "namespace", "uid", "resourceVersion", "deletionTimestamp"):
        if meta.get(key) is None:
            meta.pop(key, None)
        elif not isinstance(meta[key], str):
            raise statuses.UndecodableError(
                f"cannot unmarshal {type(meta[key]).__name__} into Go struct field ObjectMeta.metadata.{key} of type string"
            )
    for key in ("labels", "annotations"):
        value = meta.get(key)
        if value is None:
            meta.pop(key, None)
            continue
        if isinstance(value, dict) and None in value.values():
            value = meta[key] = {name: "" if text is None else text for name, text in value.items()}  # Go reads a null text as none
        if not isinstance(value, dict) or not all(isinstance(item, str) for item in value.values()):
            raise statuses.UndecodableError(f"cannot unmarshal into Go struct field ObjectMeta.metadata.{key} of type map[string]string")
    for key in ("finalizers", "ownerReferences", "managedFields"):
        value = meta.get(key)
        if value is None:
            meta.pop(key, None)
        elif not isinstance(value, list) or not all(isinstance(item, _ITEMS[key]) for item in value):
            raise statuses.UndecodableError(f"cannot unmarshal into Go struct field ObjectMeta.metadata.{key} of type list")
    for ref in meta.get("ownerReferences") or ():
        for key, kind in _REFERENCE.items():
            if ref.get(key) is None:
                ref.pop(key, None)
            elif not isinstance(ref[key], kind):
                raise statuses.UndecodableError(f"cannot unmarshal into Go struct field OwnerReference.{key} of type {kind.__name__}")
    _check_scalars(meta)
    for key in ("labels", "annotations", "finalizers", "ownerReferences"):
        if key in meta and not meta[key]:
            del meta[key]
