"""Field management: who set which field, and server-side apply on top of it.

Every write leaves an entry in `metadata.managedFields`: Update entries own what they changed, Apply entries own what they declared.
Applying a field that another manager owns with another value is a conflict, unless forced; a field that an applier stops declaring goes
away when nobody else owns it. Differences from the real server: a map's own path is not owned, only what is in it, and entries are not
converted between versions.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from local import shapes, statuses
from local.fieldsets import Path, changes, fields_of, from_tree, holds, index_list, list_key, remove_path, spoken, to_tree
from local.kinds import Served
from local.wire import JSON, copy, encode

# Paths that nobody owns: identity, and what the server itself writes.
_IDENTITY = {("f:apiVersion",), ("f:kind",), ("f:metadata",)}
_SERVER = {
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
    "managedFields",
}


Owner = tuple[str, str, str]  # manager, operation, subresource


class Owned:
    """What one manager owns. The wire's tree stands as it came until somebody changes the set."""

    __slots__ = ("_entry", "_paths", "time", "version")

    def __init__(self, version: str, time: str, *, paths: set[Path] | None = None, entry: JSON | None = None) -> None:
        self.version = version
        self.time = time
        self._paths = paths
        self._entry = entry

    @property
    def paths(self) -> set[Path]:
        """The set; treat it as a value."""
        if self._paths is None:
            self._paths = from_tree((self._entry or {}).get("fieldsV1") or {})
        return self._paths

    def without(self, paths: set[Path]) -> "Owned":
        """The set without these; itself where it has none of them, which a look at the tree tells."""
        if self._paths is None and not any(holds((self._entry or {}).get("fieldsV1") or {}, path) for path in paths):
            return self
        return Owned(self.version, self.time, paths=self.paths - paths)

    def to_json(self, owner: Owner) -> JSON | None:
        """The wire's entry, None for an empty set."""
        if self._entry is not None:
            return self._entry
        if not self.paths:
            return None
        entry: JSON = {"manager": owner[0], "operation": owner[1], "apiVersion": self.version, "time": self.time}
        entry |= {"fieldsType": "FieldsV1", "fieldsV1": to_tree(self.paths)}
        if owner[2]:
            entry["subresource"] = owner[2]
        return entry


class Managers:
    """The managedFields of one object."""

    def __init__(self, entries: list[JSON] | None) -> None:
        self.sets: dict[Owner, Owned] = {}
        for entry in entries or ():
            key = (entry.get("manager", ""), entry.get("operation", ""), entry.get("subresource", ""))
            self.sets[key] = Owned(entry.get("apiVersion", ""), entry.get("time", ""), entry=entry)

    def to_json(self) -> list[JSON]:
        """The wire's list, Apply entries before Update entries, older before newer."""
        order = sorted(self.sets.items(), key=lambda pair: (pair[0][1] != "Apply", pair[1].time, pair[0]))
        return [entry for entry in (owned.to_json(owner) for owner, owned in order) if entry is not None]


def _bare(obj: JSON) -> JSON:
    """The object without what nobody owns."""
    meta = {key: value for key, value in (obj.get("metadata") or {}).items() if key not in _SERVER}
    out = {key: value for key, value in obj.items() if key not in {"apiVersion", "kind", "metadata"}}
    if meta:
        out["metadata"] = meta
    return out


def _owned(paths: set[Path], served: Served, subresource: str) -> set[Path]:
    """Without identity, and without the part that this endpoint resets."""
    kept = {path for path in paths - _IDENTITY if path}  # an object without any field declares the empty path
    if subresource == "status":
        return {path for path in kept if path[0] != "f:spec" and (path[0] != "f:metadata" or not served.custom)}
    if served.status_kept_apart:
        return {path for path in kept if path[0] != "f:status"}
    return kept


def record_update(served: Served, old: JSON | None, new: JSON, manager: str, *, subresource: str, now: str) -> None:
    """Write the managedFields of a plain write into `new`."""
    meta = new["metadata"]
    declared = meta.get("managedFields")
    reset = declared in ([{}], [])
    kept = [] if reset else (old["metadata"].get("managedFields") if old else None)
    state = Managers(kept)
    if reset and old is not None:
        meta.pop("managedFields", None)
        return
    schema = shapes.shape_of(served)
    touched: set[Path] = set()
    gone: set[Path] = set()
    for what, path in changes(_bare(old) if old else {}, _bare(new), schema):
        (touched if what == "set" else gone).add(path)
    touched = _owned(touched, served, subresource)
    if touched or gone:
        key = (manager, "Update", subresource)
        for other, owned in list(state.sets.items()):
            state.sets[other] = owned.without(gone | touched if other != key else gone)
        before = state.sets.get(key)
        if touched:
            state.sets[key] = Owned(served.api_version, now, paths=touched | before.paths if before is not None else touched)
    meta["managedFields"] = state.to_json()
    if not meta["managedFields"]:
        del meta["managedFields"]


def apply(served: Served, live: JSON | None, wanted: JSON, manager: str, *, subresource: str, force: bool, now: str) -> JSON:
    """The object after a server-side apply. Raises 400 for managedFields in the body, 409 with one cause per conflict, and
    500, as the API server does, for items that are there twice.
    """
    if (wanted.get("metadata") or {}).get("managedFields"):
        raise statuses.bad_request("metadata.managedFields must be nil")
    schema = shapes.shape_of(served)
    if faults := list(_duplicates(wanted, schema)):
        raise untyped(faults)
    base: JSON = copy(live) if live else {"apiVersion": served.api_version, "kind": served.kind, "metadata": {}}
    state = Managers(base["metadata"].pop("managedFields", None))
    key = (manager, "Apply", subresource)
    declared = _owned(set(fields_of(_bare(wanted), schema)), served, subresource)
    merged: JSON = _merge(copy(base), _allowed(wanted, served, subresource), schema)
    touched = {path for what, path in changes(_bare(base), _bare(merged), schema) if what == "set"} & declared
    _settle(state, key, touched, force=force)
    previous = state.sets.get(key, Owned("", "", paths=set()))
    others: set[Path] = set().union(*(owned.paths for other, owned in state.sets.items() if other != key))
    for path in sorted(previous.paths - declared, key=len):
        # What stands below it may be another's, or declared anew: whoever owned an empty map and fills it now owns what is in it.
        if not any(found[: len(path)] == path for found in others | declared):
            remove_path(merged, path, schema)
    same = live is not None and previous.paths == declared and _bare(merged) == _bare(base)
    state.sets[key] = Owned(served.api_version, previous.time if same else now, paths=declared)
    merged["metadata"]["managedFields"] = state.to_json()
    return merged


def untyped(faults: Iterable[str]) -> statuses.StatusError:
    """What is told of a patch that is no value of the kind's type."""
    return statuses.StatusError(500, "", f"failed to create typed patch object: {', '.join(faults)}")


def _allowed(wanted: JSON, served: Served, subresource: str) -> JSON:
    """What of the declared object this endpoint takes."""
    if subresource == "status":
        out = {key: value for key, value in wanted.items() if key == "status" or (key == "metadata" and not served.custom)}
        out.setdefault("metadata", {})
        return out
    return {key: value for key, value in wanted.items() if key != "status" or not served.status_kept_apart}


def _settle(state: Managers, key: tuple[str, str, str], touched: set[Path], *, force: bool) -> None:
    """Find conflicts on the touched paths; forced, take the paths away from their owners."""
    causes: list[tuple[str, Path]] = []
    for other, owned in sorted(state.sets.items(), key=lambda pair: pair[0]):
        common = owned.paths & touched
        if other == key or not common:
            continue
        if force:
            state.sets[other] = owned.without(common)
            continue
        subresource = f' with subresource "{other[2]}"' if other[2] else ""
        using = f" using {owned.version}" if other[1] == "Update" else ""
        causes += [(f'conflict with "{other[0]}"{subresource}{using}', path) for path in sorted(common)]
    if not causes:
        return
    noun = "conflict" if len(causes) == 1 else "conflicts"
    message = f"Apply failed with {len(causes)} {noun}: " + ", ".join(f"{text}: {spoken(path)}" for text, path in causes)
    details = {"causes": [{"reason": "FieldManagerConflict", "message": text, "field": spoken(path)} for text, path in causes]}
    raise statuses.StatusError(409, "Conflict", message, details=details)


def _merge(live: Any, wanted: Any, schema: JSON) -> Any:
    """Structured merge: maps by key, keyed lists by key, sets by union, everything else replaced."""
    if isinstance(wanted, dict) and isinstance(live, dict) and not shapes.is_atomic_map(schema):
        for key, value in wanted.items():
            live[key] = _merge(live[key], value, shapes.field(schema, key)) if key in live else value
        return live
    if isinstance(wanted, list) and isinstance(live, list):
        before, after = index_list(live, schema), index_list(wanted, schema)
        if before is not None and after is not None:
            merged = {part: _merge(before[part], item, shapes.items(schema)) if part in before else item for part, item in after.items()}
            rest = {part: item for part, item in before.items() if part not in merged}
            return [*merged.values(), *rest.values()] if not rest else _interleave(before, merged)
    return wanted


def _interleave(before: dict[str, Any], merged: dict[str, Any]) -> list[Any]:
    """Live order for what was there, then what is new."""
    out = [merged.get(part, item) for part, item in before.items()]
    return out + [item for part, item in merged.items() if part not in before]


def _duplicates(value: Any, schema: JSON, path: str = "") -> Iterator[str]:
    """Items that are there twice in a list that tells its items apart."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _duplicates(inner, shapes.field(schema, key), f"{path}.{key}")
    elif isinstance(value, list):
        kind, seen = shapes.list_kind(schema), set[str]()
        for item in value if kind in {"map", "set"} else ():
            part = list_key(item, schema) if kind == "map" else "v:=" + encode(item).decode()
            if part in seen:
                yield f"{path}: duplicate entries for key [{part[2:]}]"
            seen.add(part)
        for item in value:
            yield from _duplicates(item, shapes.items(schema), path)
