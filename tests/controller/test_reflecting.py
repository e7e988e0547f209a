"""What a reflector makes of refusals, storms and kinds that come and go."""

import pytest
from atwork import ready_deployment, running, whole_lists
from cluster import FakeCluster, Request
from things import Thing, deployment, pod

from controller.kinds import KindName
from controller.metrics import CacheAge
from controller.store import Key
from kube.errors import Forbidden, Gone, KubeError, TransportError

TYPES = "kvcachepoolbindings.worker.gpustack.ai"


def definition(name: str = TYPES) -> dict[str, object]:
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": name}}


@pytest.mark.parametrize("error", [Forbidden(403, "Forbidden", "no"), Gone(410, "Expired", "old")])
async def test_a_watch_that_is_always_refused_is_no_storm_of_lists(error: KubeError) -> None:
    """Lists after refused watches are spaced out, up to half a minute apart."""
    api = FakeCluster()
    api.fail = lambda request: error if (request.verb, request.kind) == ("watch", "Pod") else None
    async with running(api, prepare=ready_deployment) as world:
        await world.clock.advance(600)
        assert 15 <= len(whole_lists(api)) <= 60


async def test_a_kind_that_goes_away_empties() -> None:
    """When the API server stops serving a kind its objects are gone, and the statuses go on."""
    api = FakeCluster()

    def prepare(api: FakeCluster) -> None:
        ready_deployment(api)
        api.put(Thing("worker.gpustack.ai/v1", "KVCachePoolBinding", "bind").json)

    async with running(api, prepare=prepare) as world:
        assert world.controller.cache.find(KindName.BINDING, "team", "bind")
        api.unserved.add("kvcachepoolbindings")
        api.compact()
        await world.clock.advance(5)
        assert world.controller.cache.find(KindName.BINDING, "team", "bind") is None
        assert world.controller.ready()["cache-kvcachepoolbinding"] is True
        api.touch("Pod", "chat-0", lambda item: item["status"].update(conditions=[{"type": "Ready", "status": "False"}]))
        await world.clock.advance(1)
        assert api.status("chat")["phase"] == "Starting"


async def test_of_a_kind_that_is_no_longer_served_no_age_grows() -> None:
    """An age that grows for ever would be an alarm for ever, over a definition that somebody took away."""
    api = FakeCluster()

    def aged() -> bool:
        return any(sample.labels["kind"] == "KVCachePoolBinding" for family in CacheAge().collect() for sample in family.samples)

    async with running(api, prepare=ready_deployment) as world:
        await world.clock.advance(1)
        assert aged()
        api.unserved.add("kvcachepoolbindings")
        api.interrupt.add("KVCachePoolBinding")
        api._wake()
        await world.clock.advance(30)
        assert world.controller.reflectors[KindName.BINDING].served is False
        assert not aged()
        api.unserved.discard("kvcachepoolbindings")
        api.put(definition())
        await world.clock.advance(30)
        assert aged()


async def test_a_definition_that_discovery_does_not_know_yet_is_looked_for_again() -> None:
    """The definition comes first, discovery a moment later: no ten minutes are lost over it."""
    api = FakeCluster()
    api.unserved.add("kvcachepoolbindings")
    async with running(api, prepare=ready_deployment) as world:
        await world.clock.advance(1)
        api.put(definition())
        await world.clock.advance(1)
        assert api.sent("list", "KVCachePoolBinding") == []
        api.unserved.discard("kvcachepoolbindings")
        await world.clock.advance(8)
        assert len(api.sent("list", "KVCachePoolBinding")) == 1


async def test_without_the_right_to_watch_definitions_a_kind_is_found_late() -> None:
    """Twenty minutes at most, and hardly a request until then."""
    api = FakeCluster()
    api.unserved.add("kvcachepoolbindings")
    api.fail = lambda request: Forbidden(403, "Forbidden", "no") if request.kind == "CustomResourceDefinition" else None
    async with running(api, prepare=ready_deployment) as world:
        await world.clock.advance(1)
        api.unserved.discard("kvcachepoolbindings")
        api.requests.clear()
        await world.clock.advance(500)
        assert api.requests == []
        await world.clock.advance(800)
        assert len(api.sent("list", "KVCachePoolBinding")) == 1


async def test_the_bell_does_not_storm() -> None:
    """A server that refuses every watch over definitions is not listed from without pause."""
    api = FakeCluster()
    gone = Gone(410, "Expired", "old")
    api.fail = lambda request: gone if (request.verb, request.kind) == ("watch", "CustomResourceDefinition") else None
    async with running(api, prepare=ready_deployment) as world:
        await world.clock.advance(60)
        assert len(api.sent("list", "CustomResourceDefinition")) <= 15


@pytest.mark.parametrize("error", [Gone(410, "Expired", "old"), TransportError("cut")])
async def test_the_bell_outlives_its_own_watch(error: KubeError) -> None:
    """A definition is heard of after the watch over definitions broke."""
    api = FakeCluster()
    api.unserved.add("kvcachepoolbindings")
    breaks = [error, error]

    def fail(request: Request) -> KubeError | None:
        return breaks.pop() if (request.verb, request.kind) == ("watch", "CustomResourceDefinition") and breaks else None

    api.fail = fail
    async with running(api, prepare=ready_deployment) as world:
        await world.clock.advance(30)
        assert breaks == []
        api.unserved.discard("kvcachepoolbindings")
        api.put(definition())
        await world.clock.advance(1)
        assert len(api.sent("list", "KVCachePoolBinding")) == 1


@pytest.mark.parametrize(
    ("spec", "what"),
    [
        pytest.param({"containers": [{"name": "main", "args": [7]}]}, "a shared part amiss", id="a part that Pods share is amiss"),
        pytest.param({"containers": 7}, "the Pod amiss", id="the Pod itself is amiss"),
    ],
)
async def test_one_pod_amiss_costs_the_others_nothing(spec: dict[str, object], what: str) -> None:
    """It exists, and nothing else is known of it; every other Pod of its page is read."""
    api = FakeCluster()

    def prepare(api: FakeCluster) -> None:
        ready_deployment(api)
        api.touch("Pod", "chat-0", lambda item: item.update(spec=spec))
        api.put(pod(deployment("other"), "other-0").ready().json)

    async with running(api, prepare=prepare) as world:
        (amiss,), (other,) = world.controller.cache.pods(Key("team", "chat")), world.controller.cache.pods(Key("team", "other"))
        assert (amiss.main, amiss.status.phase) == (None, ""), what
        assert amiss.metadata.labels["app.kubernetes.io/instance"] == "chat"
        assert (other.main is not None, other.status.phase) == (True, "Running")
