"""Replicas of a sharded fleet without the fleet: real elections on virtual time against an API server that holds Leases and nothing else.

A replica may be killed, stopped cleanly, paused (SIGSTOP: its clock runs on, it does not), cut off, slowed down, or robbed of answers to
its writes. Its clock is a little fast or slow. Under each shard that it leads it writes now and then, as the service does.
"""

import asyncio
import json
import random
from collections.abc import AsyncGenerator, Callable
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from controller.election import Election
from controller.settings import ControllerSettings
from controller.sharding import ShardElection
from kube.client import Page
from kube.errors import AlreadyExists, Conflict, NotFound, RequestTimeout, TransportError
from tests.simulation.timing import EPOCH

Lease = dict[str, Any]
COMMON: Final = ControllerSettings().lease_name
DRIFT: Final = 0.02
NOTHING: Final[frozenset[int]] = frozenset()
ALL: Final = frozenset({0})


class LeaseServer:
    """Objects with versions; a write over an old version is a Conflict."""

    def __init__(self) -> None:
        self.leases: dict[str, Lease] = {}
        self.version = 0
        self.writes = 0
        self.reads = 0
        self.down = False

    def store(self, lease: Lease, *, over: str | None) -> Lease:
        """`over` None creates. Raises the error tree."""
        name = lease["metadata"]["name"]
        known = self.leases.get(name)
        if over is None and known is not None:
            raise AlreadyExists(409, "AlreadyExists", name)
        if over is not None and known is None:
            raise NotFound(404, "NotFound", name)
        if over is not None and known is not None and over not in ("", known["metadata"]["resourceVersion"]):
            raise Conflict(409, "Conflict", name)
        self.version += 1
        self.writes += 1
        lease["metadata"]["resourceVersion"] = str(self.version)
        self.leases[name] = lease
        return lease


class Replica:
    """One process. `fault` is "", "cut", "slow", "lossy" or "partial": then the common Lease alone cannot be written."""

    def __init__(self, server: LeaseServer, name: str, shards: int, rng: random.Random, preferred: int | None = None) -> None:
        self.name = name
        self.shards = shards
        self.server = server
        self.rng = rng
        self.fault = ""
        self.alive = True
        self.paused = asyncio.Event()
        self.paused.set()
        self.disturbed_at = -1e9
        self.writing: dict[int, int] = {}
        self.on_write: Callable[[Replica, int], None] = lambda _r, _s: None
        self._rate = 1 + DRIFT * (2 * rng.random() - 1)
        self.settings = ControllerSettings(identity=name, shards=shards, preferred_shard=preferred)
        self.election: Election | ShardElection
        if shards == 1:
            self.election = Election(self, self.settings, self, rand=rng.random)  # type: ignore[arg-type]  # a client in all that is used
        else:
            self.election = ShardElection(self, self.settings, self, drain=self.drained, rng=rng)  # type: ignore[arg-type]
        self.task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        if isinstance(self.election, Election):
            await self.election.run(lambda: self._lead(0))
        else:
            await self.election.run(self._lead)

    def writes(self) -> frozenset[int]:
        """The shards that it may write now."""
        if not self.alive:
            return NOTHING
        if isinstance(self.election, Election):
            return ALL if self.election.may_write else NOTHING
        terms = self.election._terms
        return frozenset(shard for shard in terms if self.election.may_write(shard)) if terms else NOTHING

    def handing(self, shard: int) -> bool:
        """Whether it is giving that shard away."""
        term = self.election._terms.get(shard) if isinstance(self.election, ShardElection) else None
        return term is not None and term.handover is not None

    # -------------------------------------------------------------------------------------------------------- its writing

    async def _lead(self, shard: int) -> None:
        while True:
            await self.sleep(0.3 + self.rng.random())
            if shard not in self.writes():
                continue
            self.writing[shard] = self.writing.get(shard, 0) + 1
            loop = asyncio.get_running_loop()
            landed = loop.create_future()
            loop.call_later(self.rng.random(), self._land, shard, landed)  # whatever becomes of this task: it is on its way
            await landed

    def _land(self, shard: int, landed: asyncio.Future[None]) -> None:
        self.writing[shard] -= 1
        if self.alive and not self.fault and not self.server.down:
            self.on_write(self, shard)
        if not landed.done():
            landed.set_result(None)

    async def drained(self, shard: int) -> None:
        """Wait for its writes under way."""
        while self.writing.get(shard):
            await self.sleep(0.05)

    # ----------------------------------------------------------------------------------------------------------- its fate

    def kill(self) -> None:
        """Nothing of it reaches the world any more."""
        self.alive = False
        self.paused.set()
        self.task.cancel()

    def stop(self) -> None:
        """A clean end."""
        self.task.cancel()

    # ---------------------------------------------------------------------------------------------------------- its clock

    def now(self) -> datetime:
        """Never compared with anybody's."""
        return EPOCH + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        """Runs on while it is paused."""
        return asyncio.get_running_loop().time() * self._rate

    async def sleep(self, seconds: float) -> None:
        """Whoever is paused when it is over goes on after the pause."""
        await asyncio.sleep(seconds / self._rate)
        await self.paused.wait()

    # --------------------------------------------------------------------------------------------------------- its client

    async def _way(self, name: str = "") -> None:
        await asyncio.sleep(self.rng.random() * (6.0 if self.fault == "slow" else 0.05))
        if not self.alive or self.fault == "cut" or self.server.down or (self.fault == "partial" and name == COMMON):
            await asyncio.sleep(self.rng.choice((0.0, 0.1, 8.0)))
            raise TransportError("no answer")

    async def _back(self) -> None:
        await asyncio.sleep(self.rng.random() * 0.02)
        await self.paused.wait()
        if not self.alive or (self.fault == "lossy" and self.rng.random() < 0.5):
            raise RequestTimeout("the answer was lost")

    async def get(self, _: object, name: str, _namespace: str | None = None) -> bytes:
        """One Lease."""
        await self._way()
        found = self.server.leases.get(name)
        self.server.reads += 1
        body = json.dumps(found).encode()
        await self._back()
        if found is None:
            raise NotFound(404, "NotFound", name)
        return body

    async def pages(self, _: object, _namespace: str | None = None, **_options: Any) -> AsyncGenerator[Page, None]:
        """Every Lease."""
        await self._way()
        self.server.reads += 1
        page = Page([msgspec.Raw(json.dumps(lease).encode()) for lease in self.server.leases.values()], str(self.server.version))
        await self._back()
        yield page

    async def create(self, _: object, body: bytes, _namespace: str | None = None) -> bytes:
        """A new Lease."""
        await self._way(json.loads(body)["metadata"]["name"])
        answer = json.dumps(self.server.store(json.loads(body), over=None)).encode()
        await self._back()
        return answer

    async def replace(self, _: object, name: str, body: bytes, _namespace: str | None = None) -> bytes:
        """Over the version that it carries."""
        await self._way(name)
        lease = json.loads(body)
        answer = json.dumps(self.server.store(lease, over=lease["metadata"].get("resourceVersion", ""))).encode()
        await self._back()
        return answer
