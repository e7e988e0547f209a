"""The stand-in as a process: `python -m bench.fleet.standin SIZE PODS CERT KEY CORE`.

It serves HTTPS on a free port of loopback and takes orders as JSON lines, one answer line to each: who is watched, what is to happen to the
fleet, what was counted. It looks at the subject's CPU time and memory itself, at the very moment of a request that marks a boundary.
"""

import asyncio
import gc
import os
import random
import ssl
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec

from bench.fleet.ledger import Ledger
from bench.fleet.process import cpu_seconds, sample
from bench.fleet.routes import Routes
from bench.fleet.store import PODS, Store
from bench.fleet.wire import listen, port_of
from bench.fleet.world import World

AHEAD: Final = 256  # changes that a storm may be ahead of the slowest reader
LOOK: Final = 0.02
STILL: Final = 0.3  # seconds without a write after which a storm is over


class Standin:
    """The store with what happens to it."""

    def __init__(self, world: World) -> None:
        self.ledger = Ledger()
        self.store = Store(world, self.ledger, self._wrote)
        self.routes = Routes(self.store, self._asked)
        self._pid = 0
        self._lacking: set[int] = set(range(world.size))
        self._marks: dict[str, dict[str, Any]] = {}
        self._all_written = asyncio.Event()
        self._first_asked = asyncio.Event()
        self._random = random.Random(7)

    # -------------------------------------------------------------------------------------------------------- boundaries

    def _mark(self, name: str) -> None:
        if name not in self._marks:
            self._marks[name] = sample(self._pid, time.perf_counter())

    def _asked(self) -> None:
        self._mark("first request")
        self._first_asked.set()

    def _wrote(self, number: int) -> None:
        self._mark("first write")
        if self._lacking:
            self._lacking.discard(number)
            if not self._lacking:
                self._mark("all written")
                self._all_written.set()

    # ------------------------------------------------------------------------------------------------------------- orders

    async def watch(self, pid: int) -> dict[str, Any]:
        """Whom to look at."""
        self._pid = pid
        return {}

    async def written(self, seconds: float) -> dict[str, Any]:
        """Wait until every deployment has a status; the marks with their samples. Without deployments, until one lists."""
        async with asyncio.timeout(seconds):
            if self._lacking:
                await self._all_written.wait()
            await self._first_asked.wait()
        return {"marks": self._marks, **self._now(), **self.ledger.cut()}

    async def singles(self, count: int, gap: float, seconds: float) -> dict[str, Any]:
        """One changed Pod at a time, each waited for; between two of them nothing happens for `gap` seconds."""
        before, began = self._now(), time.perf_counter()
        for _ in range(count):
            self.store.flip(self._random.randrange(len(self.store.world.places)))
            await self._settle(seconds)
            await asyncio.sleep(gap)
        return {**self._since(before, began), **self.ledger.cut()}

    async def storm(self, flips: int, edited: float, cut: bool, seconds: float) -> dict[str, Any]:
        """Every Pod flips that often, in a random order each time; deployments are edited among it, and in the middle watches are cut."""
        before, began = self._now(), time.perf_counter()
        world, feed = self.store.world, self.store.feeds[PODS]
        edits = self._random.sample(range(world.size), max(1, int(world.size * edited))) if edited else []
        total = flips * len(world.places)
        every, done = max(1, total // (len(edits) + 1)), 0
        for _ in range(flips):
            order = list(range(len(world.places)))
            self._random.shuffle(order)
            for index in order:
                while feed.backlog > AHEAD:  # noqa: ASYNC110 - an event a change would cost more than this look
                    await asyncio.sleep(0.001)
                self.store.flip(index)
                done += 1
                if edits and done % every == 0:
                    self.store.edit(edits.pop())
                if cut and done == total // 2:
                    for connection in list(self.routes.watches.get(PODS, ())):
                        connection.cut()
                if done % 64 == 0:
                    await asyncio.sleep(0)
        told = time.perf_counter() - began
        await self._settle(seconds)
        version = -1
        while version != self.store.version:  # what was told may still be on its way through the subject, and be written and taken back
            version, ended, at = self.store.version, self._now(), time.perf_counter()
            await asyncio.sleep(STILL)
            await self._settle(seconds)
        cpu = ended["now"]["cpu"] - before["now"]["cpu"]
        return {"changes": total, "told_seconds": told, "seconds": at - began, "cpu": cpu, **self._now(), **self.ledger.cut()}

    async def quiet(self, seconds: float) -> dict[str, Any]:
        """Nothing happens for so long."""
        self.ledger.cut()
        before, began = self._now(), time.perf_counter()
        await asyncio.sleep(seconds)
        return {**self._since(before, began), **self.ledger.cut()}

    async def state(self) -> dict[str, Any]:
        """Whether everything is written, and how the stand-in itself fares."""
        return {"unwritten": self.store.unwritten(), "owed": len(self.ledger.owed), "standin_cpu": cpu_seconds(os.getpid()), **self._now()}

    async def _settle(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                wait = 0.0005
                while self.ledger.owed or not self.routes.caught_up(PODS) or not self.store.settled():
                    await asyncio.sleep(wait)
                    wait = min(wait * 1.5, LOOK)
        except TimeoutError as late:
            raise TimeoutError(f"{len(self.ledger.owed)} deployments owe a write after {seconds:g} s") from late

    def _now(self) -> dict[str, Any]:
        return {"now": sample(self._pid, time.perf_counter())}

    def _since(self, before: dict[str, Any], began: float) -> dict[str, Any]:
        after = self._now()
        return {**after, "seconds": time.perf_counter() - began, "cpu": after["now"]["cpu"] - before["now"]["cpu"]}


async def obey(standin: Standin) -> None:
    """Take orders until the input ends."""
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    orders: dict[str, Callable[..., Awaitable[dict[str, Any]]]] = {
        name: getattr(standin, name) for name in ("watch", "written", "singles", "storm", "quiet", "state")
    }
    async for line in reader:
        order = msgspec.json.decode(line)
        try:
            answer = await orders[order.pop("do")](**order)
        except Exception as fault:  # noqa: BLE001 - told to whoever gave the order
            answer = {"error": f"{type(fault).__name__}: {fault}"}
        print(msgspec.json.encode(answer).decode(), flush=True)


async def serve(size: int, pods: int, cert: str, key: str) -> None:
    """Build the world, listen, say where, obey."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    standin = Standin(World(size, pods))
    gc.freeze()
    server = await listen(standin.routes.answer, context)
    print(msgspec.json.encode({"port": port_of(server)}).decode(), flush=True)
    async with server:
        await obey(standin)


def main() -> None:
    """Pin and serve."""
    import uvloop

    size, pods, cert, key, core = sys.argv[1:6]
    if int(core) >= 0 and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {int(core)})
    gc.set_threshold(100_000, 50, 50)
    uvloop.run(serve(int(size), int(pods), cert, key))


if __name__ == "__main__":
    main()
