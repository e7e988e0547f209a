"""status.retirement as a pure transition: admission, steps, clocks, refusals, adoption, the retry directive, and the acts asked for."""

from collections.abc import Callable

import msgspec
import pytest
from status_builders import Scene, ago, scene

from api import keys
from api.status import Retirement


def leaving(state: str = "Draining", **clocks: float) -> Scene:
    """One replica declared, two running, the second under an operation in that state; a router serves the first."""
    return scene().replicas("a", "b").router().view("a", "!b").retiring(state, "b", **clocks)


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


# --------------------------------------------------------------------------------------------------------------- clocks

CLOCKS: dict[str, tuple[str, float, float, str]] = {
    "the withdrawal with a second left": ("Disqualified", 29, 29, "Disqualified"),
    "the withdrawal exactly spent": ("Disqualified", 30, 30, "Aborted"),
    "the withdrawal's steps share one clock": ("Withdrawing", 30, 30, "Aborted"),
    "an admission that never lost its label": ("Admitted", 30, 30, "Aborted"),
    "the drain with a second left": ("Draining", 259, 239, "Draining"),
    "the drain exactly spent": ("Draining", 260, 240, "Aborted"),
    "the total before the drain's own budget": ("Draining", 300, 200, "Aborted"),
    "from Deleting on it is never aborted": ("Deleting", 900, 800, "Deleting"),
    "a late settling is only reported": ("Settling", 900, 800, "Settling"),
    "a settling exactly at its end is late": ("Settling", 100, 30, "Settling"),
    "a settling in time": ("Settling", 100, 29, "Settling"),
}


@pytest.mark.parametrize("sentence", CLOCKS)
def test_budget(sentence: str) -> None:
    """A phase ends at the earlier of its budget and the deadline, and exactly at the end is spent."""
    state, started, phase, expected = CLOCKS[sentence]
    found = scene().replicas("a", "b").router().view("a", "b").retiring(state, "b", started=started, phase=phase)
    if state == "Admitted":
        found.pods[1].eligible_label()
    if state == "Settling":
        found.pods.pop(1)
    operation = found.retirement()
    assert operation.state == expected
    assert (operation.started_at, operation.phase_started_at) == (ago(started), ago(phase) if expected in (state, "Aborted") else ago(0))
    if expected == "Aborted":
        assert operation.deadline == ago(0)
        assert "retained" in operation.reason
    if state == "Settling":
        assert ("past its budget" in operation.reason) == (phase >= 30)


def test_an_aborted_drain_names_the_drain() -> None:
    """The reason names the step that ran out."""
    assert "drain" in leaving(started=260, phase=240).drained("b", "Busy").retirement().reason


def test_an_abort_tells_the_step_s_budget_from_the_total() -> None:
    """Two clocks, two sentences."""
    assert "the drain's budget of 240 s" in leaving(started=260, phase=240).retirement().reason
    assert "total budget" in leaving(started=300, phase=200).retirement().reason


def test_the_drain_s_success_on_its_last_second() -> None:
    """The transition still happens while a second is left."""
    assert leaving(started=260, phase=239).drained("b", "Idle", "Idle").retirement().state == "Deleting"


@pytest.mark.parametrize("state", ["Admitted", "Disqualified", "Withdrawing", "Draining"])
def test_targets_that_ended_by_themselves_end_the_operation(state: str) -> None:
    """Gone or terminal: aborted, and nothing is held."""
    gone = leaving(state).tap(lambda s: s.pods.pop(1)).retirement()
    ended = leaving(state).tap(lambda s: s.pods[1].phase("Succeeded")).retirement()
    assert gone.state == ended.state == "Aborted"
    assert "nothing is held" in gone.reason


def test_a_clock_that_cannot_be_read_is_spent() -> None:
    """Capacity is retained rather than an operation let run for ever."""
    found = leaving()
    assert found.previous is not None
    assert found.previous.retirement is not None
    found.before(retirement=msgspec.structs.replace(found.previous.retirement, phase_started_at="then"))
    assert found.retirement().state == "Aborted"


# ------------------------------------------------------------------------------------------- refusal, adoption, release


def test_a_second_removal_is_refused_and_named() -> None:
    """One operation at a time: the reason names who waits behind it, once however often it is judged."""
    found = scene().replicas("a", "b", "c").router().view("a", "!b", "c").retiring("Draining", "b").drained("b", "Busy")
    operation = found.retirement()
    assert (operation.target_member_uids, operation.state) == (("b",), "Draining")
    assert "server ordinal 2" in operation.reason
    assert found.before(retirement=operation).retirement() == operation


@pytest.mark.parametrize("state", ["Deleting", "Settling"])
def test_removals_wait_for_the_end_of_a_deletion(state: str) -> None:
    """Also when no target is left, until the release is observed."""
    found = scene().replicas("a", "b", "c").retiring(state, "b").tap(lambda s: s.pods.pop(1))
    assert "server ordinal 2" in found.retirement().reason


def test_a_retained_operation_refuses_too() -> None:
    """Aborted is retained capacity: the hold stays, and later removals wait."""
    found = scene().replicas("a", "b", "c").retiring("Aborted", "b", started=900, phase=890)
    operation = found.retirement()
    assert (operation.state, operation.target_member_uids) == ("Aborted", ("b",))
    assert "server ordinal 2" in operation.reason
    assert found.before(retirement=operation).retirement() == operation


AFTERWARDS: dict[str, tuple[Callable[[], Scene], str | None, tuple[str, ...]]] = {
    "released by its members' end, a new removal enters": (
        lambda: scene().replicas("a", "b").retiring("Aborted", "gone", ordinal=2),
        "Admitted",
        ("b",),
    ),
    "released, nothing to remove: the record stays": (lambda: scene().replicas("a").retiring("Aborted", "gone"), "Aborted", ("gone",)),
    "released, and the position is declared again": (lambda: scene(replicas=2).replicas("a", "b").retiring("Aborted", "gone"), None, ()),
    "adopted: declared again, the same members, all well": (
        lambda: scene(replicas=2).replicas("a", "b").retiring("Aborted", "b"),
        None,
        (),
    ),
    "not adopted while a member is unready": (
        lambda: scene(replicas=2).replicas("a", "b").tap(lambda s: s.pods[1].unready()).retiring("Aborted", "b"),
        "Aborted",
        ("b",),
    ),
    "not adopted while a criterion is unknown": (
        lambda: scene(replicas=2, size=2).group("server", 0, "a", "b").group("server", 1, "c", "d").retiring("Aborted", "c", "d"),
        "Aborted",
        ("c", "d"),
    ),
    "not adopted with another member set": (
        lambda: (
            scene(replicas=2, size=2)
            .group("server", 0, "a", "b")
            .group("server", 1, "c", "e")
            .forward("Bound", "c", "e")
            .retiring("Aborted", "c", "d")
        ),
        "Aborted",
        ("c", "d"),
    ),
    "not adopted while the position is not declared": (lambda: scene().replicas("a", "b").retiring("Aborted", "b"), "Aborted", ("b",)),
    "a teardown leaves it alone": (lambda: scene().replicas("a", "b").retiring("Draining", "b").deleting(), "Draining", ("b",)),
}


@pytest.mark.parametrize("sentence", AFTERWARDS)
def test_after_an_abort(sentence: str) -> None:
    """What ends a retained operation: its members' end, adoption, or a person's directive; never time."""
    build, state, uids = AFTERWARDS[sentence]
    found = build().judge().retirement
    assert ((found.state, found.target_member_uids) if found else (None, ())) == (state, uids)


# ------------------------------------------------------------------------------------------------------ retry directive

RETRIES: dict[str, tuple[str, str, str, str, str]] = {
    "a new token on a retained operation": ("server:1:t2", "Aborted", "t1", "Admitted", "t2"),
    "the first token": ("server:1:t1", "Aborted", "", "Admitted", "t1"),
    "a token already consumed": ("server:1:t1", "Aborted", "t1", "Aborted", "t1"),
    "another role": ("other:1:t2", "Aborted", "t1", "Aborted", "t1"),
    "another ordinal": ("server:2:t2", "Aborted", "t1", "Aborted", "t1"),
    "two parts": ("server:1", "Aborted", "t1", "Aborted", "t1"),
    "four parts": ("server:1:t2:x", "Aborted", "t1", "Aborted", "t1"),
    "an empty token": ("server:1:", "Aborted", "t1", "Aborted", "t1"),
    "an empty role": (":1:t2", "Aborted", "t1", "Aborted", "t1"),
    "a signed ordinal": ("server:+1:t2", "Aborted", "t1", "Aborted", "t1"),
    "an ordinal in other digits": ("server:１:t2", "Aborted", "t1", "Aborted", "t1"),
    "while draining": ("server:1:t2", "Draining", "t1", "Draining", "t1"),
    "while deleting": ("server:1:t2", "Deleting", "t1", "Deleting", "t1"),
}


@pytest.mark.parametrize("sentence", RETRIES)
def test_retry(sentence: str) -> None:
    """Exactly three parts for exactly this position, consumed once and only from Aborted."""
    text, state, consumed, expected, token = RETRIES[sentence]
    found = scene().replicas("a", "b").annotated(keys.RETIREMENT_RETRY, text)
    operation = found.retiring(state, "b", started=60, phase=30, token=consumed).retirement()
    assert (operation.state, operation.last_consumed_retry_token) == (expected, token)
    if state != expected:
        assert (operation.started_at, operation.phase_started_at, operation.deadline) == (ago(0), ago(0), ago(-300))


@pytest.mark.parametrize("clock", ["9999-12-31T23:59:59Z", "0001-01-01T00:00:00+14:00"])
def test_a_clock_at_the_calendar_s_end_is_no_crash(clock: str) -> None:
    """Whoever edited the status by hand: the deadline still ends the phase, and an instant outside the calendar counts as spent."""
    found = scene().router().replicas("a", "b").view("a").retiring("Draining", "b", started=299)
    assert found.previous is not None
    assert found.previous.retirement is not None
    found.before(retirement=msgspec.structs.replace(found.previous.retirement, phase_started_at=clock))
    assert found.retirement().state == ("Draining" if clock.startswith("9") else "Aborted")
