"""The work queue: once, one at a time, again when asked meanwhile, later when it failed."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from virtual import VirtualClock, settle

from controller.queue import WorkQueue
from controller.store import Key

A, B = Key("n", "a"), Key("n", "b")


@asynccontextmanager
async def queue() -> AsyncIterator[tuple[WorkQueue, VirtualClock]]:
    clock = VirtualClock()
    made = WorkQueue(clock, "test")
    task = asyncio.create_task(made.run())
    await settle()
    try:
        yield made, clock
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_key_waits_once() -> None:
    """However often it is added before anybody takes it."""
    async with queue() as (q, _):
        for key in (A, B, A, A):
            q.add(key)
        assert [await q.get(), await q.get(), len(q)] == [A, B, 0]


async def test_a_key_is_worked_on_by_one_at_a_time() -> None:
    """Added while it is worked on, it comes again only after that work is done."""
    async with queue() as (q, _):
        q.add(A)
        await q.get()
        q.add(A)
        waiting = asyncio.ensure_future(q.get())
        await settle()
        assert not waiting.done()
        q.done(A)
        assert await waiting == A


@pytest.mark.parametrize("failures", [1, 2, 8, 40])
async def test_failures_wait_longer_each_time(failures: int) -> None:
    """5 ms doubled, five minutes at most."""
    async with queue() as (q, clock):
        for _ in range(failures - 1):
            q.retry(A)
        q._due.clear()
        q._later.clear()
        q.retry(A)
        wait = min(0.005 * 2 ** (failures - 1), 300.0)
        await clock.advance(wait * 0.99)
        assert len(q) == 0
        await clock.advance(wait * 0.02)
        assert len(q) == 1


async def test_success_forgets_failures() -> None:
    """The next failure after a success waits 5 ms again."""
    async with queue() as (q, clock):
        for _ in range(10):
            q.retry(A)
        q.forget(A)
        q.retry(A)
        await clock.advance(0.006)
        assert len(q) == 1


async def test_the_earliest_of_several_moments_counts() -> None:
    """A later wish does not put an earlier one off, and does not come twice."""
    async with queue() as (q, clock):
        q.add_after(A, 60)
        q.add_after(A, 5)
        q.add_after(A, 30)
        await clock.advance(5)
        assert await q.get() == A
        q.done(A)
        await clock.advance(120)
        assert len(q) == 0
