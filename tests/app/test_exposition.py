"""The page of metrics is written family by family, and reads as if the library had written it in one go."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from api.status import Condition, Endpoints, Retirement, RoleStatus, Serving, Status
from app.metrics import exposition
from controller.details import details
from controller.store import Key

PLAIN, OPEN = "text/plain;version=0.0.4", "application/openmetrics-text;version=1.0.0"
NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)

STATUSES: dict[Key, Status | None] = {
    Key("team", "not-judged-yet"): None,
    Key("team", "ready"): Status(
        phase="Ready",
        conditions=(Condition(type="QuotaReserved", status="True"), Condition(type="Theirs", status="True")),
        roles=(
            RoleStatus(
                name="server", desired=3, ready=2, quota_reserved=1, endpoints=Endpoints(eligible=0, serving=Serving(state="Unknown"))
            ),
        ),
    ),
    Key("team", "large"): Status(phase="Degraded", roles=(RoleStatus(name="server", desired=12_345_678, ready=0),)),
    Key("team", 'odd\n"\\'): Status(
        phase="Of another version",
        roles=(RoleStatus(name='a "role"\\\n', endpoints=Endpoints(serving=Serving(state="Confirmed", value=2))),),
        retirement=Retirement(state="Draining", started_at="2026-11-01T11:58:59Z"),
    ),
    Key("team", "no-time"): Status(phase="Deleting", retirement=Retirement(state="Aborted", started_at="yesterday")),
}


class Details(Collector):
    """The families of those deployments."""

    def __init__(self, statuses: dict[Key, Status | None]) -> None:
        self._statuses = statuses

    def collect(self) -> Iterator[Metric]:
        yield from details(self._statuses, NOW)


def filled(statuses: dict[Key, Status | None]) -> CollectorRegistry:
    """A registry of each kind of metric, and the written families between them."""
    registry = CollectorRegistry()
    Counter("a_counter", "c", ("x",), registry=registry).labels("y").inc(3)
    registry.register(Details(statuses))
    Histogram("a_histogram", "h", registry=registry).observe(0.2)
    Gauge("a_gauge", "With a \\ and\na line break.", registry=registry).set(1)
    Gauge("a_gauge_without_samples", "g", ("x",), registry=registry)
    return registry


@pytest.mark.parametrize("accept", [PLAIN, OPEN, "", None])
@pytest.mark.parametrize("statuses", [STATUSES, {}], ids=["a fleet", "none"])
async def test_what_is_written_is_what_the_library_writes(accept: str | None, statuses: dict[Key, Status | None]) -> None:
    """Byte by byte, of the samples that it reads from the lines: labels, escapes and figures have its form."""
    registry = filled(statuses)
    encode, content_type = choose_encoder(accept or "")
    assert await exposition(accept, registry) == (encode(registry), content_type)


def test_the_figures_of_each_deployment() -> None:
    """Each value of a state set has a sample; a null has none; what another controller wrote is told as far as its words are ours."""
    found = {
        (
            family.name.removeprefix("modelwarden_"),
            *(sample.labels[name] for name in sorted(sample.labels) if name != "namespace"),
        ): sample.value
        for family in details(STATUSES, NOW)
        for sample in family.samples
    }
    odd, role = 'odd\n"\\', 'a "role"\\\n'
    shown = {key for key, value in found.items() if value == 1 and key[0] == "deployment_phase"}
    assert shown == {
        ("deployment_phase", name, phase)
        for name, phase in [("not-judged-yet", "Unknown"), ("ready", "Ready"), ("large", "Degraded"), ("no-time", "Deleting")]
    }
    assert {key: value for key, value in found.items() if key[0] == "deployment_condition"} == {
        ("deployment_condition", "ready", status, "QuotaReserved"): float(status == "True") for status in ("True", "False", "Unknown")
    }
    assert {key: value for key, value in found.items() if key[0].startswith("role_")} == {
        ("role_replicas_desired", "ready", "server"): 3,
        ("role_replicas_ready", "ready", "server"): 2,
        ("role_replicas_quota_reserved", "ready", "server"): 1,
        ("role_endpoints_eligible", "ready", "server"): 0,
        ("role_replicas_desired", "large", "server"): 12_345_678,
        ("role_replicas_ready", "large", "server"): 0,
        ("role_replicas_desired", odd, role): 0,
        ("role_replicas_ready", odd, role): 0,
        ("role_endpoints_serving", odd, role): 2,
    }
    assert {key for key, value in found.items() if value == 1 and key[0] == "retirement_step"} == {
        ("retirement_step", odd, "Draining"),
        ("retirement_step", "no-time", "Aborted"),
    }
    assert {key: value for key, value in found.items() if key[0] == "retirement_age_seconds"} == {("retirement_age_seconds", odd): 61}


async def test_others_run_between_the_families() -> None:
    """A long page leaves the loop free once a family."""
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task: asyncio.Task[Any] = asyncio.create_task(other())
    await exposition(PLAIN, filled(STATUSES))
    task.cancel()
    assert turns >= 10
