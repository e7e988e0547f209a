"""The whole product in one process, for tests: embedded cluster, our manifests in it, the service against it."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec
import yaml
from prometheus_client import REGISTRY

from api.clock import Clock
from app.clock import SystemClock
from app.planting import plant
from app.service import Service, assemble
from app.settings import load
from kube.client import Client
from kube.config import connect
from kube.resources import MUTATING_WEBHOOKS, NAMESPACES, VALIDATING_WEBHOOKS, Resource
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

FLAGS = {"serve.host": "127.0.0.1", "serve.port": 0, "serve.drainSeconds": 0, "kueue": "absent", "observers.enabled": False}


@dataclass(frozen=True)
class Whole:
    """What a test holds of it."""

    client: Client
    service: Service
    stop: asyncio.Event

    async def apply(self, document: dict, *, dry_run: bool = False) -> dict:
        """Server-side apply of one object."""
        meta = document["metadata"]
        body = msgspec.json.encode(document)
        answer = await self.client.patch(
            WORKER[document["kind"]],
            meta["name"],
            body,
            meta.get("namespace"),
            kind="apply",
            field_manager="test",
            force=True,
            dry_run=dry_run,
        )
        return json.loads(answer)

    async def published(self) -> bytes:
        """The one bundle that all of our webhooks carry."""
        found = set()
        for resource, name in ((VALIDATING_WEBHOOKS, "modelwarden-validating"), (MUTATING_WEBHOOKS, "modelwarden-mutating")):
            found |= {hook["clientConfig"]["caBundle"] for hook in json.loads(await self.client.get(resource, name))["webhooks"]}
        (only,) = found
        return base64.b64decode(only)


def documents(path: Path) -> list[dict]:
    """Every object of a YAML file."""
    return [document for document in yaml.safe_load_all(path.read_text(encoding="utf-8")) if document]


@contextmanager
def own_collectors() -> Iterator[None]:
    """Admission's collectors are registered once per process, and a test run makes several services."""
    before = set(REGISTRY._collector_to_names)
    try:
        yield
    finally:
        for collector in set(REGISTRY._collector_to_names) - before:
            REGISTRY.unregister(collector)


@asynccontextmanager
async def whole(folder: Path, clock: Clock | None = None, **flags: object) -> AsyncIterator[Whole]:
    """Up, with the prerequisites of the examples; stopped gracefully at the end."""
    with own_collectors():
        async with _whole(folder, clock, flags) as world:
            yield world


@asynccontextmanager
async def _whole(folder: Path, clock: Clock | None, flags: dict[str, object]) -> AsyncIterator[Whole]:
    settings = load(environ={}, flags=FLAGS | {key.replace("__", "."): value for key, value in flags.items()}).settings
    cluster = EmbeddedCluster(state_dir=folder)
    await cluster.start()
    try:
        async with await connect(str(cluster.kubeconfig)) as client:
            await plant(client, SYSTEM)
            service = assemble(settings, client, clock or SystemClock())
            cluster.webhook_services[SYSTEM, "modelwarden"] = service.https.address
            stop = asyncio.Event()
            task = asyncio.create_task(service.run(stop))
            world = Whole(client, service, stop)
            try:
                async with asyncio.timeout(30):
                    await service.keeper.loaded.wait()
                    for document in documents(EXAMPLES / "00-prerequisites.yaml"):
                        await world.apply(document)
                yield world
            finally:
                stop.set()
                async with asyncio.timeout(20):
                    await task
    finally:
        await cluster.stop()
