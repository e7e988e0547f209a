"""A retirement's deletions on a cluster, and a controller that is killed after each of its writes and started again."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from clusterkit import TestCluster
from product import MODEL_DEPLOYMENTS, WORKLOADS, put

from api.crd.variants import fitted
from app.clock import SystemClock
from controller.service import Controller
from controller.settings import ControllerSettings, ObserverSettings
from controller.snapshot import StatusSettings
from deploy.manifests import Options, manifests
from kube.client import Client
from kube.errors import NotFound
from kube.resources import CRDS, PODS, Resource
from local.kueue import workload_definition

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(110)]

JSON = dict[str, Any]
LABELS = {
    "app.kubernetes.io/name": "model-deployment",
    "app.kubernetes.io/instance": "chat",
    "app.kubernetes.io/component": "server",
    "modeldeployment.gpustack.ai/role-kind": "server",
}


class Dying:
    """A client whose process is killed right after its n-th write reached the server: the answer never comes."""

    def __init__(self, client: Client, after: int) -> None:
        self._client = client
        self._left = after
        self.died = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    async def _write(self, sent: Any) -> bytes:
        if self.died.is_set():
            sent.close()
            await asyncio.Event().wait()
        answer: bytes = await sent
        self._left -= 1
        if self._left < 0:
            self.died.set()
            await asyncio.Event().wait()
        return answer

    async def patch(self, *args: Any, **options: Any) -> bytes:
        """Counts as a write."""
        return await self._write(self._client.patch(*args, **options))

    async def delete(self, *args: Any, **options: Any) -> bytes:
        """Counts as a write."""
        return await self._write(self._client.delete(*args, **options))


async def install(cluster: TestCluster, client: Client) -> None:
    """The definitions, and nothing that answers or writes."""
    found = manifests(Options(companions=True, version=(1, cluster.minor)))
    for definition in [*(o for o in found if o["kind"] == "CustomResourceDefinition"), fitted(workload_definition(), (1, cluster.minor))]:
        await put(client, CRDS, definition)
    for resource in (MODEL_DEPLOYMENTS, WORKLOADS):
        await cluster.eventually(lambda resource=resource: client.serves(resource), f"{resource.plural} are never served")


async def made(client: Client, resource: Resource, obj: JSON, namespace: str) -> JSON:
    """Create, with its status where it has one."""
    body = {"apiVersion": resource.api_version, "kind": resource.kind, **obj}
    created: JSON = json.loads(await client.create(resource, json.dumps(body).encode(), namespace))
    if "status" in obj:
        patch = json.dumps({"status": obj["status"]}).encode()
        created = json.loads(await client.patch(resource, created["metadata"]["name"], patch, namespace, subresource="status"))
    return created


async def scene(client: Client, namespace: str) -> dict[str, str]:
    """A deployment of one replica with two of them, and a stored operation that has drained the second. The UIDs by name."""
    role = {"name": "server", "replicas": 1, "instanceType": "h100"}
    spec = {"model": {"name": "m"}, "engine": {"name": "vLLM", "version": "0.29.0"}, "roles": [role]}
    owner = await made(client, MODEL_DEPLOYMENTS, {"metadata": {"name": "chat"}, "spec": spec}, namespace)
    uids = {}
    for ordinal in (0, 1):
        reference = {
            "apiVersion": owner["apiVersion"],
            "kind": owner["kind"],
            "name": "chat",
            "uid": owner["metadata"]["uid"],
            "controller": True,
        }
        meta = {
            "name": f"chat-{ordinal}",
            "labels": {**LABELS, "modeldeployment.gpustack.ai/pod-ordinal": str(ordinal)},
            "annotations": {"prometheus.io/port": "8000"},
            "ownerReferences": [reference],
        }
        ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        containers = [{"name": "main", "image": "none"}]
        pod = await made(client, PODS, {"metadata": meta, "spec": {"containers": containers}, "status": ready}, namespace)
        uids[meta["name"]] = pod["metadata"]["uid"]
        owns = {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": pod["metadata"]["uid"]}
        reserved = {
            "type": "QuotaReserved",
            "status": "True",
            "reason": "QuotaReserved",
            "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        workload = {"metadata": {"name": f"w{ordinal}", "ownerReferences": [owns]}, "spec": {}, "status": {"conditions": [reserved]}}
        uids[f"w{ordinal}"] = (await made(client, WORKLOADS, workload, namespace))["metadata"]["uid"]
    operation = {
        "roleName": "server",
        "replicaOrdinal": 1,
        "observedGeneration": 1,
        "targetMemberUIDs": [uids["chat-1"]],
        "targetWorkloadUID": uids["w1"],
        "state": "Deleting",
        "reason": "drained",
        "startedAt": "2026-01-01T00:00:00Z",
        "deadline": "2026-01-01T00:05:00Z",
        "phaseStartedAt": "2026-01-01T00:00:00Z",
    }
    status = {"phase": "Ready", "retirement": operation}
    await client.patch(MODEL_DEPLOYMENTS, "chat", json.dumps({"status": status}).encode(), namespace, subresource="status")
    return uids


@asynccontextmanager
async def controller(client: Any, namespace: str) -> AsyncIterator[None]:
    """A controller of that namespace that performs retirements; killed at the end."""
    settings = ControllerSettings(
        status=StatusSettings(act="retire"), observers=ObserverSettings(enabled=False), namespace=namespace, leader_election=False
    )
    task = asyncio.create_task(Controller(client, settings, SystemClock()).run())
    try:
        yield
        if task.done():
            task.result()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def gone(client: Client, resource: Resource, name: str, namespace: str) -> bool:
    """Whether the object reads no more."""
    try:
        await client.get(resource, name, namespace)
    except NotFound:
        return True
    return False


@pytest.mark.parametrize("crash_after", range(6))
async def test_a_retirement_ends_whenever_its_controller_is_killed(cluster: TestCluster, crash_after: int) -> None:
    """The captured Pod and its Workload are deleted, nothing else is, and the operation is cleared."""
    client = await cluster.client()
    await install(cluster, client)
    space = await cluster.namespace(f"retire{crash_after}")
    uids = await scene(client, space)
    dying = Dying(client, crash_after)
    async with controller(dying, space):
        try:
            async with asyncio.timeout(4):
                await dying.died.wait()
        except TimeoutError:
            pass  # the operation took fewer writes than that
    async with controller(client, space):

        async def over() -> bool:
            found = json.loads(await client.get(MODEL_DEPLOYMENTS, "chat", space))
            return "retirement" not in found["status"] and await gone(client, PODS, "chat-1", space)

        await cluster.eventually(over, "the operation never ends")
        await cluster.eventually(lambda: gone(client, WORKLOADS, "w1", space), "the Workload is never deleted")
        kept = json.loads(await client.get(PODS, "chat-0", space))
        assert kept["metadata"]["uid"] == uids["chat-0"]
        assert kept["metadata"]["labels"]["modeldeployment.gpustack.ai/endpoint-eligible"] == "true"
        assert "deletionTimestamp" not in kept["metadata"]
        assert json.loads(await client.get(WORKLOADS, "w0", space))["metadata"]["uid"] == uids["w0"]
