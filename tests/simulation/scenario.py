"""What happens in a run: deployments of some shape and a list of steps, drawn from a seed.

A step carries everything it needs as numbers and finds its object when it is taken, so that any sublist of a scenario is a scenario.
"""

import random
from dataclasses import dataclass
from typing import Final, NamedTuple

from tests.simulation import shapes
from tests.simulation.store import Object


class Step(NamedTuple):
    """`index` is its place in the scenario of the seed, `wait` the seconds before it; `at`, `size` and `whom` are numbers in [0, 1)."""

    index: int
    wait: float
    kind: str
    at: float
    size: float
    whom: float = 0.0

    def __str__(self) -> str:
        return f"#{self.index:<3} +{self.wait:6.2f} s  {self.kind} (at {self.at:.3f}, size {self.size:.3f}, whom {self.whom:.3f})"


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
    "instance-type": 2,
    "impostor": 2,
    "strip": 1,
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
    "artifact": 2,
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
    "freeze": 2,
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
    "freeze",
    "clock",
)


# What is likelier where several deployments share a namespace.
AMONG_SEVERAL: Final = {
    "recreate-deployment": 5,
    "delete-deployment": 2,
    "artifact": 6,
    "resize": 5,
    "elastic-record": 6,
    "instance-type": 4,
    "impostor": 4,
    "toggle-router": 3,
    "operations": 4,
}


@dataclass(frozen=True)
class Scenario:
    """A seed's shape and steps. `specs`: the deployments by name."""

    seed: int
    act: str
    kueue: bool
    specs: dict[str, Object]
    steps: tuple[Step, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The deployments' names."""
        return tuple(self.specs)

    @property
    def cached(self) -> bool:
        """Whether some deployment declares a cache."""
        return any("kvCache" in spec for spec in self.specs.values())


def draw(seed: int) -> Scenario:
    """The scenario of a seed: in a third of them one removal and what may come between, in a third several deployments."""
    rng = random.Random(f"scenario/{seed}")
    make = rng.random()
    focused, shared = make < 0.35, make > 0.65
    specs = shapes.several(rng) if shared else shapes.alone(rng, focused=focused)
    weighed = {**KINDS, **(AMONG_SEVERAL if shared else {})}
    kinds = AROUND_A_RETIREMENT if focused else tuple(weighed)
    weights = [weighed[kind] for kind in kinds]
    drawn = [rng.choices(kinds, weights)[0] for _ in range(rng.randint(4, 12 if shared else 14))]
    if focused:
        drawn[0] = rng.choice(("shrink", "shrink", "surplus", "drop-role"))
    steps = tuple(
        Step(
            index,
            round(rng.expovariate(1 / (4.0 if focused else 7.0)), 2),
            kind,
            rng.randrange(1000) / 1000,
            rng.randrange(1000) / 1000,
            rng.randrange(1000) / 1000,
        )
        for index, kind in enumerate(drawn)
    )
    return Scenario(
        seed=seed,
        act="retire" if focused or rng.random() < 0.7 else "status",
        kueue=rng.random() < 0.8,
        specs=specs,
        steps=steps,
    )
