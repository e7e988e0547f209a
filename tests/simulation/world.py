"""The world: an API server's objects, a network of Pods, faults, and a way to make things happen later."""

import asyncio
import random
import zlib
from collections.abc import Callable
from typing import Any

from api.clock import format_time
from controller.kinds import (
    ARTIFACTS,
    BINDINGS,
    INSTANCE_TYPES,
    MODEL_DEPLOYMENTS,
    POOLS,
    SCALERS,
    WORKLOADS_V1BETA1,
    WORKLOADS_V1BETA2,
)
from controller.observers.elastic import CONFIG_MAPS
from kube.resources import CRDS, DEPLOYMENTS, EVENTS, LEASES, NAMESPACES, PODS, REPLICA_SETS, SERVICES
from tests.simulation.faults import Faults
from tests.simulation.store import Change, Object, Store
from tests.simulation.timing import VirtualClock
from tests.simulation.transport import Wire


class World:
    """One per run. `clock` is the API server's and the actors'; each controller process has its own."""

    def __init__(self, seed: str, *, kueue: bool = True, workloads_v1beta2: bool = True) -> None:
        self.seed = seed
        self.rng = random.Random(seed)
        self.clock = VirtualClock()
        self.store = Store(self.clock, random.Random(f"{seed}/store"))
        self.faults = Faults(self.clock)
        self.wires: list[Wire] = []
        self.kueue = kueue
        self.frozen = False
        self.workloads = WORKLOADS_V1BETA2 if workloads_v1beta2 else WORKLOADS_V1BETA1
        for resource in (PODS, DEPLOYMENTS):
            self.store.serve(resource, has_status=True, counts_generations=resource is DEPLOYMENTS)
        self.store.serve(MODEL_DEPLOYMENTS, has_status=True, counts_generations=True)
        for resource in (SERVICES, LEASES, EVENTS, CRDS, NAMESPACES, REPLICA_SETS, CONFIG_MAPS):
            self.store.serve(resource)
        for resource in (SCALERS, BINDINGS, POOLS, ARTIFACTS, INSTANCE_TYPES):
            self.store.serve(resource)
        if kueue:
            self.store.serve(self.workloads)

    # ------------------------------------------------------------------------------------------------------------- time

    @property
    def now(self) -> float:
        """Seconds since the run began."""
        return asyncio.get_running_loop().time()

    def stamp(self) -> str:
        """The present as metav1.Time."""
        return format_time(self.clock.now())

    def after(self, seconds: float, act: Callable[..., Any], *args: Any) -> None:
        """Let it happen later, unless the actors have been stopped by then."""
        asyncio.get_running_loop().call_later(seconds, self._unless_frozen, act, args)

    def _unless_frozen(self, act: Callable[..., Any], args: tuple[Any, ...]) -> None:
        if not self.frozen:
            act(*args)

    def chance(self, *what: object) -> float:
        """A number in [0, 1) that depends on the seed and on `what` alone, so that leaving out a step changes nothing else."""
        return zlib.crc32("/".join(map(str, (self.seed, *what))).encode()) / 2**32

    # ----------------------------------------------------------------------------------------------------------- objects

    def wire(self, who: str) -> Wire:
        """A new connection of a process."""
        made = Wire(who, self.store, self.faults, random.Random(f"{self.seed}/{who}/{len(self.wires)}"))
        self.wires.append(made)
        return made

    def watch(self, told: Callable[[Change], None]) -> None:
        """Tell of each write."""
        self.store.on_change.append(told)

    def pods(self, **wanted: str) -> list[Object]:
        """All Pods of the world."""
        return self.store.list(PODS, "", ",".join(f"{k}={v}" for k, v in wanted.items()))

    def deployments(self) -> list[Object]:
        """All ModelDeployments."""
        return self.store.list(MODEL_DEPLOYMENTS)
