"""Look-ups: what is absent, what failed, and how long a read may take."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from reviewing import deployment, instance_type, scaler

from api.objects import InstanceType, KVCachePoolBinding, ModelDeployment, ModelDeploymentScaler
from kube.client import Page
from kube.errors import Forbidden, KubeError, NotFound, ServerError
from webhooks.errors import LookupFailedError
from webhooks.lookups import AT_ONCE, READS_END, KubeLookup, ObjectLookup


class FakeClient:
    """A client that answers one thing, or fails in one way."""

    def __init__(self, body: bytes = b"", fault: Exception | None = None, hangs: bool = False) -> None:
        self.body, self.fault, self.hangs = body, fault, hangs
        self.asked: list[tuple[str, str, str | None]] = []

    async def get(self, resource: Any, name: str, namespace: str | None = None) -> bytes:
        self.asked.append((resource.plural, name, namespace))
        if self.hangs:
            await asyncio.Event().wait()
        if self.fault is not None:
            raise self.fault
        return self.body

    async def pages(self, resource: Any, namespace: str | None = None) -> AsyncIterator[Page]:
        if self.fault is not None:
            raise self.fault
        for item in msgspec.json.decode(self.body):
            yield Page([msgspec.Raw(msgspec.json.encode(item))], "1")


def kube(client: FakeClient, seconds: float = 5.0) -> KubeLookup:
    """A look-up on a fake client."""
    return KubeLookup(client, seconds)  # type: ignore[arg-type]


async def test_an_object_is_read_by_kind_and_name() -> None:
    """Cluster kinds without, namespaced kinds with their namespace."""
    client = FakeClient(msgspec.json.encode(instance_type()))
    found = await kube(client).get(InstanceType, None, "h20")
    assert found is not None
    assert found.spec.acceleratable
    assert client.asked == [("instancetypes", "h20", None)]


async def test_what_is_too_deep_of_an_object_hides_nothing_else() -> None:
    """Whoever wrote it chose its managed fields; its spec is what a review asks for."""
    deep = b'{"metadata":{"managedFields":[' + b'{"a":' * 3000 + b"1" + b"}" * 3000 + b"],"
    body = msgspec.json.encode(instance_type()).replace(b'{"metadata":{', deep).replace(b'"metadata":{"name"', deep[1:] + b'"name"')
    assert deep[1:] in body
    found = await kube(FakeClient(body)).get(InstanceType, None, "h20")
    assert found is not None
    assert found.spec.acceleratable


async def test_absent_is_none() -> None:
    """404 says that the object, or its kind, is not there."""
    assert await kube(FakeClient(fault=NotFound(404, "NotFound", "gone"))).get(InstanceType, None, "h20") is None


@pytest.mark.parametrize("name", ["", ".", "..", "h20/status", "../secrets", "h20%2Fstatus"])
async def test_a_name_that_no_object_can_have_is_not_asked_for(name: str) -> None:
    """A server would answer the path with something else: a list, another kind, a part of another object."""
    client = FakeClient(msgspec.json.encode(instance_type()))
    assert await kube(client).get(InstanceType, None, name) is None
    assert client.asked == []


FAULTS: dict[str, FakeClient] = {
    "the server fails": FakeClient(fault=ServerError(500, "InternalError", "x")),
    "the server forbids": FakeClient(fault=Forbidden(403, "Forbidden", "x")),
    "the connection fails": FakeClient(fault=KubeError("refused")),
    "the answer is no JSON": FakeClient(b"<html>"),
    "the answer has another shape": FakeClient(b'{"spec": 1}'),
    "the answer does not come": FakeClient(hangs=True),
}


@pytest.mark.parametrize("name", FAULTS)
async def test_a_failed_read_raises(name: str) -> None:
    """It is never an empty answer."""
    with pytest.raises(LookupFailedError, match="InstanceType 'h20'"):
        await kube(FAULTS[name], 0.01).get(InstanceType, None, "h20")


class Crawling(FakeClient):
    """Takes a while for each answer."""

    async def get(self, resource: Any, name: str, namespace: str | None = None) -> bytes:
        await asyncio.sleep(0.06)
        return await super().get(resource, name, namespace)


async def test_the_reads_of_a_review_share_its_time() -> None:
    """Each is quick enough, and the second one comes too late."""
    lookup = kube(Crawling(msgspec.json.encode(instance_type())))
    READS_END.set(time.monotonic() + 0.1)
    assert await lookup.get(InstanceType, None, "h20") is not None
    with pytest.raises(LookupFailedError, match="timed out"):
        await lookup.get(InstanceType, None, "h20")
    READS_END.set(time.monotonic() + 5)
    assert await lookup.get(InstanceType, None, "h20") is not None


class Hanging(FakeClient):
    """Counts the reads that are under way together."""

    now = most = 0

    async def get(self, resource: Any, name: str, namespace: str | None = None) -> bytes:
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            await asyncio.Event().wait()
        finally:
            self.now -= 1
        return b""


async def test_reads_that_hang_leave_connections_for_others() -> None:
    """However many reviews wait: so many reads are under way together, and the rest fail in their time."""
    client = Hanging()
    lookup = kube(client, 0.05)
    answers = await asyncio.gather(*(lookup.get(InstanceType, None, "h20") for _ in range(4 * AT_ONCE)), return_exceptions=True)
    assert {type(answer) for answer in answers} == {LookupFailedError}
    assert client.most == AT_ONCE


async def test_scalers_are_listed() -> None:
    """Every page of the namespace."""
    found = await kube(FakeClient(msgspec.json.encode([scaler(name="a"), scaler(name="b")]))).scalers("team-a")
    assert [one.metadata.name for one in found] == ["a", "b"]
    with pytest.raises(LookupFailedError):
        await kube(FakeClient(fault=ServerError(500, "InternalError", "x"))).scalers("team-a")


async def test_given_objects_are_found_by_kind_namespace_and_name() -> None:
    """Nothing else counts as found; what cannot be read is a failure."""
    lookup = ObjectLookup(
        [instance_type(), scaler(), {"kind": "KVCachePoolBinding", "metadata": {"name": "b", "namespace": "n"}, "spec": 1}]
    )
    assert await lookup.get(ModelDeploymentScaler, "team-a", "queue-scaler") is not None
    assert await lookup.get(ModelDeploymentScaler, "team-b", "queue-scaler") is None
    assert await lookup.get(InstanceType, None, "h21") is None
    with pytest.raises(LookupFailedError):
        await lookup.get(KVCachePoolBinding, "n", "b")


async def test_a_given_deployment_may_have_a_status() -> None:
    """As every object has that was exported from a cluster."""
    exported = deployment()._with("status", value={"phase": "Ready"}).body
    found = await ObjectLookup([exported]).get(ModelDeployment, "team-a", "qwen")
    assert found is not None
    assert found.spec.engine.name == "vLLM"
