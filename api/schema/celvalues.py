"""The values that CEL expressions work on, and what `==`, `<` and `type()` mean for them.

JSON values stand for themselves. Where the schema says more than JSON does, `typed` converts: a `number` is a double, a `date-time` a
timestamp, a `duration` a duration, `byte` bytes. Member names that CEL cannot spell are escaped as Kubernetes escapes them.
"""

import base64
import re
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any, Final

_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_RESERVED: Final = frozenset(
    {"true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import", "let", "loop"}
    | {"package", "namespace", "return", "var", "void", "while"}
)
_ESCAPES: Final = (("__", "__underscores__"), (".", "__dot__"), ("-", "__dash__"), ("/", "__slash__"))
_UNITS: Final = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_CONVERTED: Final = frozenset({"date-time", "datetime", "duration", "byte"})
INT64: Final = (-(1 << 63), (1 << 63) - 1)


class CelError(Exception):
    """An expression that could not be evaluated: no such key, no such overload, a division by zero, a spent budget."""


class Type(str):
    """What `type(x)` gives: equal to another type of the same name, and to nothing else."""

    __slots__ = ()


def escaped(name: str) -> str:
    """A property's name as an expression spells it."""
    if name in _RESERVED:
        return f"__{name}__"
    if _IDENTIFIER.fullmatch(name) and "__" not in name:
        return name
    for plain, spelled in _ESCAPES:
        name = name.replace(plain, spelled)
    return name


def typed(schema: dict[str, Any] | None, value: Any) -> Any:
    """The value as the schema types it; unchanged parts are shared."""
    if schema is None or value is None:
        return value
    match value:
        case dict():
            properties: dict[str, Any] = schema.get("properties") or {}
            additional = schema.get("additionalProperties")
            rest = additional if isinstance(additional, dict) else None
            out = {(escaped(k) if k in properties else k): typed(properties.get(k, rest), v) for k, v in value.items()}
            return value if len(out) == len(value) and all(out.get(k, out) is v for k, v in value.items()) else out
        case list():
            items = schema.get("items")
            if not isinstance(items, dict):
                return value
            new = [typed(items, item) for item in value]
            return new if any(a is not b for a, b in zip(new, value, strict=True)) else value
        case bool():
            return value
        case int() if schema.get("type") == "number":
            return float(value)
        case float() if schema.get("type") == "integer" and value.is_integer():
            return int(value)
        case str() if schema.get("format") in _CONVERTED:
            return _converted(schema["format"], value)
    return value


def _converted(form: str, text: str) -> Any:
    try:
        if form == "byte":
            return base64.b64decode(text, validate=True)
        return duration(text) if form == "duration" else timestamp(text)
    except (ValueError, CelError):
        return text


def timestamp(text: str) -> datetime:
    """An RFC 3339 instant."""
    try:
        value = datetime.fromisoformat(text)
    except ValueError as error:
        raise CelError(f"{text!r} is no timestamp") from error
    return (value if value.tzinfo else value.replace(tzinfo=UTC)).astimezone(UTC)


def duration(text: str) -> timedelta:
    """A Go duration."""
    sign = -1 if text.startswith("-") else 1
    body = text.lstrip("+-")
    parts = re.findall(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)", body, re.ASCII)
    if body != "0" and (not parts or "".join(n + u for n, u in parts) != body):
        raise CelError(f"{text!r} is no duration")
    return timedelta(seconds=sign * sum(float(n) * _UNITS[u] for n, u in parts))


def type_of(value: Any) -> Type:
    """CEL's name of a value's type."""
    match value:
        case None:
            return Type("null_type")
        case Type():
            return Type("type")
        case bool():
            return Type("bool")
        case int():
            return Type("int")
        case float():
            return Type("double")
        case str():
            return Type("string")
        case bytes():
            return Type("bytes")
        case list():
            return Type("list")
        case datetime():
            return Type("google.protobuf.Timestamp")
        case timedelta():
            return Type("google.protobuf.Duration")
        case Fraction():
            return Type("kubernetes.Quantity")
    return Type("map")


def _numeric(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def equal(a: Any, b: Any) -> bool:
    """CEL's equality: numbers by value, everything else only within its type."""
    if _numeric(a) and _numeric(b):
        return bool(a == b)
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(equal(a[k], b[k]) for k in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(equal(x, y) for x, y in zip(a, b, strict=True))
    return type_of(a) == type_of(b) and bool(a == b)


def less(a: Any, b: Any) -> bool:
    """CEL's order. Raises CelError for two values that have none."""
    if (_numeric(a) and _numeric(b)) or (type_of(a) == type_of(b) and isinstance(a, str | bytes | bool | datetime | timedelta)):
        return bool(a < b)
    raise CelError(f"no such overload: {type_of(a)} < {type_of(b)}")
