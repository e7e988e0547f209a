"""The handed behaviour cases that a pure pass can show, by their ids."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from status_builders import PodBuilder, Scene, read_pods, scene

from api import keys
from api.status import encode_status

CASES = Path(__file__).parents[2] / "contract" / "cases" / "behaviour.jsonl"
KNOWN = {json.loads(line)["id"] for line in CASES.read_text().splitlines()}


def leaving(state: str) -> Scene:
    """An operation on the second of two replicas."""
    return scene().replicas("a", "b").router().view("a", "!b").retiring(state, "b")


def quiet() -> None:
    """A second identical pass over a status just written gives the same status: there is nothing to write."""
    found = scene(replicas=2).replicas("a", "b").router().view("a", "b")
    first = found.judge()
    assert encode_status(found.before(**{name: getattr(first, name) for name in first.__struct_fields__}).judge()) == encode_status(first)


def refused() -> None:
    """A replica that cannot be read stays Draining, and the reason says so."""
    operation = leaving("Draining").drained("b", "Refused", "Refused").retirement()
    assert operation.state == "Draining"
    assert "a replica of that kind cannot be read" in operation.reason


def shared() -> None:
    """The Workload also owns a survivor: it is not deleted."""
    found = scene().tap(lambda s: (s.pod("a"), s.pod("b", ordinal=1))).admitted("b", "a").retiring("Deleting", "b").acting()
    assert "deleteWorkload" not in [act.kind for act in found.acts()]


def sole() -> None:
    """The Workload owns the target alone: it is deleted."""
    assert "deleteWorkload" in [act.kind for act in leaving("Deleting").acting().acts()]


def consumed() -> None:
    """First the token and Admitted are persisted, then the annotation is cleared under the resourceVersion."""
    found = scene().replicas("a", "b").annotated(keys.RETIREMENT_RETRY, "server:1:token-a").retiring("Aborted", "b").acting()
    operation = found.retirement()
    assert (operation.state, operation.last_consumed_retry_token) == ("Admitted", "token-a")
    assert "clearRetry" not in [act.kind for act in found.acts()]
    (clear,) = [act for act in found.before(retirement=operation).acts() if act.kind == "clearRetry"]
    assert clear.resource_version == "11"


def absent() -> None:
    """Workloads exist, the setting says absent: none is read."""
    found = scene().replicas("a").absent_kueue()
    assert found.verdict("QuotaReserved") == ("Unknown", "KueueNotInstalled")
    assert found.shown().quota_reserved is None


def same() -> None:
    """One pass twice over the same objects."""
    assert encode_status(leaving("Draining").judge()) == encode_status(leaving("Draining").judge())


def cleared() -> None:
    """The release is observed: the operation is gone from the status in the same pass."""
    assert leaving("Settling").tap(lambda s: (s.pods.pop(1), s.objects.pop(1))).judge().retirement is None


def uncached() -> None:
    """The cache lists the old member, the API server no longer does."""
    found = scene().replicas("a").router().grouped("Eligible", "a")
    assert found.shown_group().state == "Eligible"
    found.membership = read_pods(PodBuilder("server", 0, "successor"))
    assert found.shown_group().state != "Eligible"


BEHAVIOUR: dict[str, Callable[[], None]] = {
    "bh.status-write.second-identical-pass-writes-nothing": quiet,
    "bh.retirement.sglang-decode-member-refused": refused,
    "bh.retirement.shared-workload-survives": shared,
    "bh.retirement.sole-workload-is-deleted": sole,
    "bh.retirement-retry.a-consumed-directive-s-annotation-is-cleared-after-the-token-was-persist-v2": consumed,
    "bh.status-write.kueue-absent-although-the-kind-is-served": absent,
    "bh.status-write.same-input-same-bytes": same,
    "bh.retirement.the-field-is-cleared-with-an-explicit-null": cleared,
    "bh.eligibility-hold.the-retention-is-proved-by-an-uncached-read": uncached,
}


@pytest.mark.parametrize("name", BEHAVIOUR)
def test_behaviour(name: str) -> None:
    """What the case asks of the judgement; what it asks of the controller is tested where it acts."""
    assert name in KNOWN
    BEHAVIOUR[name]()
