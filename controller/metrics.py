"""What the controller counts: under names that dashboards already know (controller-runtime, workqueue), ours with a prefix."""

import time
from collections.abc import Callable, Iterator
from typing import Final

from prometheus_client import REGISTRY, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

CONTROLLER: Final = "modeldeployment"
QUEUE: Final = "modeldeployment"

_SECONDS: Final = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)

# Reconciling.
RECONCILES: Final = Counter("controller_runtime_reconcile_total", "Passes by result.", ["controller", "result"])
RECONCILE_ERRORS: Final = Counter("controller_runtime_reconcile_errors_total", "Passes that failed.", ["controller"])
RECONCILE_PANICS: Final = Counter("controller_runtime_reconcile_panics_total", "Passes that ended in a defect.", ["controller"])
RECONCILE_SECONDS: Final = Histogram("controller_runtime_reconcile_time_seconds", "Time of a pass.", ["controller"], buckets=_SECONDS)
ACTIVE_WORKERS: Final = Gauge("controller_runtime_active_workers", "Passes under way.", ["controller"])
MAX_CONCURRENT: Final = Gauge("controller_runtime_max_concurrent_reconciles", "Passes that may be under way.", ["controller"])

# Queue.
DEPTH: Final = Gauge("workqueue_depth", "Keys that wait.", ["name"])
ADDS: Final = Counter("workqueue_adds_total", "Keys added.", ["name"])
QUEUE_SECONDS: Final = Histogram("workqueue_queue_duration_seconds", "How long a key waited.", ["name"], buckets=_SECONDS)
WORK_SECONDS: Final = Histogram("workqueue_work_duration_seconds", "How long a key was worked on.", ["name"], buckets=_SECONDS)
QUEUE_RETRIES: Final = Counter("workqueue_retries_total", "Keys put back after a failure.", ["name"])
UNFINISHED: Final = Gauge("workqueue_unfinished_work_seconds", "Age of all work under way, added up.", ["name"])
LONGEST: Final = Gauge("workqueue_longest_running_processor_seconds", "Age of the oldest work under way.", ["name"])

# Leader.
MASTER: Final = Gauge("leader_election_master_status", "1 while this process holds the Lease.", ["name"])

SHARDS: Final = Gauge("modelwarden_shards", "Shards that the fleet is split into; 0 without sharding.")
SHARDS_HELD: Final = Gauge("modelwarden_shards_held", "Shards whose Lease this process holds.")
SHARDS_TAKEN: Final = Counter("modelwarden_shards_taken_total", "Shards taken, by cause: free, claimed, resumed.", ["cause"])
SHARDS_GIVEN: Final = Counter(
    "modelwarden_shards_given_total", "Shards given up, by cause: granted, lost, expired, layout, left.", ["cause"]
)

# Caches.
WATCH_RESTARTS: Final = Counter("modelwarden_watch_restarts_total", "Watches that ended, by what ended them.", ["kind", "reason"])
LIST_SECONDS: Final = Histogram("modelwarden_list_seconds", "Time of a whole list.", ["kind"], buckets=(*_SECONDS, 60, 120))
LIST_BYTES: Final = Gauge("modelwarden_list_bytes", "Size of the last whole list.", ["kind"])
LIST_FAILURES: Final = Counter("modelwarden_list_failures_total", "Lists that failed.", ["kind"])
CACHED: Final = Gauge("modelwarden_cache_objects", "Objects kept.", ["kind"])
CACHE_EVENT: Final = Gauge(
    "modelwarden_cache_last_contact_timestamp_seconds", "When the API server last said something about a kind.", ["kind"]
)
READABLE: Final = Gauge("modelwarden_cache_readable", "1 while the kind's objects can be relied on; 0 holds every status write.", ["kind"])
UNREADABLE_OBJECTS: Final = Counter("modelwarden_unreadable_objects_total", "Objects of which only the metadata could be read.", ["kind"])

# Writing.
WRITES: Final = Counter("modelwarden_status_writes_total", "Status patches sent, by outcome.", ["outcome"])
ELIDED: Final = Counter("modelwarden_status_writes_elided_total", "Passes whose status was already stored.")
CONFLICTS: Final = Counter("modelwarden_status_write_conflicts_total", "Status patches that met a newer object; the pass is run again.")
HELD: Final = Counter("modelwarden_passes_held_total", "Passes not run, by what they wait for.", ["cause"])
EVENTS: Final = Counter(
    "modelwarden_events_total", "Events by outcome: sent, repeated, merged, displaced, limited, not-held, failed.", ["outcome"]
)

# Acting and observing.
ACTS: Final = Counter("modelwarden_retirement_acts_total", "Acts of retirements by kind and outcome.", ["act", "outcome"])
OBSERVATIONS: Final = Counter("modelwarden_observations_total", "Observations by observer and outcome.", ["observer", "outcome"])


class CacheAge(Collector):
    """How old each cache may be, counted at the scrape: a gauge that is only set when something is heard would be young for ever."""

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self._now = now

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """One sample for each kind that was heard of; none for a kind that was not, for nothing is known of its age."""
        age = GaugeMetricFamily(
            "modelwarden_cache_age_seconds", "Since the API server last said something about a kind, bookmarks included.", labels=("kind",)
        )
        now = self._now()
        for heard in CACHE_EVENT.collect():
            for sample in heard.samples:
                if sample.value:
                    age.add_metric((sample.labels["kind"],), max(0.0, now - sample.value))
        yield age


REGISTRY.register(CacheAge())
