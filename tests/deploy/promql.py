"""Reads which metrics and which of their labels a PromQL expression names. Not a parser: promtool is one, where it is installed."""

import re
from collections.abc import Iterator

_TEXT = re.compile(r'"(?:[^"\\]|\\.)*"')
_LISTS = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)")
_RANGE = re.compile(r"\[[^\]]*\]")
_SELECTOR = re.compile(r"\b([a-zA-Z_:][\w:]*+)\s*+(?:\{([^}]*)\})?+(?!\s*\()")
_LABEL = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)")
_WORDS = frozenset({"and", "or", "unless", "bool", "offset", "by", "on", "without", "ignoring", "group_left", "group_right", "inf", "nan"})


def selectors(expression: str) -> Iterator[tuple[str, frozenset[str]]]:
    """Each metric's name with the labels that its matchers name."""
    text = _TEXT.sub('""', expression)
    for pattern in (_LISTS, _RANGE):
        text = pattern.sub(" ", text)
    for found in _SELECTOR.finditer(text):
        if found[1] not in _WORDS and not found[1].isdigit():
            yield found[1], frozenset(_LABEL.findall(found[2] or ""))
