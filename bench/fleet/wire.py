"""HTTP/1.1 as an API server's clients speak it: keep-alive, bodies of known length, answers in one piece or as a stream of chunks.

Written by hand on a bare asyncio protocol, because whatever the stand-in spends is time the subject waits.
"""

import asyncio
import contextlib
import traceback
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

REASONS: Final = {200: b"OK", 201: b"Created", 404: b"Not Found", 405: b"Method Not Allowed", 409: b"Conflict", 410: b"Gone"}
HIGH_WATER: Final = 1 << 20


class Request(NamedTuple):
    """One request; `params` holds the last value of each name."""

    method: str
    path: str
    params: dict[str, str]
    body: bytes


class Connection(asyncio.Protocol):
    """One client. `answer` serves its requests one after the other; it sends through the connection."""

    def __init__(self, answer: Callable[["Connection", Request], Awaitable[None]]) -> None:
        self._answer = answer
        self._received = b""
        self._requests: asyncio.Queue[Request] = asyncio.Queue()
        self._writable = asyncio.Event()
        self._writable.set()
        self.transport: asyncio.Transport | None = None
        self._task: asyncio.Task[None] | None = None

    # ------------------------------------------------------------------------------------------------------------ asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Serve until it is lost."""
        assert isinstance(transport, asyncio.Transport) or hasattr(transport, "write")
        self.transport = transport  # type: ignore[assignment]  # uvloop's transports are of their own class
        self.transport.set_write_buffer_limits(high=HIGH_WATER)
        self._task = asyncio.get_running_loop().create_task(self._serve())

    def connection_lost(self, exc: Exception | None) -> None:
        """Over."""
        self.transport = None
        self._writable.set()
        if self._task is not None:
            self._task.cancel()

    def pause_writing(self) -> None:
        """The client does not keep up."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """It did."""
        self._writable.set()

    def data_received(self, data: bytes) -> None:
        """Cut off whole requests."""
        self._received += data
        while (end := self._received.find(b"\r\n\r\n")) >= 0:
            head = self._received[:end]
            first, *lines = head.split(b"\r\n")
            length = next((int(line[15:]) for line in lines if line[:15].lower() == b"content-length:"), 0)
            if len(self._received) < end + 4 + length:
                return
            body = self._received[end + 4 : end + 4 + length]
            self._received = self._received[end + 4 + length :]
            method, target, _ = first.decode("latin-1").split(" ", 2)
            parts = urlsplit(target)
            self._requests.put_nowait(Request(method, unquote(parts.path), dict(parse_qsl(parts.query)), body))

    async def _serve(self) -> None:
        while True:
            request = await self._requests.get()
            try:
                await self._answer(self, request)
            except Exception:  # noqa: BLE001 - one connection's defect, told below
                traceback.print_exc()  # a stand-in that hides its own defects would be measured as a slow subject
                self.cut()

    # ------------------------------------------------------------------------------------------------------------ sending

    @property
    def open(self) -> bool:
        """Whether somebody is still there."""
        return self.transport is not None and not self.transport.is_closing()

    def cut(self) -> None:
        """End it as a broken network does."""
        if self.transport is not None:
            self.transport.abort()

    def _write(self, *pieces: bytes) -> None:
        if self.transport is not None and not self.transport.is_closing():
            self.transport.write(b"".join(pieces))

    def send(self, status: int, body: bytes) -> None:
        """A whole answer."""
        head = b"HTTP/1.1 %d %b\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        self._write(head % (status, REASONS.get(status, b"Error"), len(body)), body)

    def begin(self) -> None:
        """The head of a stream."""
        self._write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")

    async def chunk(self, data: bytes) -> None:
        """A part of a stream; returns when the client keeps up."""
        self._write(b"%x\r\n" % len(data), data, b"\r\n")
        await self._writable.wait()

    def end(self) -> None:
        """The end of a stream."""
        self._write(b"0\r\n\r\n")


async def listen(answer: Callable[[Connection, Request], Awaitable[None]], context: object) -> asyncio.Server:
    """A server on a free port of loopback; `context` is an ssl.SSLContext."""
    loop = asyncio.get_running_loop()
    return await loop.create_server(lambda: Connection(answer), "127.0.0.1", 0, ssl=context, backlog=128)  # type: ignore[call-overload]


def port_of(server: asyncio.Server) -> int:
    """The port that it listens on."""
    with contextlib.suppress(IndexError):
        port: int = server.sockets[0].getsockname()[1]
        return port
    raise RuntimeError("the stand-in does not listen")
