"""Sets of field paths, the currency of field management: read off an object, compared, and written as `fieldsV1`.

A set is the nested `fieldsV1` form itself: `{"f:spec": {"f:replicas": {}}}`. A member is a path whose node is empty or holds ".".
"""

from collections.abc import Iterator
from typing import Any

from local import shapes
from local.wire import JSON, decode, encode

Path = tuple[str, ...]


def list_key(item: Any, schema: JSON) -> str:
    """The path part of a keyed list's item."""
    keys = {}
    for key in sorted(shapes.map_keys(schema)):
        value = item.get(key) if isinstance(item, dict) else None
        if value is None:
            value = shapes.key_default(schema, key)
        if value is not None:
            keys[key] = value
    return "k:" + encode(keys).decode()


def index_list(value: list[Any], schema: JSON) -> dict[str, Any] | None:
    """Items by path part, or None for an atomic list."""
    kind = shapes.list_kind(schema)
    if kind == "map" and shapes.map_keys(schema):
        return {list_key(item, schema): item for item in value}
    if kind == "set":
        return {"v:" + encode(item).decode(): item for item in value}
    return None


def fields_of(value: Any, schema: JSON, path: Path = ()) -> Iterator[Path]:
    """Every path that owning this value means."""
    if isinstance(value, dict) and value and not shapes.is_atomic_map(schema):
        for key, inner in value.items():
            yield from fields_of(inner, shapes.field(schema, key), (*path, "f:" + key))
        return
    if isinstance(value, list):
        entries = index_list(value, schema)
        if entries is not None:  # of a list that tells its items apart only the items are owned, so nothing of an empty one
            for part, item in entries.items():
                yield (*path, part)
                if isinstance(item, dict):
                    yield from fields_of(item, shapes.items(schema), (*path, part))
            return
    yield path


def changes(old: Any, new: Any, schema: JSON, path: Path = ()) -> Iterator[tuple[str, Path]]:
    """`("set", path)` for added or changed paths and `("gone", path)` for removed ones."""
    if old == new:
        return
    if isinstance(old, dict) and isinstance(new, dict) and not shapes.is_atomic_map(schema):
        for key in new.keys() | old.keys():
            below = (*path, "f:" + key)
            inner = shapes.field(schema, key)
            if key not in old:
                yield from (("set", found) for found in fields_of(new[key], inner, below))
            elif key not in new:
                yield from (("gone", found) for found in fields_of(old[key], inner, below))
                yield ("gone", below)
            else:
                yield from changes(old[key], new[key], inner, below)
        if not new:
            yield ("set", path)
        return
    if isinstance(old, list) and isinstance(new, list):
        before, after = index_list(old, schema), index_list(new, schema)
        if before is not None and after is not None:
            yield from _list_changes(before, after, shapes.items(schema), path)
            return
    yield from (("gone", found) for found in fields_of(old, schema, path) if found != path)
    yield from (("set", found) for found in fields_of(new, schema, path))


def _list_changes(before: dict[str, Any], after: dict[str, Any], schema: JSON, path: Path) -> Iterator[tuple[str, Path]]:
    for part, item in after.items():
        below = (*path, part)
        if part not in before:
            yield ("set", below)
            if isinstance(item, dict):
                yield from (("set", found) for found in fields_of(item, schema, below))
        else:
            yield from changes(before[part], item, schema, below)
    for part, item in before.items():
        if part not in after:
            below = (*path, part)
            yield ("gone", below)
            if isinstance(item, dict):
                yield from (("gone", found) for found in fields_of(item, schema, below))


def to_tree(paths: Iterator[Path] | set[Path]) -> JSON:
    """The `fieldsV1` form, keys sorted so that the same set has the same bytes."""
    root: JSON = {}
    for path in paths:
        here = root
        for part in path:
            here = here.setdefault(part, {})
        here["\0"] = True
    return _dotted(root)


def _dotted(tree: JSON) -> JSON:
    member = tree.pop("\0", False)
    out: JSON = {".": {}} if member and tree else {}
    for key in sorted(tree):
        out[key] = _dotted(tree[key])
    return out


def from_tree(tree: JSON, path: Path = ()) -> set[Path]:
    """The paths of a `fieldsV1` value."""
    if not tree:
        return {path} if path else set()
    out: set[Path] = set()
    for key, inner in tree.items():
        if key == ".":
            out.add(path)
        else:
            out |= from_tree(inner, (*path, key))
    return out


def holds(tree: JSON, path: Path) -> bool:
    """Whether a `fieldsV1` value holds the path, without reading the rest of it."""
    here: JSON | None = tree
    for part in path:
        here = here.get(part) if here else None
    return here is not None and (not here or "." in here)


def spoken(path: Path) -> str:
    """A path as a conflict names it: `.spec.roles[name="a"].replicas`."""
    out = ""
    for part in path:
        kind, _, rest = part.partition(":")
        if kind == "f":
            out += "." + rest
        elif kind == "k":
            pairs = decode(rest)
            out += "[" + ",".join(f"{key}={encode(value).decode()}" for key, value in sorted(pairs.items())) + "]"
        else:
            out += f"[={rest}]"
    return out


def remove_path(value: Any, path: Path, schema: JSON) -> Any:
    """The value without what the path names; empty parents stay."""
    part, rest = path[0], path[1:]
    if part.startswith("f:"):
        key = part[2:]
        if isinstance(value, dict) and key in value:
            if rest:
                value[key] = remove_path(value[key], rest, shapes.field(schema, key))
            else:
                del value[key]
        return value
    if isinstance(value, list):
        entries = index_list(value, schema) or {}
        if part in entries:
            if not rest:
                return (
                    [item for item in value if item is not entries[part]]
                    if part.startswith("k:")
                    else [item for item in value if item != entries[part]]
                )
            at = next(i for i, item in enumerate(value) if item is entries[part])
            value[at] = remove_path(value[at], rest, shapes.items(schema))
    return value
