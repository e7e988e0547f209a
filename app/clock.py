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
