"""uvicorn's HTTP/1.1 protocol with two bounds that it lacks, how long a request's head may take and how large it may be, and a shorter way
for what reviews are: a request that is there as a whole, answered in one piece.

Without the bounds a client that sends a byte a minute, or nothing at all, keeps its connection for ever, and a head without end fills the
memory. A head that comes in one piece, which is every head of an API server, arms no timer. The shorter way saves a wake-up, a timer and
a second TLS record on every request; whatever is not of that form goes uvicorn's own.
"""

import asyncio
from collections.abc import Callable
from typing import Any, cast
from urllib.parse import unquote

import httptools
from uvicorn._types import ASGIReceiveEvent, ASGISendEvent, HTTPScope  # the words that uvicorn's own protocol is written in
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

# An API server sends a head at once; ten seconds are for a human with telnet.
HEAD_SECONDS = 10.0
HEAD_BYTES = 64 * 1024

# A sender that is refused in the middle of its body has this long to read why, and is read from no more: reading megabytes only to throw
# them away would be paid by everybody else.
LEAVE_SECONDS = 1.0

_PLAIN = frozenset({b"content-type", b"content-length"})
_CLOSE = (b"connection", b"close")


def _gone() -> None:
    """Nobody is there to leave."""


class Exchange(RequestResponseCycle):
    """One request and its answer. A body that is there is handed over without waiting; head and body of an answer leave together."""

    leave: Callable[[], None]
    _head: bytes = b""
    _taken: bool = False

    async def receive(self) -> ASGIReceiveEvent:
        """The next part of the body, or that the client went away."""
        if self._taken or self.more_body or self.disconnected or self.response_complete or self.waiting_for_100_continue:
            return await super().receive()
        self._taken = True
        self.message_event.clear()
        self.flow.resume_reading()
        body, self.body = bytes(self.body), bytearray()
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(self, message: ASGISendEvent) -> None:
        """A part of the answer."""
        kind = message["type"]
        if kind == "http.response.start" and not self.response_started and self._keeps(cast("dict[str, Any]", message)):
            return
        if kind == "http.response.body" and self._head:
            head, self._head = self._head, b""
            body = cast("dict[str, Any]", message).get("body", b"")
            if self._whole(cast("dict[str, Any]", message), len(body)):
                self.transport.write(head + body)
                self.expected_content_length = 0
                self.response_complete = True
                self.message_event.set()
                self._end()
                return
            self.transport.write(head)
        await super().send(message)

    def _keeps(self, message: dict[str, Any]) -> bool:
        """Keep the head of a plain answer until its body comes."""
        if self.disconnected or self.default_headers or self.scope["method"] == "HEAD":
            return False
        parts, length, closes = [STATUS_LINE[message["status"]]], -1, not self.keep_alive
        for name, value in message.get("headers", ()):
            if (name, value) == _CLOSE:
                closes = True
                continue
            if name not in _PLAIN or b"\n" in value or b"\r" in value:
                return False
            if name == b"content-length":
                length = int(value)
            parts += (name, b": ", value, b"\r\n")
        if length < 0:
            return False
        parts.append(b"connection: close\r\n\r\n" if closes else b"\r\n")
        self.keep_alive = not closes
        self._head = b"".join(parts)
        self.expected_content_length, self.chunked_encoding = length, False
        self.response_started, self.waiting_for_100_continue = True, False
        return True

    def _end(self) -> None:
        """The answer is out: keep the connection, close it, or leave a sender whose body nobody wants."""
        if not self.keep_alive:
            if self.more_body:
                self.leave()
                return
            self.transport.close()
        self.on_response()

    def _whole(self, message: dict[str, Any], length: int) -> bool:
        ends = not message.get("more_body", False) and length == self.expected_content_length
        return ends and not self.disconnected and not self.flow.write_paused


class BoundedProtocol(HttpToolsProtocol):
    """One connection. Bodies are bounded by the lane, which knows what they are for."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._deadline: asyncio.TimerHandle | None = None
        self._in_head = False
        self._head_bytes = 0
        self._idle_since: float | None = None
        self._leaving: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn: only stream transports come
        """Nothing sent yet: the clock runs."""
        super().connection_made(transport)
        self._arm()

    def connection_lost(self, exc: Exception | None) -> None:
        """Over, by whoever."""
        self._disarm()
        super().connection_lost(exc)
        if self.timeout_keep_alive_task is not None:
            self.timeout_keep_alive_task.cancel()
            self.timeout_keep_alive_task = None
        if self._leaving is not None:
            self._leaving.cancel()
            self._leaving = None
        if isinstance(self.cycle, Exchange):
            self.cycle.leave = _gone  # a ring of references would keep the connection's buffers until the collector comes, which is seldom

    def data_received(self, data: bytes) -> None:
        """A head that is whole stops the clock; one that is not starts it, once."""
        if self._leaving is not None:
            return
        super().data_received(data)
        cycle = self.cycle
        if self._in_head or cycle is None or (cycle.response_complete and self._idle_since is None):
            self._arm()
        elif self._deadline is not None:
            self._disarm()

    # ------------------------------------------------------------------------------------------------ idle connections
    # One timer for each connection, moved on when it rings: making one for each request costs more than the whole of its head.

    def _unset_keepalive_if_required(self) -> None:
        self._idle_since = None

    def on_response_complete(self) -> None:
        """Answered: the next request of a pipeline, or idleness."""
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            cycle, app = self.pipeline.pop()
            self._start_asgi_task(cycle, app)
            return
        self._idle_since = self.loop.time()
        if self.timeout_keep_alive_task is None:
            self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)

    def timeout_keep_alive_handler(self) -> None:
        """Close a connection that has been idle for the whole time; look again later at one that has not."""
        self.timeout_keep_alive_task = None
        if self._idle_since is None:  # at work: its answer starts the clock again
            return
        left = self._idle_since + self.timeout_keep_alive - self.loop.time()
        if left > 0:
            self.timeout_keep_alive_task = self.loop.call_later(left, self.timeout_keep_alive_handler)
        elif not self.transport.is_closing():
            self.transport.close()

    def _leave(self) -> None:
        """Read no more; the peer has a moment to read its answer."""
        self.server_state.total_requests += 1
        self.flow.pause_reading()
        self._leaving = self.loop.call_later(LEAVE_SECONDS, self.transport.abort)

    # -------------------------------------------------------------------------------------------------------- the parser

    def on_message_begin(self) -> None:
        """A head begins."""
        self.url = b""
        self.expect_100_continue = False
        self.headers = []
        self._in_head = True
        self._head_bytes = 0

    def on_url(self, url: bytes) -> None:
        """A part of the target."""
        self._count(len(url))
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header."""
        self._count(len(name) + len(value))
        name = name.lower()
        if name == b"expect" and value.lower() == b"100-continue":
            self.expect_100_continue = True
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        """The head is whole: the application starts, or waits for the answer before it."""
        self._in_head = False
        parser, previous = self.parser, self.cycle
        path, _, query = self.url.partition(b"?")
        if not path.startswith(b"/"):  # a target in another of its forms
            parsed = httptools.parse_url(self.url)
            path, query = parsed.path or b"/", parsed.query or b""
        text = path.decode("ascii")  # what is no ASCII becomes a 400
        version = parser.get_http_version()
        self.scope = cast(
            "HTTPScope",
            {
                "type": "http",
                "asgi": {"version": self.asgi_version, "spec_version": "2.3"},
                "http_version": version,
                "server": self.server,
                "client": self.client,
                "scheme": self.scheme,
                "root_path": self.root_path,
                "headers": self.headers,
                "state": self.app_state.copy(),
                "method": parser.get_method().decode("ascii"),
                "path": self.root_path + (unquote(text) if "%" in text else text),
                "raw_path": path,
                "query_string": query,
            },
        )
        exchange = Exchange(
            scope=self.scope,
            transport=self.transport,
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=self.access_log,
            default_headers=self.server_state.default_headers,
            message_event=asyncio.Event(),
            expect_100_continue=self.expect_100_continue,
            keep_alive=version != "1.0" and parser.should_keep_alive(),
            on_response=self.on_response_complete,
        )
        exchange.leave = self._leave
        self.cycle = exchange
        if previous is None or previous.response_complete:
            self._start_asgi_task(exchange, self.app)
        else:
            self.flow.pause_reading()
            self.pipeline.appendleft((exchange, self.app))

    def on_body(self, body: bytes) -> None:
        """A part of the body."""
        cycle = self.cycle
        if cycle.response_complete:
            return
        cycle.body += body
        if len(cycle.body) > HIGH_WATER_LIMIT:
            self.flow.pause_reading()
        cycle.message_event.set()

    def on_message_complete(self) -> None:
        """The body is whole."""
        cycle = self.cycle
        if not cycle.response_complete:
            cycle.more_body = False
            cycle.message_event.set()

    # ----------------------------------------------------------------------------------------------------- bounds of a head

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
