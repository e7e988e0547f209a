"""One run: the world with its actors, the controller's processes, the scenario's steps, and the rest at the end."""

import asyncio
import logging
import random
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

import msgspec
import structlog

from api.status import decode_status, encode_status
from controller.dump import snapshots
from controller.kinds import BINDINGS, INSTANCE_TYPES, MODEL_DEPLOYMENTS, POOLS
from controller.settings import ControllerSettings
from controller.snapshot import StatusSettings
from controller.status.judge import judge
from kube.resources import DEPLOYMENTS, EVENTS, LEASES, PODS, SERVICES
from tests.simulation import scenario as drawn
from tests.simulation import timing
from tests.simulation.actors import Collector, Kubelet, Kueue
from tests.simulation.converger import Converger
from tests.simulation.invariants import BrokenError, Invariants
from tests.simulation.network import Network
from tests.simulation.objects import is_leaving
from tests.simulation.process import Process
from tests.simulation.scenario import Scenario, Step
from tests.simulation.store import Change, Object, meta
from tests.simulation.world import World

LEASE_NAMESPACE: Final = "modelwarden-system"
LEASE_NAME: Final = "modelwarden"
# The controller is at rest when it wrote nothing for so long, and must be so after the longest operation and its budgets.
QUIET_SECONDS: Final = 40.0
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
        self.network = Network(self.world)
        self.processes: list[Process] = []
        self.invariants = Invariants(self.world, self.network, self._process)
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

    def create_deployment(self) -> None:
        """The user's ModelDeployment, if there is none."""
        if self.world.store.find(MODEL_DEPLOYMENTS, drawn.NAMESPACE, drawn.NAME) is None:
            self.world.store.create(MODEL_DEPLOYMENTS, drawn.deployment(self.scenario), "user")

    # -------------------------------------------------------------------------------------------------------------- run

    async def play(self, steps: tuple[Step, ...]) -> Outcome:
        """Take the steps, let everything come to rest, compare."""
        from tests.simulation.steps import Steps

        self.world.store.create(INSTANCE_TYPES, drawn.instance_type())
        if self.scenario.binding:
            self.world.store.create(BINDINGS, drawn.binding(self.world.stamp()))
            self.world.store.create(POOLS, {"metadata": {"name": "pool"}, "spec": {}, "status": {"clientEndpoint": "pool:1"}})
        self.start_process()
        self.create_deployment()
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

    async def _pass(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        for process in self.processes:
            if process.failure is not None:
                self.invariants.breach("no process dies of itself", f"{process.who}: {_told(process.failure)}")

    async def _rest(self) -> None:
        """No more faults; whatever is under way ends; then the stored statuses must be what a fresh look at everything gives."""
        self.world.faults.clear()
        self.kueue.held = False
        self.network.nonsense = self.network.dissent = 0.0
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
                self._compare(leader)
                return
            if self.world.now > ends:
                held = "nobody leads" if leader is None else "an operation does not end" if self._operating() else "it goes on writing"
                self.invariants.breach("it comes to rest", f"{held}, {LONGEST_UNREST:.0f} s after the last fault")

    def leader(self) -> Process | None:
        """The process that leads."""
        return next((process for process in self.alive() if process.controller.election.leading), None)

    def _operating(self) -> bool:
        """Whether a retirement is in flight that time will end."""
        return any(
            not is_leaving(item) and ((item.get("status") or {}).get("retirement") or {"state": "Aborted"})["state"] != "Aborted"
            for item in self.world.deployments()
        )

    def _compare(self, leader: Process) -> None:
        store = self.world.store
        kinds = [MODEL_DEPLOYMENTS, PODS, SERVICES, DEPLOYMENTS, BINDINGS, POOLS, INSTANCE_TYPES]
        kinds += [self.world.workloads] if self.world.kueue else []
        objects: list[Object] = [item for kind in kinds for item in store.list(kind)]
        objects += [document for item in self.world.deployments() if (document := self._observations(leader, item)) is not None]
        settings = leader.controller._settings.status
        for snapshot in snapshots(objects, leader.clock.now(), settings):
            fresh = encode_status(judge(snapshot))
            stored = msgspec.json.encode(msgspec.json.decode(snapshot.deployment.status), order="sorted")
            known = decode_status(snapshot.deployment.status)
            if known is None or encode_status(known) != fresh:
                told = "; ".join(differences("", msgspec.json.decode(stored), msgspec.json.decode(fresh)))
                self.invariants.breach("status equals the judgement of a fresh list", f"stored -> fresh: {told or 'times'}")

    @staticmethod
    def _observations(leader: Process, item: Object) -> Object | None:
        from controller.cache import Key

        key = Key(meta(item)["namespace"], meta(item)["name"])
        facts = leader.controller.board.read(key, meta(item)["uid"])
        if facts is None:
            return None
        document = msgspec.to_builtins(facts.observations())
        named = {"metadata": {"namespace": key.namespace, "name": key.name}, "kind": "Observations"}
        return {**document, **named, "apiVersion": "modeldeployment.gpustack.ai/v1alpha1"}

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


def differences(path: str, old: object, new: object) -> Iterator[str]:
    """One line per place at which two documents differ; entries of lists are told by their name, type or ordinal."""
    if isinstance(old, dict) and isinstance(new, dict):
        for name in sorted(old.keys() | new.keys()):
            if name not in ("resourceVersion", "lastTransitionTime", "observedGeneration", "managedFields"):
                yield from differences(f"{path}.{name}", old.get(name), new.get(name))
    elif isinstance(old, list) and isinstance(new, list) and all(isinstance(item, dict) for item in [*old, *new]):
        before, after = ({_name(item, at): item for at, item in enumerate(items)} for items in (old, new))
        for name in sorted(before.keys() | after.keys()):
            yield from differences(f"{path}[{name}]", before.get(name), after.get(name))
    elif old != new:
        yield f"{path.lstrip('.')}: {_short(old)} -> {_short(new)}"


def _name(item: Object, at: int) -> str:
    return str(item.get("name", item.get("type", item.get("ordinal", item.get("uid", at)))))


def _short(value: object) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 300 else text[:300] + "…"


def _told(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"


@contextmanager
def _silence() -> Iterator[None]:
    """No lines of the controller while a scenario plays: thousands of runs would drown what is found, and other tests read their logs."""
    kept = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        yield
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
        with _silence():
            return timing.run(main)
    except (timing.HotLoopError, timing.DeadlockError) as error:
        broken = BrokenError("time goes on", str(error))
        return Outcome(broken, log=stages[0]._log if stages else [])
    except Exception as error:  # noqa: BLE001 - a defect of the world or of a step must be told with its seed too
        broken = BrokenError("the world is sound", "".join(traceback.format_exception(error)[-4:]))
        return Outcome(broken, log=stages[0]._log if stages else [])
