"""Clients that are slow, silent or endless: each is let go, and others are answered meanwhile."""

import asyncio
import tomllib
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path

import pytest

from app import protocol
from app.server import HttpServer, Listener

HEAD = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"


@asynccontextmanager
async def serving(monkeypatch, *, seconds: float = 0.05):
    """A plain server whose heads have little time."""
    monkeypatch.setattr(protocol, "HEAD_SECONDS", seconds)

    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})

    server = HttpServer(app, Listener("127.0.0.1", 0).bind(), tls=None, keep_alive=120, drain=1)
    task = asyncio.create_task(server.run())
    await server.up()
    try:
        yield server.address
    finally:
        server.stop()
        await task


async def answer(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    return head + await reader.readexactly(2)


SILENT = {
    "nothing at all": [b""],
    "half a head": [b"GET / HTT"],
    "headers without end, one by one": [b"GET / HTTP/1.1\r\n", *[b"x: y\r\n"] * 3],
    "only line ends": [b"\r\n", b"\r\n"],
}


@pytest.mark.parametrize("sentence", SILENT)
async def test_a_head_that_does_not_come_is_given_up(monkeypatch, sentence):
    """The connection is cut when the time is over, whatever dribbles in; another client is answered meanwhile."""
    async with serving(monkeypatch) as address, asyncio.timeout(10):
        reader, writer = await asyncio.open_connection(*address)
        for part in SILENT[sentence]:
            writer.write(part)
            await writer.drain()
        other_reader, other = await asyncio.open_connection(*address)
        other.write(HEAD)
        assert b"200 OK" in await answer(other_reader)
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await reader.readexactly(1)
        writer.close()
        other.close()


async def test_a_kept_connection_that_turns_silent_in_the_next_head_is_given_up(monkeypatch):
    """The first request was fine; the second never ends."""
    async with serving(monkeypatch) as address, asyncio.timeout(10):
        reader, writer = await asyncio.open_connection(*address)
        writer.write(HEAD)
        assert b"200 OK" in await answer(reader)
        writer.write(HEAD[:7])
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await reader.readexactly(1)
        writer.close()


async def test_idle_between_requests_is_no_slow_head(monkeypatch):
    """Kept alive far beyond a head's time: that is what keep-alive is for."""
    async with serving(monkeypatch, seconds=0.02) as address, asyncio.timeout(10):
        reader, writer = await asyncio.open_connection(*address)
        for _ in range(3):
            writer.write(HEAD)
            assert b"200 OK" in await answer(reader)
            silent, opened = await asyncio.open_connection(*address)
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await silent.readexactly(1)  # a head's whole time has passed now
            opened.close()
        writer.close()


async def test_a_head_without_end_is_refused(monkeypatch):
    """64 KiB are enough for any head; the answer is a 400 and the end."""
    async with serving(monkeypatch, seconds=30) as address, asyncio.timeout(10):
        reader, writer = await asyncio.open_connection(*address)
        writer.write(b"GET / HTTP/1.1\r\n" + b"".join(b"x%d: %s\r\n" % (n, b"y" * 1000) for n in range(100)))
        assert b"400 Bad Request" in await reader.read()
        writer.close()


def test_the_server_whose_parts_the_protocol_is_made_of_is_bound_to_one_minor_version():
    """Another one may have other parts: the first request of an installation would find out."""
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8"))["project"]
    (wanted,) = (line for line in project["dependencies"] if line.startswith("uvicorn"))
    major, minor = map(int, version("uvicorn").split(".")[:2])
    assert wanted == f"uvicorn>={major}.{minor},<{major}.{minor + 1}"
