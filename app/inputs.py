"""What people hand a verb: files, standard input, JSON lines. A fault is one sentence that names the place, never a traceback."""

import json
import sys
from pathlib import Path
from typing import Any, NoReturn

import click

from api.members import repeated


class InputError(click.ClickException):
    """A file that cannot be read, or does not hold what it should."""

    exit_code = 2


def read_source(source: str) -> str:
    """The text of a file, or of standard input for `-`. Raises InputError."""
    try:
        raw = sys.stdin.buffer.read() if source == "-" else Path(source).read_bytes()
    except OSError as error:
        raise InputError(f"{source}: {error.strerror}") from error
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{source}: byte {error.start} is no UTF-8; give YAML or JSON as UTF-8 text") from error


def yaml_documents(text: str, source: str) -> list[dict[str, Any]]:
    """The objects of a YAML or JSON stream, Lists taken apart; times stay texts, as in Kubernetes. Raises InputError."""
    from app.manifests import read_text

    manifests, faults = read_text(text, source)
    if faults:
        raise InputError(f"{source}:{faults[0].line}: {faults[0].message}")
    return [manifest.document for manifest in manifests]


def json_line(raw: bytes) -> dict[str, Any]:
    """The object of one line. Raises ValueError with a sentence, also for a key that occurs twice in one object."""
    try:
        value = json.loads(raw.decode(), object_pairs_hook=_unique, parse_constant=_no_constant)
    except UnicodeDecodeError as error:
        raise ValueError(f"the line is no UTF-8 (byte {error.start})") from error
    except json.JSONDecodeError as error:
        raise ValueError(f"the line is no JSON: {error.msg} (column {error.colno})") from error
    except RecursionError as error:
        raise ValueError("the line is nested too deeply") from error
    if not isinstance(value, dict):
        raise ValueError(f"the line has to be a JSON object, not {type(value).__name__}")  # noqa: TRY004 - one kind of fault for callers
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    name = repeated(pairs)
    if name is not None:
        raise ValueError(f"the line has the key {name[:64]!r} twice in one object")
    return dict(pairs)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"the line is no JSON: {name} is no number of JSON")
