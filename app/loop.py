"""Runs a coroutine as the process's main job: uvloop where it is there, and stop signals turned into an Event."""

import asyncio
import gc
import signal
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import structlog

from app import allocator, collector

log = structlog.get_logger("process")

# A terminal and a supervisor may each pass on the same Ctrl-C: what follows that closely is no second wish.
SAME_WISH_SECONDS = 0.5


def run(main: Callable[[asyncio.Event], Coroutine[Any, Any, int]]) -> int:
    """The exit code of `main`. The first SIGINT or SIGTERM sets its Event; the second cancels it."""
    collector.relax()
    allocator.return_large_buffers()
    gc.freeze()  # what is loaded by now is never walked at all
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(_with_signals(main))


async def _with_signals(main: Callable[[asyncio.Event], Awaitable[int]]) -> int:
    stop = asyncio.Event()
    task = asyncio.current_task()
    assert task is not None  # noqa: S101  # a coroutine that runs is in a task

    loop = asyncio.get_running_loop()
    first = 0.0

    def asked(name: str) -> None:
        nonlocal first
        if not stop.is_set():
            first = loop.time()
            log.info("asked to stop", signal=name)
            stop.set()
        elif loop.time() - first >= SAME_WISH_SECONDS:
            log.warning("asked to stop again; leaving at once", signal=name)
            task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, asked, number.name)
    try:
        return await main(stop)
    except asyncio.CancelledError:
        if stop.is_set():
            return 130
        raise


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:  # Windows; the standard loop does the same work a little slower
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory
