"""Pods as replicas: whose they are, whether a replica is whole, what counts as ready, and which Workload speaks for it."""

from collections.abc import Callable

import pytest
from status_builders import Scene, scene

from api.objects import Role
from controller.status.replicas import Shape, decimal


def trio(change: Callable[[Scene], None]) -> Scene:
    """A replica of three Pods, all ready, with one change."""
    found = scene(size=3)
    found.group("server", 0, "a", "b", "c")
    change(found)
    return found


SHAPES: dict[str, tuple[Callable[[Scene], object], Shape]] = {
    "three of three members": (lambda s: None, Shape.COMPLETE),
    "two of three members": (lambda s: s.pods.pop(), Shape.INCOMPLETE),
    "members that disagree on the total": (lambda s: s.pods[1].total(4), Shape.UNREADABLE),
    "a total that is no number": (lambda s: [p.total("three") for p in s.pods], Shape.UNREADABLE),
    "a total of zero": (lambda s: [p.total(0) for p in s.pods], Shape.UNREADABLE),
    "one total in two spellings": (lambda s: s.pods[1].total("03"), Shape.COMPLETE),
    "a seat taken twice": (lambda s: s.pods[1].seat(0, 3), Shape.UNREADABLE),
    "a seat beyond the total": (lambda s: s.pods[2].seat(3, 3), Shape.UNREADABLE),
    "a seat that is no number": (lambda s: s.pods[2].seat("two", 3), Shape.UNREADABLE),
    "only some members claim a seat": (lambda s: s.pods[1].labels.pop("modeldeployment.gpustack.ai/member-index"), Shape.UNREADABLE),
    "no member claims a seat": (lambda s: [p.labels.pop("modeldeployment.gpustack.ai/member-index") for p in s.pods], Shape.UNREADABLE),
    "a departing member is no member": (lambda s: s.pods[2].departing(), Shape.INCOMPLETE),
}


@pytest.mark.parametrize("sentence", SHAPES)
def test_shape(sentence: str) -> None:
    """A replica is judged against the total that its own members declare."""
    change, shape = SHAPES[sentence]
    found = trio(lambda s: (change(s), None)[1])
    assert found.assess().ground.fleet.replicas["server", 0].shape is shape
    assert found.shown().ready == (shape is Shape.COMPLETE)


READY: dict[str, tuple[Callable[[], Scene], int]] = {
    "a one-Pod replica without a total annotation": (lambda: scene().replicas("a").tap(lambda s: s.pods[0].total(None)), 1),
    "a Pod that nobody reported on": (lambda: scene().tap(lambda s: s.pod("a").unreported()), 0),
    "a Pod on its way out though it still reports ready": (lambda: scene().tap(lambda s: s.pod("a").departing()), 0),
    "a Pod of another owner": (lambda: scene().tap(lambda s: s.pod("a").owned_by("other")), 0),
    "a Pod without an owner": (lambda: scene().tap(lambda s: s.pod("a").owned_by(None)), 0),
    "a Pod without an ordinal": (lambda: scene().tap(lambda s: s.pod("a", ordinal=None)), 0),
    "a Pod with a negative ordinal": (lambda: scene().tap(lambda s: s.pod("a", ordinal="-1")), 0),
    "three of four members of two replicas": (
        lambda: scene(replicas=2, size=2).group("server", 0, "a", "b").tap(lambda s: s.pod("c", ordinal=1).seat(0, 2)),
        1,
    ),
    "the spec grew, the running replica is whole by its own total": (lambda: scene(size=4).group("server", 0, "a", "b"), 1),
    "beyond what is declared, while a scale-down waits": (lambda: scene(replicas=1).replicas("a", "b"), 2),
}


@pytest.mark.parametrize("sentence", READY)
def test_ready(sentence: str) -> None:
    """Ready counts whole replicas every member of which reports ready and stays."""
    build, count = READY[sentence]
    assert build().shown().ready == count


def test_a_foreign_workload_does_not_link() -> None:
    """Only a reference to a core Pod of that UID ties a Workload to a replica."""
    found = scene().replicas("a")
    found.objects[0]["metadata"]["ownerReferences"][0] |= {"apiVersion": "example.com/v1"}
    assert found.shown().quota_reserved == 0
    assert found.verdict("QuotaReserved") == ("Unknown", "AdmissionInFlight")


def test_another_kind_of_that_uid_does_not_link() -> None:
    """The reference's kind counts as well as its UID."""
    found = scene().replicas("a")
    found.objects[0]["metadata"]["ownerReferences"][0] |= {"kind": "PodGroup"}
    assert found.shown().quota_reserved == 0


def test_the_first_workload_by_name_wins() -> None:
    """Two Workloads that claim one Pod: the one that sorts first speaks, whatever the list's order."""
    found = scene().tap(lambda s: s.pod("a"))
    found.workload("a", QuotaReserved="True")
    found.workload("a", QuotaReserved="False")
    found.objects[0]["metadata"]["name"], found.objects[1]["metadata"]["name"] = "wl-2", "wl-1"
    assert found.shown().quota_reserved == 0


def test_the_workload_of_any_member_speaks_for_the_replica() -> None:
    """A replica's Workload is that of its first member that has one."""
    found = scene(size=2)
    found.pod("a").seat(0, 2)
    found.pod("b").seat(1, 2)
    assert found.admitted("b").shown().quota_reserved == 1


UNMANAGED: dict[str, tuple[Callable[[Scene], object], bool]] = {
    "the operator built every command": (lambda s: s.replicas("a", "b"), False),
    "one replica of two took over": (lambda s: (s.replicas("a", "b"), s.pods[1].taken_over()), True),
    "a mixed replica is unreadable": (lambda s: (s.group("server", 0, "a", "b"), s.pods[1].taken_over()), False),
    "no engine container": (lambda s: (s.replicas("a"), s.pods[0].taken_over().main.update(name="sidecar")), False),
    "nothing runs": (lambda s: None, False),
    "the replica that took over departs": (lambda s: (s.replicas("a"), s.pods[0].taken_over().departing()), False),
}


@pytest.mark.parametrize("sentence", UNMANAGED)
def test_unmanaged(sentence: str) -> None:
    """The deployed command mode is read from Pods, never from the spec."""
    change, expected = UNMANAGED[sentence]
    found = scene(replicas=2, command=["/bin/serve"])
    change(found)
    assert found.shown().unmanaged is expected


NUMBERS = {"0": 0, "007": 7, "2147483647": 2147483647} | dict.fromkeys(["2147483648", "99999999999", "", "-1", "+1", "1.0", "１"])


@pytest.mark.parametrize("text", NUMBERS)
def test_labels_are_read_as_decimals(text: str) -> None:
    """ASCII digits that fit an int32, and nothing else."""
    assert decimal(text) == NUMBERS[text]
    assert decimal(None) is None


def test_a_readiness_of_another_word_is_no_report() -> None:
    """Neither True nor False: Unknown, also for a word that nobody knows."""
    found = scene(replicas=2).tap(lambda s: (s.pod("a"), s.pod("b", ordinal=1)))
    found.pods[0].conditions["Ready"], found.pods[1].conditions["Ready"] = "Unknown", "Perhaps"
    assert [group.members[0].ready for group in found.shown().groups] == ["Unknown", "Unknown"]


def test_an_unreadable_argument_vector_claims_nothing() -> None:
    """The reading's reason is passed on, and no degree with it."""
    found = scene(extraArgs=["--tensor-parallel-size", "banana"]).shown().parallelism
    assert found is not None
    assert (found.declared, found.source.kind, found.source.complete) == ({}, "Unknown", False)
    assert "banana" in found.source.unreadable_reason


def test_an_unknown_engine_claims_nothing() -> None:
    """No table, no reading, and the rest of the status still stands."""
    status = scene(extraArgs=["-tp", "2"]).engine("Other").replicas("a").judge()
    assert status.phase == "Ready"
    assert status.roles[0].parallelism is not None
    assert status.roles[0].parallelism.source.unreadable_reason == "engine Other is not known"


def test_an_empty_kind_reads_as_server() -> None:
    """A stored role without a kind is a Server everywhere."""
    assert Role(name="r", kind="").effective_kind == "Server"
    assert scene(kind="").judge().role_summary == "0S"
