"""The way out: what is dialled, what is refused, and what bounds hold, against a real small HTTP server."""

import asyncio
import gzip
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from virtual import VirtualClock, settle

from controller.observers.net import Dialer, ObservationError, refuse_address

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def engine(handler: Handler) -> AsyncIterator[int]:
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", handler)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


def says(**answer: object) -> Handler:
    async def handle(_: web.Request) -> web.StreamResponse:
        return web.Response(**answer)  # type: ignore[arg-type]

    return handle


async def read(handler: Handler, *, cap: int = 1 << 20) -> bytes:
    async with engine(handler) as port, Dialer(VirtualClock(), allow_local=True) as dialer:
        return await dialer.get("127.0.0.1", port, "/metrics", seconds=2.0, cap=cap)


async def test_a_body_is_read() -> None:
    """A 200 gives its bytes, and the request asks for no encoding."""
    seen: list[str] = []

    async def handle(request: web.Request) -> web.StreamResponse:
        seen.append(request.headers["Accept-Encoding"])
        return web.Response(body=b"x 1\n")

    assert await read(handle) == b"x 1\n"
    assert seen == ["identity"]


@pytest.mark.parametrize(
    ("answer", "cap", "said"),
    [
        pytest.param({"status": 503}, 100, "503", id="an error status"),
        pytest.param(
            {"status": 302, "headers": {"Location": "http://127.0.0.1/other"}}, 100, "302", id="a redirect, which is not followed"
        ),
        pytest.param({"body": b"x" * 101}, 100, "more than 100 bytes", id="a body over the cap"),
        pytest.param({"body": gzip.compress(b"0" * 9999), "headers": {"Content-Encoding": "gzip"}}, 100, "encoding", id="a packed body"),
        pytest.param({"status": 204}, 100, "204", id="no body at all"),
    ],
)
async def test_what_is_no_reading(answer: dict[str, object], cap: int, said: str) -> None:
    """Everything but a bounded 200 is an error."""
    with pytest.raises(ObservationError, match=said):
        await read(says(**answer), cap=cap)


async def test_an_engine_that_does_not_answer() -> None:
    """The time-out is by the handed-in clock and leaves no request behind."""
    asked = asyncio.Event()
    gone = asyncio.Event()

    async def handle(_: web.Request) -> web.StreamResponse:
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            gone.set()
        return web.Response()

    clock = VirtualClock()
    async with engine(handle) as port, Dialer(clock, allow_local=True) as dialer:
        reading = asyncio.ensure_future(dialer.get("127.0.0.1", port, "/metrics", seconds=2.0))
        await asked.wait()
        await clock.advance(2.1)
        with pytest.raises(ObservationError, match="no answer within 2 s"):
            await reading


async def test_nobody_listening() -> None:
    """A refused connection is an error like any other."""
    async with engine(says()) as port:
        pass
    async with Dialer(VirtualClock(), allow_local=True) as dialer:
        with pytest.raises(ObservationError):
            await dialer.get("127.0.0.1", port, "/", seconds=2.0)


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "::1",
        "169.254.169.254",
        "fe80::1",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "0.0.0.0",
        "224.0.0.1",
        "metadata.internal",
        "",
    ],
)
async def test_addresses_that_no_pod_has(host: str) -> None:
    """Loopback, link-local, multicast, unspecified and names are refused before anything is sent."""
    async with Dialer(VirtualClock()) as dialer:
        with pytest.raises(ObservationError, match=r"is not dialled|no Pod"):
            await dialer.get(host, 80, "/", seconds=1.0)


@pytest.mark.parametrize("host", ["10.1.2.3", "fd00::3", "100.64.0.9"])
def test_addresses_of_pods(host: str) -> None:
    """Private, unique-local and shared ranges are what Pods have."""
    refuse_address(host, allow_local=False)


@pytest.mark.parametrize("host", ["0.0.0.0", "224.0.0.1", "ff02::1"])
def test_some_addresses_are_never_dialled(host: str) -> None:
    """Not even where local addresses are allowed."""
    with pytest.raises(ObservationError):
        refuse_address(host, allow_local=True)


async def test_one_host_is_not_overrun() -> None:
    """At most two requests at once go to one address."""
    running = most = 0
    release, two = asyncio.Event(), asyncio.Event()

    async def handle(_: web.Request) -> web.StreamResponse:
        nonlocal running, most
        running += 1
        most = max(most, running)
        if running == 2:
            two.set()
        await release.wait()
        running -= 1
        return web.Response(body=b"x")

    async with engine(handle) as port, Dialer(VirtualClock(), allow_local=True) as dialer:
        readings = [asyncio.ensure_future(dialer.get("127.0.0.1", port, "/", seconds=9.0)) for _ in range(6)]
        await two.wait()
        await settle()
        release.set()
        await asyncio.gather(*readings)
    assert most == 2
