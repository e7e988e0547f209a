"""The handed acceptance cases of `mdctl status`: each holds, and each holds in the same bytes twice."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from api import reasons
from api.status import decode_status, encode_status
from controller.dump import snapshots
from controller.snapshot import Snapshot
from controller.status.judge import judge

CASES = [json.loads(line) for line in (Path(__file__).parent / "cases" / "status.jsonl").read_text().splitlines() if line.strip()]
PART = re.compile(r"""\.?(?P<name>[\w$-]+)|\[(?P<index>\d+)\]|\["(?P<quoted>[^"]+)"\]|\[(?P<key>\w+)=(?P<value>[^\]]*)\]""")
CONDITION = re.compile(r"[A-Z][A-Za-z]+")


def at(document: Any, path: str) -> Any:
    """The value at a dotted path; None where there is none."""
    position = 0
    while position < len(path):
        step = PART.match(path, position)
        assert step is not None, f"a path of another form: {path}"
        position = step.end()
        document = taken(document, step)
    return document


def taken(document: Any, step: re.Match[str]) -> Any:
    """One step down."""
    if step["index"] is not None:
        place = int(step["index"])
        return document[place] if isinstance(document, list) and place < len(document) else None
    if step["key"] is not None:
        items = document if isinstance(document, list) else []
        return next((item for item in items if str(item.get(step["key"])) == step["value"]), None)
    return document.get(step["name"] or step["quoted"]) if isinstance(document, dict) else None


def present(value: Any) -> Any:
    """The value without null members."""
    if isinstance(value, dict):
        return {key: present(item) for key, item in value.items() if item is not None}
    return [present(item) for item in value] if isinstance(value, list) else value


def differences(status: dict[str, Any], expect: dict[str, Any]) -> Iterator[str]:
    """Everything that the status does not say as expected."""
    conditions = {condition["type"]: condition for condition in status.get("conditions", [])}

    def said(key: str) -> str:
        value = conditions.get(key, {}).get("message") if CONDITION.fullmatch(key) else at(status, key)
        return value if isinstance(value, str) else json.dumps(value, sort_keys=True)

    for kind, wanted in expect.get("conditions", {}).items():
        got = conditions.get(kind, {})
        if any(got.get(field) != value for field, value in wanted.items()):
            yield f"{kind} is {got}, not {wanted}"
    for path, wanted in expect.get("equal", {}).items():
        got = present(at(status, path))
        if got != wanted or type(got) is not type(wanted):
            yield f"{path} is {got!r}, not {wanted!r}"
    for path in expect.get("absent", []):
        if at(status, path) is not None:
            yield f"{path} is {at(status, path)!r}, not absent"
    for first, second in expect.get("same", []):
        if not at(status, first) or at(status, first) != at(status, second):
            yield f"{first} and {second} differ"
    for key, texts in expect.get("mentions", {}).items():
        yield from (f"{key} lacks {text!r}: {said(key)}" for text in texts if text.lower() not in said(key).lower())
    for key, texts in expect.get("omits", {}).items():
        yield from (f"{key} has {text!r}: {said(key)}" for text in texts if text.lower() in said(key).lower())


def snapshot_of(case: dict[str, Any]) -> Snapshot:
    """The case's one deployment."""
    (snapshot,) = snapshots(case["input"]["objects"], case["input"]["now"])
    return snapshot


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_case(case: dict[str, Any]) -> None:
    """A dump and a clock give the status that the contract asks for."""
    status = json.loads(encode_status(judge(snapshot_of(case))))
    assert list(differences(status, case["expect"])) == [], case["name"]


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_case_keeps_the_rules_of_every_status(case: dict[str, Any]) -> None:
    """Same input, same bytes; every condition is there, of the vocabulary, bounded; a second pass over the written status is quiet."""
    snapshot = snapshot_of(case)
    status = judge(snapshot)
    written = encode_status(status)
    assert encode_status(judge(snapshot_of(case))) == written
    assert decode_status(written) == status
    for condition in status.conditions:
        row = reasons.find(condition.type, condition.reason)
        assert row is not None, condition
        assert row.status == condition.status, condition
        assert len(condition.message.encode()) <= 1024
        assert condition.last_transition_time is not None
    elastic = any(role.elastic_ep for role in snapshot.deployment.spec.roles)
    assert {c.type for c in status.conditions} == set(reasons.TYPES) - (set() if elastic else {reasons.ELASTIC_RESIZE})
    if status.retirement is None and snapshot.previous is None:
        again = judge(msgspec.structs.replace(snapshot, previous=status))
        assert encode_status(again) == written
