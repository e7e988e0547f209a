"""Strategic merge patch, as kubectl sends it for built-in kinds: keyed lists merge by key, and four directives steer.

Source: the API conventions' strategic merge page: `$patch`, `$retainKeys`, `$deleteFromPrimitiveList/<field>`, `$setElementOrder/<field>`.
"""

from typing import Any

from local import shapes
from local.patches import PatchError
from local.wire import JSON

_DELETE = "$deleteFromPrimitiveList/"
_ORDER = "$setElementOrder/"


def strategic_merge(target: Any, patch: Any, schema: JSON) -> Any:
    """The target under the patch. Raises PatchError."""
    if not isinstance(patch, dict):
        return patch
    directive = patch.get("$patch")
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != "$patch"}
    if directive == "delete":
        return {}
    if directive is not None and directive != "merge":
        raise PatchError(f"Unknown patch type found: {directive}")
    out: JSON = target if isinstance(target, dict) else {}
    retain = patch.get("$retainKeys")
    if isinstance(retain, list):
        out = {key: value for key, value in out.items() if key in retain}
    for key, value in patch.items():
        if key.startswith("$"):
            _parallel(out, key, value)
        elif value is None:
            out.pop(key, None)
        elif isinstance(value, list):
            out[key] = _merge_list(out.get(key), value, shapes.field(schema, key))
        else:
            out[key] = strategic_merge(out.get(key), value, shapes.field(schema, key))
    for key, value in patch.items():
        if key.startswith(_ORDER):
            name = key.removeprefix(_ORDER)
            if isinstance(out.get(name), list):
                out[name] = _ordered(out[name], value, shapes.field(schema, name))
    return out


def _parallel(out: JSON, key: str, value: Any) -> None:
    if key.startswith(_DELETE):
        name = key.removeprefix(_DELETE)
        if isinstance(out.get(name), list) and isinstance(value, list):
            out[name] = [item for item in out[name] if item not in value]


def _merge_list(target: Any, patch: list[Any], schema: JSON) -> list[Any]:
    present = target if isinstance(target, list) else []
    kind = shapes.list_kind(schema)
    if kind == "set":
        return present + [item for item in patch if item not in present]
    if kind != "map":
        return patch
    if any(isinstance(item, dict) and item.get("$patch") == "replace" for item in patch):
        return [item for item in patch if not (isinstance(item, dict) and "$patch" in item)]
    merge_key = shapes.map_keys(schema)[0]
    out = [item for item in present if isinstance(item, dict)]
    for item in patch:
        if not isinstance(item, dict) or merge_key not in item:
            raise PatchError(f"map: {item!r} does not contain declared merge key: {merge_key}")
        at = next((i for i, old in enumerate(out) if old.get(merge_key) == item[merge_key]), None)
        if item.get("$patch") == "delete":
            out = [old for old in out if old.get(merge_key) != item[merge_key]]
        elif at is None:
            out.append(strategic_merge({}, item, shapes.items(schema)))
        else:
            out[at] = strategic_merge(out[at], item, shapes.items(schema))
    return out


def _ordered(present: list[Any], order: Any, schema: JSON) -> list[Any]:
    """Elements that the order names stand in its order; the others keep their place behind what stood before them."""
    if not isinstance(order, list):
        raise PatchError("$setElementOrder is a list")
    keys = shapes.map_keys(schema)
    merge_key = keys[0] if keys else None

    def name(item: Any) -> Any:
        return item.get(merge_key) if merge_key and isinstance(item, dict) else item

    rank = {repr(name(item)): place for place, item in enumerate(order)}
    out: list[Any] = sorted((item for item in present if repr(name(item)) in rank), key=lambda item: rank[repr(name(item))])
    before: list[Any] = []
    for item in present:
        if repr(name(item)) not in rank:
            at = next((i + 1 for i in range(len(out) - 1, -1, -1) if out[i] in before), 0 if not before else len(out))
            out.insert(at, item)
        before.append(item)
    return out
