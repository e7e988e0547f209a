"""Manifests as people keep them: YAML or JSON files, with the line of every member, and no key twice.

Kubernetes reads YAML 1.1, so `yes` is true and a time stays a text. Source: decisions D5, field lesson F86.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.constructor import DuplicateKeyError
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from api.documents import refuse_explosion

SUFFIXES = frozenset({".yaml", ".yml", ".json"})

_STEP = re.compile(r"\.?([^.\[\]]+)|\[(\d+)\]|\[([^\]]+)\]")


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """A place in a file that is no manifest."""

    file: str
    line: int
    id: str
    message: str


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """One document of a file: plain JSON for the rules, and the marked tree that knows the lines."""

    file: str
    document: dict[str, Any]
    tree: Any

    def line_of(self, field: str) -> int:
        """The line of a field path, or of the nearest member above it that is there."""
        node, line = self.tree, _start(self.tree)
        for match in _STEP.finditer(field):
            name, index, key = match.groups()
            step: str | int = int(index) if index is not None else (key if key is not None else name)
            try:
                position = node.lc.item(step) if isinstance(node, CommentedSeq) else node.lc.key(step)
                node = node[step]
            except (AttributeError, KeyError, IndexError, TypeError):
                break
            line = position[0] + 1
        return line


def files_of(path: str) -> Iterator[Path]:
    """A file itself, or every manifest file below a folder, in order."""
    start = Path(path)
    if start.is_dir():
        yield from sorted(file for file in start.rglob("*") if file.suffix in SUFFIXES and file.is_file())
    else:
        yield start


def read_text(text: str, file: str) -> tuple[list[Manifest], list[Fault]]:
    """Every document of a text, Lists taken apart, and what is wrong with it as YAML."""
    reader = YAML(typ="rt")
    reader.version = (1, 1)
    manifests: list[Manifest] = []
    faults: list[Fault] = []
    try:
        for tree in reader.load_all(text):
            refuse_explosion(tree, _parts)
            manifests.extend(_manifests(tree, file))
    except DuplicateKeyError as error:
        faults.append(Fault(file=file, line=_line(error), id="YAML001", message=_first(error.problem, "a key occurs twice in one object")))
    except MarkedYAMLError as error:
        faults.append(Fault(file=file, line=_line(error), id="YAML002", message=_first(error.problem, "this is no YAML")))
    except (YAMLError, RecursionError, ValueError) as error:
        faults.append(Fault(file=file, line=1, id="YAML002", message=_first(str(error), "this is no YAML")))
    return manifests, faults


def _manifests(tree: Any, file: str) -> Iterator[Manifest]:
    if not isinstance(tree, CommentedMap):
        return
    items = tree.get("items")
    if str(tree.get("kind", "")).endswith("List") and isinstance(items, CommentedSeq):
        for item in items:
            yield from _manifests(item, file)
        return
    yield Manifest(file=file, document=_plain(tree), tree=tree)


def _parts(value: Any) -> Any:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def _plain(value: Any) -> Any:
    """The JSON of a marked tree; a time is the text that Kubernetes gets."""
    if isinstance(value, dict):
        return {str(key): _plain(member) for key, member in value.items()}
    if isinstance(value, list):
        return [_plain(member) for member in value]
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    return str(value)


def _start(tree: Any) -> int:
    marks = getattr(tree, "lc", None)
    return 1 if marks is None or marks.line is None else int(marks.line) + 1


def _line(error: MarkedYAMLError) -> int:
    mark = error.problem_mark or error.context_mark
    return 1 if mark is None else int(mark.line) + 1


def _first(text: str | None, otherwise: str) -> str:
    return (text or "").strip().split("\n", 1)[0] or otherwise
