"""What the engines' parsers make of one value: the converters behind an option's type.

A converter returns what the engine stores, or raises `RefusedError` with the reason. Only types whose rule is known are judged; a
value of any other type is stored as its text, because a wrong refusal costs more than a missed one.
"""

import json
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Final

Stored = str | int | float | bool | tuple["str | int | float | None", ...] | None

# Longer texts are cut in messages: statuses and admission answers are bounded.
SHOWN: Final = 80

# No configuration on a command line is longer; what is would only cost time.
LONGEST: Final = 1 << 14


class RefusedError(ValueError):
    """The engine's parser refuses the value. The text says why, without naming the option."""


def show(text: str) -> str:
    """A token as messages quote it: repr-like for odd characters, cut when long."""
    cut = text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
    return cut if cut.isprintable() else ascii(cut)[1:-1]


def to_int(text: str) -> int:
    """Python's `int()`: any Unicode decimal digits, one sign, surrounding blanks, single underscores. Raises RefusedError."""
    try:
        return int(text)
    except ValueError as error:
        raise RefusedError(f"'{show(text)}' is not an integer") from error


def to_float(text: str) -> float:
    """Python's `float()`. Raises RefusedError."""
    try:
        return float(text)
    except ValueError as error:
        raise RefusedError(f"'{show(text)}' is not a number") from error


_SIZED = re.compile(r"(\d+(?:\.\d+)?)([kKmMgGtT])")
_DECIMAL: Final = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY: Final = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def to_count(text: str) -> int:
    """An integer with an optional suffix: 1k = 1000, 1K = 1024, 25.6k = 25600, decimals only before a small letter. Raises RefusedError."""
    text = text.strip()
    match = _SIZED.fullmatch(text)
    if match is None:
        return to_int(text)
    number, suffix = match.groups()
    if suffix in _DECIMAL:
        try:
            return int(float(number) * _DECIMAL[suffix])
        except OverflowError as error:
            raise RefusedError(f"'{show(text)}' is beyond what a number holds") from error
    return to_int(number) * _BINARY[suffix]


_SI_SIZED = re.compile(r"(\d+(?:\.\d+)?)(Ki|Mi|Gi|Ti|k|M|G|T)")
_SI: Final = {"k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


def to_si_count(text: str) -> int:
    """SGLang's form: 1k = 1000, 1Ki = 1024, decimals only before a unit of ten. Raises RefusedError."""
    text = text.strip()
    match = _SI_SIZED.fullmatch(text)
    if match is None:
        return to_int(text)
    number, suffix = match.groups()
    if suffix in _SI:
        return int(Decimal(number) * _SI[suffix])
    return to_int(number) * _BINARY[suffix[0]]


def _count_or_auto(text: str) -> int:
    return -1 if text.strip() == "-1" or text.strip().lower() == "auto" else to_count(text)


def _json(text: str) -> str:
    try:
        json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RefusedError(f"'{show(text)}' is not JSON") from error
    return text


# A text in quotes, to be left alone, or a number with a suffix. A text without an end reaches to the end: no quote is looked at twice.
_BARE = re.compile(r'"(?:[^"\\]|\\.)*\\?(?:"|\Z)|\b\d+(?:\.\d+)?[kKmMgGtT]\b', re.DOTALL)


def _object(text: str) -> str:
    """A configuration of vLLM: a JSON object whose bare numbers may have a suffix. Members are not looked at, nor is a text beyond use."""
    if len(text) > LONGEST:
        return text
    try:
        value = json.loads(_BARE.sub(lambda found: found[0] if found[0][0] == '"' else str(to_count(found[0])), text))
    except (ValueError, RecursionError) as error:
        raise RefusedError(f"'{show(text)}' is not JSON") from error
    if not isinstance(value, dict):
        raise RefusedError(f"'{show(text)}' is no JSON object")
    return text


def _unset(text: str) -> bool:
    """vLLM's optional options: an empty text or the word None unsets."""
    return text in ("", "None")


def _text(text: str) -> str:
    return text


def _optional(inner: Callable[[str], Stored]) -> Callable[[str], Stored]:
    def convert(text: str) -> Stored:
        return None if _unset(text) else inner(text)

    return convert


CONVERTERS: Final[Mapping[str, Callable[[str], Stored]]] = {
    "str": _text,
    "int": to_int,
    "float": to_float,
    "json": _json,
    "object": _object,
    "count": to_count,
    "count-or-auto": _count_or_auto,
    "si-count": to_si_count,
    "other": _text,
    "optional": _optional(_text),
    "optional int": _optional(to_int),
    "optional float": _optional(to_float),
    "optional json": _optional(_json),
    "optional object": _optional(_object),
    "optional count": _optional(to_count),
}


def check(value: Stored, choices: tuple[str | int | None, ...], text: str) -> Stored:
    """Compare a converted value with an option's choices. Raises RefusedError."""
    if value not in choices:
        shown = ", ".join(str(c) for c in choices[:12] if c is not None)
        raise RefusedError(f"'{show(text)}' is not one of {shown}{', …' if len(choices) > 12 else ''}")
    return value
