"""An embedded cluster at hand: HTTP as one user, time that stands until it is moved, and small objects."""

import asyncio
import base64
import heapq
import itertools
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import yaml

from local.cluster import EmbeddedCluster

JSON = dict[str, Any]
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
START = datetime(2026, 1, 1, tzinfo=UTC)


class StillClock:
    """Time stands. `pass_by` moves it and wakes whoever slept until then."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._count = itertools.count()

    def now(self) -> datetime:
        return START + timedelta(seconds=self.seconds)

    def monotonic(self) -> float:
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self.seconds + seconds, next(self._count), waiting))
        await waiting

    def pass_by(self, seconds: float) -> None:
        self.seconds += seconds
        while self._sleepers and self._sleepers[0][0] <= self.seconds:
            _, _, waiting = heapq.heappop(self._sleepers)
            if not waiting.done():
                waiting.set_result(None)


class HastyClock(StillClock):
    """Sleeping moves the time at once."""

    async def sleep(self, seconds: float) -> None:
        self.seconds += seconds
        await asyncio.sleep(0)


def http(kubeconfig: Path) -> httpx.AsyncClient:
    """Plain HTTP as the user of a kubeconfig."""
    document = yaml.load(kubeconfig.read_text(), LOADER)
    cluster, user = document["clusters"][0]["cluster"], document["users"][0]["user"]
    trust = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
    for name in ("client-certificate-data", "client-key-data"):
        (kubeconfig.parent / f".{name}").write_bytes(base64.b64decode(user[name]))
    trust.load_cert_chain(kubeconfig.parent / ".client-certificate-data", kubeconfig.parent / ".client-key-data")
    return httpx.AsyncClient(base_url=cluster["server"], verify=trust, trust_env=False, timeout=20)


@asynccontextmanager
async def running(folder: Path, **options: Any) -> AsyncIterator[tuple[EmbeddedCluster, httpx.AsyncClient]]:
    """A started cluster and its administrator."""
    cluster = EmbeddedCluster(state_dir=folder, **options)
    await cluster.start()
    try:
        async with http(cluster.kubeconfig) as client:
            yield cluster, client
    finally:
        await cluster.stop()


async def settle(cluster: EmbeddedCluster) -> None:
    """Let the collector finish what it was told."""
    for _ in range(200):
        await asyncio.sleep(0)
        if cluster.collector.idle:
            return
    raise AssertionError("the collector does not come to rest")


def config_map(name: str, **more: Any) -> JSON:
    """A ConfigMap."""
    return {"metadata": {"name": name, **more}, "data": {"a": "b"}}


def pod(name: str, *, node: str = "n1", grace: int = 30) -> JSON:
    """A Pod on a node."""
    container = {"name": "main", "image": "example.invalid/x:1"}
    spec = {"nodeName": node, "terminationGracePeriodSeconds": grace, "containers": [container]}
    return {"metadata": {"name": name}, "spec": spec}


def owner(obj: JSON, **more: Any) -> JSON:
    """A reference to an object."""
    return {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "name": obj["metadata"]["name"], "uid": obj["metadata"]["uid"], **more}


MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"


def lines(text: str) -> list[JSON]:
    """The events of a finished watch."""
    return [json.loads(line) for line in text.splitlines()]
