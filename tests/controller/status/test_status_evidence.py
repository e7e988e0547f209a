"""What a condition was read from: the objects and fields, as this pass saw them, and what it did not see as such."""

from collections.abc import Callable

import pytest
from status_builders import Scene, ago, scene

from api import reasons
from controller.status.evidence import departure, evidence_of

READ: dict[str, tuple[Callable[[], Scene], str, tuple[str, str, str]]] = {
    "a Binding's own figures": (
        lambda: scene().cache(blocks=3).replicas("a"),
        reasons.CACHE_ATTACHED,
        ("KVCachePoolBinding b", "status.blocks", "3"),
    ),
    "a figure that nobody gave is no zero": (
        lambda: scene().cache(blocks=3).replicas("a"),
        reasons.CACHE_ATTACHED,
        ("KVCachePoolBinding b", "status.usage", "absent"),
    ),
    "an engine's account": (
        lambda: scene().cache().replicas("a").stored("a", 2, 1),
        reasons.CACHE_ATTACHED,
        ("Pod qwen-a", "store operations (observed)", "2 succeeded, 1 failed"),
    ),
    "a replaced command": (
        lambda: scene().cache().replicas("a").tap(lambda s: s.pods[0].taken_over()),
        reasons.CACHE_ATTACHED,
        ("replica server ordinal 0", "annotation prometheus.io/port", "on 0 of 1 members: command replaced"),
    ),
    "a replica of both modes": (
        lambda: scene(size=2).cache().group("server", 0, "a", "b").tap(lambda s: s.pods[1].taken_over()),
        reasons.CACHE_ATTACHED,
        ("replica server ordinal 0", "annotation prometheus.io/port", "on 1 of 2 members"),
    ),
    "an inactive Workload": (
        lambda: scene().tap(lambda s: s.pod("a")).workload("a", active=False, checks="parked rather than held"),
        reasons.QUOTA_RESERVED,
        ("Workload wl-a (server ordinal 0)", "spec.active", "false"),
    ),
    "what a check says": (
        lambda: scene().tap(lambda s: s.pod("a")).workload("a", checks="waits"),
        reasons.QUOTA_RESERVED,
        ("Workload wl-a (server ordinal 0)", "status.admissionChecks[joint]", "Pending (waits)"),
    ),
    "a replica without a Workload": (
        lambda: scene().tap(lambda s: s.pod("a")),
        reasons.QUOTA_RESERVED,
        ("replica server ordinal 0", "Workload that owns a member", "absent"),
    ),
    "a render version that counts": (
        lambda: scene().replicas("a").annotated("modeldeployment.gpustack.ai/render-version", "3"),
        reasons.REPLICAS_UP_TO_DATE,
        ("Pod qwen-a", "modeldeployment.gpustack.ai/render-version", "absent"),
    ),
    "a role's replaced command": (
        lambda: scene(command=["x"]).router(),
        reasons.KV_EVENTS_PUBLISHING,
        ("role server", "spec.roles[].command", "replaced"),
    ),
    "only what waits for weights": (
        lambda: scene(replicas=2).artifact().replicas("a", "b").tap(lambda s: s.pods[1].phase("Failed")),
        reasons.WEIGHTS_READY,
        ("Pod qwen-a", "status.containerStatuses[main].ready", "true"),
    ),
    "an elastic record that is gone": (
        lambda: scene(elasticEp={"width": 4}).elastic(record=False, observed=3, known=True, desired=4),
        reasons.ELASTIC_RESIZE,
        ("elastic observation", "record", "absent"),
    ),
    "an elastic record that nobody looked for": (
        lambda: scene(elasticEp={"width": 4}).elastic(observed=3, known=False),
        reasons.ELASTIC_RESIZE,
        ("elastic observation", "record", "not read"),
    ),
    "an elastic world that cannot be named": (
        lambda: scene(elasticEp={"width": 4}).elastic(observed=3, known=False, record=True),
        reasons.ELASTIC_RESIZE,
        ("elastic observation", "width", "desired not named, observed not known"),
    ),
    "a refusal": (
        lambda: scene(elasticEp={"width": 4}).elastic(record=True, refusal={"attempts": 2, "message": "busy"}),
        reasons.ELASTIC_RESIZE,
        ("elastic observation", "refusal", "2 attempts: busy"),
    ),
    "no elastic observation at all": (
        lambda: scene(elasticEp={"width": 4}),
        reasons.ELASTIC_RESIZE,
        ("elastic observation", "record", "not read"),
    ),
}


@pytest.mark.parametrize("sentence", READ)
def test_what_was_read(sentence: str) -> None:
    """An object, a field and the value that the verdict was made of."""
    build, kind, row = READ[sentence]
    assert row in [(seen.object, seen.field, seen.value) for seen in evidence_of(kind, build().assess())]


def test_pods_that_no_weights_are_waited_for_are_not_shown() -> None:
    """The page of a condition shows what it was read from, and nothing beside it."""
    found = scene(replicas=2).artifact().replicas("a", "b").tap(lambda s: s.pods[1].phase("Failed")).assess()
    assert not [seen for seen in evidence_of(reasons.WEIGHTS_READY, found) if seen.object == "Pod qwen-b"]


@pytest.mark.parametrize(
    ("since", "said"),
    [(ago(5), "5 s ago); finalizers kueue"), (ago(-5), "in 5 s)"), ("whenever", "at an unreadable time")],
    ids=["the past", "a clock that is ahead", "no time"],
)
def test_a_departure_tells_its_age(since: str, said: str) -> None:
    """Since when a Pod is on its way out, by the pass's clock, and which finalizers keep it."""
    found = scene().replicas("a").tap(lambda s: s.pods[0].departing("kueue"))
    found.pods[0].departure = since
    assessment = found.assess()
    assert said in departure(assessment.ground.fleet.owned[0], assessment).value
