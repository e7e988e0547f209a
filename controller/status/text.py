"""Wording that a status may carry: deterministic, sorted, and bounded to a kibibyte.

Source: decision D7, style "Rules of a status controller".
"""

from collections.abc import Iterable
from typing import Final

LIMIT: Final = 1024


def bounded(text: str, limit: int = LIMIT) -> str:
    """The text, cut at a character so that its UTF-8 stays within `limit` bytes."""
    if len(text) * 4 <= limit:
        return text
    data = text.encode(errors="replace")
    if len(data) <= limit:
        return data.decode()
    return data[: limit - 3].decode(errors="ignore") + "…"


def listed(names: Iterable[str]) -> str:
    """Distinct names in sorted order, separated by commas."""
    return ", ".join(sorted(set(names)))


def counted(count: int, noun: str) -> str:
    """`1 replica`, `2 replicas`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def every(count: int, noun: str) -> str:
    """`1 replica`, `All 2 replicas`: the count stands in the words either way."""
    return counted(count, noun) if count == 1 else f"All {counted(count, noun)}"


def named(noun: str, names: Iterable[str]) -> str:
    """`role decode`, `roles decode, prefill`."""
    known = set(names)
    return f"{noun}{'' if len(known) == 1 else 's'} {listed(known)}"


_SINGULAR: Final = {"are": "is", "were": "was", "have": "has", "match": "matches"}


def verb(count: int, plural: str) -> str:
    """The verb for that many, from its plural: `verb(1, "are")` is `is`, `verb(1, "wait")` is `waits`."""
    return plural if count != 1 else _SINGULAR.get(plural, f"{plural}s")
