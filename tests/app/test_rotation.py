"""A whole rotation of the authority while writes go through admission: the cluster verifies every call, and none may fail."""

import asyncio
from datetime import datetime, timedelta
from pathlib import Path

from app_world import EXAMPLES, Whole, documents, whole

from app.clock import SystemClock


class ShiftedClock(SystemClock):
    """Real time, moved: OpenSSL judges by the real clock, so the past is where the certificates have to come from."""

    def __init__(self, shift: timedelta) -> None:
        self.shift = shift
        self.ahead = timedelta(0)

    def now(self) -> datetime:
        return super().now() + self.shift + self.ahead

    def monotonic(self) -> float:
        return super().monotonic() + self.ahead.total_seconds()


class Writing:
    """Somebody who never stops writing; `more` lets that many further writes be answered."""

    def __init__(self, world: Whole, path: Path) -> None:
        self._world = world
        (self._document,) = documents(path)
        self._answered = asyncio.Semaphore(0)
        self.count = 0
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        while True:
            await self._world.apply(self._document, dry_run=True)
            self.count += 1
            self._answered.release()

    async def more(self, count: int) -> None:
        """Raises what a write raised."""
        for _ in range(count):
            answered = asyncio.create_task(self._answered.acquire())
            await asyncio.wait([answered, self._task], return_when=asyncio.FIRST_COMPLETED)
            if self._task.done():
                answered.cancel()
                self._task.result()

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


async def test_no_write_fails_while_the_authority_is_rotated(tmp_path):
    """Published before served, old and new overlapping: dry-run writes go on through every step, and every one is admitted."""
    clock = ShiftedClock(timedelta(days=-2500))
    async with asyncio.timeout(100), whole(tmp_path, clock, certs__servingDays=3650, leader__elect=False) as world:
        keeper = world.service.keeper

        def seen() -> tuple[int, int]:
            return len(keeper.held.authorities), keeper.context.serving.certificate.serial_number

        writing = Writing(world, EXAMPLES / "server.yaml")
        try:
            await writing.more(5)
            steps = [seen()]
            clock.shift = timedelta(0)
            for _ in range(3):
                clock.ahead += timedelta(seconds=120)
                await keeper.step()
                await writing.more(5)
                assert await world.published() == keeper.held.bundle
                steps.append(seen())
        finally:
            await writing.stop()
    assert [authorities for authorities, _ in steps] == [1, 2, 2, 2]
    first, second, third, fourth = (serial for _, serial in steps)
    assert second == first, "the new authority is published before anything it signed is served"
    assert third != second
    assert fourth == third
