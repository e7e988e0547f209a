"""What the API server asks our webhooks about, and what it does when they cannot tell."""

import json

import pytest
from clusterkit import TestCluster
from product import MODEL_DEPLOYMENTS, deployment, product

from kube.client import Client
from kube.errors import ApiError, ServerError
from kube.resources import PODS
from local import rendering
from webhooks.server import ReviewServer

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(110)]

BODY = {
    "apiVersion": MODEL_DEPLOYMENTS.api_version,
    "kind": "ModelDeployment",
    "metadata": {"name": "chat"},
    "spec": {
        "model": {"name": "m"},
        "engine": {"name": "vLLM", "version": "0.29.0"},
        "roles": [{"name": "server", "instanceType": "writes-h100"}],
    },
}


async def declared(cluster: TestCluster, client: Client, namespace: str) -> None:
    """The deployment, and the InstanceType that it names."""
    kind = {"apiVersion": "worker.gpustack.ai/v1", "kind": "InstanceType", "metadata": {"name": "writes-h100"}}
    await cluster.keep("/apis/worker.gpustack.ai/v1/instancetypes", {**kind, "spec": {"acceleratable": True, "acceleratorGroup": "nvidia"}})
    await client.create(MODEL_DEPLOYMENTS, json.dumps(BODY).encode(), namespace)


async def test_a_status_write_calls_no_webhook(cluster: TestCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """With every review failing a write of the object is refused, and a person's write of its status goes through."""
    client = await cluster.client()
    async with product(cluster):
        space = await cluster.namespace("writes")
        await declared(cluster, client, space)
        asked: list[str] = []

        async def broken(_: ReviewServer, path: str, body: bytes) -> tuple[int, bytes]:
            asked.append(path)
            return 500, b"{}"

        monkeypatch.setattr(ReviewServer, "review", broken)
        patch = b'{"status":{"phaseMessage":"by hand"}}'
        await client.patch(MODEL_DEPLOYMENTS, "chat", patch, space, subresource="status", field_manager="alice")
        assert asked == []
        with pytest.raises(ApiError):
            await client.patch(MODEL_DEPLOYMENTS, "chat", b'{"spec":{"roles":[]}}', space)
        assert asked != []


async def test_a_pod_of_a_deployment_that_cannot_be_read_is_refused(cluster: TestCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The look-up fails: an internal error, and failurePolicy keeps the Pod out; it comes in with its gates when the look-up succeeds."""
    client = await cluster.client()
    async with product(cluster):
        space = await cluster.namespace("writes")
        await declared(cluster, client, space)
        owner = await deployment(client, "chat", space)
        pod = json.dumps(rendering.pod(owner, owner["spec"]["roles"][0], 0, 0)).encode()
        read = Client.get

        async def get(self: Client, resource: object, name: str, namespace: str | None = None) -> bytes:
            if getattr(resource, "plural", "") == "modeldeployments":
                raise ServerError(500, "InternalError", "no")
            return await read(self, resource, name, namespace)  # type: ignore[arg-type]

        monkeypatch.setattr(Client, "get", get)
        with pytest.raises(ApiError) as refused:
            await client.create(PODS, pod, space)
        assert refused.value.code == 500
        assert "failed calling webhook" in str(refused.value)
        monkeypatch.undo()
        made = json.loads(await client.create(PODS, pod, space))
        assert made["spec"]["containers"][0]["readinessProbe"]["httpGet"]["path"] == "/health"
