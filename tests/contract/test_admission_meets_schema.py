"""What the webhooks are said to admit, the definitions admit too: a CEL rule must not be stricter than the rule it stands in for."""

import json
from pathlib import Path
from typing import Any

import pytest

from api.crd.check import admit

LINES = (Path(__file__).parent / "cases" / "admission.jsonl").read_text(encoding="utf-8").splitlines()
ADMITTED = [
    case
    for case in map(json.loads, LINES)
    if case["expect"].get("allowed")
    and (request := case["input"]["review"].get("request"))
    and request.get("operation") in {"CREATE", "UPDATE"}
    and (request.get("object") or {}).get("kind") in {"ModelDeployment", "ModelDeploymentScaler"}
    # A webhook is spared what is being deleted; so is a CEL rule, but only where the field is left alone.
    and "deletionTimestamp" not in ((request.get("oldObject") or {}).get("metadata") or {})
]


@pytest.mark.parametrize("case", ADMITTED, ids=[case["id"] for case in ADMITTED])
def test_an_admitted_object_is_a_valid_object(case: dict[str, Any]) -> None:
    """No schema error and no CEL error on an object that the case admits."""
    request = case["input"]["review"]["request"]
    assert [(f.field, f.message) for f in admit(request["object"], request.get("oldObject"))[1]] == []
