"""A queue of keys in the manner of client-go's: a key waits once however often it is added, is worked on by one worker at a time, and comes
again when it was added meanwhile. Failures wait longer each time; keys may also be asked for at a later moment.
"""

import asyncio
import heapq
from collections import deque
from typing import Final, NamedTuple

from api.clock import Clock
from controller import metrics
from controller.store import Key
from controller.waiting import first_of

FIRST_RETRY: Final = 0.005
LONGEST_RETRY: Final = 300.0


class Contents(NamedTuple):
    """What a queue holds: waiting and working keys by their age, later ones by their delay, in seconds; failures by their number."""

    waiting: dict[Key, float]
    working: dict[Key, float]
    later: dict[Key, float]
    failures: dict[Key, int]


class WorkQueue:
    """`run` has to be running for delayed keys to come."""

    def __init__(self, clock: Clock, name: str = metrics.QUEUE) -> None:
        self._clock = clock
        self._name = name
        self._waiting: deque[Key] = deque()
        self._dirty: dict[Key, float] = {}  # key -> when it was added
        self._working: dict[Key, float] = {}  # key -> when work began
        self._failures: dict[Key, int] = {}
        self._later: list[tuple[float, Key]] = []
        self._due: dict[Key, float] = {}
        self._nonempty = asyncio.Event()
        self._finished = asyncio.Event()
        self._depth = metrics.DEPTH.labels(name)
        self._adds = metrics.ADDS.labels(name)
        self._queued = metrics.QUEUE_SECONDS.labels(name)
        self._worked = metrics.WORK_SECONDS.labels(name)
        self._rescheduled = asyncio.Event()

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def idle(self) -> bool:
        """Nothing waits and nothing is being worked on; delayed keys do not count."""
        return not self._dirty and not self._working

    def add(self, key: Key) -> None:
        """Ask for a pass over the key, now."""
        if key in self._dirty:
            return
        self._dirty[key] = self._clock.monotonic()
        self._adds.inc()
        if key not in self._working:
            self._enqueue(key)

    def add_after(self, key: Key, seconds: float) -> None:
        """Ask for a pass later. Of several moments for one key the earliest counts."""
        due = self._clock.monotonic() + seconds
        if self._due.get(key, float("inf")) <= due:
            return
        self._due[key] = due
        heapq.heappush(self._later, (due, key))
        self._rescheduled.set()

    def retry(self, key: Key, at_least: float = 0.0) -> None:
        """Ask for a pass after a failure: 5 ms at first, doubled each time, five minutes at most."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        metrics.QUEUE_RETRIES.labels(self._name).inc()
        self.add_after(key, max(min(FIRST_RETRY * 2 ** min(failures, 30), LONGEST_RETRY), at_least))

    def forget(self, key: Key) -> None:
        """The key succeeded: its next failure waits briefly again."""
        self._failures.pop(key, None)

    def clear(self) -> None:
        """Drop whatever waits, now or later."""
        self._waiting.clear()
        self._dirty.clear()
        self._later.clear()
        self._due.clear()
        self._failures.clear()
        self._nonempty.clear()
        self._depth.set(0)

    async def get(self) -> Key:
        """The next key. The caller must call `done` with it."""
        while not self._waiting:
            self._nonempty.clear()
            await self._nonempty.wait()
        key = self._waiting.popleft()
        now = self._clock.monotonic()
        self._queued.observe(now - self._dirty.pop(key))
        self._depth.set(len(self._waiting))
        self._working[key] = now
        return key

    def done(self, key: Key) -> None:
        """Work on the key ended; if it was added meanwhile, it waits again."""
        began = self._working.pop(key)
        self._worked.observe(self._clock.monotonic() - began)
        self._finished.set()
        if key in self._dirty:
            self._enqueue(key)

    async def rested(self) -> None:
        """Wait until nothing is being worked on."""
        while self._working:
            self._finished.clear()
            await self._finished.wait()

    def contents(self) -> Contents:
        """A copy, for people who look at the process."""
        now = self._clock.monotonic()
        return Contents(
            {key: now - added for key, added in self._dirty.items()},
            {key: now - began for key, began in self._working.items()},
            {key: due - now for key, due in self._due.items()},
            dict(self._failures),
        )

    def measure(self) -> None:
        """Bring the gauges of work under way up to date."""
        ages = [self._clock.monotonic() - began for began in self._working.values()]
        metrics.UNFINISHED.labels(self._name).set(sum(ages))
        metrics.LONGEST.labels(self._name).set(max(ages, default=0.0))

    def _enqueue(self, key: Key) -> None:
        self._waiting.append(key)
        self._depth.set(len(self._waiting))
        self._nonempty.set()

    async def run(self) -> None:
        """Bring delayed keys in when their time comes, until cancelled."""
        while True:
            self._rescheduled.clear()
            now = self._clock.monotonic()
            while self._later and self._later[0][0] <= now:
                due, key = heapq.heappop(self._later)
                if self._due.get(key) == due:
                    del self._due[key]
                    self.add(key)
            if self._later:
                await first_of(self._rescheduled.wait(), self._clock.sleep(self._later[0][0] - now))
            else:
                await self._rescheduled.wait()
