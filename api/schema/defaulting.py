"""Defaults, as the API server fills them while it decodes an object.

A null in a field that is not nullable counts as missing: it is replaced by the field's default, and dropped where there is none. A default
is filled only where its parent exists, so a default on an object opens the door for those inside it.
"""

from typing import Any


def default(schema: dict[str, Any], obj: Any) -> Any:
    """The object with every default of the schema filled in. The input is left as it was; unchanged parts are shared."""
    if isinstance(obj, dict):
        return _object(schema, obj)
    if isinstance(obj, list):
        items = schema.get("items")
        if not isinstance(items, dict):
            return obj
        filled = [default(items, _replaced(items, item)) for item in obj]
        return filled if any(new is not old for new, old in zip(filled, obj, strict=True)) else obj
    return obj


def _object(schema: dict[str, Any], obj: dict[str, Any]) -> dict[str, Any]:
    properties: dict[str, Any] = schema.get("properties") or {}
    additional = schema.get("additionalProperties")
    out: dict[str, Any] = {}
    changed = False
    for name, value in obj.items():
        sub = properties.get(name)
        if sub is None:
            sub = additional if isinstance(additional, dict) else None
        if sub is None:
            out[name] = value
            continue
        if value is None and not sub.get("nullable"):
            changed = True
            if "default" not in sub:
                continue
        new = default(sub, _replaced(sub, value))
        changed = changed or new is not value
        out[name] = new
    for name, sub in properties.items():
        if name not in obj and "default" in sub:
            out[name] = default(sub, _copy(sub["default"]))
            changed = True
    return out if changed else obj


def _replaced(schema: dict[str, Any], value: Any) -> Any:
    if value is None and not schema.get("nullable") and "default" in schema:
        return _copy(schema["default"])
    return value


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _copy(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_copy(item) for item in value]
    return value
