"""Kubernetes quantities by value, remembered: `16Gi` and `16384Mi` are one quantity, `1.5` is none of whole cards.

How one is read is `api.quantity`'s business; here what cannot be read is None instead of an error.
"""

from fractions import Fraction
from functools import lru_cache
from typing import Final

from api.quantity import parse

Written = str | int | float

LONGEST: Final = 64


def parse_quantity(written: Written) -> Fraction | None:
    """The value of a quantity as written, or None for what is no quantity."""
    if isinstance(written, bool):  # JSON's true is an int to Python, and equal to 1
        return None
    return _parse(written) if not isinstance(written, str) or len(written) <= LONGEST else None


@lru_cache(maxsize=1024)
def _parse(written: Written) -> Fraction | None:
    try:
        return parse(written)
    except ValueError:
        return None


def whole(written: Written) -> int | None:
    """A quantity as an integer, or None when it is fractional or no quantity."""
    value = parse_quantity(written)
    return value.numerator if value is not None and value.denominator == 1 else None


def same_quantity(a: Written | None, b: Written | None) -> bool:
    """Whether two spellings mean one quantity; absent equals only absent."""
    if a is None or b is None:
        return a is b
    if a == b:
        return True
    left, right = parse_quantity(a), parse_quantity(b)
    return left is not None and left == right
