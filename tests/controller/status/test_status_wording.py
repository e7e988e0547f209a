"""Messages for people agree with their counts: one replica waits, two replicas wait."""

from collections.abc import Callable

import pytest
from status_builders import Scene, scene

from controller.status.text import counted, every, named, verb

COUNTED: dict[str, tuple[int, str]] = {
    "one of them alone": (1, "1 replica holds, 1 replica is, 1 has, 1 matches, 1 was"),
    "several": (2, "All 2 replicas hold, 2 replicas are, 2 have, 2 match, 2 were"),
    "none": (0, "All 0 replicas hold, 0 replicas are, 0 have, 0 match, 0 were"),
}
ALONE: dict[str, tuple[Callable[[], Scene], str, str]] = {
    "one replica up to date": (
        lambda: scene().replicas("a").rollout(accounted=1),
        "ReplicasUpToDate",
        "1 replica accounted for matches.",
    ),
    "one outdated replica, held": (
        lambda: scene().replicas("a").rollout(accounted=1, outdated=1, held=1, heldBy="Weights"),
        "ReplicasUpToDate",
        "1 of 1 outdated replicas waits until WeightsReady is True; an edit that changes a running Pod would wait too.",
    ),
    "one replica with quota": (lambda: scene().replicas("a"), "QuotaReserved", "1 replica holds quota in queue server-type."),
    "one Pod left": (lambda: scene().replicas("a").tap(lambda s: s.pods[0].departing()), "QuotaReserved", "1 Pod is terminating."),
    "what is only not known is not called failing": (
        lambda: scene(size=2).group("server", 0, "a", "b").tap(lambda s: s.pods[1].unready()),
        "EndpointEligibility",
        "Criteria fail: server ordinal 0: MembersReady (not known: GroupForward).",
    ),
    "a refusal that is no end": (
        lambda: scene(elasticEp={"width": 4}).elastic(record=True, refusal={"attempts": 2, "message": "503 busy"}),
        "ElasticResize",
        "The engine refused a scale, which is tried again inside its bound: 503 busy",
    ),
    "one qualified replica": (lambda: scene().replicas("a"), "EndpointEligibility", "1 replica meets every criterion."),
}


@pytest.mark.parametrize("sentence", COUNTED)
def test_a_count_has_its_verb(sentence: str) -> None:
    """Noun and verb follow the number."""
    n, text = COUNTED[sentence]
    verbs = ", ".join(f"{n} {verb(n, plural)}" for plural in ("have", "match", "were"))
    assert f"{every(n, 'replica')} {verb(n, 'hold')}, {counted(n, 'replica')} {verb(n, 'are')}, {verbs}" == text


def test_names_have_their_noun() -> None:
    """A list of one is no plural, however often the name occurs."""
    assert named("role", ["decode", "decode"]) == "role decode"
    assert named("role", ["prefill", "decode"]) == "roles decode, prefill"


@pytest.mark.parametrize("sentence", ALONE)
def test_a_message_about_one(sentence: str) -> None:
    """The conditions of a deployment with a single replica read as such."""
    build, kind, message = ALONE[sentence]
    assert build().condition(kind).message == message
