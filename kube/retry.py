"""When a request is sent again, and how long that waits. The error's type decides; jitter keeps a fleet from marching in step."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from kube.errors import KubeError


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """At most `attempts` sends; waits grow from `base` seconds, doubled each time, up to `ceiling`.

    `longest_wait` bounds what a server may ask for with Retry-After. `sleep` and `rand` (0 to 1) are handed in so that tests own time.
    """

    attempts: int = 4
    base: float = 0.2
    ceiling: float = 5.0
    longest_wait: float = 30.0
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    rand: Callable[[], float] = field(default=random.random)

    def may_repeat(self, error: KubeError, *, read: bool) -> bool:
        """A read repeats whatever may pass by itself; a write only what was certainly not carried out."""
        return error.transient if read else error.untouched

    def delay(self, attempt: int, error: KubeError) -> float:
        """Seconds to wait after the failed send number `attempt` (from 1)."""
        if error.retry_after is not None:
            return min(error.retry_after, self.longest_wait) * (1 + 0.1 * self.rand())
        return float(min(self.base * 2 ** (attempt - 1), self.ceiling) * (0.5 + 0.5 * self.rand()))
