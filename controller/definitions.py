"""Rings the bell when a CustomResourceDefinition comes, so that a kind that was not served is asked for again without any polling.

Definitions are large and change rarely; only their names are read. Without the permission to watch them the bell stays silent, and the
reflectors look again by themselves after a long while.
"""

import random
from collections.abc import Iterable
from contextlib import aclosing
from typing import Final

import structlog

from api.clock import Clock
from controller.kinds import read_metadata
from controller.reflector import Reflector
from kube.client import Client
from kube.errors import ApiError, Forbidden, KubeError
from kube.resources import CRDS

WAIT: Final = 5.0
AFTER_REFUSAL: Final = 3600.0
# Two starts of a watch are at least this far apart: who ends every watch at once, a server or a proxy, is not asked without a breath.
LEAST: Final = 1.0

log = structlog.get_logger("controller.definitions")


class DefinitionWatch:
    """Watches every definition, tells those reflectors whose kind it defines."""

    def __init__(self, client: Client, reflectors: Iterable[Reflector], clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._waiting: dict[str, Reflector] = {
            f"{resource.plural}.{resource.group}": reflector
            for reflector in reflectors
            for resource in reflector.kind.resources
            if "." in resource.group
        }

    async def run(self) -> None:
        """Watch until cancelled."""
        version = ""
        while True:
            started = self._clock.monotonic()
            try:
                version = await self._follow(version or await self._list())
            except Forbidden as error:
                log.info("definitions may not be watched", error=str(error))
                await self._clock.sleep(AFTER_REFUSAL)
                version = ""
            except ApiError:
                version = ""
                await self._clock.sleep(WAIT * (1 + random.random()))  # noqa: S311 - jitter, not a secret
            except KubeError:
                await self._clock.sleep(WAIT * (1 + random.random()))  # noqa: S311 - jitter, not a secret
            if (early := LEAST - (self._clock.monotonic() - started)) > 0:
                await self._clock.sleep(early)

    async def _list(self) -> str:
        version = ""
        pages = self._client.pages(CRDS, limit=20)
        async with aclosing(pages):
            async for page in pages:
                version = page.resource_version
                for raw in page.items:
                    self._ring(read_metadata(raw).metadata.name)
        return version

    async def _follow(self, version: str) -> str:
        seconds = int(300 + 300 * random.random())  # noqa: S311 - jitter, not a secret
        events = self._client.watch(CRDS, resource_version=version, timeout_seconds=seconds)
        async with aclosing(events):
            async for event in events:
                meta = read_metadata(event.object).metadata
                version = meta.resource_version or version
                if event.type in ("ADDED", "MODIFIED"):
                    self._ring(meta.name)
        return version

    def _ring(self, name: str) -> None:
        reflector = self._waiting.get(name)
        if reflector is not None and reflector.served is not True:
            reflector.appeared.set()
