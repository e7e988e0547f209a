"""QuotaReserved and its precedence, quotaReserved and assignedFlavors."""

from collections.abc import Callable

import pytest
from status_builders import Scene, scene

from controller.snapshot import StatusSettings

HELD = {"QuotaReserved": "True", "Admitted": "True"}
MARKER = "group waits; parked rather than held"


def two(first: dict[str, str], second: dict[str, str], **more: str) -> Scene:
    """Two replicas of one role and the conditions of their Workloads; `checks` go to the second, which is then inactive."""
    found = scene(replicas=2)
    found.pod("a", ordinal=0)
    found.pod("b", ordinal=1)
    found.workload("a", **first)
    return found.workload("b", active=not more, checks=more.get("checks", ""), **second)


QUOTA: dict[str, tuple[Callable[[], Scene], tuple[str, str], tuple[str, ...]]] = {
    "every Workload holds quota": (lambda: two(HELD, HELD), ("True", "Reserved"), ("server-type",)),
    "several roles: the count, never a queue": (
        lambda: Scene().role("p").role("d").replicas("x", role="p").replicas("y", role="d"),
        ("True", "Reserved"),
        ("2 replicas",),
    ),
    "reserved is enough, admission is another fact": (lambda: two(HELD, {"QuotaReserved": "True"}), ("True", "Reserved"), ()),
    "one waits": (lambda: two(HELD, {"QuotaReserved": "False:Pending"}), ("False", "Pending"), ("1 of 2", "server-type")),
    "Kueue's words are passed on": (
        lambda: two(HELD, {"QuotaReserved": "False:Pending:insufficient unused quota"}),
        ("False", "Pending"),
        ("downstream admission", "server ordinal 1", "wl-b", "insufficient unused quota"),
    ),
    "inactive with the marker is parked": (
        lambda: two(HELD, {"QuotaReserved": "False"}, checks=MARKER),
        ("False", "Parked"),
        ("wl-b", "Somebody has to"),
    ),
    "inactive without the marker is not parked": (lambda: two(HELD, {"QuotaReserved": "False"}, checks="held"), ("False", "Pending"), ()),
    "the marker on an active Workload is not parked": (
        lambda: scene().tap(lambda s: s.pod("a")).workload("a", checks=MARKER, **HELD),
        ("True", "Reserved"),
        (),
    ),
    "parked wins over preemption": (lambda: two(HELD, {"Preempted": "True"}, checks=MARKER), ("False", "Parked"), ("wl-b",)),
    "preempted in part": (
        lambda: two(HELD, {"Preempted": "True"}),
        ("False", "PreemptedInPart"),
        ("1 of 2", "server", "capacity was lost"),
    ),
    "evicted for preemption": (lambda: two(HELD, {"Evicted": "True:Preempted"}), ("False", "PreemptedInPart"), ()),
    "evicted for another reason": (lambda: two(HELD, {"Evicted": "True:PodsReadyTimeout"}), ("False", "Pending"), ()),
    "preempted once and admitted again, which takes the mark back": (
        lambda: two(HELD, {"Preempted": "False:QuotaReserved", "Evicted": "False:QuotaReserved", **HELD}),
        ("True", "Reserved"),
        (),
    ),
    "preempted while its Pods still run": (
        lambda: two(HELD, {"Preempted": "True", **HELD}),
        ("False", "PreemptedInPart"),
        ("1 of 2", "capacity was lost"),
    ),
    "what is still admitted is kept beside what is gone, although it goes too": (
        lambda: two({"Preempted": "True", **HELD}, {"Preempted": "True"}),
        ("False", "PreemptedInPart"),
        ("1 of 2",),
    ),
    "all preempted while their Pods still run": (
        lambda: two({"Preempted": "True", **HELD}, {"Evicted": "True:Preempted", **HELD}),
        ("True", "Reserved"),
        ("server-type",),
    ),
    "a replica of a dropped role waits: it is named, and no queue is": (
        lambda: scene().replicas("a").tap(lambda s: s.pod("b", "gone")).workload("b", QuotaReserved="False"),
        ("False", "Pending"),
        ("role gone",),
    ),
    "all preempted is only a wait, with a note": (
        lambda: two({"Preempted": "True"}, {"Preempted": "True"}),
        ("False", "Pending"),
        ("2 replicas of role server lost quota to preemption",),
    ),
    "a departing replica counts as lost": (
        lambda: two(HELD, {"Preempted": "True"}).tap(lambda s: s.pods[1].departing()),
        ("False", "PreemptedInPart"),
        (),
    ),
    "a kind left without an admitted replica is named": (
        lambda: (
            Scene()
            .role("p", kind="Prefill")
            .role("d", kind="Decode")
            .replicas("x", role="p")
            .tap(lambda s: s.pod("y", "d"))
            .workload("y", Preempted="True")
        ),
        ("False", "PreemptedInPart"),
        ("kind Decode has no admitted replica left",),
    ),
    "no Pod": (scene, ("Unknown", "NoReplicas"), ()),
    "only departing Pods": (
        lambda: two(HELD, HELD).tap(lambda s: [p.departing() for p in s.pods]),
        ("Unknown", "AllReplicasTerminating"),
        ("2",),
    ),
    "a replica is missing": (lambda: scene(replicas=2).replicas("a"), ("False", "PodGroupIncomplete"), ("1/2", "server", "server-type")),
    "a member is missing": (
        lambda: scene(size=2).tap(lambda s: s.pod("a").seat(0, 2)),
        ("False", "PodGroupIncomplete"),
        ("0/1",),
    ),
    "no Workload yet": (lambda: scene().tap(lambda s: s.pod("a")), ("Unknown", "AdmissionInFlight"), ("server-type",)),
    "no Workload in a reserved namespace": (
        lambda: scene().within("gpustack-system").tap(lambda s: s.pod("a")),
        ("False", "NoQueueInReservedNamespace"),
        ("gpustack-system",),
    ),
    "Kueue is absent": (lambda: scene().replicas("a").absent_kueue(), ("Unknown", "KueueNotInstalled"), ()),
}


@pytest.mark.parametrize("sentence", QUOTA)
def test_quota(sentence: str) -> None:
    """First match of the table wins, and the message carries what somebody needs to act."""
    build, verdict, texts = QUOTA[sentence]
    found = build()
    assert found.verdict("QuotaReserved") == verdict
    message = found.condition("QuotaReserved").message
    assert [text for text in texts if text not in message] == [], message


def test_without_kueue_the_count_is_left_out() -> None:
    """No Workload is read: an unknown count is no zero, and flavors are unknown too."""
    shown = scene().replicas("a").absent_kueue().shown()
    assert shown.quota_reserved is None
    assert shown.assigned_flavors == ()


def test_an_observed_zero_is_written() -> None:
    """A pass that read everything and found no quota says 0."""
    assert scene(replicas=2).shown().quota_reserved == 0


def test_a_prefix_reserves_namespaces() -> None:
    """An entry that ends with a star is a prefix."""
    settings = StatusSettings(reserved_namespaces=("kube-*", "exact"))
    assert [settings.reserves(name) for name in ("kube-system", "exact", "exactly", "kub")] == [True, True, False, False]


FLAVORS: dict[str, tuple[dict[str, str], dict[str, str], tuple[str, ...]]] = {
    "two replicas on different flavors, sorted": (
        {"credits.gpustack.ai/nvidia": "h20"},
        {"credits.gpustack.ai/nvidia": "a100"},
        ("a100", "h20"),
    ),
    "the same flavor once": ({"credits.gpustack.ai/amd": "x"}, {"credits.gpustack.ai/amd": "x"}, ("x",)),
    "two credits in one assignment give nothing": (
        {"credits.gpustack.ai/amd": "x", "credits.gpustack.ai/nvidia": "x"},
        {"credits.gpustack.ai/cambricon": "c"},
        ("c",),
    ),
    "what is no credit does not count": (
        {"cpu": "x", "nvidia.com/gpu": "x", "credits": "x", "credits.gpustack.ai/": "x", "credits.gpustack.ai/acme": "x"},
        {"memory": "x"},
        (),
    ),
}


@pytest.mark.parametrize("sentence", FLAVORS)
def test_flavors(sentence: str) -> None:
    """The union over the replicas' own Workloads, whatever they hold now; absent rather than empty."""
    first, second, flavors = FLAVORS[sentence]
    found = scene(replicas=2)
    for uid, ordinal, assigned in (("a", 0, first), ("b", 1, second)):
        found.pod(uid, ordinal=ordinal)
        found.workload(uid, flavors=assigned, QuotaReserved="False")
    assert found.shown().assigned_flavors == flavors


def test_another_podset_of_the_workload_does_not_count() -> None:
    """The assignment of the PodSet that carries the role's name is read."""
    found = scene().tap(lambda s: s.pod("a")).workload("a", flavors={"credits.gpustack.ai/nvidia": "h20"})
    found.objects[0]["status"]["admission"]["podSetAssignments"][0]["name"] = "other"
    assert found.shown().assigned_flavors == ()


def test_a_departing_replica_does_not_hide_its_successor_s_admission() -> None:
    """At one position the old replica was preempted and leaves, the new one is admitted: it is the other replica that lost quota."""
    found = scene(replicas=2).tap(lambda s: s.pod("a", ordinal=0).departing()).workload("a", Preempted="True")
    found.replicas("b").tap(lambda s: s.pod("c", ordinal=1)).workload("c", Preempted="True")
    assert found.verdict("QuotaReserved") == ("False", "PreemptedInPart")
    assert "1 of 2 replicas" in found.condition("QuotaReserved").message


def test_a_position_that_is_admitted_again_lost_nothing() -> None:
    """Neither in part nor in a note."""
    found = scene(replicas=2).tap(lambda s: s.pod("a", ordinal=0).departing()).workload("a", Preempted="True").replicas("b", "c")
    assert found.verdict("QuotaReserved") == ("True", "Reserved")


def test_the_ray_head_owes_no_workload() -> None:
    """It is no replica, so nothing is in flight for it; a Workload that it has counts like any other of the deployment's."""
    found = scene(elasticEp={"width": 2}).replicas("m", "w").tap(lambda s: s.pod("h", "qwen-elastic-head", 0))
    assert found.verdict("QuotaReserved") == ("True", "Reserved")
    assert found.workload("h", QuotaReserved="False").verdict("QuotaReserved") == ("False", "Pending")
