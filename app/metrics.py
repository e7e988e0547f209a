"""The process's own figures and the text of `/metrics`. Each room registers its collectors itself; this reads them all."""

import asyncio
import platform
from collections.abc import Iterator
from typing import Final, NamedTuple

from prometheus_client import REGISTRY, CollectorRegistry, Gauge, Histogram, Metric, disable_created_metrics
from prometheus_client.exposition import choose_encoder

from app.build import build
from controller.details import WrittenFamily

LAG: Final = Histogram(
    "modelwarden_event_loop_lag_seconds",
    "How late the event loop came back to a task that was due.",
    buckets=(0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0),
)
BUILD: Final = Gauge("modelwarden_build_info", "Always 1; the labels say which build this is.", ["version", "revision", "python"])

LOOK_SECONDS: Final = 1.0

END: Final = b"# EOF\n"

# The time of a counter's birth doubles the page's length, and nobody's dashboards ask for it.
disable_created_metrics()  # type: ignore[no-untyped-call]  # prometheus_client leaves it untyped


def say_build() -> None:
    """Set `modelwarden_build_info`."""
    info = build()
    BUILD.labels(info.version, info.revision, platform.python_version()).set(1)


class _Page(NamedTuple):
    """One family, as an encoder takes a registry."""

    family: Metric

    def collect(self) -> Iterator[Metric]:
        yield self.family


async def exposition(accept: str | None, registry: CollectorRegistry = REGISTRY) -> tuple[bytes, str]:
    """All metrics in the text form that the scraper asked for, and its content type.

    Family by family, with the loop free in between, so that no review waits for the whole page. What is written already is only put in.
    """
    encode, content_type = choose_encoder(accept or "")
    parts: list[bytes] = []
    for family in registry.collect():
        written = family.lines if isinstance(family, WrittenFamily) else []
        said = Metric(family.name, family.documentation, family.type) if written else family
        parts += (encode(_Page(said)).removesuffix(END), "".join(written).encode())
        await asyncio.sleep(0)
    if "openmetrics" in content_type:
        parts.append(END)
    return b"".join(parts), content_type


async def watch_loop_lag() -> None:
    """Measure for ever. Real time on purpose: it is the real loop that is late."""
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + LOOK_SECONDS
        await asyncio.sleep(LOOK_SECONDS)
        LAG.observe(max(0.0, loop.time() - due))
