"""One run: the world with its actors, the controller's processes, the scenario's steps, and the rest at the end."""

import asyncio
import logging
import random
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

import structlog

from controller.kinds import ARTIFACTS, BINDINGS, INSTANCE_TYPES, MODEL_DEPLOYMENTS, POOLS
from controller.settings import ControllerSettings
from controller.snapshot import StatusSettings
from kube.resources import EVENTS, LEASES
from tests.simulation import resting, shapes, timing
from tests.simulation.actors import Collector, Kubelet, Kueue, Resizer
from tests.simulation.converger import Converger
from tests.simulation.invariants import BrokenError, Invariants
from tests.simulation.network import Network
from tests.simulation.objects import NAMESPACE, is_leaving
from tests.simulation.process import Process
from tests.simulation.resting import differences
from tests.simulation.scenario import Scenario, Step
from tests.simulation.store import Change, meta
from tests.simulation.world import World

LEASE_NAMESPACE: Final = "modelwarden-system"
LEASE_NAME: Final = "modelwarden"
# The world is at rest when nothing was written for so long, longer than any observer's period; so it must be after the longest operation.
QUIET_SECONDS: Final = 48.0
LONGEST_UNREST: Final = 1500.0
# The usual lease, and one renewed less often, which costs a run fewer requests.
LEASES_KEPT: Final[dict[bool, dict[str, float]]] = {
    True: {},
    False: {"lease_duration": 45.0, "renew_deadline": 30.0, "retry_period": 8.0},
}


@dataclass
class Outcome:
    """What came of a run."""

    broken: BrokenError | None = None
    seconds: float = 0.0
    status_writes: int = 0
    deletes: int = 0
    processes: int = 0
    transitions: dict[str, int] = field(default_factory=dict)
    log: list[str] = field(default_factory=list)


class Stage:
    """Everything of one run, for the steps to reach."""

    def __init__(self, scenario: Scenario, *, verbose: bool = False) -> None:
        self.scenario = scenario
        self.world = World(str(scenario.seed), kueue=scenario.kueue, workloads_v1beta2=scenario.seed % 4 != 0)
        self.kubelet = Kubelet(self.world)
        self.kueue = Kueue(self.world)
        Collector(self.world)
        Converger(self.world, removes=scenario.act == "status")
        self.resizer = Resizer(self.world)
        self.network = Network(self.world)
        self.processes: list[Process] = []
        self.invariants = Invariants(self.world, self.network, self.resizer, self._process)
        self._last_change = 0.0
        self.revive_after: float | None = None
        self._log: list[str] = []
        self.world.watch(self._on_change)
        if verbose:
            self.world.watch(self._note)

    def _process(self, who: str) -> Process | None:
        return next((process for process in self.processes if process.who == who), None)

    def _on_change(self, change: Change) -> None:
        if change.resource not in (LEASES, EVENTS):
            self._last_change = change.at

    # -------------------------------------------------------------------------------------------------------- processes

    def alive(self) -> list[Process]:
        """The processes that run."""
        return [process for process in self.processes if process.alive]

    def start_process(self) -> None:
        """One more candidate."""
        settings = ControllerSettings(
            status=StatusSettings(kueue="required" if self.scenario.kueue else "absent", act=self.scenario.act),  # type: ignore[arg-type]
            identity=f"warden-{len(self.processes)}",
            page_size=3,
            **LEASES_KEPT[self.scenario.seed % 5 == 0],  # type: ignore[arg-type]
        )
        process = Process(self.world, self.network, settings.identity, settings)
        self.processes.append(process)
        self.invariants.attach(process)
        process.on_death = self._on_death
        process.start()

    def _on_death(self) -> None:
        if self.revive_after is not None:
            self.world.after(self.revive_after, self.ensure_process)

    def ensure_process(self) -> None:
        """A new process where the last one died."""
        if not self.alive():
            self.start_process()

    def create_deployment(self, name: str) -> None:
        """The user's ModelDeployment of that name, if there is none."""
        if self.world.store.find(MODEL_DEPLOYMENTS, NAMESPACE, name) is None:
            self.world.store.create(MODEL_DEPLOYMENTS, shapes.deployment(name, self.scenario.specs[name]), "user")

    # -------------------------------------------------------------------------------------------------------------- run

    async def play(self, steps: tuple[Step, ...]) -> Outcome:
        """Take the steps, let everything come to rest, compare."""
        from tests.simulation.steps import Steps

        self._furnish()
        self.start_process()
        for name in self.scenario.names:
            self.create_deployment(name)
        taker = Steps(self)
        due = {step.index: step for step in steps}
        last = max(due, default=-1)
        for step in self.scenario.steps:  # time passes for left out steps too, up to the last one taken
            await self._pass(step.wait if step.index else step.wait + 20.0)
            if step.index > last:
                break
            if step.index in due:
                self._log.append(f"{self.world.now:9.3f}  step {step}")
                taker.take(step)
            if self.invariants.broken:
                break
        if not self.invariants.broken:
            await self._rest()
        outcome = Outcome(
            self.invariants.broken,
            self.world.now,
            self.invariants.status_writes,
            self.invariants.deletes,
            len(self.processes),
            dict(self.invariants.transitions),
            self._log,
        )
        self.world.frozen = True
        for process in self.processes:
            process.kill()
        for process in self.processes:
            await process.ended()
        return outcome

    def _furnish(self) -> None:
        """What deployments refer to."""
        store = self.world.store
        for name in shapes.INSTANCE_TYPES:
            store.create(INSTANCE_TYPES, shapes.instance_type(name))
        if self.scenario.cached:
            store.create(BINDINGS, shapes.binding(self.world.stamp()))
            store.create(POOLS, shapes.pool())
        if any("artifactRef" in spec["model"] for spec in self.scenario.specs.values()):
            delivery = shapes.DELIVERIES[int(self.world.chance("delivery") * len(shapes.DELIVERIES))]
            store.create(ARTIFACTS, shapes.artifact(self.world.stamp(), delivery))

    async def _pass(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        for process in self.processes:
            if process.failure is not None:
                self.invariants.breach("no process dies of itself", f"{process.who}: {_told(process.failure)}")

    async def _rest(self) -> None:
        """No more faults; whatever is under way ends; then the stored statuses must be what a fresh look at everything gives."""
        self.world.faults.clear()
        self.kueue.held = False
        self.network.calm()
        if self.revive_after is None:
            for process in self.processes:
                process.dies_at = None
            self.ensure_process()
        ends = self.world.now + LONGEST_UNREST
        leader, led_since = self.leader(), self.world.now
        while not self.invariants.broken:
            await self._pass(8.0)
            if self.leader() is not leader or leader is None or not _reads(leader):
                leader, led_since = self.leader(), self.world.now
            quiet = self.world.now - max(self._last_change, led_since)
            if leader is not None and quiet > QUIET_SECONDS and not self._operating():
                for invariant, detail in resting.faults(self.world, self.network, self.resizer, leader):
                    self.invariants.breach(invariant, detail)
                return
            if self.world.now > ends:
                held = "nobody leads" if leader is None else "an operation does not end" if self._operating() else "it goes on writing"
                self.invariants.breach("it comes to rest", f"{held}, {LONGEST_UNREST:.0f} s after the last fault")

    def leader(self) -> Process | None:
        """The process that leads, and knows what time it is."""
        return next((p for p in self.alive() if p.controller.election.leading and not p.frozen), None)

    def _operating(self) -> bool:
        """Whether a retirement is in flight that time will end."""
        return any(
            not is_leaving(item) and ((item.get("status") or {}).get("retirement") or {"state": "Aborted"})["state"] != "Aborted"
            for item in self.world.deployments()
        )

    def _note(self, change: Change) -> None:
        if change.resource not in (LEASES, EVENTS):
            self._log.append(f"{change.at:9.3f}  {_line(change)}")


def _reads(process: Process) -> bool:
    """Whether every kind of its cache can be relied on, and no pass is under way."""
    return process.controller.queue.idle and all(check is True for check in process.controller.ready().values())


def _line(change: Change) -> str:
    what = "creates" if change.old is None else "removes" if change.new is None else "changes"
    told = f"{change.author} {what} {change.resource.plural}/{meta(change.object)['name']} @{change.version}"
    if change.old is not None and change.new is not None:
        told += "".join(f"\n             {line}" for line in differences("", change.old, change.new))
    return told


def _told(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"


def _with_defects(outcome: Outcome, defects: list[str]) -> Outcome:
    if defects:
        seen = outcome.broken or BrokenError("no pass ends in a defect", "")
        outcome.broken = BrokenError(seen.invariant, f"{seen.detail}\na pass ended in a defect:\n{defects[0]}")
    return outcome


@contextmanager
def _silence() -> Iterator[list[str]]:
    """No lines of the controller while a scenario plays: thousands of runs would drown what is found, and other tests read their logs.

    What is yielded comes to hold the traceback of every pass that ended in a defect: the controller goes on after one, we do not.
    """
    kept, defects = structlog.get_config(), list[str]()

    def hear(_: object, __: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
        if event.get("event") == "pass ended in a defect":
            defects.append("".join(traceback.format_exc().splitlines(keepends=True)[-4:]))
        raise structlog.DropEvent

    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR), processors=[hear])
    try:
        yield defects
    finally:
        structlog.configure(**kept)


def run(
    scenario: Scenario,
    steps: tuple[Step, ...] | None = None,
    *,
    verbose: bool = False,
    prepare: Callable[["Stage"], None] | None = None,
    revive_after: float | None = None,
) -> Outcome:
    """Play a scenario, or some of its steps. `prepare` gets the stage first; who dies is replaced `revive_after` seconds later."""
    random.seed(scenario.seed)  # jitter of the controller that is not handed in
    stages: list[Stage] = []

    async def main() -> Outcome:
        stage = Stage(scenario, verbose=verbose)
        stages.append(stage)
        stage.revive_after = revive_after
        if prepare is not None:
            prepare(stage)
        return await stage.play(scenario.steps if steps is None else steps)

    try:
        with _silence() as defects:
            return _with_defects(timing.run(main), defects)
    except (timing.HotLoopError, timing.DeadlockError) as error:
        broken = BrokenError("time goes on", str(error))
        return Outcome(broken, log=stages[0]._log if stages else [])
    except Exception as error:  # noqa: BLE001 - a defect of the world or of a step must be told with its seed too
        broken = BrokenError("the world is sound", "".join(traceback.format_exception(error)[-4:]))
        return Outcome(broken, log=stages[0]._log if stages else [])
