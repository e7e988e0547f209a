"""The real clock, the only place where loops get real time from."""

import asyncio
import time
from datetime import UTC, datetime


class SystemClock:
    """`api.clock.Clock` on the machine's own clocks."""

    def now(self) -> datetime:
        """Wall clock, aware UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Seconds that never run backwards."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Let that many seconds pass."""
        await asyncio.sleep(seconds)


class ScaledClock(SystemClock):
    """A clock on which sleeps are shorter by a factor: a scenario played at twenty times its speed. Dates stay real."""

    def __init__(self, speed: float) -> None:
        if speed <= 0:
            raise ValueError("a speed has to be greater than zero")
        self._speed = speed

    async def sleep(self, seconds: float) -> None:
        """Let that many seconds of the scenario pass."""
        await asyncio.sleep(seconds / self._speed)

    def monotonic(self) -> float:
        """Seconds of the scenario."""
        return time.monotonic() * self._speed
