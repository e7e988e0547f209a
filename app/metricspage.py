"""Every metric of the process, read from the collectors themselves, and the page `docs/metrics.md` that lists them.

Dashboards and alerts are checked against the same list, so that none asks for a name that nobody exposes.
"""

from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import Final, NamedTuple

from prometheus_client import CollectorRegistry
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.metrics_core import Metric

import app.metrics
import certs.metrics
import controller.metrics
import kube.metrics
from app.clock import SystemClock
from controller.cache import Cache
from controller.details import PHASES, STATES, STEPS
from controller.fleet import DETAILED, FleetCollector
from controller.kinds import kinds
from webhooks.metrics import AdmissionMetrics

# What a label's values are, and thereby why there is an end to them.
LABELS: Final = {
    "act": "`label`, `unlabel`, `deletePod`, `deleteWorkload`, `clearRetry`, `delete`",
    "cause": "`unreadable`, `own-write`, `not-leading`; of shards: how they came and went; of retries an error's class",
    "certificate": "`serving`, `authority`",
    "code": "HTTP statuses; `<error>` where no answer came",
    "configuration": "`modelwarden-validating`, `modelwarden-mutating`",
    "controller": "`modeldeployment`",
    "host": "the API server's address",
    "kind": "the kinds that a status reads",
    "method": "HTTP methods",
    "name": f"the deployment's name (at most {DETAILED:,} shown); of queues: `modeldeployment`, or one a shard; of the leader: the Lease",
    "namespace": f"the deployment's namespace (at most {DETAILED:,} are shown)",
    "observer": "`router`, `cache`, `forward`, `drain`, `elastic`",
    "outcome": "what became of it, in a word",
    "phase": ", ".join(f"`{name}`" for name in PHASES),
    "python": "the interpreter's version",
    "reason": "`timeout`, `gone`, or the class of the error that ended the watch",
    "result": "of passes: `success`, `requeue`, `error`; of publications: `written`, `absent`, `failed`",
    "revision": "the build's revision",
    "role": "roles of a deployment that is shown",
    "rule": "the rules of [rules.md](rules.md), and those of the fence",
    "status": ", ".join(f"`{name}`" for name in STATES),
    "step": ", ".join(f"`{name}`" for name in STEPS) + "; of certificates: `bootstrap`, `rotate`, `renew`, `forget`, `restore`, `adopt`",
    "type": "the conditions of [conditions.md](conditions.md), and no one else's",
    "verdict": "`allowed`, `refused`",
    "version": "the build's version",
    "webhook": "the four paths",
}

# Shown by prometheus_client itself on Linux; those that our dashboard and alerts ask for.
PROCESS: Final = frozenset({"process_cpu_seconds_total", "process_open_fds", "process_resident_memory_bytes", "process_start_time_seconds"})

_SUFFIXES: Final = {"histogram": ("_bucket", "_count", "_sum"), "summary": ("", "_count", "_sum")}

_INTRODUCTION: Final = f"""# Metrics

`/metrics` on the service's own port, over HTTPS, in the text form or as OpenMetrics. This page is generated from the collectors
(`make docs`), and a test keeps it current. Beside these, prometheus_client shows the process itself (`process_*`, `python_*`).

Names without our prefix are those that controller-runtime, client-go and their dashboards have made known. Three rules hold for our own:

* **A null has no sample.** `modelwarden_role_endpoints_eligible` is absent while it is not known, and never 0 for that reason.
* **Unknown is a value of its own.** Phases and conditions are state sets: one sample for each value, 1 for the one that holds.
* **Labels have an end.** Figures by deployment are shown by the leader only, and for fleets of up to {DETAILED:,} deployments; beyond that,
  and beside them, there are sums. A condition that somebody else put into a status is not shown.

What to do when a figure is wrong: [alerts.md](alerts.md).
"""


class Family(NamedTuple):
    """One metric. `name` is what stands behind `# TYPE`, with the `_total` of a counter."""

    name: str
    kind: str
    labels: tuple[str, ...]
    says: str


def rooms() -> dict[str, tuple[Family, ...]]:
    """Every family by the part of the service that counts it."""
    fleet = FleetCollector(Cache(kinds("required")), SystemClock(), lambda: True)
    return {
        "The fleet (leader only)": _read(fleet.collect()),
        "Admission": _read(vars(AdmissionMetrics(CollectorRegistry())).values()),
        "The controller": _of(controller.metrics, controller.metrics.CacheAge().collect()),
        "The API client": _of(kube.metrics),
        "Certificates": _of(certs.metrics),
        "The process": _of(app.metrics),
    }


def sample_names() -> frozenset[str]:
    """Every name that a query may ask for: a histogram's parts, not its own name."""
    every = (family for families in rooms().values() for family in families)
    return frozenset(family.name + suffix for family in every for suffix in _SUFFIXES.get(family.kind, ("",))) | PROCESS


def page() -> str:
    """The text of `docs/metrics.md`."""
    return "\n".join(_lines()) + "\n"


def _of(module: ModuleType, more: Iterable[Metric] = ()) -> tuple[Family, ...]:
    return _read([*vars(module).values(), *more])


def _read(things: Iterable[object]) -> tuple[Family, ...]:
    found = {family.name: family for thing in things if (family := _family(thing)) is not None}
    return tuple(found[name] for name in sorted(found))


def _family(thing: object) -> Family | None:
    """prometheus_client keeps the names of labels to itself until a sample has them, so they are read where it keeps them."""
    if isinstance(thing, MetricWrapperBase):
        (described,) = thing.describe()
        labels = tuple(thing._labelnames)
    elif isinstance(thing, Metric):
        described, labels = thing, tuple(getattr(thing, "_labelnames", ()))
    else:
        return None
    name = described.name + ("_total" if described.type == "counter" else "")
    return Family(name, described.type, labels, described.documentation)


def _lines() -> Iterator[str]:
    yield _INTRODUCTION
    for room, families in rooms().items():
        yield f"## {room}\n"
        yield "| name | type | labels | what it says |"
        yield "|---|---|---|---|"
        for family in families:
            labels = ", ".join(f"`{label}`" for label in family.labels) or "–"
            yield f"| `{family.name}` | {family.kind} | {labels} | {family.says} |"
        yield ""
    yield "## Labels\n"
    yield "| label | values |"
    yield "|---|---|"
    for label, values in sorted(LABELS.items()):
        yield f"| `{label}` | {values} |"
