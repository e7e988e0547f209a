"""The fleet's own figures for `/metrics`, read from the stored statuses at the moment of a scrape.

Only the leader shows them, so that nobody counts a deployment twice. What the sums need of a status is read once a version and kept, no
more: decoded statuses of a large fleet would take more room than all its Pods. Figures by deployment are shown for fleets of up to
`DETAILED`; beyond that only the sums are, for a page of a million lines helps nobody. What is not known has no sample:
a null is never shown as zero, and Unknown is a value of its own. Conditions that others put into a status are not shown: their types are
theirs to invent, and labels have to be bounded.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from api.clock import Clock
from api.reasons import TYPES
from api.status import Condition, Status, decode_status
from controller.cache import Cache
from controller.details import PHASES, details
from controller.kinds import CachedDeployment
from controller.store import Key

DETAILED: Final = 2000


class _Standing(NamedTuple):
    """What the sums count of a deployment: its phase, and its conditions' types and statuses."""

    phase: str
    conditions: tuple[tuple[str, str], ...]


class _Known(NamedTuple):
    version: str
    standing: _Standing


class FleetCollector(Collector):
    """Registered while the controller runs."""

    def __init__(
        self,
        cache: Cache,
        clock: Clock,
        leading: Callable[[], bool],
        detailed: int = DETAILED,
        *,
        readable: Callable[[], bool] = lambda: True,
        owns: Callable[[str], bool] = lambda _: True,
    ) -> None:
        self._cache = cache
        self._clock = clock
        self._leading = leading
        self._readable = readable
        self._owns = owns
        self._detailed = detailed
        self._known: dict[Key, _Known] = {}

    def collect(self) -> Iterator[Metric]:
        """Every family; none while another process leads."""
        if not self._leading():
            self._known.clear()
            return
        stale = GaugeMetricFamily(
            "modelwarden_statuses_stale",
            "1 while a kind cannot be read: nothing is judged, and phases and conditions are those of before.",
            value=float(not self._readable()),
        )
        yield stale
        held = self._look()
        yield from _sums(known.standing for known in self._known.values())
        if len(held) <= self._detailed:
            yield from details({key: decode_status(held[key].status_json) for key in sorted(held)}, self._clock.now())

    def _look(self) -> dict[Key, CachedDeployment]:
        """Bring what is kept up to date; all that are ours."""
        fresh: dict[Key, _Known] = {}
        held: dict[Key, CachedDeployment] = {}
        standings: dict[_Standing, _Standing] = {}
        for key in self._cache.deployments():
            cached = self._cache.deployment(key)
            if cached is None or not self._owns(cached.metadata.uid):
                continue
            version, known = cached.metadata.resource_version, self._known.get(key)
            standing = known.standing if known is not None and known.version == version else _standing(decode_status(cached.status_json))
            held[key], fresh[key] = cached, _Known(version, standings.setdefault(standing, standing))
        self._known = fresh
        return held


def _ours(status: Status) -> Iterator[Condition]:
    return (entry for entry in status.conditions if entry.type in TYPES)


def _standing(status: Status | None) -> _Standing:
    if status is None:
        return _Standing("Unknown", ())
    return _Standing(status.phase or "Unknown", tuple((entry.type, entry.status) for entry in _ours(status)))


def _sums(standings: Iterable[_Standing]) -> Iterator[GaugeMetricFamily]:
    phases: Counter[str] = Counter()
    conditions: Counter[tuple[str, str]] = Counter()
    for standing in standings:
        phases[standing.phase] += 1
        conditions.update(standing.conditions)
    family = GaugeMetricFamily("modelwarden_deployments", "Deployments by phase.", labels=("phase",))
    for name in PHASES:
        family.add_metric((name,), phases[name])
    yield family
    family = GaugeMetricFamily("modelwarden_conditions", "Conditions of all deployments by type and status.", labels=("type", "status"))
    for (kind, state), count in sorted(conditions.items()):
        family.add_metric((kind, state), count)
    yield family
