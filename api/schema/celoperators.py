"""What CEL's operators do with values: truth, members, indices, order and arithmetic over int64."""

from collections.abc import Callable
from typing import Any, Final

from api.schema.celfunctions import Meter, integer
from api.schema.celvalues import CelError, equal, less, type_of


def truth(value: Any) -> bool:
    """The value, if it is a bool. Raises CelError for anything else: CEL knows no other truth."""
    if value is True or value is False:
        return bool(value)
    raise CelError(f"no such overload: {type_of(value)} where a bool is wanted")


def negative(value: Any) -> Any:
    """The negated number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise CelError(f"no such overload: -{type_of(value)}")
    return integer(-value) if isinstance(value, int) else -value


def member(value: Any, name: str, meter: Meter) -> Any:
    """`value.name`."""
    meter.pay(1)
    if not isinstance(value, dict):
        raise CelError(f"no such overload: {type_of(value)}.{name}")
    try:
        return value[name]
    except KeyError as error:
        raise CelError(f"no such key: {name}") from error


def index(value: Any, at: Any, meter: Meter) -> Any:
    """`value[at]` of a list or a map."""
    meter.pay(1)
    if isinstance(value, list) and isinstance(at, int) and not isinstance(at, bool):
        if 0 <= at < len(value):
            return value[at]
        raise CelError(f"index out of bounds: {at}")
    if isinstance(value, dict):
        if at in value:
            return value[at]
        raise CelError(f"no such key: {at}")
    raise CelError(f"no such overload: {type_of(value)}[{type_of(at)}]")


def _within(a: Any, b: Any) -> bool:
    if isinstance(b, list):
        return any(equal(a, item) for item in b)
    if isinstance(b, dict):
        return a in b
    raise CelError(f"no such overload: {type_of(a)} in {type_of(b)}")


def _checked(operation: Callable[[Any, Any], Any], *also: type) -> Callable[[Any, Any], Any]:
    def run(a: Any, b: Any) -> Any:
        if isinstance(a, bool) or isinstance(b, bool) or type_of(a) != type_of(b) or not isinstance(a, (int, float, *also)):
            raise CelError(f"no such overload: {type_of(a)}, {type_of(b)}")
        out = operation(a, b)
        return integer(out) if isinstance(out, int) else out

    return run


def _divide(a: Any, b: Any) -> Any:
    if isinstance(a, float):
        return a / b if b else float("nan") if a == 0 else float("inf") * a
    if b == 0:
        raise CelError("division by zero")
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _modulo(a: Any, b: Any) -> Any:
    if b == 0:
        raise CelError("modulus by zero")
    return a - b * _divide(a, b)


RELATIONS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "relation_eq": equal,
    "relation_ne": lambda a, b: not equal(a, b),
    "relation_lt": less,
    "relation_gt": lambda a, b: less(b, a),
    "relation_le": lambda a, b: not less(b, a),
    "relation_ge": lambda a, b: not less(a, b),
    "relation_in": _within,
}
ARITHMETIC: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "addition_add": _checked(lambda a, b: a + b, str, bytes, list),
    "addition_sub": _checked(lambda a, b: a - b),
    "multiplication_mul": _checked(lambda a, b: a * b),
    "multiplication_div": _checked(_divide),
    "multiplication_mod": _checked(_modulo),
}
