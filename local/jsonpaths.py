"""The part of kubectl's JSON path that printer columns use: fields, `['quoted']` fields, indexes, `[*]`, and `[?(@.a=="b")]` filters."""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

Step = Callable[[list[Any]], list[Any]]

_PART = re.compile(
    r"""\.?(?P<field>(?:[^.\[\]'"\\]|\\.)+)
      | \[\s*(?P<quote>['"])(?P<quoted>.*?)(?P=quote)\s*\]
      | \[\s*(?P<index>-?\d+)\s*\]
      | \[\s*(?P<all>\*)\s*\]
      | \[\s*\?\(\s*@(?P<path>(?:\.[^=!<>\s]+)?)\s*(?P<op>==|!=|<=|>=|<|>)?\s*(?P<value>.*?)\s*\)\s*\]
    """,
    re.VERBOSE,
)


@lru_cache(maxsize=512)
def steps(path: str) -> tuple[Step, ...]:
    """The path as functions from values to values. Raises ValueError."""
    text = path.strip().removeprefix("{").removesuffix("}").removeprefix("$").lstrip()
    out: list[Step] = []
    position = 0
    while position < len(text):
        found = _PART.match(text, position)
        if found is None or found.end() == position:
            raise ValueError(f"unreadable JSON path: {path}")
        position = found.end()
        out.append(_step(found))
    return tuple(out)


def _step(found: "re.Match[str]") -> Step:
    if found["field"] is not None:
        name = re.sub(r"\\(.)", r"\1", found["field"])
        return _all if name == "*" else _field(name)
    if found["quoted"] is not None:
        return _field(found["quoted"])
    if found["index"] is not None:
        return _index(int(found["index"]))
    if found["all"] is not None:
        return _all
    return _filter(found["path"], found["op"] or "", found["value"])


def _field(name: str) -> Step:
    return lambda values: [value[name] for value in values if isinstance(value, dict) and name in value]


def _index(index: int) -> Step:
    return lambda values: [value[index] for value in values if isinstance(value, list) and -len(value) <= index < len(value)]


def _all(values: list[Any]) -> list[Any]:
    out: list[Any] = []
    for value in values:
        out += value if isinstance(value, list) else list(value.values()) if isinstance(value, dict) else []
    return out


def _filter(path: str, op: str, text: str) -> Step:
    wanted: Any = text[1:-1] if text[:1] in {"'", '"'} and text[-1:] == text[:1] else _scalar(text)

    def keep(item: Any) -> bool:
        found = evaluate(path, item) if path else [item]
        if not op:
            return bool(found)
        if not found:
            return False
        value = found[0]
        if op in {"==", "!="}:
            return (value == wanted) is (op == "==")
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not isinstance(wanted, (int, float)):
            return False
        return {"<": value < wanted, ">": value > wanted, "<=": value <= wanted, ">=": value >= wanted}[op]

    return lambda values: [item for value in values if isinstance(value, list) for item in value if keep(item)]


def _scalar(text: str) -> Any:
    if text in {"true", "false"}:
        return text == "true"
    try:
        return float(text) if "." in text else int(text)
    except ValueError:
        return text


def evaluate(path: str, obj: Any) -> list[Any]:
    """Every value that the path names."""
    values = [obj]
    for step in steps(path):
        values = step(values)
    return values
