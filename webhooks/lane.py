"""The review lane: four paths answered by a raw ASGI callable, everything else passed on to the application behind it.

It reads a body up to a limit, and all bodies together up to another, and hands bytes to the server; it builds no request object and runs
no middleware. A slow sender holds nothing but its own connection; a sender that stops is given up on.
Source: `70-performance` (the lane and its traps), issue texts on the wire.
"""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from webhooks.errors import AdmissionError, ReviewTooLargeError, TooManyBytesError, UnsupportedMediaError
from webhooks.server import PATHS, ReviewServer

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

MAX_BODY = 8 << 20
MAX_HELD = 64 << 20
"""Bytes of all bodies that are under way together: without it, senders who start large bodies and stop fill the memory."""
SMALL = 256 << 10
"""A body up to here is always taken, whatever others hold: nearly every review is smaller."""
BODY_SECONDS = 10.0
"""A body has to be here by then: the API server itself waits no longer for our answer."""

TOO_MANY = "too many large bodies are under way; try again"

_JSON = (b"content-type", b"application/json")


class ReviewLane:
    """ASGI in front of an ASGI application."""

    def __init__(
        self,
        app: Application,
        server: ReviewServer,
        max_body: int = MAX_BODY,
        body_seconds: float = BODY_SECONDS,
        max_held: int = MAX_HELD,
    ) -> None:
        self._app = app
        self._server = server
        self._max_body = max_body
        self._body_seconds = body_seconds
        self._max_held = max_held
        self._held = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a review, or pass the call on."""
        if scope["type"] != "http" or scope["path"] not in PATHS:
            await self._app(scope, receive, send)
            return
        if scope["method"] != "POST":
            await _answer(send, 405, b'{"message":"reviews are posted"}', (b"allow", b"POST"))
            return
        try:
            length = _check_headers(scope, self._max_body)
            if length is not None and length > SMALL and self._held + length > self._max_held:
                raise TooManyBytesError(TOO_MANY)
            body = await self._body(receive)
        except AdmissionError as error:
            status, answer = self._server.reject(scope["path"], error)
            await _answer(send, status, answer, (b"connection", b"close"))
            return
        except TimeoutError:
            await _answer(send, 408, b'{"message":"the body took too long"}', (b"connection", b"close"))
            return
        if body is None:
            return
        status, answer = await self._server.review(scope["path"], body)
        await _answer(send, status, answer)

    async def _body(self, receive: Receive) -> bytes | None:
        """The whole body, or None when the sender went away.

        Raises ReviewTooLargeError at its own limit, TooManyBytesError at that of all, TimeoutError past the deadline.
        """
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        first: bytes = message.get("body", b"")
        if not message.get("more_body", False):
            return self._within(first)
        chunks = [first]
        size = len(first)
        self._held += size
        try:
            async with asyncio.timeout(self._body_seconds):
                while message.get("more_body", False):
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return None
                    chunk: bytes = message.get("body", b"")
                    size += len(chunk)
                    self._held += len(chunk)
                    if size > self._max_body:
                        raise ReviewTooLargeError(f"the body is longer than {self._max_body} bytes")
                    if self._held > self._max_held and size > SMALL:
                        raise TooManyBytesError(TOO_MANY)
                    chunks.append(chunk)
            return b"".join(chunks)
        finally:
            self._held -= size

    def _within(self, body: bytes) -> bytes:
        if len(body) > self._max_body:
            raise ReviewTooLargeError(f"the body is longer than {self._max_body} bytes")
        return body


def _check_headers(scope: Scope, limit: int) -> int | None:
    """The declared length, if any. Raises the errors that headers alone decide."""
    media, length = b"", None
    for name, value in scope["headers"]:
        if name == b"content-type":
            media = value
        elif name == b"content-length":
            length = int(value) if value.isdigit() else None
    if media != b"application/json" and media.split(b";")[0].strip().lower() != b"application/json":
        raise UnsupportedMediaError("a review is sent as application/json")
    if length is not None and length > limit:
        raise ReviewTooLargeError(f"the body is longer than {limit} bytes")
    return length


async def _answer(send: Send, status: int, body: bytes, *headers: tuple[bytes, bytes]) -> None:
    await send(
        {
            "type": "http.response.start",
            "status": status,
            "headers": [_JSON, (b"content-length", str(len(body)).encode()), *headers],
        }
    )
    await send({"type": "http.response.body", "body": body})
