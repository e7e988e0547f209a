"""The functions that expressions may call: CEL's own, and those of Kubernetes' libraries for strings, lists, regexes and quantities.

A function takes the meter and its arguments (the receiver first). It pays the meter for what it reads, so that no expression can cost more
than its budget. What Kubernetes has and this table lacks (url, ip, cidr, format, authorizer, optionals) is refused by name when the rule is
compiled.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from fractions import Fraction
from itertools import pairwise
from typing import Any, Final

from api import quantity
from api.schema.celvalues import INT64, CelError, Type, duration, equal, less, timestamp, type_of

Function = Callable[..., Any]


class Meter:
    """What one evaluation may still spend. Raises CelError when it is spent."""

    __slots__ = ("left",)

    def __init__(self, budget: int) -> None:
        self.left = budget

    def pay(self, units: int) -> None:
        """Spend that many units."""
        self.left -= units
        if self.left < 0:
            raise CelError("operation cancelled: actual cost limit exceeded")


def integer(value: int) -> int:
    """The value, if an int64 holds it."""
    if not INT64[0] <= value <= INT64[1]:
        raise CelError("integer overflow")
    return value


def _refuse(name: str, *args: Any) -> CelError:
    return CelError(f"no such overload: {name}({', '.join(type_of(a) for a in args)})")


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str) or isinstance(value, Type):
        raise _refuse(name, value)
    return value


def _list(name: str, value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise _refuse(name, value)
    return value


def _size(meter: Meter, value: Any) -> int:
    meter.pay(1)
    if not isinstance(value, str | bytes | list | dict):
        raise _refuse("size", value)
    return len(value)


def matches(meter: Meter, text: Any, pattern: Any) -> bool:
    """RE2 search."""
    return bool(_regex(meter, "matches", text, pattern).search(text))


def _regex(meter: Meter, name: str, text: Any, pattern: Any) -> Any:
    import re2  # noqa: PLC0415  loaded with the first pattern

    meter.pay(1 + (len(_text(name, text)) * len(_text(name, pattern))) // 40)
    try:
        return re2.compile(pattern)
    except re2.error as error:
        raise CelError(f"{pattern!r} is no pattern") from error


def _find(meter: Meter, text: Any, pattern: Any) -> str:
    found = _regex(meter, "find", text, pattern).search(text)
    return str(found.group(0)) if found else ""


def _find_all(meter: Meter, text: Any, pattern: Any, limit: int = -1) -> list[str]:
    found = [str(m.group(0)) for m in _regex(meter, "findAll", text, pattern).finditer(text)]
    return found if limit < 0 else found[:limit]


def _of_text(name: str, call: Callable[..., Any]) -> Function:
    def run(meter: Meter, text: Any, *args: Any) -> Any:
        meter.pay(1 + len(_text(name, text)) // 10)
        try:
            return call(text, *args)
        except (TypeError, ValueError, IndexError) as error:
            raise _refuse(name, text, *args) from error

    return run


def _char_at(text: str, index: int) -> str:
    if not 0 <= index <= len(text):
        raise CelError(f"index out of range: {index}")
    return text[index : index + 1]


def _substring(text: str, start: int, end: int | None = None) -> str:
    stop = len(text) if end is None else end
    if not 0 <= start <= stop <= len(text):
        raise CelError(f"index out of range: {start}, {stop}")
    return text[start:stop]


def _index_of(meter: Meter, where: Any, what: Any, start: int = 0) -> int:
    meter.pay(1 + len(where) // 10)
    if isinstance(where, list):
        return next((i for i, item in enumerate(where) if equal(item, what)), -1)
    return _text("indexOf", where).find(_text("indexOf", what), start)


def _last_index_of(meter: Meter, where: Any, what: Any) -> int:
    meter.pay(1 + len(where) // 10)
    if isinstance(where, list):
        return next((i for i in range(len(where) - 1, -1, -1) if equal(where[i], what)), -1)
    return _text("lastIndexOf", where).rfind(_text("lastIndexOf", what))


def _join(meter: Meter, parts: Any, separator: str = "") -> str:
    meter.pay(1 + len(_list("join", parts)))
    return separator.join(_text("join", part) for part in parts)


def _is_sorted(meter: Meter, values: Any) -> bool:
    meter.pay(1 + len(_list("isSorted", values)))
    return not any(less(b, a) for a, b in pairwise(values))


def _sum(meter: Meter, values: Any) -> Any:
    meter.pay(1 + len(_list("sum", values)))
    return sum(values)


def _extreme(name: str, first: bool) -> Function:
    def run(meter: Meter, values: Any) -> Any:
        meter.pay(1 + len(_list(name, values)))
        if not values:
            raise CelError(f"{name} called on empty list")
        best = values[0]
        for value in values[1:]:
            if less(value, best) if first else less(best, value):
                best = value
        return best

    return run


def _quantity(meter: Meter, text: Any) -> Fraction:
    meter.pay(1)
    try:
        return quantity.parse(_text("quantity", text))
    except ValueError as error:
        raise CelError(str(error)) from error


def _amount(name: str, value: Any) -> Fraction:
    if isinstance(value, Fraction):
        return value
    if name in {"add", "sub"} and isinstance(value, int) and not isinstance(value, bool):
        return Fraction(value)
    raise _refuse(name, value)


def _amounts(name: str, call: Callable[..., Any]) -> Function:
    def run(meter: Meter, *values: Any) -> Any:
        meter.pay(1)
        return call(*(_amount(name, value) for value in values))

    return run


def _as_integer(value: Fraction) -> int:
    if value.denominator != 1:
        raise CelError("cannot convert value to integer")
    return integer(value.numerator)


def _to_int(meter: Meter, value: Any) -> int:
    meter.pay(1)
    match value:
        case bool():
            pass
        case int():
            return value
        case float() if value == value and abs(value) < float(1 << 63):  # noqa: PLR0124  not a NaN
            return int(value)
        case str() if value.lstrip("-").isdecimal() and value.isascii():
            return integer(int(value))
        case datetime():
            return int(value.timestamp())
    raise _refuse("int", value)


def _to_double(meter: Meter, value: Any) -> float:
    meter.pay(1)
    if isinstance(value, int | float | str) and not isinstance(value, bool):
        try:
            return float(value)
        except ValueError as error:
            raise CelError(f"{value!r} is no double") from error
    raise _refuse("double", value)


def _to_string(meter: Meter, value: Any) -> str:
    meter.pay(1)
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return str(value)
        case int():
            return str(value)
        case float():
            return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
        case bytes():
            return value.decode("utf-8", "strict")
        case datetime():
            return value.strftime("%Y-%m-%dT%H:%M:%SZ")
        case timedelta():
            return f"{value.total_seconds():g}s"
    raise _refuse("string", value)


def _to_bool(meter: Meter, value: Any) -> bool:
    meter.pay(1)
    if isinstance(value, bool):
        return value
    if value in {"true", "false"}:
        return bool(value == "true")
    raise _refuse("bool", value)


GLOBAL: Final[dict[str, Function]] = {
    "bool": _to_bool,
    "bytes": lambda meter, value: _text("bytes", value).encode(),
    "double": _to_double,
    "duration": lambda meter, value: value if isinstance(value, timedelta) else duration(_text("duration", value)),
    "dyn": lambda meter, value: value,
    "int": _to_int,
    "isQuantity": lambda meter, value: quantity.is_quantity(_text("isQuantity", value)),
    "matches": matches,
    "quantity": _quantity,
    "size": _size,
    "string": _to_string,
    "timestamp": lambda meter, value: value if isinstance(value, datetime) else timestamp(_text("timestamp", value)),
    "type": lambda meter, value: type_of(value),
    "uint": _to_int,
}

METHOD: Final[dict[str, Function]] = {
    "add": _amounts("add", lambda a, b: a + b),
    "asApproximateFloat": _amounts("asApproximateFloat", float),
    "asInteger": _amounts("asInteger", _as_integer),
    "charAt": _of_text("charAt", _char_at),
    "compareTo": _amounts("compareTo", lambda a, b: (a > b) - (a < b)),
    "contains": _of_text("contains", lambda text, part: part in text),
    "endsWith": _of_text("endsWith", str.endswith),
    "find": _find,
    "findAll": _find_all,
    "getDate": lambda meter, at: at.day,
    "getFullYear": lambda meter, at: at.year,
    "getHours": lambda meter, at: at.hour,
    "getMinutes": lambda meter, at: at.minute,
    "getMonth": lambda meter, at: at.month - 1,
    "getSeconds": lambda meter, at: at.second,
    "indexOf": _index_of,
    "isGreaterThan": _amounts("isGreaterThan", lambda a, b: a > b),
    "isInteger": _amounts("isInteger", lambda a: a.denominator == 1),
    "isLessThan": _amounts("isLessThan", lambda a, b: a < b),
    "isSorted": _is_sorted,
    "join": _join,
    "lastIndexOf": _last_index_of,
    "lowerAscii": _of_text("lowerAscii", str.lower),
    "matches": matches,
    "max": _extreme("max", False),
    "min": _extreme("min", True),
    "replace": _of_text("replace", str.replace),
    "sign": _amounts("sign", lambda a: (a > 0) - (a < 0)),
    "size": _size,
    "split": _of_text("split", lambda text, by, *limit: text.split(by) if by else list(text)),
    "startsWith": _of_text("startsWith", str.startswith),
    "sub": _amounts("sub", lambda a, b: a - b),
    "substring": _of_text("substring", _substring),
    "sum": _sum,
    "trim": _of_text("trim", str.strip),
    "upperAscii": _of_text("upperAscii", str.upper),
}

TYPES: Final = {name: Type(name) for name in ("bool", "bytes", "double", "int", "list", "map", "null_type", "string", "type", "uint")}
