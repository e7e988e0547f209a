"""What is written is what the CustomResourceDefinition admits: an API server would take every status, and prune nothing of it."""

import json
from pathlib import Path
from typing import Any

import pytest
from status_builders import scene

from api.crd.check import admit
from api.status import status_document
from controller.dump import snapshots
from controller.status.judge import judge

CASES = Path(__file__).parents[2] / "contract" / "cases" / "status.jsonl"
INPUTS = {case["id"]: case["input"] for case in map(json.loads, CASES.read_text().splitlines())}


def refusals(raw: dict[str, Any], status: dict[str, Any]) -> list[str]:
    """What an API server would say about the status, and what it would drop from it."""
    stored, errors = admit({**raw, "status": status})
    found = [str(error) for error in errors if error.field.startswith("status")]
    return found if stored["status"] == status else [*found, "fields were pruned"]


@pytest.mark.parametrize("name", INPUTS)
def test_the_cases_statuses_are_admitted(name: str) -> None:
    """Every status of the handed cases is valid, field by field."""
    given = INPUTS[name]
    (snapshot,) = snapshots(given["objects"], given["now"])
    raw = next(item for item in given["objects"] if item["kind"] == "ModelDeployment")
    assert refusals(raw, status_document(judge(snapshot))) == []


def test_what_others_control_cannot_break_the_bounds() -> None:
    """Labels, annotations, arguments and artifacts of absurd sizes still give a status that is admitted."""
    long = "x" * 40_000
    found = scene(replicas=2, extraArgs=["--tensor-parallel-size", long]).artifact(resolved="True")
    found.objects[0]["status"]["resolved"] = {"revision": long, "manifestDigest": long}
    found.annotated("modeldeployment.gpustack.ai/retirement-retry", f"server:5:{long}").retiring("Aborted", "gone", "f", ordinal=5)
    found.pod("f", ordinal=5)
    for number in range(200):
        found.pod(f"p{number:03}", ordinal=0)
    found.pod("far", ordinal="4294967296")
    found.pod("seat", ordinal=1).seat("4294967296", 1)
    found.workload("p000", QuotaReserved=f"False:Pending:{long}")
    assert refusals(found.document()[0], status_document(found.judge())) == []
