"""How an operation on a replica ends or does not: its clocks, what an abort leaves, and what a retry directive brings."""

from collections.abc import Callable

import msgspec
import pytest
from retiring import leaving
from status_builders import Scene, ago, scene

from api import keys

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
