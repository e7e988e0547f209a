"""A controller at work on a fake API, in virtual time."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from cluster import FakeCluster, Request
from things import deployment, pod, workload
from virtual import VirtualClock, settle

from controller.service import Controller
from controller.settings import ControllerSettings, ObserverSettings
from controller.snapshot import StatusSettings


@dataclass
class World:
    """A running controller and what it runs against."""

    api: FakeCluster
    clock: VirtualClock
    controller: Controller
    task: asyncio.Task[None]

    def writes(self) -> list[Request]:
        return [request for request in self.api.sent("patch", "ModelDeployment") if request.subresource == "status"]


def settings(*, kueue: str = "required", act: str = "status", elect: bool = False, identity: str = "a") -> ControllerSettings:
    return ControllerSettings(
        status=StatusSettings(kueue=kueue, act=act),  # type: ignore[arg-type]
        observers=ObserverSettings(enabled=False),
        leader_election=elect,
        identity=identity,
    )


@asynccontextmanager
async def running(
    api: FakeCluster, chosen: ControllerSettings | None = None, *, prepare: Callable[[FakeCluster], None] | None = None
) -> AsyncIterator[World]:
    clock = VirtualClock()
    if prepare:
        prepare(api)
    controller = Controller(api, chosen or settings(), clock)  # type: ignore[arg-type]
    task = asyncio.create_task(controller.run())
    await settle(200)
    try:
        yield World(api, clock, controller, task)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def whole_lists(api: FakeCluster) -> list[Request]:
    """The reflector's lists of Pods, not the proofs of one deployment's membership."""
    return [request for request in api.sent("list", "Pod") if "instance" not in request.options["selector"]]


def ready_deployment(api: FakeCluster, name: str = "chat", replicas: int = 1) -> None:
    made = api.put(deployment(name, replicas=replicas))
    for ordinal in range(replicas):
        member = api.put(pod(made, f"{name}-{ordinal}", ordinal).ready().json)
        api.put(workload(member, name=f"w-{name}-{ordinal}"))
