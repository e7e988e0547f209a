"""The service on the embedded cluster, in one process, over HTTPS both ways: what is refused, what is judged, and how it leaves."""

import asyncio
import base64
import json
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
import yaml

from app.board import DEPLOYMENTS
from app.clock import SystemClock
from app.planting import plant
from app.service import assemble
from app.settings import load
from kube.client import Client
from kube.config import connect
from kube.errors import Invalid
from kube.resources import LEASES, MUTATING_WEBHOOKS, NAMESPACES, SECRETS, VALIDATING_WEBHOOKS, Resource
from local.cluster import EmbeddedCluster

EXAMPLES = Path(__file__).parents[2] / "examples"
SYSTEM = "modelwarden-system"

WORKER = {
    kind: Resource("worker.gpustack.ai", "v1", plural, kind, namespaced=namespaced)
    for kind, plural, namespaced in (
        ("ModelDeployment", "modeldeployments", True),
        ("ModelDeploymentScaler", "modeldeploymentscalers", True),
        ("InstanceType", "instancetypes", False),
        ("KVCachePool", "kvcachepools", False),
        ("KVCachePoolBinding", "kvcachepoolbindings", True),
    )
} | {"Namespace": NAMESPACES}


@pytest.fixture(scope="module", autouse=True)
def one_service_per_process():
    """Admission's collectors are registered once per process, so this module's tests share theirs with nobody."""
    from prometheus_client import REGISTRY

    before = set(REGISTRY._collector_to_names)
    yield
    for collector in set(REGISTRY._collector_to_names) - before:
        REGISTRY.unregister(collector)


def documents(path: Path) -> list[dict]:
    return [document for document in yaml.safe_load_all(path.read_text(encoding="utf-8")) if document]


async def apply(client: Client, document: dict, *, dry_run: bool = False) -> dict:
    meta = document["metadata"]
    body = msgspec.json.encode(document)
    answer = await client.patch(
        WORKER[document["kind"]], meta["name"], body, meta.get("namespace"), kind="apply", field_manager="test", force=True, dry_run=dry_run
    )
    return json.loads(answer)


async def judged(client: Client, name: str) -> dict:
    """The deployment once its status is there."""
    async for event in client.watch(DEPLOYMENTS, "team-a", resource_version="", field_selector=f"metadata.name={name}"):
        found = json.loads(bytes(event.object))
        if found.get("status", {}).get("observedGeneration") == found["metadata"].get("generation"):
            return found
    raise AssertionError("the watch ended")


@asynccontextmanager
async def whole(folder: Path):
    """Cluster, manifests and service, ready; the prerequisites of the examples are there."""
    settings = load(
        environ={},
        flags={"serve.host": "127.0.0.1", "serve.port": 0, "kueue": "absent", "serve.drainSeconds": 0, "observers.enabled": False},
    ).settings
    cluster = EmbeddedCluster(state_dir=folder)
    await cluster.start()
    try:
        async with await connect(str(cluster.kubeconfig)) as client:
            await plant(client, SYSTEM)
            service = assemble(settings, client, SystemClock())
            cluster.webhook_services[SYSTEM, "modelwarden"] = service.https.address
            stop = asyncio.Event()
            task = asyncio.create_task(service.run(stop))
            try:
                async with asyncio.timeout(20):
                    await service.keeper.loaded.wait()
                    for document in documents(EXAMPLES / "00-prerequisites.yaml"):
                        await apply(client, document)
                yield client, service
            finally:
                stop.set()
                async with asyncio.timeout(10):
                    await task
            assert json.loads(await client.get(LEASES, "modelwarden", SYSTEM))["spec"]["holderIdentity"] in ("", None)
    finally:
        await cluster.stop()


async def test_from_manifests_to_statuses(tmp_path):
    """Every accepted example is admitted and judged, every refused one is refused by a webhook or the schema, and the end is clean."""
    async with asyncio.timeout(60), whole(tmp_path) as (client, service):
        secret = json.loads(await client.get(SECRETS, "modelwarden-certs", SYSTEM))
        for resource, name in ((VALIDATING_WEBHOOKS, "modelwarden-validating"), (MUTATING_WEBHOOKS, "modelwarden-mutating")):
            hooks = json.loads(await client.get(resource, name))["webhooks"]
            assert {hook["clientConfig"]["caBundle"] for hook in hooks} == {secret["data"]["ca.crt"]}
        assert base64.b64decode(secret["data"]["ca.crt"]) == service.keeper.held.bundle

        summaries = {}
        for path in sorted(EXAMPLES.glob("*.yaml")):
            for document in documents(path):
                if path.name != "00-prerequisites.yaml":
                    await apply(client, document)
                if document["kind"] == "ModelDeployment":
                    found = await judged(client, document["metadata"]["name"])
                    summaries[found["metadata"]["name"]] = (found["status"]["roleSummary"], found["status"]["phase"])
        assert summaries == {
            "qwen3-cached": ("0S", "Starting"),
            "qwen3-pd": ("0R0P0D", "Starting"),
            "qwen3-scaled": ("0S", "Starting"),
            "qwen3-server": ("0S", "Starting"),
        }

        refused = {}
        for path in sorted((EXAMPLES / "refused").glob("*.yaml")):
            if path.name == "replicas-of-a-scaler.yaml":
                continue  # refused only once the scaler is bound: the fence's own tests
            for document in documents(path):
                with pytest.raises(Invalid) as caught:
                    await apply(client, document, dry_run=True)
                refused[path.stem] = [cause["field"] for cause in caught.value.details["causes"]]
        assert refused["owned-flag"] == ["spec.roles[0].extraArgs[1]"]
        assert refused["unreadable-argument"] == ["spec.roles[0].extraArgs[0]"]
        assert refused["width"] == ["spec.roles[0].resources.accelerator"]
        assert refused["privileged"] == ["spec.roles[0].privileged"]
        assert refused["external-balance-without-router"] == ["spec.router"]
