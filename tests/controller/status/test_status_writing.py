"""What is written: times that move only with a verdict, other writers' conditions, encodings, and bytes that depend on facts alone."""

import json
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from status_builders import Scene, ago, scene

from api import reasons
from api.status import (
    Condition,
    Endpoints,
    Group,
    ParallelismStatus,
    Retirement,
    RoleStatus,
    Serving,
    Status,
    decode_status,
    encode_status,
    status_document,
)
from controller.status.judge import judge
from controller.status.text import bounded
from controller.status.verdict import verdict

ROOT = Path(__file__).parents[3]


def full() -> Scene:
    """A scene in which every field says something."""
    found = scene(replicas=2, extraArgs=["-tp", "2"]).cache(blocks=1).artifact().router().replicas("a", "b", "c")
    return found.view("a", "b").forward("Bound", "a")


def test_a_second_pass_over_its_own_status_writes_nothing() -> None:
    """Re-observing the same facts later gives the same bytes: neither times nor messages hold a clock."""
    first = full().before().judge()
    found = full().before(**{f: getattr(first, f) for f in Status.__struct_fields__ if f != "retirement"})
    later = msgspec.structs.replace(found.snapshot(), now=found.snapshot().now.replace(second=9))
    assert encode_status(msgspec.structs.replace(judge(later), retirement=None)) == encode_status(
        msgspec.structs.replace(first, retirement=None)
    )


def test_the_transition_time_moves_only_with_the_status() -> None:
    """Another reason or message leaves it; another status moves it."""
    waiting = scene(replicas=2).tap(lambda s: s.pod("a")).workload("a", QuotaReserved="False")
    assert waiting.stood("QuotaReserved", "False", "Pending").condition("QuotaReserved").last_transition_time == ago(600)
    assert scene().replicas("a").stood("QuotaReserved", "False", "Pending").condition("QuotaReserved").last_transition_time == ago(0)


def test_every_condition_carries_the_generation() -> None:
    """observedGeneration at the top and in every condition of the pass."""
    status = full().judge()
    assert status.observed_generation == 7
    assert {condition.observed_generation for condition in status.conditions} == {7}


def test_conditions_of_other_writers_are_kept() -> None:
    """An unknown type stands behind ours, untouched."""
    foreign = Condition("AcmeAudited", "True", "Fine", "by acme", ago(99), 2)
    conditions = scene().before(conditions=(foreign,)).judge().conditions
    assert conditions[-1] == foreign
    assert [c.type for c in conditions[:-1]] == [t for t in reasons.TYPES if t != "ElasticResize"]


def test_a_teardown_does_not_look_at_the_binding() -> None:
    """DomainRegistered and kvCache stay as they were, times and generation included."""
    found = scene().cache(None).deleting().stood("DomainRegistered", "True", "Registered", message="binding b")
    assert found.previous is not None
    assert found.condition("DomainRegistered") == found.previous.conditions[0]


def test_a_teardown_answers_for_everything_else() -> None:
    """Only what it did not look at stands; the other conditions and the published cache follow their own rules."""
    published = scene().cache().judge().kv_cache
    found = scene().replicas("a").cache().deleting().stood("QuotaReserved", "False", "Pending").before(kv_cache=published)
    found.objects[-2]["spec"]["poolRef"]["name"] = "another-pool"
    assert found.verdict("QuotaReserved") == ("True", "Reserved")
    assert found.condition("QuotaReserved").last_transition_time == ago(0)
    assert found.judge().kv_cache == published


def test_a_teardown_publishes_no_cache_that_was_never_registered() -> None:
    """The condition says that the Binding was not there: the cache is not published beside it, though it is there by now."""
    found = scene().cache().deleting().stood("DomainRegistered", "False", "BindingNotFound")
    assert found.verdict("DomainRegistered") == ("False", "BindingNotFound")
    assert found.judge().kv_cache is None


def test_a_first_teardown_publishes_what_it_finds() -> None:
    """Nothing was published before: the Binding that resolves is."""
    assert scene().cache().deleting().judge().kv_cache == scene().cache().judge().kv_cache


def test_a_declared_cache_that_never_resolved_is_false_in_a_first_teardown() -> None:
    """With nothing stored the condition is still set."""
    assert scene().cache(None).deleting().verdict("DomainRegistered") == ("False", "BindingNotFound")


def test_bytes_do_not_depend_on_the_hash_seed() -> None:
    """Two processes with different seeds write the same line."""
    line = json.dumps({"objects": full().document(), "now": ago(0)}).encode() + b"\n"
    command = [sys.executable, "-m", "app.cli", "status", "--jsonl"]
    written = [
        subprocess.run(command, input=line, capture_output=True, check=True, cwd=ROOT, env=os.environ | {"PYTHONHASHSEED": seed}).stdout
        for seed in ("1", "2")
    ]
    assert written[0] == written[1]
    assert b"deployments" in written[0]


def test_lists_in_another_order_give_the_same_bytes() -> None:
    """No verdict depends on the order in which objects were listed."""
    snapshot = full().snapshot()
    turned = msgspec.structs.replace(snapshot, pods=snapshot.pods[::-1], workloads=snapshot.workloads[::-1])
    assert encode_status(judge(turned)) == encode_status(judge(snapshot))


ENCODED = {
    "a role's numbers and flags are always there": (
        RoleStatus("r"),
        {"name": "r", "kind": "", "desired": 0, "ready": 0, "unmanaged": False},
    ),
    "an observed zero of quota": (RoleStatus("r", quota_reserved=0).quota_reserved, 0),
    "an unknown count is absent, a zero is not": (
        Endpoints(eligible=0, serving=Serving("Confirmed", 0)),
        {"eligible": 0, "serving": {"state": "Confirmed", "value": 0}},
    ),
    "nothing observed": (Endpoints(), {"serving": {"state": ""}}),
    "ordinal zero of an operation": (Retirement(role_name="r").replica_ordinal, 0),
    "an empty Workload UID": (Retirement().target_workload_uid, ""),
    "ordinal zero of a group": (Group(state="Unknown"), {"ordinal": 0, "generation": "", "state": "Unknown", "reason": "", "message": ""}),
    "an unread source": (ParallelismStatus(load_balance="Unknown"), {"loadBalance": "Unknown", "source": {"kind": "", "complete": False}}),
    "nothing at all": (Status(), {"roleSummary": ""}),
}


@pytest.mark.parametrize("sentence", ENCODED)
def test_encoding(sentence: str) -> None:
    """What is always encoded, and what is absent when it says nothing."""
    value, expected = ENCODED[sentence]
    assert msgspec.to_builtins(value) == expected


def test_the_operation_s_zeros_are_on_the_wire() -> None:
    """replicaOrdinal 0 and the empty UID are real values."""
    document = status_document(Status(retirement=Retirement(role_name="r")))
    assert document["retirement"]["replicaOrdinal"] == 0
    assert document["retirement"]["targetWorkloadUID"] == ""


def test_a_stored_status_round_trips() -> None:
    """Decoding what was encoded gives the same status."""
    status = full().judge()
    assert decode_status(encode_status(status)) == status
    assert decode_status(status_document(status)) == status


STORED = {
    "nothing": (b"null", None),
    "no bytes": (b"", None),
    "no object": (b"[1]", None),
    "unknown fields": (b'{"phase":"Ready","future":{"x":1}}', Status(phase="Ready")),
    "a part of another shape": (b'{"phase":"Ready","endpoint":7,"observedGeneration":3}', Status(phase="Ready", observed_generation=3)),
    "one bad item of a list": (
        b'{"conditions":[{"type":"A","status":"True"},{"type":7},{"type":"B","status":"False"}]}',
        Status(conditions=(Condition("A", "True"), Condition("B", "False"))),
    ),
    "a list of another shape": (b'{"phase":"Ready","roles":{}}', Status(phase="Ready")),
    "null members": (b'{"phase":"Ready","router":null,"retirement":null,"endpoint":1}', Status(phase="Ready")),
}


@pytest.mark.parametrize("sentence", STORED)
def test_decoding_is_lenient(sentence: str) -> None:
    """A part that cannot be read was never written; the rest counts."""
    raw, expected = STORED[sentence]
    assert decode_status(raw) == expected


def test_messages_are_bounded_at_a_character() -> None:
    """At most 1 KiB of UTF-8, never a broken character."""
    text = bounded("é" * 3000)
    assert len(text.encode()) <= 1024
    assert text.endswith("…")
    assert bounded("short") == "short"
    assert len(verdict("QuotaReserved", "Pending", "x" * 5000).message.encode()) <= 1024


def test_a_large_deployment_s_messages_stay_bounded() -> None:
    """Names of hundreds of Pods do not make a status that the API server refuses."""
    found = scene(replicas=300).replicas(*(f"pod-with-a-long-name-{i:04}" for i in range(300))).tap(lambda s: [p.unready() for p in s.pods])
    status = found.judge()
    assert max(len(condition.message.encode()) for condition in status.conditions) <= 1024
    assert len(encode_status(status)) < 200_000


def test_a_reason_outside_the_vocabulary_cannot_be_written() -> None:
    """Status and reason come from one table."""
    with pytest.raises(KeyError):
        verdict("QuotaReserved", "Whatever", "")
