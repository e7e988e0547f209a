"""The figures of each deployment, written as lines of the text exposition at once.

A fleet of a thousand has forty thousand samples. Made one by one and then put into words they cost a second of CPU at each scrape, more
than all the rest of a quiet service; as lines a fifth of that. Both text forms write a gauge alike. Who wants samples gets them read
from the lines.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Final

from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample
from prometheus_client.utils import floatToGoString

from api.clock import parse_time
from api.reasons import TYPES
from api.status import Retirement, Status
from controller.store import Key

PHASES: Final = ("Starting", "Ready", "Degraded", "Deleting", "Unknown")
STATES: Final = ("True", "False", "Unknown")
STEPS: Final = ("Admitted", "Disqualified", "Withdrawing", "Draining", "Deleting", "Settling", "Aborted")
WHERE: Final = ("namespace", "name")


class WrittenFamily(Metric):
    """A family of gauges whose samples are `lines` already, each with its end; in each the labels are in the order of their names."""

    def __init__(self, name: str, documentation: str, labels: tuple[str, ...]) -> None:
        super().__init__(name, documentation, "gauge")
        self._labelnames = labels
        self.lines: list[str] = []

    @property
    def samples(self) -> list[Sample]:
        """Read from the lines, anew each time."""
        if not self.lines:
            return []
        (family,) = text_string_to_metric_families(f"# TYPE {self.name} gauge\n{''.join(self.lines)}")
        return list(family.samples)

    @samples.setter
    def samples(self, value: list[Sample]) -> None:
        """The base begins with an empty list; there is nothing else to be set."""
        if value:
            raise AttributeError("the lines are what there is")

    def add(self, where: str, value: float, label: str = "") -> None:
        """A sample of the deployment that `where` names; `label` is one more, written."""
        self.lines.append(f"{self.name}{{{where}{label}}} {_written(value)}\n")

    def add_states(self, where: str, states: Iterable[str]) -> None:
        """The samples of a state set, as `_states` wrote what comes behind the deployment's labels."""
        head = f"{self.name}{{{where}"
        self.lines += [f"{head}{state}" for state in states]


def details(statuses: Mapping[Key, Status | None], now: datetime) -> Iterator[Metric]:
    """Every family that tells of one deployment; a null has no sample."""
    phase = WrittenFamily("modelwarden_deployment_phase", "1 for the phase that a deployment is in.", (*WHERE, "phase"))
    condition = WrittenFamily("modelwarden_deployment_condition", "1 for the status that a condition has.", (*WHERE, "type", "status"))
    desired = WrittenFamily("modelwarden_role_replicas_desired", "Replicas that the spec asks for.", (*WHERE, "role"))
    ready = WrittenFamily("modelwarden_role_replicas_ready", "Replicas whose every member is ready.", (*WHERE, "role"))
    reserved = WrittenFamily("modelwarden_role_replicas_quota_reserved", "Replicas that hold quota.", (*WHERE, "role"))
    eligible = WrittenFamily(
        "modelwarden_role_endpoints_eligible",
        "Endpoints on the qualification list; absent while it is not known.",
        (*WHERE, "role"),
    )
    serving = WrittenFamily(
        "modelwarden_role_endpoints_serving",
        "Endpoints that Routers were seen to select; absent unless confirmed.",
        (*WHERE, "role"),
    )
    step = WrittenFamily("modelwarden_retirement_step", "1 for the step that a retirement is in.", (*WHERE, "step"))
    age = WrittenFamily("modelwarden_retirement_age_seconds", "Since the operation was admitted.", WHERE)
    for key, status in statuses.items():
        where = f'name="{_escaped(key.name)}",namespace="{_escaped(key.namespace)}"'
        phase.add_states(where, _states("phase", (status.phase if status is not None else "") or "Unknown", PHASES))
        if status is None:
            continue
        for entry in status.conditions:
            if entry.type in TYPES:
                condition.add_states(where, _states("status", entry.status, STATES, f',type="{entry.type}"'))
        for role in status.roles:
            label = f',role="{_escaped(role.name)}"'
            desired.add(where, role.desired, label)
            ready.add(where, role.ready, label)
            if role.quota_reserved is not None:
                reserved.add(where, role.quota_reserved, label)
            if role.endpoints is not None and role.endpoints.eligible is not None:
                eligible.add(where, role.endpoints.eligible, label)
            if role.endpoints is not None and role.endpoints.serving.value is not None:
                serving.add(where, role.endpoints.serving.value, label)
        if status.retirement is not None:
            step.add_states(where, _states("step", status.retirement.state, STEPS))
            seconds = _age(status.retirement, now)
            if seconds is not None:
                age.add(where, seconds)
    yield from (phase, condition, desired, ready, reserved, eligible, serving, step, age)


@lru_cache(maxsize=1024)
def _states(label: str, shown: str, states: tuple[str, ...], behind: str = "") -> tuple[str, ...]:
    """The ends of a state set's lines: one for each value, 1 for the one that is shown."""
    return tuple(f',{label}="{state}"{behind}}} {_written(state == shown)}\n' for state in states)


@lru_cache(maxsize=1 << 14)
def _escaped(text: str) -> str:
    """A label's value. An API server lets none through that needs it; a status that another wrote may hold anything."""
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _written(value: float) -> str:
    text: str = floatToGoString(value)  # type: ignore[no-untyped-call]  # prometheus_client leaves it untyped
    return text


def _age(operation: Retirement, now: datetime) -> float | None:
    try:
        return (now - parse_time(operation.started_at)).total_seconds()
    except ValueError:
        return None
