"""Volumes, host access, topology, cards and fabric: each sentence is a write, and what the rules say about it."""

from typing import Any

import pytest
from reviewing import Deployment, deployment, found, instance_type, review, role

from webhooks.settings import AdmissionSettings

VOLUME = "spec.roles[0].additionalVolumes"
RES = "spec.roles[0].resources"
CONFIG = {"configMap": {"name": "c"}}


def mounting(*volumes: dict[str, Any]) -> Deployment:
    """A server with additional volumes."""
    return deployment(role().volumes(*volumes))


HOST = {"mountPath": "/a", "hostPath": {"path": "/x"}}

CREATES: dict[str, tuple[Deployment, set[str]]] = {
    "a config map": (mounting({"mountPath": "/a", **CONFIG}), set()),
    "no source": (mounting({"mountPath": "/a"}), {f"MD601 {VOLUME}[0]"}),
    "one path twice": (mounting({"mountPath": "/a", **CONFIG}, {"mountPath": "/a", **CONFIG}), {f"MD602 {VOLUME}[1].mountPath"}),
    "a sub-path that leaves": (mounting({"mountPath": "/a", "subPath": "a/../../b", **CONFIG}), {f"MD603 {VOLUME}[0].subPath"}),
    "a sub-path of two dots in a name": (mounting({"mountPath": "/a", "subPath": "a..b/..c", **CONFIG}), set()),
    "privileged": (deployment(role(privileged=True)), {"MD604 spec.roles[0].privileged"}),
    "not privileged": (deployment(role(privileged=False)), set()),
    "a host path": (mounting(HOST), {f"MD605 {VOLUME}[0].hostPath"}),
    "a zone": (deployment(role(topology={"requiredLevel": "topology.kubernetes.io/zone"})), set()),
    "a plain label": (deployment(role(topology={"requiredLevel": "rack"})), set()),
    "the host name": (
        deployment(role(topology={"requiredLevel": "kubernetes.io/hostname"})),
        {"MD606 spec.roles[0].topology.requiredLevel"},
    ),
    "no label key": (deployment(role(topology={"requiredLevel": "a/b/c"})), {"MD606 spec.roles[0].topology.requiredLevel"}),
    "a label with an empty prefix": (deployment(role(topology={"requiredLevel": "/b"})), {"MD606 spec.roles[0].topology.requiredLevel"}),
    # cards
    "as many cards as there are": (deployment(role().cards(8)), set()),
    "more cards than there are": (deployment(role().cards(9)), {f"MD715 {RES}.accelerator"}),
    "no such type": (deployment(role(instanceType="h21")), {"MD711 spec.roles[0].instanceType"}),
    "a partition and a slice": (
        deployment(role(instanceType="parted").cards(1, acceleratorPartitionedProfile="3g.40gb", acceleratorSlicedCoresPercentage=5)),
        {f"MD701 {RES}.acceleratorPartitionedProfile", f"MD713 {RES}.acceleratorSlicedMemoryPercentage"},
    ),
    "an interface below zero": (deployment(role().cards(1, interface="-1")), {f"MD702 {RES}.interface"}),
    "half an interface": (deployment(role().cards(1, interface="500m")), {f"MD702 {RES}.interface"}),
    "a profile on whole cards": (
        deployment(role().cards(1, acceleratorPartitionedProfile="3g.40gb")),
        {f"MD712 {RES}.acceleratorPartitionedProfile"},
    ),
    "a profile on offer": (deployment(role(instanceType="parted").cards(1, acceleratorPartitionedProfile="3g.40gb")), set()),
    "a profile that is not on offer": (
        deployment(role(instanceType="parted").cards(1, acceleratorPartitionedProfile="7g")),
        {f"MD712 {RES}.acceleratorPartitionedProfile"},
    ),
    "a slice of whole cards": (
        deployment(role().cards(1, acceleratorSlicedMemoryPercentage=50)),
        {f"MD713 {RES}.acceleratorSlicedMemoryPercentage"},
    ),
    "a slice on offer": (deployment(role(instanceType="sliced").cards(1, acceleratorSlicedMemoryPercentage=50)), set()),
    "a slice of nothing": (deployment(role().cards(1, acceleratorSlicedMemoryPercentage=0)), set()),
    "a slice of two cards": (
        deployment(role(instanceType="sliced").cards(2, acceleratorSlicedMemoryPercentage=50)),
        {f"MD714 {RES}.accelerator"},
    ),
    "a partition of no card": (
        deployment(role(instanceType="parted").cards(0, acceleratorPartitionedProfile="3g.40gb")),
        {f"MD714 {RES}.accelerator"},
    ),
    "a slice of a type without cards is no matter": (
        deployment(role(instanceType="cpu").cards(2, acceleratorSlicedMemoryPercentage=50)),
        set(),
    ),
    "no cards, alone on the type": (deployment(role().cards(0)), set()),
    "no cards beside another role": (deployment(role("a").cards(0), role("b").cards(1)), {"MD716 spec.roles[0].resources.accelerator"}),
    "no cards beside a role of another type": (deployment(role("a").cards(0), role("b", instanceType="sliced").cards(1)), set()),
    "a pair sliced on one group": (
        deployment(
            role("p", "Prefill", instanceType="sliced").cards(1, acceleratorSlicedMemoryPercentage=50),
            role("d", "Decode", instanceType="sliced").cards(1, acceleratorSlicedMemoryPercentage=50),
        ),
        {"MD717 spec.roles"},
    ),
    "a pair sliced on two groups": (
        deployment(
            role("p", "Prefill", instanceType="sliced").cards(1, acceleratorSlicedMemoryPercentage=50),
            role("d", "Decode", instanceType="other").cards(1, acceleratorSlicedMemoryPercentage=50),
        ),
        set(),
    ),
}

TYPES = (
    instance_type("parted", detail={"slicedDetail": {"physical": {"count": 1, "profiles": [{"name": "3g.40gb", "count": 1}]}}}),
    instance_type("sliced", detail={"slicedDetail": {"logical": {"count": 8}}}),
    instance_type("other", detail={"slicedDetail": {"logical": {"count": 8}}}, group="nvidia-a100"),
    instance_type("cpu", cards=0, group=""),
    instance_type("unseen", detail={}),
)


@pytest.mark.parametrize("name", CREATES)
async def test_create(name: str) -> None:
    """Exactly these rules at exactly these fields."""
    new, said = CREATES[name]
    assert await found(new, objects=TYPES) == said


async def test_a_type_that_was_not_observed_yet_cannot_judge() -> None:
    """500: the writer retries; whole cards need no observation."""
    answer = await review(deployment(role(instanceType="unseen").cards(1, acceleratorSlicedMemoryPercentage=5)), objects=TYPES)
    assert (answer.http, answer.code) == (500, 500)
    assert "unseen" in answer.message
    assert await found(deployment(role(instanceType="unseen").cards(1)), objects=TYPES) == set()


async def test_settings_open_the_host() -> None:
    """Each by its own switch."""
    new = deployment(role(privileged=True).volumes(HOST))
    assert await found(new, settings=AdmissionSettings(instance_privileged_allowed=True)) == {f"MD605 {VOLUME}[0].hostPath"}
    assert await found(new, settings=AdmissionSettings(instance_host_path_volume_allowed=True)) == {"MD604 spec.roles[0].privileged"}


UPDATES: dict[str, tuple[Deployment, Deployment, set[str]]] = {
    "a stored privilege": (deployment(role(privileged=True)), deployment(role(privileged=True, replicas=2)), set()),
    "a privilege added": (deployment(role()), deployment(role(privileged=True)), {"MD604 spec.roles[0].privileged"}),
    "a stored host path in another place": (mounting({"mountPath": "/b", **CONFIG}, HOST), mounting({**HOST, "mountPath": "/c"}), set()),
    "a stored host path that becomes writable": (
        mounting({**HOST, "readOnly": True}),
        mounting(HOST),
        {f"MD605 {VOLUME}[0].hostPath"},
    ),
    "another host path": (mounting(HOST), mounting({"mountPath": "/a", "hostPath": {"path": "/y"}}), {f"MD605 {VOLUME}[0].hostPath"}),
    "another role's host path": (
        deployment(role("a").volumes(HOST), role("b")),
        deployment(role("a"), role("b").volumes(HOST)),
        {"MD605 spec.roles[1].additionalVolumes[0].hostPath"},
    ),
}


@pytest.mark.parametrize("name", UPDATES)
async def test_update(name: str) -> None:
    """What a role has already it keeps."""
    old, new, said = UPDATES[name]
    assert await found(new, old) == said


def pool(*protocols: str, name: str = "shared") -> list[dict[str, Any]]:
    """A binding named pool, and its pool with member groups of those protocols."""
    groups = [{"name": f"g{i}", "protocol": protocol} for i, protocol in enumerate(protocols)]
    return [
        {"kind": "KVCachePoolBinding", "metadata": {"name": "pool", "namespace": "team-a"}, "spec": {"poolRef": {"name": name}}},
        {"kind": "KVCachePool", "metadata": {"name": "shared"}, "spec": {"memberGroups": groups}},
    ]


def wired(interface: str = "1") -> Deployment:
    """A pair whose prefill asks for an interface."""
    return deployment(role("p", "Prefill").cards(1, interface=interface), role("d", "Decode").cards(1))


INTERFACE = "spec.roles[0].resources.interface"

FABRIC: dict[str, tuple[Deployment, list[dict[str, Any]], set[str]]] = {
    "RDMA between the pair": (wired().transfer("RDMA"), [], set()),
    "TCP between the pair": (wired().transfer("TCP"), [], {f"MD722 {INTERFACE}"}),
    "nothing said between the pair": (wired(), [], {f"MD722 {INTERFACE}"}),
    "the engine's choice between the pair": (wired().transfer("Auto"), [], set()),
    "no interface over TCP": (wired("0").transfer("TCP"), [], set()),
    "a binding that does not exist": (wired().transfer("RDMA").cache(), [], {f"MD721 {INTERFACE}"}),
    "a pool that does not exist": (wired().transfer("RDMA").cache(), pool("RDMA", name="gone"), {f"MD721 {INTERFACE}"}),
    "a pool over EFA": (wired().cache(), pool("EFA"), set()),
    "a pool over TCP": (wired().cache(), pool("TCP"), {f"MD722 {INTERFACE}"}),
    "a pool that does not say": (wired().cache(), pool(), set()),
    "a pool over EFA and RDMA between the pair": (wired().transfer("RDMA").cache(), pool("EFA"), {f"MD722 {INTERFACE}"}),
    "a binding that does not exist without interfaces": (wired("0").cache(), [], set()),
    "a pool of two protocols": (wired("0").cache(), pool("TCP", "RDMA"), {"MD723 spec.kvCache.poolRef.name"}),
    "a pool of two protocols, one of them chosen": (wired("0").transfer("TCP").cache(), pool("TCP", "RDMA"), set()),
    "fabric is not judged beside other findings": (
        deployment(role("p", "Prefill", shmSize="0").cards(1, interface="1")),
        [],
        {"MD101 spec.roles[0].shmSize"},
    ),
}


@pytest.mark.parametrize("name", FABRIC)
async def test_fabric(name: str) -> None:
    """Interfaces need a leg; a new binding needs one transport."""
    new, objects, said = FABRIC[name]
    assert await found(new, objects=objects) == said


async def test_fabric_of_an_update_is_judged_when_it_changes() -> None:
    """A stored interface without a leg is let be; another count, another transfer and another command are not."""
    stored = wired()
    assert await found(stored.scaled(2, 1), stored) == set()
    assert await found(wired("2"), stored) == {f"MD722 {INTERFACE}"}
    assert await found(stored.transfer("TCP"), stored) == {f"MD722 {INTERFACE}"}
    joined = wired("0").cache()
    assert await found(joined.scaled(2, 1), joined, objects=pool("TCP", "RDMA")) == set()


async def test_a_capacity_that_is_no_quantity_counts_as_none() -> None:
    """What an InstanceType says in other types than its own is no crash."""
    odd = instance_type("odd") | {"status": {"accelerator": {"capacity": True}, "detail": {"slicedDetail": {}}}}
    assert await found(deployment(role(instanceType="odd").cards(1)), objects=[odd]) == {f"MD715 {RES}.accelerator"}


async def test_a_share_of_cores_alone_is_refused_where_the_page_points() -> None:
    """Admission facts 3.9: a type without logical slicing refuses at the memory share."""
    assert await found(deployment(role().cards(1, acceleratorSlicedCoresPercentage=5))) == {
        f"MD713 {RES}.acceleratorSlicedMemoryPercentage"
    }


async def test_a_cache_hides_no_fault_of_the_cards() -> None:
    """The cache's objects are asked only when nothing else is wrong, and in the namespace of the write."""
    fine, objects = wired().transfer("RDMA").cache(), pool("RDMA")
    assert await found(fine, objects=objects) == set()
    assert await found(fine, objects=objects, namespace="") == set()
    assert await found(fine._with("metadata", "namespace", value=None), objects=objects, namespace="team-a") == set()
    small = [*objects, instance_type(cards=0) | {"spec": {"acceleratable": True}}]
    assert await found(fine, objects=small) == {f"MD715 {RES}.accelerator", "MD715 spec.roles[1].resources.accelerator"}
