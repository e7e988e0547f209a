"""A server, or a proxy before it, that takes every watch and ends it at once, as if it had come to its time-out."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Any

import pytest
from virtual import VirtualClock

from controller.cache import Cache
from controller.definitions import DefinitionWatch
from controller.kinds import kinds
from controller.reflector import Reflector
from kube.client import Event, Page
from kube.resources import Resource


class Hasty:
    """Lists are empty; watches come to nothing, and are counted. After a hundred of them it goes silent, so that a test ends."""

    def __init__(self) -> None:
        self.watches = 0

    async def serves(self, resource: Resource) -> bool:
        del resource
        return True

    async def pages(self, resource: Resource, namespace: str | None = None, **options: Any) -> AsyncGenerator[Page, None]:
        del resource, namespace, options
        yield Page([], "7")

    async def watch(self, resource: Resource, namespace: str | None = None, **options: Any) -> AsyncGenerator[Event, None]:
        del resource, namespace, options
        self.watches += 1
        if self.watches > 100:
            await asyncio.Event().wait()
        for event in ():
            yield event


def reflector(api: Hasty, clock: VirtualClock) -> Reflector:
    table = kinds("required")
    cache = Cache(table)
    return Reflector(api, table[0], cache, clock, on_keys=lambda _: None, on_readable=lambda: None)  # type: ignore[arg-type]  # as much as it asks


WATCHERS: dict[str, Callable[[Hasty, VirtualClock], Any]] = {
    "of definitions": lambda api, clock: DefinitionWatch(api, (), clock),  # type: ignore[arg-type,return-value]  # as much as it asks
    "of a kind": reflector,
}


@pytest.mark.parametrize("sentence", WATCHERS)
async def test_watches_that_end_at_once_are_started_again_once_a_second(sentence: str) -> None:
    """Ten seconds are ten watches, not as many as the network carries."""
    api, clock = Hasty(), VirtualClock()
    task = asyncio.create_task(WATCHERS[sentence](api, clock).run())
    try:
        await clock.advance(10)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert 5 <= api.watches <= 11
