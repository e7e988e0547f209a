"""JSON objects whose every key stands once: parsers keep the last of two, and who reads a document sees the first."""

from collections.abc import Iterable
from typing import Any


def repeated(pairs: Iterable[tuple[str, Any]]) -> str | None:
    """The first key of an object's members, as `object_pairs_hook` gets them, that was there before; None where each stands once."""
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            return key
        seen.add(key)
    return None
