"""Kubernetes quantities by value: `16Gi` and `16384Mi` are one quantity, `1.5` is none of whole cards."""

import re
from decimal import Decimal
from functools import lru_cache
from typing import Final

_FORM: Final = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:([eE][+-]?\d+)|(Ki|[MGTPE]i?|[numk]|))", re.ASCII)
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}

Written = str | int | float

LONGEST: Final = 64


def parse_quantity(written: Written) -> Decimal | None:
    """The value of a quantity as written, or None for a text that is no quantity."""
    if isinstance(written, str):
        return _parse(written) if len(written) <= LONGEST else None
    # JSON's true is an int to Python.
    return None if isinstance(written, bool) else Decimal(str(written))


@lru_cache(maxsize=1024)
def _parse(written: str) -> Decimal | None:
    match = _FORM.fullmatch(written)
    if match is None:
        return None
    number, exponent, suffix = match.groups()
    value = Decimal(number)
    if exponent:
        power = int(exponent[1:])
        return value.scaleb(power) if abs(power) <= 30 else None
    if suffix in _DECIMAL:
        return value.scaleb(_DECIMAL[suffix])
    return value * (1 << _BINARY[suffix]) if suffix in _BINARY else None


def whole(written: Written) -> int | None:
    """A quantity as an integer, or None when it is fractional or no quantity."""
    if isinstance(written, str) and len(written) <= LONGEST:
        return _whole(written)
    return _as_integer(parse_quantity(written))


@lru_cache(maxsize=1024)
def _whole(written: str) -> int | None:
    return _as_integer(_parse(written))


def _as_integer(value: Decimal | None) -> int | None:
    return int(value) if value is not None and value == value.to_integral_value() else None


def same_quantity(a: Written | None, b: Written | None) -> bool:
    """Whether two spellings mean one quantity; absent equals only absent."""
    if a is None or b is None:
        return a is b
    if a == b:
        return True
    left, right = parse_quantity(a), parse_quantity(b)
    return left is not None and left == right
