"""Steps that befall the API server, the way to it, and the controller's processes."""

from datetime import timedelta
from typing import TypeVar

from kube.resources import LEASES
from tests.simulation.faults import Rule
from tests.simulation.scenario import Step
from tests.simulation.stage import LEASE_NAME, LEASE_NAMESPACE, Stage

T = TypeVar("T")
WATCHED = ("modeldeployments", "pods", "workloads", "services", "deployments", "kvcachepoolbindings", "modelartifacts")
# Outcomes that a rule of requests may have, with the methods they make sense for.
REFUSALS = (
    ("429", ()),
    ("500", ()),
    ("503", ()),
    ("409", ("PATCH", "PUT")),
    ("lost", ("PATCH", "DELETE")),
    ("lost", ()),
    ("unsent", ()),
    ("hang", ("PATCH",)),
    ("hang", ("GET",)),
    ("500", ("GET",)),
    ("500", ("DELETE", "PATCH")),
)


def pick(items: list[T], at: float) -> T | None:
    """One of them, or None where there is none."""
    return items[int(at * len(items))] if items else None


class Disturbances:
    """Their half of what `Steps` takes."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._world = stage.world

    # ------------------------------------------------------------------------------------------------------- API server

    def _wait(self, _step: Step) -> None:
        """Nothing happens, and what goes on goes on."""

    def _plural(self, at: float) -> str:
        return WATCHED[int(at * len(WATCHED))]

    def _drop_watch(self, step: Step) -> None:
        for wire in self._world.wires:
            wire.drop_watches(self._plural(step.at))

    def _compact(self, step: Step) -> None:
        """For a while nothing is told, then the history is gone and the watches with it: what happened meanwhile only a list shows."""
        seconds = 6.0 * step.size
        self._world.faults.lag[self._plural(step.at)] = (self._world.now + seconds, 60.0)
        self._world.after(seconds * 0.99, self._forget, step)

    def _forget(self, step: Step) -> None:
        for collection in self._world.store.collections.values():
            if collection.resource.plural == self._plural(step.at):
                self._world.store.compact(collection.resource)
        self._drop_watch(step)

    def _silence(self, step: Step) -> None:
        self._world.faults.silent[self._plural(step.at)] = self._world.now + 45.0 * step.size

    def _lag(self, step: Step) -> None:
        self._world.faults.lag[self._plural(step.at)] = (self._world.now + 30.0, 8.0 * step.size)

    def _repeat(self, step: Step) -> None:
        self._world.faults.repeated[self._plural(step.at)] = 1 + int(step.size * 8)

    def _refuse(self, step: Step) -> None:
        outcome, methods = REFUSALS[int(step.at * len(REFUSALS))]
        left = 1 + int(step.size * 6)
        plurals = ("modeldeployments", "pods", "workloads") if outcome != "hang" else ("modeldeployments", "pods")
        self._world.faults.rules.append(Rule(outcome, self._world.now + 30.0, methods, plurals, left=left))

    def _slow_list(self, step: Step) -> None:
        self._world.faults.slow[self._plural(step.at)] = (self._world.now + 60.0, 25.0 * step.size)
        self._compact(step)

    # -------------------------------------------------------------------------------------------------------- processes

    def _crash(self, step: Step) -> None:
        if (process := pick(self._stage.alive(), step.at)) is not None:
            process.kill()
            self._world.after(0.5 + 10.0 * step.size, self._stage.start_process)

    def _crash_at_await(self, step: Step) -> None:
        """At one of its next resumptions, wherever it waits then."""
        leaders = [p for p in self._stage.alive() if p.controller.election.leading]
        if leaders:
            leaders[0].dies_at = leaders[0].steps + 1 + int(400 * step.size**2)
            self._world.after(2.0 + 10.0 * step.at, self._stage.ensure_process)

    def _stop(self, step: Step) -> None:
        if (process := pick(self._stage.alive(), step.at)) is not None:
            if process.frozen:
                return
            process.stop()
            self._world.after(0.5 + 5.0 * step.size, self._stage.start_process)

    def _second(self, _step: Step) -> None:
        if len(self._stage.alive()) < 2:
            self._stage.start_process()

    def _cut_lease(self, step: Step) -> None:
        """The holder cannot renew, by errors or by silence, and does not hear of it otherwise."""
        leaders = [p for p in self._stage.alive() if p.controller.election.leading]
        if leaders:
            outcome = ("hang", "500", "unsent")[int(step.at * 3)]
            rule = Rule(outcome, self._world.now + 40.0 * step.size, plurals=("leases",), who=leaders[0].who)
            self._world.faults.rules.append(rule)

    def _steal_lease(self, _step: Step) -> None:
        if self._world.store.find(LEASES, LEASE_NAMESPACE, LEASE_NAME) is not None:
            spec = {"holderIdentity": "thief", "leaseDurationSeconds": 8, "renewTime": "2026-01-01T00:00:00.000000Z"}
            self._world.store.patch(LEASES, LEASE_NAMESPACE, LEASE_NAME, {"spec": spec}, author="thief")

    def _freeze(self, step: Step) -> None:
        """The leader stands still, short or long enough to lose the Lease, and does not know it when it goes on."""
        leaders = [p for p in self._stage.alive() if p.controller.election.leading]
        if leaders:
            leaders[0].freeze(1.0 + 75.0 * step.size**2)
            self._world.after(0.5, self._second, step)

    def _clock(self, step: Step) -> None:
        """A process's wall clock jumps, up to five minutes either way."""
        if (process := pick(self._stage.alive(), step.at)) is not None:
            process.clock.skew += timedelta(seconds=int(600 * step.size - 300))
