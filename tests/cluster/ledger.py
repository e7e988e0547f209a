"""What really happened, told by resourceVersions: every version of the Lease and of every deployment, and which replica's request made it.

A cluster counts its writes; a status write and a change of the Lease are therefore in an order that no clock can blur. Whoever made a
version has to be the holder that the Lease named last before it.
"""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from faultproxy import Call
from product import MODEL_DEPLOYMENTS, SYSTEM
from replicas import Pair, Replica

from app.clock import SystemClock
from kube.client import Client
from kube.errors import Gone, KubeError
from kube.resources import LEASES, Resource
from local.acting import Cast

JSON = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Seen:
    """One version of an object, as a watch showed it."""

    at: float
    version: int
    obj: JSON


class History:
    """Every version of the objects of a namespace."""

    def __init__(self, client: Client, resource: Resource, namespace: str) -> None:
        self._client = client
        self._resource = resource
        self._namespace = namespace
        self.seen: list[Seen] = []
        self._versions: set[int] = set()

    async def begun(self) -> bool:
        """Whether anything was seen."""
        return bool(self.seen)

    def _take(self, obj: JSON) -> None:
        version = int(obj["metadata"]["resourceVersion"])
        if version not in self._versions:
            self._versions.add(version)
            self.seen.append(Seen(time.monotonic(), version, obj))

    async def run(self) -> None:
        """Until cancelled. A server that is away is asked again."""
        version = ""
        while True:
            try:
                if not version:
                    async for page in self._client.pages(self._resource, self._namespace):
                        version = page.resource_version
                        for item in page.items:
                            self._take(json.loads(bytes(item)))
                async for event in self._client.watch(self._resource, self._namespace, resource_version=version):
                    obj = json.loads(bytes(event.object))
                    version = obj["metadata"]["resourceVersion"]
                    if event.type in ("ADDED", "MODIFIED"):
                        self._take(obj)
            except Gone:
                version = ""
            except KubeError:
                await asyncio.sleep(0.2)


class World:
    """Some deployments of one replica each, everything around them in place, and who writes about them."""

    def __init__(self, pair: Pair, namespace: str, names: tuple[str, ...]) -> None:
        self.pair = pair
        self.namespace = namespace
        self.names = names
        self.cast = Cast(pair.client, SystemClock(), namespace)
        self.deployments = History(pair.client, MODEL_DEPLOYMENTS, namespace)
        self.leases = History(pair.client, LEASES, SYSTEM)

    async def build(self) -> None:
        """Declare, seat and make ready."""
        for name in self.names:
            role = {"name": "server", "replicas": 1, "instanceType": "outage-h100"}
            spec = {"model": {"name": "m"}, "engine": {"name": "vLLM", "version": "0.29.0"}, "roles": [role]}
            body = {"apiVersion": MODEL_DEPLOYMENTS.api_version, "kind": "ModelDeployment", "metadata": {"name": name}, "spec": spec}
            await self.pair.client.create(MODEL_DEPLOYMENTS, json.dumps(body).encode(), self.namespace)
            await self.cast.converge(name)
            await self.cast.ready(name)

    async def ready_counts(self) -> dict[str, int | None]:
        """`ready` of each deployment's role as it is stored; None where there is no status."""
        found: dict[str, int | None] = {}
        async for page in self.pair.client.pages(MODEL_DEPLOYMENTS, self.namespace):
            for item in page.items:
                obj = json.loads(bytes(item))
                found[obj["metadata"]["name"]] = ready_of(obj)
        return found

    async def flip(self, ready: bool, names: tuple[str, ...] | None = None) -> None:
        """The Pod of each deployment becomes ready, or stops being so."""
        for name in names or self.names:
            await self.cast.ready(name, ready=ready)

    async def told(self, count: int, names: tuple[str, ...] | None = None, seconds: float = 60) -> float:
        """Seconds until every status says so many."""
        began = time.monotonic()
        wanted = names or self.names

        async def all_told() -> bool:
            counts = await self.ready_counts()
            return all(counts[name] == count for name in wanted)

        try:
            await self.pair.cluster.eventually(all_told, "the statuses do not come", seconds)
        except AssertionError as never:
            raise AssertionError(f"{never}: {await self.ready_counts()}") from None
        return time.monotonic() - began

    def each(self, *counts: int) -> dict[str, list[int | None]]:
        """What `counts_told` is when every deployment's status told just these."""
        return {name: list(counts) for name in self.names}

    async def quiet(self, seconds: float = 1.5) -> None:
        """Wait until no version came for so long."""

        async def silent() -> bool:
            return time.monotonic() - max(seen.at for seen in self.deployments.seen) > seconds

        await self.pair.cluster.eventually(silent, "the deployments never come to rest")

    # --------------------------------------------------------------------------------------------------------- judgement

    async def status_writes_held(self, replica: Replica) -> int:
        """Status writes of the namespace that its proxy keeps back."""
        return sum(self._writes_status(call) and not call.sent for call in replica.proxy.calls)

    def late_writes(self, replica: Replica, since: float) -> list[int]:
        """The codes that status writes got which the replica sent before that moment and which the server saw after it."""
        return [call.code for call in replica.proxy.calls if self._writes_status(call) and call.came < since <= call.sent]

    def _writes_status(self, call: Call) -> bool:
        return call.method == "PATCH" and call.path.endswith("/status") and f"/namespaces/{self.namespace}/" in call.path

    def writes_of(self, replica: Replica, since: float = 0.0) -> list[tuple[int, JSON]]:
        """(version, patch) of every status write of that replica that the server carried out."""
        return [
            (int(call.version), json.loads(call.body))
            for call in replica.proxy.since(since)
            if self._writes_status(call) and call.code < 300 and call.version
        ]

    def status_versions(self, since: int = 0) -> list[Seen]:
        """The versions of deployments that a status write made."""
        last: dict[str, JSON] = {}
        found = []
        for seen in sorted(self.deployments.seen, key=lambda each: each.version):
            name = seen.obj["metadata"]["name"]
            status = seen.obj.get("status") or {}
            if name in last and last[name] != status and seen.version > since:
                found.append(seen)
            last[name] = status
        return found

    def newest(self) -> int:
        """The newest version seen."""
        return max((seen.version for history in (self.deployments, self.leases) for seen in history.seen), default=0)

    def holder_at(self, version: int) -> str:
        """Whom the Lease named when that version was made; "" for nobody."""
        before = [seen for seen in self.leases.seen if seen.version < version]
        if not before:
            return ""
        return str(max(before, key=lambda seen: seen.version).obj["spec"].get("holderIdentity") or "")

    def overlaps(self, since: int = 0) -> list[str]:
        """Status writes that landed though the Lease named another: (at most one writer, so none)."""
        found = []
        for replica in self.pair.replicas:
            for version, patch in self.writes_of(replica):
                holder = self.holder_at(version)
                if version > since and not holder.startswith(f"{replica.name}_"):
                    found.append(f"{replica.name} wrote version {version} while the Lease named {holder or 'nobody'}: {patch}")
        return found

    def strangers(self, since: int = 0) -> list[Seen]:
        """Versions of statuses that no replica's answered request made: a write that landed after its sender was told otherwise."""
        ours = {version for replica in self.pair.replicas for version, _ in self.writes_of(replica)}
        return [seen for seen in self.status_versions(since) if seen.version not in ours]

    def counts_told(self, since: int = 0) -> dict[str, list[int | None]]:
        """By deployment the `ready` of every status version since then, in order."""
        found: dict[str, list[int | None]] = {name: [] for name in self.names}
        for seen in self.status_versions(since):
            found[seen.obj["metadata"]["name"]].append(ready_of(seen.obj))
        return found


def ready_of(obj: JSON) -> int | None:
    """`ready` of the only role; None where nothing is told."""
    roles = (obj.get("status") or {}).get("roles") or []
    return roles[0].get("ready") if roles else None


@asynccontextmanager
async def world(pair: Pair, count: int = 6) -> AsyncIterator[World]:
    """Built, settled, recorded."""
    namespace = await pair.cluster.namespace("outage")
    found = World(pair, namespace, tuple(f"chat-{number}" for number in range(count)))
    recording = [asyncio.create_task(history.run()) for history in (found.deployments, found.leases)]
    try:
        await pair.cluster.eventually(found.leases.begun, "the Lease is never seen")
        await found.build()
        await found.told(1)
        yield found
    finally:
        for task in recording:
            task.cancel()
        await asyncio.gather(*recording, return_exceptions=True)
        for name in found.names:
            with contextlib.suppress(KubeError):
                await pair.client.delete(MODEL_DEPLOYMENTS, name, namespace)
