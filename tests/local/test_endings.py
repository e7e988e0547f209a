"""How things end: a Pod's grace on the cluster's clock, owners and dependents, namespaces, definitions."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import httpx
import pytest
from local_world import MAPS, PODS, StillClock, config_map, lines, owner, pod, running, settle

from local.cluster import EmbeddedCluster
from local.garbage import COLLECTOR
from local.hooks import Hook
from local.kueue import workload_definition
from local.operation import Operation

World = tuple[EmbeddedCluster, httpx.AsyncClient, StillClock]


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    """A cluster on a clock that stands."""
    clock = StillClock()
    async with running(tmp_path, clock=clock) as (cluster, client):
        yield cluster, client, clock


async def _gone(client: httpx.AsyncClient, path: str) -> bool:
    return (await client.get(path)).status_code == 404


async def test_a_pod_goes_when_its_grace_is_over_and_not_before(world: World) -> None:
    """As a kubelet would end it."""
    cluster, client, clock = world
    await client.post(PODS, json=pod("p", grace=30))
    await client.delete(f"{PODS}/p")
    await settle(cluster)
    clock.pass_by(29)
    await settle(cluster)
    assert not await _gone(client, f"{PODS}/p")
    clock.pass_by(1)
    await settle(cluster)
    assert await _gone(client, f"{PODS}/p")


async def test_a_second_deletion_may_shorten_the_grace_and_never_lengthen_it(world: World) -> None:
    """The earlier end counts."""
    cluster, client, _ = world
    await client.post(PODS, json=pod("p", grace=30))
    first = (await client.delete(f"{PODS}/p")).json()["metadata"]
    longer = (await client.request("DELETE", f"{PODS}/p", json={"gracePeriodSeconds": 60})).json()["metadata"]
    shorter = (await client.request("DELETE", f"{PODS}/p", json={"gracePeriodSeconds": 5})).json()["metadata"]
    assert longer["deletionTimestamp"] == first["deletionTimestamp"]
    assert shorter["deletionGracePeriodSeconds"] == 5
    assert shorter["deletionTimestamp"] < first["deletionTimestamp"]
    await settle(cluster)


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
async def test_a_finished_pod_has_no_grace(world: World, phase: str) -> None:
    """Nothing runs that could be asked to stop."""
    _, client, _ = world
    await client.post(PODS, json=pod("p"))
    merge = {"Content-Type": "application/merge-patch+json"}
    await client.patch(f"{PODS}/p/status", json={"status": {"phase": phase}}, headers=merge)
    await client.delete(f"{PODS}/p")
    assert await _gone(client, f"{PODS}/p")


async def test_a_pod_with_a_finalizer_outlives_its_grace(world: World) -> None:
    """Until the finalizer is taken off."""
    cluster, client, clock = world
    body = pod("p")
    body["metadata"]["finalizers"] = ["example.com/hold"]
    await client.post(PODS, json=body)
    await client.delete(f"{PODS}/p")
    await settle(cluster)
    clock.pass_by(40)
    await settle(cluster)
    assert (await client.get(f"{PODS}/p")).json()["metadata"]["deletionGracePeriodSeconds"] == 0
    await client.patch(f"{PODS}/p", json={"metadata": {"finalizers": None}}, headers={"Content-Type": "application/merge-patch+json"})
    assert await _gone(client, f"{PODS}/p")


async def test_without_a_kubelet_an_ending_pod_stays(tmp_path: Path) -> None:
    """For tests that play the kubelet themselves."""
    clock = StillClock()
    async with running(tmp_path, clock=clock, kubelet=False) as (cluster, client):
        await client.post(PODS, json=pod("p", grace=1))
        await client.delete(f"{PODS}/p")
        await settle(cluster)
        clock.pass_by(100)
        await settle(cluster)
        assert not await _gone(client, f"{PODS}/p")


async def test_a_dependent_of_two_goes_with_the_last_of_them(world: World) -> None:
    """And loses the reference to the first."""
    cluster, client, _ = world
    one, two = [(await client.post(MAPS, json=config_map(name))).json() for name in ("one", "two")]
    await client.post(MAPS, json=config_map("child", ownerReferences=[owner(one), owner(two)]))
    await client.delete(f"{MAPS}/one")
    await settle(cluster)
    left = (await client.get(f"{MAPS}/child")).json()["metadata"]["ownerReferences"]
    assert [ref["name"] for ref in left] == ["two"]
    await client.delete(f"{MAPS}/two")
    await settle(cluster)
    assert await _gone(client, f"{MAPS}/child")


async def test_a_whole_line_of_descent_is_collected(world: World) -> None:
    """Grandchildren too."""
    cluster, client, _ = world
    above = (await client.post(MAPS, json=config_map("g0"))).json()
    for index in range(1, 4):
        above = (await client.post(MAPS, json=config_map(f"g{index}", ownerReferences=[owner(above)]))).json()
    await client.delete(f"{MAPS}/g0")
    await settle(cluster)
    assert (await client.get(MAPS)).json()["items"] == []


async def test_foreground_waits_for_the_dependents(world: World) -> None:
    """The owner goes last."""
    cluster, client, _ = world
    boss = (await client.post(MAPS, json=config_map("boss"))).json()
    child = config_map("child", ownerReferences=[owner(boss, blockOwnerDeletion=True)], finalizers=["example.com/hold"])
    await client.post(MAPS, json=child)
    await client.request("DELETE", f"{MAPS}/boss", json={"propagationPolicy": "Foreground"})
    await settle(cluster)
    assert (await client.get(f"{MAPS}/boss")).json()["metadata"]["finalizers"] == ["foregroundDeletion"]
    await client.patch(f"{MAPS}/child", json={"metadata": {"finalizers": None}}, headers={"Content-Type": "application/merge-patch+json"})
    await settle(cluster)
    assert await _gone(client, f"{MAPS}/boss")


async def test_a_namespace_with_a_pod_waits_for_its_grace(world: World) -> None:
    """Terminating until it is empty, also of its default account."""
    cluster, client, clock = world
    await client.post("/api/v1/namespaces", json={"metadata": {"name": "n"}})
    await client.post("/api/v1/namespaces/n/pods", json=pod("p", grace=10))
    await client.delete("/api/v1/namespaces/n")
    await settle(cluster)
    assert (await client.get("/api/v1/namespaces/n")).json()["status"]["phase"] == "Terminating"
    clock.pass_by(10)
    await settle(cluster)
    assert await _gone(client, "/api/v1/namespaces/n")
    assert not [key for table in cluster.store.tables.values() for key in table.keys("n")]


async def test_objects_outlive_a_change_of_the_storage_version(world: World) -> None:
    """What was stored as one version is shown as every other, whatever is stored from then on."""
    _, client, _ = world
    root = "/apis/kueue.x-k8s.io/{}/namespaces/default/workloads"
    definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/workloads.kueue.x-k8s.io"
    await client.post(root.format("v1beta2"), json={"metadata": {"name": "old"}, "spec": {"x": 1}})
    patch = [{"op": "replace", "path": f"/spec/versions/{index}/storage", "value": bool(index)} for index in (0, 1)]
    changed = await client.patch(definition, json=patch, headers={"Content-Type": "application/json-patch+json"})
    assert changed.json()["status"]["storedVersions"] == ["v1beta2", "v1beta1"]
    await client.post(root.format("v1beta2"), json={"metadata": {"name": "young"}, "spec": {"x": 2}})
    for version in ("v1beta1", "v1beta2"):
        items = (await client.get(root.format(version))).json()["items"]
        assert [(item["apiVersion"], item["spec"]["x"]) for item in items] == [(f"kueue.x-k8s.io/{version}", x) for x in (1, 2)]


async def test_a_definition_that_is_posted_again_starts_empty(world: World) -> None:
    """Its objects went with it, its watchers were told."""
    _, client, _ = world
    objects = "/apis/kueue.x-k8s.io/v1beta2/namespaces/default/workloads"
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    before = (await client.get(objects)).json()["metadata"]["resourceVersion"]
    await client.post(objects, json={"metadata": {"name": "w"}})
    assert (await client.delete(f"{definitions}/workloads.kueue.x-k8s.io")).status_code == 200
    assert (await client.get(objects)).status_code == 404
    assert (await client.post(definitions, json=workload_definition())).status_code == 201
    assert (await client.get(objects)).json()["items"] == []
    again = await client.get(objects, params={"watch": "true", "resourceVersion": before, "timeoutSeconds": "1"})
    assert [event["object"]["code"] for event in lines(again.text)] == [410], "what was before is another kind's story"


class Answers:
    """A webhook's answers in the dialer's place: what was asked is kept, and each verdict is given once."""

    def __init__(self, *verdicts: bool) -> None:
        self.asked: list[Operation] = []
        self._verdicts = list(verdicts)

    async def call(self, hook: Hook, op: Operation, obj: object, old: object) -> dict[str, object]:
        """The response of a review."""
        del hook, obj, old
        self.asked.append(op)
        return {"allowed": self._verdicts.pop(0)}


async def _guarded(cluster: EmbeddedCluster, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, *verdicts: bool) -> Answers:
    """Deletions of Pods and ConfigMaps pass a webhook that gives these verdicts."""
    answers = Answers(*verdicts)
    monkeypatch.setattr(cluster.admission.dialer, "call", answers.call)
    rule = {"operations": ["DELETE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps", "pods"]}
    hook = {"name": "a.b.c", "sideEffects": "None", "admissionReviewVersions": ["v1"], "rules": [rule]}
    hook["clientConfig"] = {"url": "https://hook.invalid/"}
    root = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
    assert (await client.post(root, json={"metadata": {"name": "x"}, "webhooks": [hook]})).status_code == 201
    return answers


async def _until(cluster: EmbeddedCluster, done: Callable[[], bool]) -> None:
    for _ in range(1000):
        await asyncio.sleep(0)
        if done() and cluster.collector.idle:
            return
    raise AssertionError("the collector does not come to that")


async def test_what_the_collector_deletes_passes_webhooks_and_is_tried_again_when_refused(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a real cluster: a webhook that refuses the collector keeps the dependent, until it does not."""
    cluster, client, clock = world
    head = (await client.post(MAPS, json=config_map("head"))).json()
    await client.post(MAPS, json=config_map("child", ownerReferences=[owner(head)]))
    answers = await _guarded(cluster, client, monkeypatch, True, False, True)
    await client.delete(f"{MAPS}/head")
    await _until(cluster, lambda: len(answers.asked) == 2)
    assert [op.caller.username for op in answers.asked] == ["modelwarden-admin", COLLECTOR.username]
    assert not await _gone(client, f"{MAPS}/child")
    clock.pass_by(1)
    await _until(cluster, lambda: len(answers.asked) == 3)
    assert await _gone(client, f"{MAPS}/child")


async def test_a_pods_end_passes_webhooks_as_its_node(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kubelet's own delete is one like any other, and is repeated until it is let through."""
    cluster, client, clock = world
    await client.post(PODS, json=pod("p", grace=5))
    answers = await _guarded(cluster, client, monkeypatch, True, False, True)
    await client.delete(f"{PODS}/p")
    await settle(cluster)
    for seconds, count in ((5, 2), (1, 3)):
        assert not await _gone(client, f"{PODS}/p")
        clock.pass_by(seconds)
        await _until(cluster, lambda: len(answers.asked) == count)  # noqa: B023  asked before the loop goes on
    assert answers.asked[1].caller.username.startswith("system:node:")
    assert answers.asked[1].options["gracePeriodSeconds"] == 0
    assert await _gone(client, f"{PODS}/p")


async def test_in_the_foreground_only_what_blocks_is_waited_for_and_what_another_owns_stays(world: World) -> None:
    """A dependent with a finalizer holds its owner up where its reference says so; one with a second owner loses the reference."""
    cluster, client, _ = world
    head, other = [(await client.post(MAPS, json=config_map(name))).json() for name in ("head", "other")]
    held = {"finalizers": ["example.com/hold"]}
    await client.post(MAPS, json=config_map("blocks", ownerReferences=[owner(head, blockOwnerDeletion=True)], **held))
    await client.post(MAPS, json=config_map("lingers", ownerReferences=[owner(head)], **held))
    await client.post(MAPS, json=config_map("shared", ownerReferences=[owner(head, blockOwnerDeletion=True), owner(other)]))
    await client.request("DELETE", f"{MAPS}/head", json={"propagationPolicy": "Foreground"})
    await settle(cluster)
    assert not await _gone(client, f"{MAPS}/head")
    shared = (await client.get(f"{MAPS}/shared")).json()["metadata"]
    assert [ref["name"] for ref in shared["ownerReferences"]] == ["other"]
    assert "deletionTimestamp" not in shared
    await client.patch(f"{MAPS}/blocks", json={"metadata": {"finalizers": None}}, headers={"Content-Type": "application/merge-patch+json"})
    await settle(cluster)
    assert await _gone(client, f"{MAPS}/head")
    assert not await _gone(client, f"{MAPS}/lingers")


async def test_an_owner_goes_when_its_last_dependent_disowns_it(world: World) -> None:
    """The reference is taken off by somebody; nobody deletes anything."""
    cluster, client, _ = world
    head = (await client.post(MAPS, json=config_map("head"))).json()
    body = config_map("child", ownerReferences=[owner(head, blockOwnerDeletion=True)], finalizers=["example.com/hold"])
    await client.post(MAPS, json=body)
    await client.request("DELETE", f"{MAPS}/head", json={"propagationPolicy": "Foreground"})
    await settle(cluster)
    assert not await _gone(client, f"{MAPS}/head")
    merge = {"Content-Type": "application/merge-patch+json"}
    await client.patch(f"{MAPS}/child", json={"metadata": {"ownerReferences": None}}, headers=merge)
    await settle(cluster)
    assert await _gone(client, f"{MAPS}/head")


async def test_a_token_ends_when_it_says(world: World) -> None:
    """A token of a service account is 401 afterwards, and forgotten when the next one is made."""
    cluster, client, clock = world
    url = "/api/v1/namespaces/default/serviceaccounts/default/token"
    token = (await client.post(url, json={"spec": {"expirationSeconds": 600}})).json()["status"]["token"]
    bearer = {"Authorization": f"Bearer {token}"}
    assert (await client.get(MAPS, headers=bearer)).status_code == 200
    clock.pass_by(600)
    assert (await client.get(MAPS, headers=bearer)).status_code == 401
    await client.post(url, json={})
    assert token not in cluster.doors._tokens
    bob = {"Authorization": f"Bearer {cluster.token_for('bob')}"}
    clock.pass_by(10**9)
    assert (await client.get(MAPS, headers=bob)).status_code == 200, "a token without an end has none"
