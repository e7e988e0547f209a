"""Waiting for whichever comes first, without leaving anything behind."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from api.clock import Clock

T = TypeVar("T")


async def first_of(*waits: Coroutine[Any, Any, Any]) -> None:
    """Return when one of them is done; the others are cancelled and awaited. An error of the one that ended first is raised."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()


async def within(clock: Clock, seconds: float, work: Coroutine[Any, Any, T]) -> T:
    """The work's result, or TimeoutError when that many seconds of the clock pass first; the work is cancelled then."""
    task = asyncio.ensure_future(work)
    timer = asyncio.ensure_future(clock.sleep(seconds))
    try:
        await asyncio.wait((task, timer), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise TimeoutError(f"not done within {seconds:g} s")
        return task.result()
    finally:
        for each in (task, timer):
            each.cancel()
        await asyncio.gather(task, timer, return_exceptions=True)
