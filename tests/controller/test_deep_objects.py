"""Objects nested deeper than a decoder bears, where one is read by itself: anybody may store one, and nobody else is to be told of it."""

from typing import Any

import pytest
from atwork import ready_deployment, running, settings
from cluster import FakeCluster
from prometheus_client import REGISTRY
from test_acting import deletes, operation, scene
from test_cache import Fed
from things import deployment, router, router_pod

from api.objects import Deployment, Pod
from controller.capture import capture
from controller.kinds import KindName
from controller.membership import MembershipReader
from controller.observers.chain import RouterChain
from controller.store import Key
from kube.errors import TransportError

CHAT = Key("team", "chat")
DEEP = b'{"metadata": {"managedFields": [' + b'{"a":' * 3000 + b"1" + b"}" * 3000 + b"], "


class DeepCluster(FakeCluster):
    """Answers each read and each patch of one object with managed fields of any depth."""

    async def get(self, *place: Any) -> bytes:
        return self._deep(await super().get(*place))

    async def patch(self, *place: Any, **options: Any) -> bytes:
        return self._deep(await super().patch(*place, **options))

    @staticmethod
    def _deep(data: bytes) -> bytes:
        assert b'"metadata": {' in data
        return b"{" + data[1:].replace(b'"metadata": {', DEEP[1:], 1)


def defects() -> float:
    return REGISTRY.get_sample_value("controller_runtime_reconcile_panics_total", {"controller": "modeldeployment"}) or 0.0


async def test_its_status_is_written_and_no_defect_counted() -> None:
    """The alert of defects is for whoever runs the service: no tenant can raise it so."""
    api, before = DeepCluster(), defects()
    ready_deployment(api)
    async with running(api) as world:
        await world.clock.advance(1)
        assert api.status("chat")["phase"] == "Ready"
        assert len(world.writes()) == 1
    assert defects() == before


async def test_its_retirement_goes_on() -> None:
    """What is stored is asked for before the first delete."""
    api, before = DeepCluster(), defects()
    scene(api, stored=operation("Deleting"))
    async with running(api, settings(act="retire")) as world:
        await world.clock.advance(10)
        assert {name for _, name, _ in deletes(api)} == {"chat-1", "w1"}
    assert defects() == before


async def test_it_can_be_dumped() -> None:
    """With what is not too deep of it."""
    api = DeepCluster()
    ready_deployment(api)
    found = await capture(api, "team", "chat")  # type: ignore[arg-type]
    assert found[0]["metadata"]["name"] == "chat"


async def test_the_owners_of_its_router_are_told() -> None:
    """A ReplicaSet's own managed fields hide none of them."""
    api, fed, made = DeepCluster(), Fed(), deployment(router={"name": "vllm-router"})
    above, below = router(made)
    api.put(below)
    fed.put(KindName.DEPLOYMENT, made)
    fed.put(KindName.ROUTER, above)
    fed.put(KindName.POD, router_pod(made).json)
    (pod,), (owner,) = fed.cache.pods(CHAT), fed.cache.routers(CHAT)
    assert isinstance(pod, Pod)
    assert isinstance(owner, Deployment)
    await RouterChain(api).verify(CHAT, pod, owner)  # type: ignore[arg-type]


async def test_a_member_that_cannot_be_read_proves_nothing() -> None:
    """The read of a membership fails like any other read, to be tried again soon; it is no defect of ours."""
    api = FakeCluster()
    ready_deployment(api)
    api.touch("Pod", "chat-0", lambda item: item.update(spec=1))
    with pytest.raises(TransportError, match="cannot be read"):
        await MembershipReader(api).membership(CHAT)  # type: ignore[arg-type]
