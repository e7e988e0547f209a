"""Kubernetes quantities (`100m`, `1.5Gi`, `2e3`), read exactly."""

import re
from fractions import Fraction
from typing import Final

PATTERN: Final = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?[0-9]+))?$"

_READ: Final = re.compile(r"([+-]?)(\d+(?:\.\d*)?|\.\d+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?\d{1,4})?", re.ASCII)
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}


def parse(value: str | float) -> Fraction:
    """The exact value of a quantity as text or number. Raises ValueError when it is none."""
    if isinstance(value, int) and not isinstance(value, bool):
        return Fraction(value)
    read = _READ.fullmatch(str(value))
    if read is None:
        raise ValueError(f"{value!r} is no quantity")
    sign, digits, suffix = read.group(1), read.group(2), read.group(3) or ""
    number = Fraction(f"0{digits}" if digits.startswith(".") else digits.rstrip("."))
    if suffix in _BINARY:
        number *= 1024 ** _BINARY[suffix]
    elif suffix in _DECIMAL:
        number *= Fraction(10) ** _DECIMAL[suffix]
    else:
        number *= Fraction(10) ** int(suffix[1:])
    return -number if sign == "-" else number


def is_quantity(value: object) -> bool:
    """Whether a value reads as a quantity."""
    if not isinstance(value, str | int | float):
        return False
    try:
        parse(value)
    except ValueError:
        return False
    return True
