"""A small HTTP server that answers from a script, so that the client meets what API servers really do."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import msgspec
from aiohttp import web

from kube.access import Access
from kube.client import Client
from kube.retry import RetryPolicy
from kube.session import Session

Answer = web.StreamResponse | Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass
class Seen:
    """One request as the server saw it."""

    method: str
    path: str
    query: dict[str, str]
    body: bytes
    headers: dict[str, str]


@dataclass
class Script:
    """Answers in order; the last one stands for all that follow."""

    answers: list[Answer] = field(default_factory=list)
    seen: list[Seen] = field(default_factory=list)
    slept: list[float] = field(default_factory=list)
    authorization: list[str] = field(default_factory=lambda: ["Bearer first"])
    loads: int = 0
    now: float = 0.0

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.seen.append(Seen(request.method, request.path, dict(request.query), await request.read(), dict(request.headers)))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return answer if isinstance(answer, web.StreamResponse) else await answer(request)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await asyncio.sleep(0)


class ScriptedSource:
    """Hands out the script's credentials, one a load."""

    def __init__(self, script: Script, host: str, good_for: float | None) -> None:
        self.script, self.host, self.good_for = script, host, good_for

    async def load(self) -> Access:
        token = self.script.authorization[min(self.script.loads, len(self.script.authorization) - 1)]
        self.script.loads += 1
        return Access(self.host, token, None, None, None, "default", self.good_for)


@asynccontextmanager
async def served(script: Script, *, good_for: float | None = None, attempts: int = 4) -> AsyncIterator[Client]:
    app = web.Application(client_max_size=1 << 24)
    app.router.add_route("*", "/{tail:.*}", script.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    source = ScriptedSource(script, f"http://127.0.0.1:{port}", good_for)
    retry = RetryPolicy(attempts=attempts, sleep=script.sleep, rand=lambda: 1.0)
    client = Client(Session(source, await source.load(), monotonic=lambda: script.now), retry)
    try:
        yield client
    finally:
        await client.close()
        await runner.cleanup()


def reply(body: object = None, status: int = 200, **headers: str) -> Answer:
    """A JSON answer, made anew for each request."""

    async def answer(_: web.Request) -> web.StreamResponse:
        return web.Response(status=status, body=msgspec.json.encode(body), content_type="application/json", headers=headers)

    return answer


def refusal(code: int, reason: str = "", message: str = "", **headers: str) -> Answer:
    """A `v1 Status` answer."""
    return reply({"kind": "Status", "code": code, "reason": reason, "message": message}, code, **headers)


def stream(*chunks: bytes, cut: bool = False) -> Answer:
    """A chunked answer; `cut` breaks the connection instead of ending it."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        response.enable_chunked_encoding()
        await response.prepare(request)
        for chunk in chunks:
            await response.write(chunk)
        if cut:
            assert request.transport is not None
            request.transport.abort()
        return response

    return answer
