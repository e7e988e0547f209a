"""uvicorn's HTTP/1.1 protocol with two bounds that it lacks: how long a request's head may take, and how large it may be.

Without them a client that sends a byte a minute, or nothing at all, keeps its connection for ever, and a head without end fills the memory.
A head that comes in one piece, which is every head of an API server, arms no timer.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

# An API server sends a head at once; ten seconds are for a human with telnet.
HEAD_SECONDS = 10.0
HEAD_BYTES = 64 * 1024


class BoundedProtocol(HttpToolsProtocol):
    """One connection. Bodies are bounded by the lane, which knows what they are for."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._deadline: asyncio.TimerHandle | None = None
        self._in_head = False
        self._head_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn: only stream transports come
        """Nothing sent yet: the clock runs."""
        super().connection_made(transport)
        self._arm()

    def connection_lost(self, exc: Exception | None) -> None:
        """Over, by whoever."""
        self._disarm()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """A head that is whole stops the clock; one that is not starts it, once."""
        super().data_received(data)
        idle = (self.cycle is None or self.cycle.response_complete) and self.timeout_keep_alive_task is None
        if self._in_head or idle:
            self._arm()
        else:
            self._disarm()

    def on_message_begin(self) -> None:
        """A head begins."""
        super().on_message_begin()
        self._in_head = True
        self._head_bytes = 0

    def on_url(self, url: bytes) -> None:
        """A part of the target."""
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header."""
        self._count(len(name) + len(value))
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """The head is whole."""
        self._in_head = False
        super().on_headers_complete()

    def _count(self, more: int) -> None:
        self._head_bytes += more
        if self._head_bytes > HEAD_BYTES:
            raise ValueError("the head is too large")  # the parser turns it into its own error, and uvicorn that into a 400

    def _arm(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(HEAD_SECONDS, self._too_slow)

    def _disarm(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _too_slow(self) -> None:
        self._deadline = None
        if not self.transport.is_closing():
            self.transport.abort()  # a peer that sends nothing will not answer a TLS farewell either
