"""Seeds played, counted, and shrunk: the smallest list of steps that still breaks the same invariant."""

import gc
from collections import Counter
from collections.abc import Sequence
from typing import Final

from prometheus_client.metrics import MetricWrapperBase

from tests.simulation.scenario import draw
from tests.simulation.stage import Outcome, run

TAIL: Final = 120


def play(seed: int, steps: Sequence[int] | None = None, *, verbose: bool = False) -> Outcome:
    """One seed, or some of its steps."""
    scenario = draw(seed)
    chosen = None if steps is None else tuple(step for step in scenario.steps if step.index in set(steps))
    return run(scenario, chosen, verbose=verbose)


def first_steps(seed: int, most: int) -> tuple[int, ...]:
    """The indexes of a scenario's first steps."""
    return tuple(step.index for step in draw(seed).steps)[:most]


def batch(seeds: Sequence[int], most_steps: int = 99) -> tuple[Counter[str], list[tuple[int, str]]]:
    """Several seeds: what happened in them, and which failed."""
    gc.freeze()
    gc.disable()  # a run makes much and keeps nothing; one sweep a batch is enough
    _mute_metrics()
    counts: Counter[str] = Counter()
    failed: list[tuple[int, str]] = []
    for seed in seeds:
        outcome = play(seed, first_steps(seed, most_steps))
        counts["seeds"] += 1
        counts["virtual seconds"] += int(outcome.seconds)
        counts["status writes"] += outcome.status_writes
        counts["deletes"] += outcome.deletes
        counts["processes"] += outcome.processes
        for name, count in outcome.transitions.items():
            counts[f"retirement {name}"] += count
        if outcome.broken is not None:
            counts[f"broken: {outcome.broken.invariant}"] += 1
            failed.append((seed, outcome.broken.invariant))
    gc.collect()
    return counts, failed


class _Mute:
    """What a labelled metric is told goes nowhere."""

    def inc(self, amount: float = 1) -> None: ...
    def dec(self, amount: float = 1) -> None: ...
    def set(self, value: float) -> None: ...
    def observe(self, amount: float) -> None: ...


def _mute_metrics() -> None:
    """In a process that only plays seeds nobody reads a metric, and looking up labels takes a twentieth of its time."""
    mute = _Mute()
    MetricWrapperBase.labels = lambda *_, **__: mute  # type: ignore[method-assign]


def shrunk(seed: int, most: int = 99) -> tuple[int, ...]:
    """Delta debugging over the steps: drop halves, quarters and so on down to single ones, as long as the same invariant breaks."""
    steps = first_steps(seed, most)
    first = play(seed, steps).broken
    if first is None:
        return steps

    def fails(chosen: tuple[int, ...]) -> bool:
        found = play(seed, chosen).broken
        return found is not None and found.invariant == first.invariant

    size = max(len(steps) // 2, 1)
    while True:
        for at in range(0, len(steps), size):
            rest = steps[:at] + steps[at + size :]
            if fails(rest):
                steps = rest
                break
        else:
            if size == 1:
                return steps
            size //= 2
        size = max(min(size, len(steps)), 1)
        if not steps:
            return steps


def replay_log(outcome: Outcome) -> str:
    """The trace of a run, its end in full."""
    lines = outcome.log[-TAIL:]
    verdict = f"BROKEN  {outcome.broken}" if outcome.broken else "every invariant held"
    return "\n".join([*(["…"] if len(outcome.log) > TAIL else []), *lines, "", verdict])


def report(totals: Counter[str], seconds: float) -> str:
    """The figures of a run of many seeds."""
    rows = [f"  {totals[name]:>10}  {name}" for name in sorted(totals)]
    return "\n".join([f"{totals['seeds']} seeds in {seconds:.1f} s", *rows])
