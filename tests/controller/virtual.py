"""Time that stands still until a test moves it."""

import asyncio
import heapq
from datetime import UTC, datetime, timedelta

START = datetime(2026, 1, 1, tzinfo=UTC)


async def settle(rounds: int = 60) -> None:
    """Let everything that can run without time passing run."""
    for _ in range(rounds):
        await asyncio.sleep(0)


class VirtualClock:
    """A Clock whose sleepers wake when `advance` reaches them, in order."""

    def __init__(self) -> None:
        self.elapsed = 0.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._serial = 0

    def now(self) -> datetime:
        return START + timedelta(seconds=self.elapsed)

    def monotonic(self) -> float:
        return self.elapsed

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        self._serial += 1
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self.elapsed + seconds, self._serial, future))
        await future

    async def advance(self, seconds: float) -> None:
        """Move on, waking sleepers at their moments."""
        await settle()
        end = self.elapsed + seconds
        while self._sleepers and self._sleepers[0][0] <= end:
            due, _, future = heapq.heappop(self._sleepers)
            self.elapsed = max(self.elapsed, due)
            if not future.done():
                future.set_result(None)
                await settle()
        self.elapsed = end
        await settle()
