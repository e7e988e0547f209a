"""What happens in a run: a deployment of some shape and a list of steps, drawn from a seed.

A step carries everything it needs as numbers and finds its object when it is taken, so that any sublist of a scenario is a scenario.
"""

import random
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from tests.simulation.objects import NAMESPACE
from tests.simulation.store import Object

NAME: Final = "demo"


class Step(NamedTuple):
    """`index` is its place in the scenario of the seed, `wait` the seconds before it, `at` and `size` numbers in [0, 1)."""

    index: int
    wait: float
    kind: str
    at: float
    size: float

    def __str__(self) -> str:
        return f"#{self.index:<3} +{self.wait:6.2f} s  {self.kind} (at {self.at:.3f}, size {self.size:.3f})"


# What may happen, and how often relative to the rest.
KINDS: Final[dict[str, int]] = {
    # the user
    "scale": 8,
    "shrink": 6,
    "drop-role": 3,
    "restore-role": 3,
    "edit": 2,
    "retry": 5,
    "bad-retry": 1,
    "surplus": 3,
    "unseat": 1,
    "delete-deployment": 1,
    "recreate-deployment": 1,
    "toggle-router": 1,
    "foreign-condition": 2,
    # kubelets
    "unready": 4,
    "restart": 2,
    "fail": 2,
    "evict": 1,
    "delete-pod": 3,
    # Kueue
    "preempt": 2,
    "no-capacity": 2,
    # engines, routers, the cache
    "busy": 3,
    "engine-down": 2,
    "router-restart": 1,
    "nonsense": 1,
    "dissent": 1,
    "operations": 2,
    "binding": 2,
    # the API server and the way to it
    "drop-watch": 4,
    "compact": 4,
    "silence": 2,
    "lag": 4,
    "repeat": 3,
    "refuse": 6,
    "slow-list": 2,
    # the processes
    "crash": 4,
    "crash-at-await": 6,
    "stop": 1,
    "second": 2,
    "cut-lease": 2,
    "steal-lease": 1,
    "clock": 2,
}


# What half of the scenarios consist of: one removal, and whatever may come between its steps.
AROUND_A_RETIREMENT: Final = (
    "shrink",
    "scale",
    "restore-role",
    "retry",
    "surplus",
    "unready",
    "restart",
    "fail",
    "delete-pod",
    "preempt",
    "busy",
    "engine-down",
    "dissent",
    "drop-watch",
    "compact",
    "lag",
    "repeat",
    "refuse",
    "crash",
    "crash-at-await",
    "second",
    "cut-lease",
    "clock",
)


@dataclass(frozen=True)
class Scenario:
    """A seed's shape and steps."""

    seed: int
    act: str
    kueue: bool
    spec: Object
    binding: bool
    steps: tuple[Step, ...]


def draw(seed: int) -> Scenario:
    """The scenario of a seed."""
    rng = random.Random(f"scenario/{seed}")
    focused = rng.random() < 0.5
    spec = _spec(rng, focused=focused)
    kinds = AROUND_A_RETIREMENT if focused else tuple(KINDS)
    weights = [KINDS[kind] for kind in kinds]
    drawn = [rng.choices(kinds, weights)[0] for _ in range(rng.randint(4, 14))]
    if focused:
        drawn[0] = rng.choice(("shrink", "shrink", "surplus", "drop-role"))
    steps = tuple(
        Step(index, round(rng.expovariate(1 / (4.0 if focused else 7.0)), 2), kind, rng.randrange(1000) / 1000, rng.randrange(1000) / 1000)
        for index, kind in enumerate(drawn)
    )
    return Scenario(
        seed=seed,
        act="retire" if focused or rng.random() < 0.7 else "status",
        kueue=rng.random() < 0.8,
        spec=spec,
        binding="kvCache" in spec,
        steps=steps,
    )


def _spec(rng: random.Random, *, focused: bool) -> Object:
    engine, version = rng.choice((("vLLM", "0.25.1"), ("vLLM", "0.29.0"), ("SGLang", "0.5.21"), ("vLLM", "0.11.0")))
    spec: dict[str, Any] = {"model": {"name": "qwen"}, "engine": {"name": engine, "version": version}}
    shape = rng.random()
    if shape < (0.6 if focused else 0.4):
        spec["roles"] = [_role("main", "Server", rng.randint(2 if focused else 1, 3), 2 if rng.random() < 0.25 else 1)]
    elif shape < (0.95 if focused else 0.65):
        spec["roles"] = [_role("left", "Server", rng.randint(1, 2), 1), _role("right", "Server", rng.randint(1, 2), rng.choice((1, 1, 2)))]
    else:
        spec["roles"] = [_role("prefill", "Prefill", rng.randint(1, 2), 1), _role("decode", "Decode", rng.randint(1, 2), 1)]
    if rng.random() < (0.9 if focused else 0.7):
        spec["router"] = {"name": "vllm-router" if engine == "vLLM" else "sglang-gateway", "replicas": rng.choice((1, 1, 2))}
    if rng.random() < 0.25:
        spec["kvCache"] = {"poolRef": {"name": "cache"}, "connector": "Mooncake"}
    return spec


def _role(name: str, kind: str, replicas: int, size: int) -> Object:
    return {
        "name": name,
        "kind": kind,
        "replicas": replicas,
        "size": size,
        "instanceType": "h100",
        "extraArgs": ["--max-model-len", "4096"],
    }


def deployment(scenario: Scenario) -> Object:
    """The ModelDeployment as the user creates it."""
    metadata = {"name": NAME, "namespace": NAMESPACE, "finalizers": ["worker.gpustack.ai/teardown"]}
    return {"metadata": metadata, "spec": scenario.spec}


def instance_type() -> Object:
    """The instance type that every role names."""
    return {
        "metadata": {"name": "h100"},
        "spec": {"acceleratable": True},
        "status": {"entrance": "gpustack-fnv64-0000000000000001", "accelerator": {"manufacturer": "nvidia"}},
    }


def binding(at: str) -> Object:
    """The Binding that a declared cache resolves by."""
    granted = {"type": "QuotaGranted", "status": "True", "reason": "Granted", "message": "", "lastTransitionTime": at}
    return {
        "metadata": {"name": "cache", "namespace": NAMESPACE},
        "spec": {"poolRef": {"name": "pool"}, "domain": {"name": "domain", "blockSize": 64, "dtype": "fp8"}},
        "status": {"phase": "Ready", "conditions": [granted]},
    }
