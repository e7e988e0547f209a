"""Text that people keep and Kubernetes reads, YAML or JSON streams, with the two differences that Kubernetes makes.

A time stays the text that it is. A key that is there twice in one object is a fault: whichever value won, somebody wrote the other one.

Source: lesson F86 (duplicate keys in files).
"""

import json
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any, Final, NoReturn

import yaml

from api.members import repeated

# What aliases may stand for: so many values, or so many times the values that are written.
MOST_VALUES: Final = 1_000_000
MOST_TIMES: Final = 100

_MERGE = "tag:yaml.org,2002:merge"
_TIMESTAMP = "tag:yaml.org,2002:timestamp"


class DocumentError(ValueError):
    """What a text has that no YAML or JSON has. The message begins with the line where it is known; `line` is that line, or None."""

    def __init__(self, problem: str, line: int | None = None) -> None:
        super().__init__(problem if line is None else f"line {line}: {problem}")
        self.line = line


def documents(text: str) -> list[Any]:
    """Every document of a stream, empty ones as None. Raises DocumentError."""
    text = text.removeprefix("\ufeff")
    try:
        if text.lstrip()[:1] == "{":
            try:
                return _json_documents(text)
            except ValueError as error:
                return _flow_documents(text, error)
        return list(_yaml_documents(text))
    except yaml.YAMLError as error:
        raise _fault(error) from error
    except RecursionError as error:
        raise DocumentError("nested too deeply") from error


def _flow_documents(text: str, error: ValueError) -> list[Any]:
    """What begins like JSON and is none may be YAML's flow style. Where it was meant as JSON, YAML may at least know the line."""
    try:
        found = list(_yaml_documents(text))
    except yaml.YAMLError:
        if isinstance(error, json.JSONDecodeError):
            raise DocumentError(f"{error.msg} (column {error.colno})", error.lineno) from error
        raise error from None
    if isinstance(error, DocumentError):
        raise error
    return found


def _json_documents(text: str) -> list[Any]:
    """Several JSON documents one after another. Raises ValueError."""
    decoder = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_constant)
    found, position = [], 0
    while (position := _begin(text, position)) < len(text):
        document, position = decoder.raw_decode(text, position)
        found.append(document)
    return found


def _begin(text: str, position: int) -> int:
    while position < len(text) and text[position].isspace():
        position += 1
    return position


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    name = repeated(pairs)
    if name is not None:
        raise DocumentError(_twice(name))
    return dict(pairs)


def _no_constant(name: str) -> NoReturn:
    raise DocumentError(f"{name} is no number of JSON")


def _yaml_documents(text: str) -> Iterator[Any]:
    loader = _loader()(text)
    try:
        while loader.check_node():
            node = loader.get_node()
            if _refuse_duplicates(node):
                refuse_explosion(node, _parts_of_node)
            try:
                found = loader.construct_document(node)
            except (ValueError, LookupError, TypeError) as error:  # what PyYAML lets through for `!!bool x` and its like
                raise DocumentError(f"a value does not fit its tag: {error}", node.start_mark.line + 1) from error
            yield found
    finally:
        loader.dispose()


def _refuse_duplicates(root: yaml.Node) -> bool:
    """Over the nodes as they were written: once merge keys are resolved, an overridden member looks like one that is there twice.

    Whether any is there by an alias as well.
    """
    left, seen, shared = [root], set(), False
    while left:
        node = left.pop()
        if isinstance(node, yaml.ScalarNode):
            continue
        if id(node) in seen:
            shared = True
            continue
        seen.add(id(node))
        if isinstance(node, yaml.MappingNode):
            names = set()
            for key, value in node.value:
                left.append(value)
                if key.tag == _MERGE or not isinstance(key, yaml.ScalarNode):
                    continue
                if key.value in names:
                    raise DocumentError(_twice(key.value), key.start_mark.line + 1)
                names.add(key.value)
        else:
            left += node.value
    return shared


def _parts_of_node(node: yaml.Node) -> Iterable[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [part for pair in node.value for part in pair]
    return node.value if isinstance(node, yaml.SequenceNode) else ()


def refuse_explosion(root: Any, parts: Callable[[Any], Iterable[Any]]) -> None:
    """A few lines of aliases to aliases may stand for more values than any memory holds, or for themselves. Raises DocumentError.

    `parts` gives what a value is made of, nothing for one that has no parts. What is there several times is looked at once.
    """
    sizes: dict[int, int] = {}
    above: set[int] = set()
    left: list[tuple[Any, bool]] = [(root, False)]
    while left:
        value, counted = left.pop()
        if counted:
            above.discard(id(value))
            sizes[id(value)] = 1 + sum(sizes[id(part)] for part in parts(value))
        elif id(value) in above:
            raise DocumentError("nested too deeply: an alias that contains itself")
        elif id(value) not in sizes:
            above.add(id(value))
            left.append((value, True))
            left += [(part, False) for part in parts(value) if id(part) not in sizes]
    if sizes[id(root)] > max(MOST_VALUES, MOST_TIMES * len(sizes)):
        raise DocumentError(f"its aliases stand for {sizes[id(root)]:,} values")


def _twice(name: str) -> str:
    return f'duplicate key "{name}": one of the two would be dropped, keep the one that is meant'


def _fault(error: yaml.YAMLError) -> DocumentError:
    mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None) or str(error)
    return DocumentError(" ".join(str(problem).split()), None if mark is None else mark.line + 1)


@cache
def _loader() -> Any:
    """A safe loader, the fast one where it is there, without dates."""
    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    resolvers = {
        first: [(tag, pattern) for tag, pattern in found if tag != _TIMESTAMP] for first, found in base.yaml_implicit_resolvers.items()
    }
    return type("DocumentLoader", (base,), {"yaml_implicit_resolvers": resolvers})
