"""The handed schema cases: one object, and the stored one for transitions, against the definitions."""

import json
from pathlib import Path
from typing import Any

import pytest

from api.crd.check import admit

CASES = [json.loads(line) for line in (Path(__file__).parent / "cases" / "schema.jsonl").read_text(encoding="utf-8").splitlines() if line]


def _at(value: Any, path: str) -> Any:
    for part in path.replace("[", ".[").split("."):
        value = value[int(part[1:-1])] if part.startswith("[") else value[part]
    return value


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_schema_case(case: dict[str, Any]) -> None:
    """The verdict, the field it names, and the defaults."""
    stored, faults = admit(case["object"], case.get("oldObject"))
    assert (not faults) is case["valid"], faults
    if not case["valid"] and "field" in case:
        wanted = case["field"]
        assert any(f.field == wanted or f.field.startswith((f"{wanted}.", f"{wanted}[")) for f in faults), faults
    for path, value in case.get("defaults", {}).items():
        assert _at(stored, path) == value
