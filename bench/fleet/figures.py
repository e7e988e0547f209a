"""From what was measured to what is shown: the rows, how each grows from size to size, and the goals beside them. Nothing is asserted."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

Run = Mapping[str, Any]


def at(run: Run, *path: str) -> float | None:
    """A figure of a run, None where it was not measured."""
    value: Any = run
    for step in path:
        value = value.get(step) if isinstance(value, Mapping) else None
    return None if value is None else float(value)


def _between(run: Run, later: str, earlier: str, what: str) -> float | None:
    first, last = at(run, "start", "marks", earlier, what), at(run, "start", "marks", later, what)
    return None if first is None or last is None else last - first


def _per(value: float | None, count: float | None) -> float | None:
    return value / count if value is not None and count else None


def grown(run: Run) -> float | None:
    """Resident MiB after the first statuses, beyond what an empty cluster takes."""
    settled, idle = at(run, "settled", "resident"), at(run, "idle_resident")
    return None if settled is None or idle is None else settled - idle


def noise(run: Run) -> float | None:
    """Requests of the quiet window that are neither watches nor the Lease's get and update."""
    if "quiet" not in run:
        return None
    requests: Mapping[str, int] = run["quiet"]["requests"]
    return float(sum(count for verb, count in requests.items() if verb not in ("watch", "leases")))


ROWS: Final[tuple[tuple[str, Callable[[Run], float | None], str], ...]] = (
    ("start to all statuses written, s", lambda r: at(r, "start", "marks", "all written", "seconds"), "{:.2f}"),
    ("CPU before the first request, s", lambda r: at(r, "start", "marks", "first request", "cpu"), "{:.2f}"),
    ("CPU of list and sync, s", lambda r: _between(r, "first write", "first request", "cpu"), "{:.2f}"),
    ("CPU of first judging and writing, s", lambda r: _between(r, "all written", "first write", "cpu"), "{:.2f}"),
    ("resident after that, MiB", lambda r: at(r, "settled", "resident"), "{:.0f}"),
    ("peak resident over the whole run, MiB", lambda r: at(r, "end", "peak"), "{:.0f}"),
    ("resident beyond idle, bytes per Pod", lambda r: _per((grown(r) or 0) * 2**20, at(r, "pods")), "{:.0f}"),
    ("single change to its write, p50 ms", lambda r: at(r, "singles", "p50_ms"), "{:.2f}"),
    ("single change to its write, p99 ms", lambda r: at(r, "singles", "p99_ms"), "{:.2f}"),
    ("CPU per single change, ms", lambda r: _per((at(r, "singles", "cpu") or 0) * 1e3, at(r, "singles", "changes_written")), "{:.2f}"),
    ("storm: changes", lambda r: at(r, "storm", "changes"), "{:.0f}"),
    ("storm: s until all is written", lambda r: at(r, "storm", "seconds"), "{:.1f}"),
    ("storm: CPU, s", lambda r: at(r, "storm", "cpu"), "{:.2f}"),
    ("storm: change to its write, p50 ms", lambda r: at(r, "storm", "p50_ms"), "{:.0f}"),
    ("storm: change to its write, p99 ms", lambda r: at(r, "storm", "p99_ms"), "{:.0f}"),
    ("storm: changes that one write covered or undid", lambda r: at(r, "storm", "changes_coalesced"), "{:.0f}"),
    ("storm: writes", lambda r: at(r, "storm", "writes", "applied"), "{:.0f}"),
    ("writes issued, whole run", lambda r: at(r, "counters", "issued"), "{:.0f}"),
    ("writes elided, whole run", lambda r: at(r, "counters", "elided"), "{:.0f}"),
    ("machine: a million turns of a loop, ms of CPU", lambda r: sum(r["turn_ms"]) / len(r["turn_ms"]), "{:.0f}"),
    ("quiet: share of a core, %", lambda r: _per((at(r, "quiet", "cpu") or 0) * 100, at(r, "quiet", "seconds")), "{:.2f}"),
    ("quiet: requests but those for the Lease", noise, "{:.0f}"),
)

GROWTH: Final = (
    ("CPU of list and sync", ROWS[2][1]),
    ("CPU of first judging and writing", ROWS[3][1]),
    ("CPU from first request to all written", lambda r: _between(r, "all written", "first request", "cpu")),
    ("resident beyond idle", grown),
    ("storm: CPU", ROWS[12][1]),
    ("CPU per single change", ROWS[9][1]),
)


def exponent(small: Run, large: Run, figure: Callable[[Run], float | None]) -> float | None:
    """How a figure grows: 1 is in step with the fleet, 0 not at all."""
    a, b = figure(small), figure(large)
    if a is None or b is None or a <= 0 or b <= 0:
        return None
    return math.log(b / a) / math.log(large["size"] / small["size"])


@dataclass(frozen=True, slots=True)
class Goal:
    """A sentence, the bound, and what was measured; None where this run cannot tell."""

    text: str
    bound: float
    measured: float | None

    @property
    def verdict(self) -> str:
        """met, missed, or not measured."""
        return "not measured" if self.measured is None else "met" if self.measured <= self.bound else "missed"


def goals(runs: Sequence[Run], idle: float | None) -> list[Goal]:
    """The page's goals, against the product's runs."""
    by_size = {run["size"]: run for run in runs}
    small, large = by_size.get(1_000, {}), by_size.get(10_000, {})
    figure = {name: read for name, read, _ in ROWS}
    found = [
        Goal("resident, idle, MiB", 90, idle),
        Goal("resident, 10,000 Pods, MiB", 120, at(small, "settled", "resident")),
        Goal("resident, 100,000 Pods, MiB", 400, at(large, "settled", "resident")),
        Goal("list and sync of 100,000 Pods, CPU s", 6, figure["CPU of list and sync, s"](large)),
        Goal("10,000 statuses judged and written, CPU s more", 10, figure["CPU of first judging and writing, s"](large)),
        Goal("changed Pod to its write, fleet of 10,000, p50 ms", 10, at(large, "singles", "p50_ms")),
        Goal("changed Pod to its write, fleet of 10,000, p99 ms", 50, at(large, "singles", "p99_ms")),
        Goal("quiet fleet of 10,000, % of a core", 1, figure["quiet: share of a core, %"](large)),
        Goal("quiet fleet of 10,000, requests", 0, noise(large) if large else None),
    ]
    if small and large:
        for name, read in (GROWTH[2], GROWTH[3]):
            found.append(Goal(f"{name}, growth exponent from 1,000 to 10,000", 1.05, exponent(small, large, read)))
        found.append(Goal("CPU per single change, exponent from 1,000 to 10,000", 0.05, exponent(small, large, GROWTH[5][1])))
    return found
