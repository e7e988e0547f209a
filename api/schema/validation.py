"""Validation against a structural schema: types, bounds, patterns, formats, list keys, junctors, then the CEL rules.

The messages are those of an API server. Patterns are RE2, which is what the API server runs and what cannot blow up. CEL rules run last,
and as on the server not at all over an object whose shape is already wrong.
"""

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

from api.schema import errors
from api.schema.errors import FieldError, child
from api.schema.formats import NUMBER_RANGES, matches

_BLOCKING: Final = frozenset({errors.REQUIRED, errors.TYPE_INVALID, errors.TOO_LONG, errors.TOO_MANY, errors.NOT_SUPPORTED})
_UNCHECKED: Final = (
    "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation"
)


def validate(schema: dict[str, Any], obj: Any, old: Any = None, *, path: str = "") -> list[FieldError]:
    """Every fault of the object, in the schema's order. `old` is the stored object of an update: transition rules compare with it.

    Both objects are expected pruned and defaulted. `apiVersion`, `kind` and `metadata` are judged only as far as the schema names them.
    """
    found = list(_value(schema, obj, path))
    if has_rules(schema):
        if any(error.type in _BLOCKING for error in found):
            found.append(FieldError("<nil>", errors.INVALID, f"Invalid value: null: {_UNCHECKED}"))
        else:
            from api.schema.rules import check  # noqa: PLC0415  the CEL parser is loaded only by a schema that has rules

            found.extend(check(schema, obj, old, path))
    return found


def has_rules(schema: dict[str, Any]) -> bool:
    """Whether the schema carries a CEL rule anywhere."""
    if schema.get("x-kubernetes-validations"):
        return True
    inner = list((schema.get("properties") or {}).values())
    inner.extend(part for part in (schema.get("items"), schema.get("additionalProperties")) if isinstance(part, dict))
    return any(has_rules(part) for part in inner)


def _value(schema: dict[str, Any], value: Any, path: str) -> Iterator[FieldError]:
    if value is None and (schema.get("nullable") or "type" not in schema):
        return
    wrong = _type_error(schema, value, path)
    if wrong is not None:
        yield wrong
        return
    if "enum" in schema and value not in schema["enum"]:
        yield errors.not_supported(path, value, schema["enum"])
    match value:
        case str():
            yield from _string(schema, value, path)
        case bool():
            pass
        case int() | float():
            yield from _number(schema, value, path)
        case list():
            yield from _array(schema, value, path)
        case dict():
            yield from _object(schema, value, path)
    yield from _junctors(schema, value, path)


def _kind(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


def _type_error(schema: dict[str, Any], value: Any, path: str) -> FieldError | None:
    have = _kind(value)
    if schema.get("x-kubernetes-int-or-string"):
        if have in {"integer", "string"}:
            return None
        want = "integer,string"
    else:
        want = schema.get("type", "")
        if not want or have == want or (want == "number" and have == "integer"):
            return None
        if want == "integer" and isinstance(value, float) and value.is_integer():
            return None
    return errors.invalid(path, have, f'{path} in body must be of type {want}: "{have}"', errors.TYPE_INVALID)


def _string(schema: dict[str, Any], value: str, path: str) -> Iterator[FieldError]:
    longest = schema.get("maxLength")
    if longest is not None and len(value) > longest:
        yield FieldError(path, errors.TOO_LONG, f"Too long: may not be more than {longest} characters")
    shortest = schema.get("minLength")
    if shortest is not None and len(value) < shortest:
        yield errors.invalid(path, value, f"{path} in body should be at least {shortest} chars long")
    pattern = schema.get("pattern")
    if pattern is not None and not _regex(pattern).search(value):
        yield errors.invalid(path, value, f"{path} in body should match '{pattern}'")
    form = schema.get("format")
    if form is not None and not matches(form, value):
        yield errors.invalid(path, value, f"{path} in body must be of type {form}: {errors.shown(value)}")


@lru_cache(maxsize=512)
def _regex(pattern: str) -> Any:
    import re2  # noqa: PLC0415  loaded with the first pattern: verbs that never validate do not pay for it

    return re2.compile(pattern)


def _number(schema: dict[str, Any], value: float, path: str) -> Iterator[FieldError]:
    bounds = NUMBER_RANGES.get(schema.get("format", ""))
    if bounds and not bounds[0] <= value <= bounds[1]:
        yield errors.invalid(path, value, f"{path} in body must be of type {schema['format']}: {errors.shown(value)}")
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and (value <= low if schema.get("exclusiveMinimum") else value < low):
        than = "greater than" if schema.get("exclusiveMinimum") else "greater than or equal to"
        yield errors.invalid(path, value, f"{path} in body should be {than} {low}")
    if high is not None and (value >= high if schema.get("exclusiveMaximum") else value > high):
        than = "less than" if schema.get("exclusiveMaximum") else "less than or equal to"
        yield errors.invalid(path, value, f"{path} in body should be {than} {high}")
    step = schema.get("multipleOf")
    if step and not _multiple(value, step):
        yield errors.invalid(path, value, f"{path} in body should be a multiple of {step}")


def _multiple(value: float, step: float) -> bool:
    if isinstance(value, int) and isinstance(step, int):
        return value % step == 0
    share = value / step
    return math.isfinite(share) and abs(share - round(share)) < 1e-9


def _array(schema: dict[str, Any], value: list[Any], path: str) -> Iterator[FieldError]:
    most, least = schema.get("maxItems"), schema.get("minItems")
    if most is not None and len(value) > most:
        yield FieldError(path, errors.TOO_MANY, f"Too many: {len(value)}: must have at most {most} items")
    if least is not None and len(value) < least:
        yield errors.invalid(path, value, f"{path} in body should have at least {least} items")
    items = schema.get("items")
    if isinstance(items, dict):
        for index, item in enumerate(value):
            yield from _value(items, item, f"{path}[{index}]")
    yield from _repeats(schema, value, path)


def _repeats(schema: dict[str, Any], value: list[Any], path: str) -> Iterator[FieldError]:
    kind = schema.get("x-kubernetes-list-type")
    if kind not in {"map", "set"}:
        return
    keys: list[str] = schema.get("x-kubernetes-list-map-keys") or []
    seen: set[str] = set()
    for index, item in enumerate(value):
        if kind == "map":
            if not isinstance(item, dict):
                continue
            identity: Any = {name: item[name] for name in keys if name in item}
        else:
            identity = item
        mark = repr(sorted(identity.items())) if isinstance(identity, dict) else repr(identity)
        if mark in seen:
            yield errors.duplicate(f"{path}[{index}]", identity)
        seen.add(mark)


def _object(schema: dict[str, Any], value: dict[str, Any], path: str) -> Iterator[FieldError]:
    for name in schema.get("required") or ():
        if name not in value:
            yield errors.required(child(path, name))
    most, least = schema.get("maxProperties"), schema.get("minProperties")
    if most is not None and len(value) > most:
        yield FieldError(path, errors.TOO_MANY, f"Too many: {len(value)}: must have at most {most} items")
    if least is not None and len(value) < least:
        yield errors.invalid(path, value, f"{path} in body should have at least {least} properties")
    properties: dict[str, Any] = schema.get("properties") or {}
    additional = schema.get("additionalProperties")
    for name, item in value.items():
        if name in properties:
            yield from _value(properties[name], item, child(path, name))
        elif isinstance(additional, dict):
            yield from _value(additional, item, errors.key(path, name))
    if schema.get("x-kubernetes-embedded-resource"):
        for name in ("apiVersion", "kind"):
            if not isinstance(value.get(name), str) or not value[name]:
                yield errors.required(child(path, name), "must not be empty")


def _junctors(schema: dict[str, Any], value: Any, path: str) -> Iterator[FieldError]:
    for part in schema.get("allOf") or ():
        yield from _value(part, value, path)
    some = schema.get("anyOf")
    if some and not any(_fits(part, value) for part in some):
        yield errors.invalid(path, value, f'"{path}" must validate at least one schema (anyOf)')
    one = schema.get("oneOf")
    if one and sum(_fits(part, value) for part in one) != 1:
        yield errors.invalid(path, value, f'"{path}" must validate one and only one schema (oneOf)')
    none = schema.get("not")
    if none is not None and _fits(none, value):
        yield errors.invalid(path, value, f'"{path}" must not validate the schema (not)')


def _fits(schema: dict[str, Any], value: Any) -> bool:
    return next(_value(schema, value, ""), None) is None
