"""What may change around a handed case without changing its status: order, the calendar, strangers, a name."""

import copy
import json
import random
import re
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from api import keys
from api.status import encode_status
from controller.dump import snapshots
from controller.status.judge import judge

CASES = [json.loads(line) for line in (Path(__file__).parent / "cases" / "status.jsonl").read_text().splitlines() if line.strip()]
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
# Lists of a dump that are sets to whoever reads them.
SETS = {
    "admissionChecks", "cacheOperations", "conditions", "containerStatuses", "containers", "drain", "finalizers", "forward", "missing",
    "ownerReferences", "podSetAssignments", "reads", "replacing", "routerViews", "workers",
}  # fmt: skip


def status(text: str) -> str:
    """The status of the first deployment of an input line."""
    line = json.loads(text)
    return encode_status(judge(snapshots(line["objects"], line["now"])[0])).decode()


def shuffled(value: Any, order: random.Random, name: str = "") -> Any:
    """The value with its members, and its lists that are sets, in another order."""
    if isinstance(value, dict):
        return {key: shuffled(value[key], order, key) for key in order.sample(list(value), len(value))}
    if isinstance(value, list):
        found = [shuffled(item, order) for item in value]
        return order.sample(found, len(found)) if name in SETS else found
    return value


def in_another_order(text: str) -> str:
    """Objects, members and sets, shuffled."""
    line, order = json.loads(text), random.Random(7)
    found = [shuffled(item, order) for item in line["objects"]]
    return json.dumps({"now": line["now"], "objects": order.sample(found, len(found))})


def at_another_time(text: str, days: int = 400) -> str:
    """Every instant moved alike."""
    return TIME.sub(lambda m: (datetime.fromisoformat(m[0]) + timedelta(days=days)).strftime("%Y-%m-%dT%H:%M:%SZ"), text)


def among_strangers(text: str) -> str:
    """Pods of the same labels and another owner, Workloads that claim none of ours, the same objects of another namespace, noise."""
    line = json.loads(text)
    strangers = []
    for item in line["objects"]:
        metadata = item["metadata"]
        twin = copy.deepcopy(item)
        if "namespace" in metadata and item["kind"] != "Observations":
            twin["metadata"] |= {"namespace": "elsewhere", "uid": f"twin-{metadata.get('uid')}"}
            strangers.append(twin)
        stranger = copy.deepcopy(item)
        if item["kind"] in {"Pod", "Workload"} and keys.ROUTER not in metadata.get("labels", {}):
            owners = [{**owner, "uid": f"not-{owner['uid']}"} for owner in metadata.get("ownerReferences", [])]
            stranger["metadata"] |= {"name": f"a-{metadata['name']}", "uid": f"not-{metadata['uid']}", "ownerReferences": owners}
            strangers.append(stranger)
        metadata |= {"resourceVersion": "77", "managedFields": [{"manager": "somebody"}], "selfLink": "/x"}
    return json.dumps({"now": line["now"], "objects": [*line["objects"], *strangers]})


# How to change a case, how to change its status back, and which cases: a tenth of them each, to be quick.
RELATIONS: dict[str, tuple[Callable[[str], str], Callable[[str], str], list[dict[str, Any]]]] = {
    "in another order": (in_another_order, str, CASES[::10]),
    "at another time": (at_another_time, lambda text: at_another_time(text, -400), CASES[3::10]),
    "among strangers": (among_strangers, str, CASES[6::10]),
}


@pytest.mark.parametrize("relation", RELATIONS)
def test_what_means_nothing_changes_nothing(relation: str) -> None:
    """A handed case, changed in what no rule reads, gives the same bytes."""
    change, back, cases = RELATIONS[relation]
    texts = {case["id"]: json.dumps(case["input"]) for case in cases}
    assert [name for name, text in texts.items() if back(status(change(text))) != status(text)] == []
