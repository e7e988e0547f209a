"""What a stored status asks of an actor: labels, deletions with captured UIDs, the retry annotation; nothing before it is persisted."""

from collections.abc import Callable

import pytest
from status_builders import Scene, scene

from api import keys


def leaving(state: str = "Draining", **clocks: float) -> Scene:
    """One replica declared, two running, the second under an operation in that state; a router serves the first."""
    return scene().replicas("a", "b").router().view("a", "!b").retiring(state, "b", **clocks)


def kinds(found: Scene) -> list[tuple[str, str]]:
    """Acts as (kind, UID)."""
    return [(act.kind, act.uid) for act in found.acting().acts()]


def test_reporting_asks_for_nothing() -> None:
    """With act: status the operation is only shown."""
    assert leaving("Deleting").acts() == ()


def test_the_pass_that_admits_deletes_nothing() -> None:
    """A reservation is written first; only the label leaves with it."""
    found = scene().replicas("a", "b").tap(lambda s: [p.eligible_label() for p in s.pods])
    assert kinds(found) == [("unlabel", "b")]


def test_the_pass_that_decides_the_delete_deletes_nothing() -> None:
    """Deleting is persisted before the first deletion."""
    found = leaving().drained("b", "Idle", "Idle").tap(lambda s: s.pods[0].eligible_label())
    assert found.retirement().state == "Deleting"
    assert kinds(found) == []


def test_a_persisted_deletion_names_captured_uids_only() -> None:
    """The captured Pod and its own Workload, each with its UID; a Pod that took its name later is another UID."""
    found = leaving("Deleting").tap(lambda s: s.pods[0].eligible_label()).tap(lambda s: s.pod("b2", ordinal=1).unready())
    assert kinds(found) == [("deletePod", "b"), ("deleteWorkload", "wl-uid-b")]


def test_a_shared_workload_survives() -> None:
    """The Workload is deleted only where it owns no Pod outside the target set."""
    found = scene().tap(lambda s: (s.pod("a").eligible_label(), s.pod("b", ordinal=1))).admitted("b", "a")
    assert kinds(found.retiring("Deleting", "b")) == [("deletePod", "b")]


def test_other_owners_of_a_workload_are_no_pods_of_others() -> None:
    """Only Pods outside the target set keep the Workload."""
    found = leaving("Deleting")
    found.objects[1]["metadata"]["ownerReferences"] += [
        {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "j"},
        {"apiVersion": "x/v1", "kind": "Pod", "name": "p", "uid": "p"},
    ]
    assert ("deleteWorkload", "wl-uid-b") in kinds(found)


def test_a_departing_workload_is_not_deleted_again() -> None:
    """Its deletion was asked for."""
    found = leaving("Deleting")
    found.objects[1]["metadata"]["deletionTimestamp"] = "2026-01-01T00:09:00Z"
    assert "deleteWorkload" not in [kind for kind, _ in kinds(found)]


def test_an_operation_that_ends_asks_for_nothing() -> None:
    """The release was observed: the field clears and there is nothing left to delete."""
    found = leaving("Settling").tap(lambda s: (s.pods[0].eligible_label(), s.pods.pop(1), s.objects.pop(1)))
    assert kinds(found) == []


def test_a_directive_without_an_operation_is_left_alone() -> None:
    """Nothing is stored that it could belong to."""
    assert kinds(scene().replicas("a").annotated(keys.RETIREMENT_RETRY, "server:0:t")) == [("label", "a")]


def test_a_departing_target_is_not_deleted_again() -> None:
    """Its deletion was asked for; the Workload still goes."""
    found = leaving("Deleting").tap(lambda s: (s.pods[0].eligible_label(), s.pods[1].departing()))
    assert kinds(found) == [("deleteWorkload", "wl-uid-b")]


def test_the_retry_annotation_goes_after_its_token_was_stored() -> None:
    """Consuming and clearing are two writes in that order, and a clear carries the resourceVersion."""
    consuming = scene().replicas("a", "b").annotated(keys.RETIREMENT_RETRY, "server:1:t").retiring("Aborted", "b").acting()
    assert "clearRetry" not in [act.kind for act in consuming.acts()]
    stored = consuming.before(retirement=consuming.retirement())
    (clear,) = [act for act in stored.acts() if act.kind == "clearRetry"]
    assert (clear.name, clear.resource_version) == ("qwen", "11")


LABELS: dict[str, tuple[Callable[[], Scene], list[tuple[str, str]]]] = {
    "a qualified replica is labelled": (lambda: scene().replicas("a"), [("label", "a")]),
    "once": (lambda: scene().replicas("a").tap(lambda s: s.pods[0].eligible_label()), []),
    "a failing one loses it": (lambda: scene().replicas("a").tap(lambda s: s.pods[0].eligible_label().unready()), [("unlabel", "a")]),
    "an unknown one keeps it": (lambda: scene().replicas("a").tap(lambda s: s.pods[0].eligible_label().unreported()), []),
    "an unknown one does not gain it": (lambda: scene().replicas("a").tap(lambda s: s.pods[0].unreported()), []),
    "every member of a group": (
        lambda: scene(size=2).group("server", 0, "a", "b").forward("Bound", "a", "b"),
        [("label", "a"), ("label", "b")],
    ),
}


@pytest.mark.parametrize("sentence", LABELS)
def test_labels(sentence: str) -> None:
    """The eligibility label follows decisions, and an unknown criterion is none."""
    build, acts = LABELS[sentence]
    assert kinds(build()) == acts
