"""A controller that is killed at every await of a retirement, one run for each, and must always leave something its successor can finish.

The scenario is small and fixed: two replicas behind a router, one of them removed. A first run counts how often the leader's tasks are
resumed between the removal and the end of the operation; then each of these moments is the last one of a leader. In a second sweep the
leader is not killed but stands still for longer than its Lease lasts, and goes on after another one has led.
"""

from typing import Final

from tests.simulation.objects import NAMESPACE
from tests.simulation.scenario import Scenario, Step
from tests.simulation.shapes import NAMES
from tests.simulation.stage import Outcome, Stage, run
from tests.simulation.store import Change, meta

REMOVAL: Final = Step(0, 4.0, "shrink", 0.0, 0.0)
RESTART_SECONDS: Final = 1.0
FREEZE_SECONDS: Final = 25.0


def scenario(size: int) -> Scenario:
    """Two replicas of `size` Pods behind a router."""
    role = {"name": "main", "kind": "Server", "replicas": 2, "size": size, "instanceType": "h100"}
    spec = {
        "model": {"name": "qwen"},
        "engine": {"name": "vLLM", "version": "0.25.1"},
        "roles": [role],
        "router": {"name": "vllm-router", "replicas": 1},
    }
    return Scenario(seed=5 * size, act="retire", kueue=True, specs={NAMES[0]: spec}, steps=(REMOVAL,))


class _Killing:
    """Kills, or freezes, the leader at its `at`-th resumption after the removal; 0 does nothing to anybody and counts them."""

    def __init__(self, at: int, freezes: float = 0.0) -> None:
        self.at = at
        self.freezes = freezes
        self.counted = 0
        self._stage: Stage | None = None
        self._began: int | None = None

    def __call__(self, stage: Stage) -> None:
        """Look on."""
        self._stage = stage
        if self.freezes:
            stage.world.after(10.0, stage.start_process)
        stage.world.watch(self._on_change)

    def _on_change(self, change: Change) -> None:
        assert self._stage is not None
        leader = self._stage.leader()
        if change.resource.plural != "modeldeployments" or change.new is None or leader is None or meta(change.new)["name"] != NAMES[0]:
            return
        if change.author == "user" and change.old is not None and meta(change.new)["namespace"] == NAMESPACE:
            self._began = leader.steps
            if self.at:
                leader.dies_at, leader.freezes = leader.steps + self.at, self.freezes
        elif self._began is not None and change.old is not None and not self.counted:
            gone = "retirement" in (change.old.get("status") or {}) and "retirement" not in change.new["status"]
            self.counted = leader.steps - self._began if gone else 0


def killed_at(size: int, at: int) -> Outcome:
    """The run in which the leader is killed at that resumption."""
    return run(scenario(size), prepare=_Killing(at), revive_after=RESTART_SECONDS)


def frozen_at(size: int, at: int) -> Outcome:
    """The run in which the leader stands still from that resumption on, until another has led for a while."""
    return run(scenario(size), prepare=_Killing(at, FREEZE_SECONDS), revive_after=RESTART_SECONDS)


def resumptions(size: int) -> int:
    """How many there are between the removal and the end of the operation when nobody is killed."""
    counting = _Killing(0)
    run(scenario(size), prepare=counting)
    return counting.counted


def moment(size: int, at: int, *, freezes: bool) -> tuple[str, int, str]:
    """How the operation ends when the leader is stopped at that moment, how many processes ran, and what broke."""
    outcome = frozen_at(size, at) if freezes else killed_at(size, at)
    finished = outcome.transitions.get("Settling>-", 0) == 1
    end = "finished" if finished else "aborted" if any(name.endswith(">Aborted") for name in outcome.transitions) else "lost"
    broken = str(outcome.broken) if outcome.broken is not None else ""
    # The withdrawal has 30 s in all, of which a successor needs half to come; the drain's 240 s are never spent by that.
    abandoned = any(outcome.transitions.get(f"{step}>Aborted") for step in ("Admitted", "Disqualified", "Withdrawing"))
    if not broken and not finished and not abandoned:
        broken = f"the operation did not come to its end: {outcome.transitions}"
    return end, outcome.processes, broken
