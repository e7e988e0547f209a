"""Several replicas of a controller that share a fleet, on one fake API and in virtual time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from cluster import FakeCluster
from things import deployment, pod, workload
from virtual import VirtualClock, settle

from controller.service import Controller
from controller.settings import ControllerSettings, ObserverSettings
from kube.errors import TransportError

SYSTEM = "modelwarden-system"
NAMES = tuple(f"chat{number}" for number in range(8))
SHARDS = 4
SHORT: dict[str, float] = {"lease_duration": 6.0, "renew_deadline": 4.0, "retry_period": 1.0}


class Line:
    """One replica's way to the API server; `cut` ends it. It notes what it wrote."""

    def __init__(self, api: FakeCluster) -> None:
        self._api = api
        self.cut = False
        self.written: list[str] = []

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._api, name)
        if name in ("pages", "watch"):
            return call if not self.cut else _dead

        async def called(*args: Any, **options: Any) -> Any:
            if self.cut:
                raise TransportError("cut")
            if name == "patch" and options.get("subresource") == "status":
                self.written.append(args[1])
            return await call(*args, **options)

        return called


async def _dead(*_: Any, **__: Any) -> AsyncIterator[Any]:
    raise TransportError("cut")
    yield


class Fleet:
    """Controllers against one API."""

    def __init__(self) -> None:
        self.api = FakeCluster()
        self.clock = VirtualClock()
        self.controllers: list[Controller] = []
        self.lines: list[Line] = []
        self.tasks: list[asyncio.Task[None]] = []
        for name in NAMES:
            made = self.api.put(deployment(name, replicas=1))
            member = self.api.put(pod(made, f"{name}-0", 0).ready().json)
            self.api.put(workload(member, name=f"w-{name}"))

    async def birth(self, shards: int = SHARDS, **more: Any) -> Controller:
        """A further replica."""
        chosen = ControllerSettings(
            observers=ObserverSettings(enabled=False), identity=f"r{len(self.tasks)}", shards=shards, **SHORT, **more
        )
        line = Line(self.api)
        made = Controller(line, chosen, self.clock)  # type: ignore[arg-type]  # a client in all that is used
        self.controllers.append(made)
        self.lines.append(line)
        self.tasks.append(asyncio.create_task(made.run()))
        await settle(300)
        return made

    async def pass_seconds(self, seconds: float) -> None:
        """A quarter at a time, so that what is woken has its turn."""
        for _ in range(round(seconds * 2)):
            await self.clock.advance(0.5)

    def held(self) -> list[int]:
        """How many shards each holds."""
        return [len(each.election.held) for each in self.controllers if hasattr(each.election, "held")]

    def flip(self, name: str, *, ready: bool) -> None:
        """A Pod turns ready or unready."""
        state = "True" if ready else "False"
        self.api.touch("Pod", f"{name}-0", lambda item: item["status"].update(conditions=[{"type": "Ready", "status": state}]))

    def phases(self) -> set[str]:
        """Of all deployments."""
        return {self.api.status(name).get("phase", "") for name in NAMES}


@asynccontextmanager
async def fleet() -> AsyncIterator[Fleet]:
    found = Fleet()
    try:
        yield found
    finally:
        for task in found.tasks:
            task.cancel()
        await asyncio.gather(*found.tasks, return_exceptions=True)
