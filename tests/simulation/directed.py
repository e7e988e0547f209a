"""Scenarios written by hand, each for a fault that random ones meet too rarely: they hold, and break when the guard they are for is broken.

Times are those of the scenario's steps: the first waits 20 s more, while the deployments come up. Faults end with the last step.
"""

from typing import Any, Final

from tests.simulation.scenario import Scenario, Step
from tests.simulation.shapes import NAMES
from tests.simulation.stage import Outcome, run
from tests.simulation.store import Object

# How likely what goes on is (`Step.at`, `Step.size`): a kind of refusal, a plural, a share of the longest time.
MODEL_DEPLOYMENTS, PODS = 0.0, 0.15  # `at` of a step that befalls the watches of a kind
UNRESOLVED: Final = {"at": 0.0, "size": 0.3}
AT_ONCE: Final = {"size": 0.0}
FAILING_READS: Final = {"at": 0.58, "size": 0.99}


def _spec(engine: str = "0.25.1", size: int = 1, replicas: int = 2, router: str = "vllm-router", **more: Any) -> Object:
    role = {"name": "main", "kind": "Server", "replicas": replicas, "size": size, "instanceType": "h100"}
    spec: Object = {"model": {"name": "qwen"}, "engine": {"name": "vLLM", "version": engine}, "roles": [role], **more}
    if router:
        spec["router"] = {"name": router, "replicas": 1}
    return spec


def _steps(*steps: tuple[float, str, dict[str, float]]) -> tuple[Step, ...]:
    return tuple(Step(index, wait, kind, more.get("at", 0.0), more.get("size", 0.0)) for index, (wait, kind, more) in enumerate(steps))


def _scenario(seed: int, spec: Object, *steps: tuple[float, str, dict[str, float]], act: str = "retire", kueue: bool = True) -> Scenario:
    return Scenario(seed=seed, act=act, kueue=kueue, specs={NAMES[0]: spec}, steps=_steps(*steps))


SCENARIOS: Final[dict[str, Scenario]] = {
    # The watch shows the reservation only seconds after it was written.
    "late-telling": _scenario(11, _spec(), (4.0, "lag", {"at": MODEL_DEPLOYMENTS, "size": 0.9}), (0.5, "shrink", {}), (25.0, "wait", {})),
    # Without a router no withdrawal is confirmed, so the operation is aborted; a user repeats the token that was consumed before.
    "repeated-token": _scenario(
        12, _spec(router=""), (4.0, "shrink", {}), (40.0, "retry", AT_ONCE), (45.0, "retry", AT_ONCE), (20.0, "wait", {})
    ),
    # Nobody creates a Pod anew while the artifact is not resolved; that one went is told by a list alone.
    "hidden-deletion": _scenario(
        13,
        _spec(router="", model={"name": "qwen", "artifactRef": {"name": "weights"}}),
        (4.0, "artifact", UNRESOLVED),
        (6.0, "compact", {"at": PODS, "size": 0.9}),
        (1.0, "delete-pod", AT_ONCE),
        (12.0, "wait", {}),
        act="status",
        kueue=False,
    ),
    # The holder cannot renew and hears nothing, and another candidate takes over.
    "lost-lease": _scenario(15, _spec(router=""), (2.0, "second", {}), (3.0, "cut-lease", {"at": 0.0, "size": 0.999}), (45.0, "wait", {})),
    # Its wall clock jumps, so a pass finds the views stale that come again unchanged.
    "leap-of-time": _scenario(16, _spec(), (14.0, "clock", {"size": 0.99}), (0.2, "foreign-condition", {}), act="status"),
    # Two replicas are to go, one after the other.
    "two-removals": _scenario(22, _spec(replicas=3), (4.0, "shrink", {"size": 0.8}), (30.0, "wait", {})),
    # What is removed has requests under way for minutes.
    "busy-drain": _scenario(
        23,
        _spec(),
        (4.0, "busy", {"at": 0.0, "size": 0.5}),
        (0.1, "busy", {"at": 0.6, "size": 0.5}),
        (0.5, "shrink", {}),
        (60.0, "wait", {}),
    ),
    # A new leader finds the API server unwell: its first lists fail.
    "failing-list": _scenario(
        27,
        _spec(router=""),
        (4.0, "refuse", FAILING_READS),
        (0.01, "refuse", FAILING_READS),
        (0.1, "stop", AT_ONCE),
        (30.0, "wait", {}),
        kueue=False,
    ),
    # It goes and comes at once, under its name and with another UID; what the earlier one left behind goes later.
    "namesake": _scenario(28, _spec(router="llm-d-router"), (15.0, "recreate-deployment", {}), (20.0, "wait", {})),
    # A Pod bears the labels of one deployment and is controlled by another one.
    "impostor": Scenario(
        seed=29,
        act="retire",
        kueue=False,
        specs={name: _spec(router="", replicas=1) for name in NAMES[:2]},
        steps=_steps((6.0, "impostor", {"at": 0.9, "size": 0.1}), (20.0, "wait", {})),
    ),
    # The last budget of an operation ends while nobody says anything.
    "spent-budget": _scenario(17, _spec(router=""), (4.0, "shrink", {})),
    # The routers' selection follows the Pods by seconds, and nothing else tells of it.
    "slow-router": _scenario(18, _spec(), (30.0, "unready", {"size": 0.3}), act="status"),
    # Replicas of several members are asked whether they forward, and at first nobody answers.
    "silent-engines": _scenario(19, _spec(size=2, replicas=1), (0.0, "nonsense", {"size": 0.9}), (10.0, "wait", {})),
    # The engines' metrics are garbage for a while.
    "garbled-metrics": _scenario(
        21, _spec(kvCache={"poolRef": {"name": "cache"}, "connector": "Mooncake"}), (20.0, "nonsense", {"size": 0.99}), (35.0, "wait", {})
    ),
}


def play(name: str, *, verbose: bool = False) -> Outcome:
    """One of them."""
    return run(SCENARIOS[name], verbose=verbose)
