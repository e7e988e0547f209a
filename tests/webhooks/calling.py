"""A verb called as from a shell, and the files it is handed."""

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result
from reviewing import Deployment

EXPORTED = {"phase": "Ready", "conditions": [{"type": "Ready", "status": "True"}]}
"""A status, as every stored object has one."""


def run(verb: Any, *args: str, stdin: str | bytes | None = None) -> Result:
    """One call; its output and exit code."""
    return CliRunner().invoke(verb, args, input=stdin, catch_exceptions=False)


def write(folder: Path, name: str, *objects: Any) -> str:
    """A YAML stream in a file (JSON is YAML)."""
    file = folder / name
    file.write_text("\n---\n".join(json.dumps(obj.body if isinstance(obj, Deployment) else obj) for obj in objects), "utf-8")
    return str(file)
