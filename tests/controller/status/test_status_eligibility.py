"""The five criteria, endpoints.eligible and EndpointEligibility."""

from collections.abc import Callable

import pytest
from status_builders import Scene, scene

from api import keys

CRITERIA: dict[str, tuple[Callable[[], Scene], int | None, tuple[str, str]]] = {
    "a ready replica of one Pod": (lambda: scene().replicas("a"), 1, ("True", "Qualified")),
    "an unready one is an observed zero": (lambda: scene().replicas("a").tap(lambda s: s.pods[0].unready()), 0, ("False", "Revoked")),
    "nobody reported": (lambda: scene().replicas("a").tap(lambda s: s.pods[0].unreported()), None, ("Unknown", "NotObserved")),
    "nothing runs": (scene, None, ("Unknown", "NotObserved")),
    "one reported, one not": (
        lambda: scene(replicas=2).replicas("a", "b").tap(lambda s: s.pods[1].unreported()),
        None,
        ("Unknown", "HeldUnverified"),
    ),
    "a pair whose path was not asked": (lambda: scene(size=2).group("server", 0, "a", "b"), None, ("Unknown", "HeldUnverified")),
    "a pair whose path carried a request": (
        lambda: scene(size=2).group("server", 0, "a", "b").forward("Bound", "a", "b"),
        1,
        ("True", "Qualified"),
    ),
    "a pair of which one member answered": (
        lambda: scene(size=2).group("server", 0, "a", "b").forward("Bound", "a"),
        None,
        ("Unknown", "HeldUnverified"),
    ),
    "a pair whose path failed": (
        lambda: scene(size=2).group("server", 0, "a", "b").forward("Bound", "a").forward("Failed", "b"),
        0,
        ("False", "Revoked"),
    ),
    "no answer is no failure": (
        lambda: scene(size=2).group("server", 0, "a", "b").forward("Unanswered", "a", "b"),
        None,
        ("Unknown", "HeldUnverified"),
    ),
    "a release whose probe was never proved": (
        lambda: scene(size=2).engine("vLLM", "0.33.0").group("server", 0, "a", "b").forward("Bound", "a", "b"),
        None,
        ("Unknown", "Unsupported"),
    ),
    "a version that is not declared": (
        lambda: scene(size=2).engine("vLLM").group("server", 0, "a", "b").forward("Bound", "a", "b"),
        None,
        ("Unknown", "Unsupported"),
    ),
    "a decode pair": (
        lambda: scene(size=2, kind="Decode").group("server", 0, "a", "b").forward("Bound", "a", "b"),
        None,
        ("Unknown", "Unsupported"),
    ),
    "one Pod of any kind has no group path": (lambda: scene(kind="Decode").engine("SGLang", "9").replicas("a"), 1, ("True", "Qualified")),
    "a pair that took over": (
        lambda: scene(size=2).group("server", 0, "a", "b").tap(lambda s: [p.taken_over() for p in s.pods]).forward("Bound", "a", "b"),
        None,
        ("Unknown", "Unsupported"),
    ),
    "a member is missing": (lambda: scene(size=2).tap(lambda s: s.pod("a").seat(0, 2)), 0, ("False", "Revoked")),
    "failure wins over the unknown": (
        lambda: scene(size=2).group("server", 0, "a", "b").tap(lambda s: s.pods[0].unready()),
        0,
        ("False", "Revoked"),
    ),
    "a member unreported beside a ready one": (
        lambda: scene(size=2).group("server", 0, "a", "b").tap(lambda s: s.pods[0].unreported()).forward("Bound", "a", "b"),
        None,
        ("Unknown", "HeldUnverified"),
    ),
    "an unreadable set is no fault": (
        lambda: scene(size=2).group("server", 0, "a", "b").tap(lambda s: s.pods[0].total(3)).forward("Bound", "a", "b"),
        None,
        ("Unknown", "HeldUnverified"),
    ),
    "a replica being replaced": (
        lambda: scene().replicas("a").rollout(replacing=[{"role": "server", "ordinal": 0}]),
        0,
        ("False", "Revoked"),
    ),
    "a replica held by a retained operation": (
        lambda: scene().replicas("a", "b").retiring("Aborted", "b"),
        1,
        ("False", "Revoked"),
    ),
    "a lost router view takes nothing away": (lambda: scene(replicas=2).replicas("a", "b").router(), 2, ("True", "Qualified")),
}


@pytest.mark.parametrize("sentence", CRITERIA)
def test_criteria(sentence: str) -> None:
    """A failed criterion revokes, an unknown one neither revokes nor restores, and the list is written only when it is whole."""
    build, eligible, verdict = CRITERIA[sentence]
    found = build()
    endpoints = found.shown().endpoints
    assert endpoints is not None
    assert endpoints.eligible == eligible
    assert found.verdict("EndpointEligibility") == verdict


def test_the_condition_names_every_held_criterion() -> None:
    """Held criteria are those not verified, sorted."""
    found = scene(size=2).group("server", 0, "a", "b").tap(lambda s: s.pods[0].unreported())
    assert "GroupForward, MembersReady" in found.condition("EndpointEligibility").message


def test_roles_are_counted_apart() -> None:
    """One role observed and the other not: a number here, nothing there."""
    found = Scene().role("p", kind="Prefill").role("d", kind="Decode").replicas("x", role="p").replicas("y", role="d")
    found.pods[1].unreported()
    prefill, decode = found.shown("p").endpoints, found.shown("d").endpoints
    assert prefill is not None
    assert decode is not None
    assert (prefill.eligible, decode.eligible) == (1, None)


def test_an_elastic_role_is_counted_by_its_master() -> None:
    """Unready workers do not touch the role's own counts."""
    found = scene(elasticEp={"width": 3}).replicas("m", "w1", "w2").tap(lambda s: [p.unready() for p in s.pods[1:]])
    shown = found.shown()
    assert shown.endpoints is not None
    assert (shown.ready, shown.endpoints.eligible) == (1, 1)


def test_a_take_over_concerns_the_replica_that_runs_it() -> None:
    """While a role turns over, a managed replica whose forward path was observed is eligible beside one that replaced its command."""
    found = scene(replicas=2, size=2).group("server", 0, "a0", "a1").group("server", 1, "b0", "b1").forward("Bound", "a0", "a1", "b0", "b1")
    for pod in found.pods[2:]:
        del pod.annotations[keys.PROMETHEUS_PORT]
    managed, replaced = (found.shown_group(ordinal) for ordinal in (0, 1))
    assert (managed.state, replaced.state, replaced.reason) == ("Eligible", "Unknown", "GroupForward")
    assert found.verdict("EndpointEligibility") == ("Unknown", "Unsupported")
