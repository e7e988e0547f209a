"""status.retirement as a pure transition: admission, steps, who answers for a replica, and the acts asked for."""

from collections.abc import Callable

import pytest
from retiring import leaving
from status_builders import Scene, ago, scene

from api import keys
from api.status import Retirement

# ------------------------------------------------------------------------------------------------------------ admission

ADMISSIONS: dict[str, tuple[Callable[[], Scene], tuple[str, int, tuple[str, ...]] | None]] = {
    "nothing to remove": (lambda: scene(replicas=2).replicas("a", "b"), None),
    "an ordinal no longer declared": (lambda: scene().replicas("a", "b"), ("server", 1, ("b",))),
    "the lower of two ordinals": (lambda: scene().replicas("a", "b", "c"), ("server", 1, ("b",))),
    "every member of the replica, sorted": (
        lambda: scene(size=2).group("server", 0, "a", "b").group("server", 1, "z", "c"),
        ("server", 1, ("c", "z")),
    ),
    "replicas of zero": (lambda: scene(replicas=0).replicas("a"), ("server", 0, ("a",))),
    "a role that the spec dropped": (lambda: scene().replicas("a").replicas("x", role="gone"), ("gone", 0, ("x",))),
    "a declared role's ordinal before a dropped role": (
        lambda: scene().replicas("a", "b").replicas("x", role="gone"),
        ("server", 1, ("b",)),
    ),
    "the outdated one of two at a position": (
        lambda: scene().replicas("a").tap(lambda s: s.pod("b").hash("0123456789abcdef")),
        ("server", 0, ("b",)),
    ),
    "the whole surplus at once": (
        lambda: scene().replicas("a").tap(lambda s: (s.pod("c").unready(), s.pod("b").unready())),
        ("server", 0, ("b", "c")),
    ),
    "a seat taken twice": (
        lambda: scene(size=2).group("server", 0, "a", "b").tap(lambda s: s.pod("b2").seat(1, 2).unready()),
        ("server", 0, ("b2",)),
    ),
    "a seat beyond the declared total": (
        lambda: scene(size=2).group("server", 0, "a", "b").tap(lambda s: s.pod("c").seat(2, 2)),
        ("server", 0, ("c",)),
    ),
    "members that disagree on the total shed nothing": (
        lambda: scene(size=2).group("server", 0, "a", "b").tap(lambda s: s.pod("c").seat(2, 3)),
        None,
    ),
    "a Pod that ended by itself beside its successor": (lambda: scene().replicas("a").tap(lambda s: s.pod("old").phase("Failed")), None),
    "a replica that ended by itself": (lambda: scene().replicas("a").tap(lambda s: s.pod("b", ordinal=1).phase("Failed")), None),
    "a departing replica": (lambda: scene().replicas("a").tap(lambda s: s.pod("b", ordinal=1).departing()), None),
    "an unseated Pod": (lambda: scene().replicas("a").tap(lambda s: s.pod("b", ordinal=None)), None),
    "an outdated replica that is still declared": (lambda: scene().replicas("a").tap(lambda s: s.pods[0].hash("0" * 16)), None),
    "the workers and the head of an elastic role": (
        lambda: scene(elasticEp={"width": 3}).replicas("m", "w1", "w2").tap(lambda s: s.pod("h", "qwen-elastic-head")),
        None,
    ),
    "a teardown": (lambda: scene().replicas("a", "b").deleting(), None),
    "a member without a UID holds the removal": (lambda: scene().replicas("a").tap(lambda s: s.pod("", ordinal=1)), None),
}


@pytest.mark.parametrize("sentence", ADMISSIONS)
def test_admission(sentence: str) -> None:
    """Exactly the three removals that take declared capacity away start an operation."""
    build, expected = ADMISSIONS[sentence]
    found = build().judge().retirement
    got = None if found is None else (found.role_name, found.replica_ordinal, found.target_member_uids)
    assert got == expected


def test_the_reservation_is_whole() -> None:
    """Generation, Workload, clocks: everything the rest of the operation reads."""
    operation = scene().replicas("a", "b").retirement()
    assert operation == Retirement(
        role_name="server",
        replica_ordinal=1,
        observed_generation=7,
        target_member_uids=("b",),
        target_workload_uid="wl-uid-b",
        state="Admitted",
        reason="Admitted: replicas is 1.",
        started_at=ago(0),
        deadline=ago(-300),
        phase_started_at=ago(0),
    )


def test_a_replica_without_a_workload_is_reserved_with_an_empty_uid() -> None:
    """The field is required and may be empty."""
    found = scene().replicas("a").tap(lambda s: s.pod("b", ordinal=1))
    assert found.retirement().target_workload_uid == ""


# ---------------------------------------------------------------------------------------------------------------- steps

STEPS: dict[str, tuple[Callable[[], Scene], str | None, str]] = {
    "the label is still there": (lambda: leaving("Admitted").tap(lambda s: s.pods[1].eligible_label()), "Admitted", "qwen-b"),
    "the label is gone": (lambda: leaving("Admitted"), "Disqualified", "label"),
    "another replica's label does not block": (lambda: leaving("Admitted").tap(lambda s: s.pods[0].eligible_label()), "Disqualified", ""),
    "no Router selects the target": (lambda: leaving("Disqualified"), "Withdrawing", ""),
    "a Router still selects the target": (
        lambda: scene().replicas("a", "b").router().view("a", "b").retiring("Disqualified", "b"),
        "Disqualified",
        "still selects b",
    ),
    "no view": (lambda: scene().replicas("a", "b").router().retiring("Disqualified", "b"), "Disqualified", "NoRouterView"),
    "a stale view": (
        lambda: scene().replicas("a", "b").router().view("a", age=60).retiring("Disqualified", "b"),
        "Disqualified",
        "RouterViewStale",
    ),
    "views that disagree about another endpoint are complete": (
        lambda: leaving("Disqualified").router_pod("router-b").view("!a", "!b", router="router-b"),
        "Withdrawing",
        "",
    ),
    "views that disagree and have no identity prove nothing": (
        lambda: leaving("Disqualified").view("a", router="").view("a", router="", generation=2),
        "Disqualified",
        "RouterViewsDisagree",
    ),
    "no router at all": (lambda: scene().replicas("a", "b").retiring("Disqualified", "b"), "Disqualified", "No router is declared"),
    "the next pass drains": (lambda: leaving("Withdrawing"), "Draining", ""),
    "two idle reads": (lambda: leaving().drained("b", "Idle", "Idle"), "Deleting", "idle twice"),
    "one idle read": (lambda: leaving().drained("b", "Idle"), "Draining", "idle once"),
    "busy, then idle": (lambda: leaving().drained("b", "Busy", "Idle"), "Draining", ""),
    "idle twice, busy last": (lambda: leaving().drained("b", "Idle", "Idle", "Busy 2 running"), "Draining", "busy (2 running)"),
    "busy before, idle twice since": (lambda: leaving().drained("b", "Busy", "Idle", "Idle"), "Deleting", ""),
    "an error breaks the row": (lambda: leaving().drained("b", "Idle", "Error"), "Draining", "error"),
    "refused": (
        lambda: leaving().drained("b", "Refused", "Refused decode"),
        "Draining",
        "a replica of that kind cannot be read",
    ),
    "not read yet": (leaving, "Draining", "not read yet"),
    "reads from before the drain say nothing": (lambda: leaving(phase=1).drained("b", "Idle", "Idle"), "Draining", ""),
    "a replaced command cannot be read": (
        lambda: leaving().drained("b", "Idle", "Idle").tap(lambda s: s.pods[1].taken_over()),
        "Draining",
        "command is replaced",
    ),
    "a target still stands": (lambda: leaving("Deleting"), "Deleting", "qwen-b"),
    "a target is on its way": (lambda: leaving("Deleting").tap(lambda s: s.pods[1].departing()), "Deleting", "qwen-b"),
    "a target that lost its ordinal still stands": (
        lambda: leaving("Deleting").tap(lambda s: s.pods[1].labels.pop(keys.POD_ORDINAL)),
        "Deleting",
        "qwen-b",
    ),
    "every target is absent": (lambda: leaving("Deleting").tap(lambda s: s.pods.pop(1)), "Settling", ""),
    "quota is still held": (lambda: leaving("Settling").tap(lambda s: s.pods.pop(1)), "Settling", "wl-b still holds quota"),
    "quota is released": (lambda: leaving("Settling").tap(lambda s: (s.pods.pop(1), s.objects.pop(1))), None, ""),
    "the Workload lost its reservation": (
        lambda: leaving("Settling").tap(lambda s: (s.pods.pop(1), s.objects[1]["status"]["conditions"][0].update(status="False"))),
        None,
        "",
    ),
    "without Kueue there is no quota to wait for": (
        lambda: leaving("Settling").tap(lambda s: s.pods.pop(1)).absent_kueue(),
        None,
        "",
    ),
    "a state of another release is left alone": (lambda: leaving("Pondering"), "Pondering", ""),
    "Completed is never kept": (lambda: leaving("Completed"), None, ""),
}


@pytest.mark.parametrize("sentence", STEPS)
def test_step(sentence: str) -> None:
    """At most one step a pass, and a hold says what it waits for."""
    build, state, text = STEPS[sentence]
    found = build().judge().retirement
    assert (found.state if found else None) == state
    assert text in (found.reason if found else "")


def test_the_leader_answers_for_a_replica_of_several_pods() -> None:
    """Member 0 alone is read; the deletion covers all."""
    found = scene(size=2).group("server", 0, "a", "b").group("server", 1, "c", "d").retiring("Draining", "c", "d")
    assert found.drained("c", "Idle", "Idle").retirement().state == "Deleting"


def test_every_member_answers_where_each_serves_requests() -> None:
    """Under an external balance every member has its own front door."""
    found = scene(size=2, extraArgs=["--data-parallel-external-lb", "--data-parallel-size", "2"])
    found.group("server", 0, "a", "b").group("server", 1, "c", "d").retiring("Draining", "c", "d").drained("c", "Idle", "Idle")
    assert found.retirement().state == "Draining"
    assert found.drained("d", "Idle", "Idle").retirement().state == "Deleting"


def test_what_was_deployed_says_who_answers() -> None:
    """The spec may have dropped the flag, or the whole role, since the replica was rendered: its members still serve each for itself."""
    for role in ("server", "gone"):
        found = scene(size=2).group("server", 0, "a", "b").group(role, 1, "c", "d").retiring("Draining", "c", "d", role=role)
        for pod in found.pods[2:]:
            pod.main["args"] = ["--host", "0.0.0.0", "--data-parallel-hybrid-lb"]
        assert found.drained("c", "Idle", "Idle").retirement().state == "Draining"
        assert found.drained("d", "Idle", "Idle").retirement().state == "Deleting"


def test_reads_are_taken_in_the_order_of_their_times() -> None:
    """Whatever order they are listed in: the busy one was the last."""
    found = leaving().drained("b", "Idle", "Idle", "Busy")
    found.observations["drain"][0]["reads"].reverse()
    assert found.retirement().state == "Draining"


def test_a_read_without_a_time_says_nothing() -> None:
    """Nobody knows whether it was of this drain."""
    found = leaving().drained("b", "Idle", "Idle")
    del found.observations["drain"][0]["reads"][0]["at"]
    assert "idle once" in found.retirement().reason


def test_a_target_that_ended_by_itself_is_not_asked() -> None:
    """Of a surplus that is shed at once, those that still run answer."""
    found = scene().replicas("a").tap(lambda s: (s.pod("c"), s.pod("d").phase("Failed"))).retiring("Draining", "c", "d", ordinal=0)
    assert found.drained("c", "Idle", "Idle").retirement().state == "Deleting"


def test_a_read_at_the_very_start_of_the_drain_counts() -> None:
    """Only reads from before it say nothing."""
    assert leaving(phase=2).drained("b", "Idle", "Idle").retirement().state == "Deleting"


def test_an_unknown_engine_does_not_stop_an_operation() -> None:
    """Its arguments are not read; the replica answers for itself."""
    assert leaving().engine("Other").drained("b", "Idle", "Idle").retirement().state == "Deleting"


def test_without_a_leader_nobody_can_be_asked() -> None:
    """The answering member cannot be named."""
    found = scene(size=2).group("server", 0, "a", "b").tap(lambda s: s.pod("d", ordinal=1).seat(1, 2)).retiring("Draining", "c", "d")
    assert "cannot be named" in found.drained("d", "Idle", "Idle").retirement().reason
