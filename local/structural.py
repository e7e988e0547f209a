"""The seam to the schema engine: what happens to a custom resource's JSON between the wire and the store."""

from collections.abc import Iterator
from typing import Any

from api import schema as engine
from local import shapes
from local.kinds import Served
from local.statuses import Cause
from local.wire import JSON


def complete(served: Served, obj: JSON) -> JSON:
    """The object pruned and with its defaults; a kind without a schema keeps what it has."""
    if served.schema is None:
        return obj
    out: JSON = engine.default(served.schema, engine.prune(served.schema, obj))
    return out


def faults(served: Served, obj: JSON, old: JSON | None) -> list[Cause]:
    """Every field error, CEL rules last."""
    if served.schema is None:
        return []
    return [Cause(error.field, error.type, error.message) for error in engine.validate(served.schema, obj, old)]


def unknown_fields(served: Served, obj: JSON) -> list[str]:
    """Paths that pruning would drop, as strict decoding names them."""
    if served.schema is None:
        return []
    return list(_dropped(obj, engine.prune(served.schema, obj), ""))


def _dropped(before: Any, after: Any, path: str) -> list[str]:
    if before is after:
        return []
    out: list[str] = []
    if isinstance(before, dict) and isinstance(after, dict):
        for key, value in before.items():
            below = f"{path}.{key}" if path else key
            out += _dropped(value, after[key], below) if key in after else [below]
    elif isinstance(before, list) and isinstance(after, list):
        for index, (left, right) in enumerate(zip(before, after, strict=True)):
            out += _dropped(left, right, f"{path}[{index}]")
    return out


_KINDS: dict[str, tuple[type | tuple[type, ...], str]] = {
    "object": (dict, "map"),
    "array": (list, "list"),
    "string": (str, "string"),
    "boolean": (bool, "boolean"),
    "integer": ((int, float), "numeric (int or float)"),
    "number": ((int, float), "numeric (int or float)"),
}


def mistyped(served: Served, obj: JSON) -> list[str]:
    """Values that an applied object gives other types than their fields have, as the typed patch names them."""
    return list(_mistyped(obj, served.schema or {}, "")) if isinstance(obj, dict) else []


def _mistyped(value: Any, schema: JSON, path: str) -> Iterator[str]:
    kind = _KINDS.get(schema.get("type", ""))
    if value is None or kind is None or schema.get("x-kubernetes-int-or-string"):
        return
    wanted, name = kind
    if not isinstance(value, wanted) or (isinstance(value, bool) and name != "boolean"):
        yield f"{path}: expected {name}, got {type(value).__name__}"
    elif isinstance(value, dict):
        for key, inner in value.items():
            if path or key not in {"apiVersion", "kind", "metadata"}:
                yield from _mistyped(inner, shapes.field(schema, key), f"{path}.{key}")
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _mistyped(inner, shapes.items(schema), f"{path}[{index}]")
