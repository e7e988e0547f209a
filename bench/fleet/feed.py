"""What a kind's watchers are told: a log of changes that any number of connections read at their own pace, each from its own place.

A change is kept as a few numbers and put into bytes when a connection takes it, so that a storm over a hundred thousand Pods costs no
gigabytes. What lies further back than `kept` entries is forgotten: who asks for it hears 410, as from a real API server.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final, NamedTuple

KEPT: Final = 1 << 20


class Entry(NamedTuple):
    """One change: the version it made, and what its renderer needs."""

    version: int
    what: Any


class Feed:
    """`render` gives an entry's object; `sent` hears of each entry that was handed to a connection for the first time."""

    def __init__(self, render: Callable[[Entry], bytes], sent: Callable[[Entry], None] = lambda _: None, kept: int = KEPT) -> None:
        self._render = render
        self._sent = sent
        self._kept = kept
        self._entries: list[Entry] = []
        self._first = 0  # the place of entries[0]
        self._told = 0  # places before this one were handed to somebody
        self._forgotten = 0  # the newest version that is no longer kept
        self._waiters: set[asyncio.Future[None]] = set()

    @property
    def end(self) -> int:
        """The place after the newest entry."""
        return self._first + len(self._entries)

    @property
    def backlog(self) -> int:
        """Entries that nobody has been handed."""
        return self.end - self._told

    def add(self, version: int, what: Any) -> None:
        """A change. Versions only grow."""
        self._entries.append(Entry(version, what))
        if len(self._entries) > 2 * self._kept:
            drop = len(self._entries) - self._kept
            self._forgotten = self._entries[drop - 1].version
            del self._entries[:drop]
            self._first += drop
        self.wake()

    def wake(self) -> None:
        """Let every waiting connection look."""
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._waiters.clear()

    def place_of(self, version: int) -> int | None:
        """Where a watch after that version begins; None where that is forgotten."""
        if version < self._forgotten:
            return None
        low, high = 0, len(self._entries)
        while low < high:
            middle = (low + high) // 2
            if self._entries[middle].version <= version:
                low = middle + 1
            else:
                high = middle
        return self._first + low

    def take(self, place: int, most: int) -> list[bytes] | None:
        """The lines from that place on, `most` at most; None where the log no longer has them."""
        if place < self._first:
            return None
        start = place - self._first
        entries = self._entries[start : start + most]
        lines = [b'{"type":"MODIFIED","object":' + self._render(entry) + b"}\n" for entry in entries]
        for entry in entries[max(0, self._told - place) :]:
            self._sent(entry)
        self._told = max(self._told, place + len(entries))
        return lines

    async def news(self, seconds: float) -> None:
        """Wait for an entry, or so long."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.add(waiter)
        try:
            await asyncio.wait((waiter,), timeout=seconds)
        finally:
            self._waiters.discard(waiter)
