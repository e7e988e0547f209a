"""The page of metrics is written in parts, and reads as if it were written in one go."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from app.metrics import PART, exposition

PLAIN, OPEN = "text/plain;version=0.0.4", "application/openmetrics-text;version=1.0.0"


class Long(Collector):
    """A family of so many samples."""

    def __init__(self, count: int) -> None:
        self._count = count

    def collect(self) -> Iterator[GaugeMetricFamily]:
        family = GaugeMetricFamily("a_long_one", "With a \\ and\na line break.", labels=("n",))
        for number in range(self._count):
            family.add_metric((f'x"{number}',), number)
        yield family


def filled(count: int) -> CollectorRegistry:
    """A registry of each kind of metric, and the long family between them."""
    registry = CollectorRegistry()
    Counter("a_counter", "c", ("x",), registry=registry).labels("y").inc(3)
    registry.register(Long(count))
    Histogram("a_histogram", "h", registry=registry).observe(0.2)
    Gauge("a_gauge", "g", registry=registry).set(1)
    Gauge("a_gauge_without_samples", "g", ("x",), registry=registry)
    return registry


@pytest.mark.parametrize("accept", [PLAIN, OPEN, "", None])
@pytest.mark.parametrize("count", [0, 1, PART - 1, PART, PART + 1, 2 * PART, 2 * PART + 7])
async def test_parts_make_the_whole(accept: str | None, count: int) -> None:
    """Byte by byte what the library writes of the same registry."""
    registry = filled(count)
    encode, content_type = choose_encoder(accept or "")
    assert await exposition(accept, registry) == (encode(registry), content_type)


async def test_others_run_between_the_parts() -> None:
    """A long page leaves the loop free at least once a part."""
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task: asyncio.Task[Any] = asyncio.create_task(other())
    await exposition(PLAIN, filled(10 * PART))
    task.cancel()
    assert turns >= 10
