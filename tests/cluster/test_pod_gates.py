"""The Pod gates among other mutating webhooks: before and after them, under both reinvocation policies, on either cluster.

A neighbour that comes later sees our gates, one that came earlier is seen by us, and asking again changes nothing.
"""

import copy
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from clusterkit import HookServer, json_patch
from fencekit import Fence, body_of, fenced, on_either

pytestmark = [pytest.mark.cluster, pytest.mark.asyncio(loop_scope="module")]

JSON = dict[str, Any]
ROOT = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
OURS = "modelwarden-mutating"
PROBES = ("startupProbe", "readinessProbe", "livenessProbe")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def fence(request: pytest.FixtureRequest, cluster_kind: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Fence]:
    """One product, and a deployment whose Pods come."""
    async with on_either(request, cluster_kind, tmp_path_factory) as cluster, fenced(cluster, {}) as found:
        (await found.alice("POST", found.path(), body_of("chat", {"server": 2}))).ok()
        yield found


def pod_of(owner: JSON, name: str) -> JSON:
    """A replica Pod as a rendering operator makes it: a sidecar in front of the engine."""
    reference = {key: owner[key] for key in ("apiVersion", "kind")} | {"name": "chat", "uid": owner["metadata"]["uid"], "controller": True}
    labels = {
        "app.kubernetes.io/name": "model-deployment",
        "app.kubernetes.io/instance": "chat",
        "app.kubernetes.io/component": "server",
    }
    containers = [{"name": "sidecar", "image": "none"}, {"name": "main", "image": "none", "args": ["--max-model-len", "4096"]}]
    meta = {"name": name, "labels": labels, "ownerReferences": [reference]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": containers}}


def main_of(pod: JSON) -> JSON:
    """The engine's container."""
    found: JSON = next(each for each in pod["spec"]["containers"] if each["name"] == "main")
    return found


class Neighbour:
    """Another mutating webhook on Pods. It remembers what it saw."""

    def __init__(self, patch: list[JSON]) -> None:
        self.seen: list[JSON] = []
        self._patch = patch
        self.later: list[JSON] = []

    def __call__(self, request: JSON) -> JSON:
        """Patch at the first sight of a Pod, and `later` at the second."""
        self.seen.append(request["object"])
        wanted = self._patch if len(self.seen) == 1 else self.later
        return json_patch(*wanted) if wanted else {"allowed": True}


async def stand(fence: Fence, server: HookServer, name: str, neighbour: Neighbour, policy: str) -> None:
    """Put a neighbour up; its name decides whether it comes before or after us."""
    rule = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
    hook = {
        "name": f"{name}.example.com",
        "clientConfig": server.on(f"/{name}", neighbour),
        "rules": [rule],
        "sideEffects": "None",
        "reinvocationPolicy": policy,
        "admissionReviewVersions": ["v1"],
        "namespaceSelector": {"matchLabels": {"modelwarden.test": fence.space}},
    }
    await fence.cluster.keep(ROOT, {"metadata": {"name": name}, "webhooks": [hook]})


async def policy_of_ours(fence: Fence, policy: str) -> None:
    """Set our Pod webhook's reinvocationPolicy."""
    path = f"{ROOT}/{OURS}"
    hooks = (await fence.admin("GET", path)).ok()["webhooks"]
    index = next(index for index, hook in enumerate(hooks) if hook["name"].startswith("gates."))
    (await fence.admin.patch(path, [{"op": "replace", "path": f"/webhooks/{index}/reinvocationPolicy", "value": policy}], "json")).ok()


LABEL = [{"op": "add", "path": "/metadata/labels/neighbour", "value": "yes"}]
MESH = [{"op": "add", "path": "/spec/containers/0", "value": {"name": "mesh", "image": "none"}}]
ARGUMENT = [{"op": "add", "path": "/spec/containers/1/args/-", "value": "--enforce-eager"}]
PORT = [{"op": "add", "path": "/spec/containers/1/args/-", "value": "--port=9"}]


async def test_a_pod_as_it_is_stored_gets_no_patch(fence: Fence) -> None:
    """What came out of a first call goes through a second unchanged: created again from its own stored form, the Pod is the same."""
    await policy_of_ours(fence, "Never")
    owner = await fence.live("chat")
    pods = f"/api/v1/namespaces/{fence.space}/pods"
    first = (await fence.alice("POST", pods, pod_of(owner, "chat-first"))).ok()
    again = pod_of(owner, "chat-again") | {"spec": copy.deepcopy(first["spec"])}
    for gone in ("nodeName", "serviceAccount", "serviceAccountName"):
        again["spec"].pop(gone, None)
    second = (await fence.alice("POST", pods, again)).ok()
    assert main_of(second) == main_of(first)


@pytest.mark.parametrize("policy", ["Never", "IfNeeded"])
async def test_gates_between_two_neighbours(fence: Fence, policy: str) -> None:
    """One neighbour before us adds an argument, one after us puts a container in front: flags and probes are there once, in `main`."""
    server = await fence.cluster.hooks()
    before, after = Neighbour(ARGUMENT), Neighbour(MESH)
    first, last = f"a-before-{policy.lower()}", f"z-after-{policy.lower()}"
    await policy_of_ours(fence, policy)
    await stand(fence, server, first, before, policy)
    await stand(fence, server, last, after, policy)
    owner = await fence.live("chat")
    pods = f"/api/v1/namespaces/{fence.space}/pods"

    async def all_are_asked() -> bool:
        (await fence.admin("POST", pods, pod_of(owner, f"probe-{policy.lower()}"), dryRun="All")).ok()
        return {f"/{first}", f"/{last}"} <= server.probed

    await fence.cluster.eventually(all_are_asked, "the neighbours are never called")
    # on a real server a changed configuration is in force a moment later than it is stored: the probes above have waited for the newest
    made = (await fence.alice("POST", pods, pod_of(owner, f"chat-{policy.lower()}"))).ok()
    engine = main_of(made)
    assert [each["name"] for each in made["spec"]["containers"]] == ["mesh", "sidecar", "main"]
    assert engine["args"] == ["--max-model-len", "4096", "--enforce-eager", "--host", "0.0.0.0", "--port", "8000"]
    assert [engine[probe]["failureThreshold"] for probe in PROBES] == [180, 3, 6]
    assert not [probe for each in made["spec"]["containers"] if each is not engine for probe in PROBES if probe in each]
    assert not set(PROBES) & set(main_of(before.seen[0]))
    assert set(PROBES) <= set(main_of(after.seen[0]))
    # IfNeeded: who patched earlier is asked again once a later one changed the Pod, and sees our gates in their place
    if policy == "IfNeeded":
        assert main_of(before.seen[-1])["args"] == engine["args"]
    else:
        assert len(before.seen) == 1
    await _leave(fence, first, last)


async def test_a_neighbour_that_moves_the_listener_at_its_second_sight(fence: Fence) -> None:
    """Asked again, a neighbour appends a port of its own behind ours: we are asked again too and add nothing, and nothing goes round."""
    server = await fence.cluster.hooks()
    before, after = Neighbour(LABEL), Neighbour(MESH)
    before.later = [{"op": "add", "path": "/metadata/labels/second", "value": "yes"}]
    await policy_of_ours(fence, "IfNeeded")
    await stand(fence, server, "a-twice", before, "IfNeeded")
    await stand(fence, server, "z-once", after, "IfNeeded")
    owner = await fence.live("chat")
    pods = f"/api/v1/namespaces/{fence.space}/pods"

    async def asked() -> bool:
        (await fence.admin("POST", pods, pod_of(owner, "probe-twice"), dryRun="All")).ok()
        return {"/a-twice", "/z-once"} <= server.probed

    await fence.cluster.eventually(asked, "the neighbours are never called")
    made = (await fence.alice("POST", pods, pod_of(owner, "chat-twice"))).ok()
    assert made["metadata"]["labels"]["second"] == "yes"
    assert main_of(made)["args"].count("--port") == 1
    await _leave(fence, "a-twice", "z-once")


async def test_a_neighbour_that_listens_elsewhere_before_us_leaves_no_gates(fence: Fence) -> None:
    """A port that an earlier webhook writes into the Pod moves the listener: no probe is set that would ask the wrong port."""
    server = await fence.cluster.hooks()
    await policy_of_ours(fence, "Never")
    await stand(fence, server, "a-port", Neighbour(PORT), "Never")
    owner = await fence.live("chat")
    pods = f"/api/v1/namespaces/{fence.space}/pods"

    async def asked() -> bool:
        (await fence.admin("POST", pods, pod_of(owner, "probe-port"), dryRun="All")).ok()
        return "/a-port" in server.probed

    await fence.cluster.eventually(asked, "the neighbour is never called")
    engine = main_of((await fence.alice("POST", pods, pod_of(owner, "chat-port"))).ok())
    assert engine["args"] == ["--max-model-len", "4096", "--port=9", "--host", "0.0.0.0"]
    assert not set(PROBES) & set(engine)
    await _leave(fence, "a-port")


async def _leave(fence: Fence, *names: str) -> None:
    for name in names:
        (await fence.admin("DELETE", f"{ROOT}/{name}")).ok()
