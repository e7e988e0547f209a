"""Bad clients of the HTTPS server, few and short: each is let go, told, or borne, and a good one's review is answered meanwhile.

`python -m bench.robust` does the same with thousands and prints figures.
"""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from app import server as served
from app.health import Health
from app.server import HttpServer, Listener, make_app, take_file_limit, with_lane
from local.pki import Authority
from webhooks.lookups import ObjectLookup
from webhooks.server import ReviewServer
from webhooks.settings import AdmissionSettings

PATH = "/validate-modeldeploymentscaler"
REVIEW = (
    b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u-1","operation":"DELETE","object":null,'
    b'"oldObject":{"metadata":{"name":"s"}}}}'
)


def head(length: int | None) -> bytes:
    """The head of a review of that length, or of one in chunks."""
    size = f"Content-Length: {length}" if length is not None else "Transfer-Encoding: chunked"
    return f"POST {PATH} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n{size}\r\n\r\n".encode()


def trusting() -> ssl.SSLContext:
    """A client that takes any certificate."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


@asynccontextmanager
async def serving(folder: Path) -> AsyncIterator[tuple[str, int]]:
    """The product's server over TLS."""
    pair = Authority("robust").server()
    (folder / "crt").write_bytes(pair.certificate)
    (folder / "key").write_bytes(pair.key)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(folder / "crt", folder / "key")
    app = with_lane(make_app(Health()), ReviewServer(ObjectLookup([]), AdmissionSettings()))
    server = HttpServer(app, Listener("127.0.0.1", 0).bind(), tls=tls, keep_alive=120, drain=1)
    task = asyncio.create_task(server.run())
    await server.up()
    try:
        yield server.address
    finally:
        server.stop()
        await task


async def review(address: tuple[str, int]) -> bytes:
    """A good client's new connection, review and answer."""
    reader, writer = await asyncio.open_connection(*address, ssl=trusting())
    try:
        writer.write(head(len(REVIEW)) + REVIEW)
        answer = await reader.readuntil(b"\r\n\r\n")
        assert b"200 OK" in answer
        length = int(answer.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        return await reader.readexactly(length)
    finally:
        writer.transport.abort()


async def told(reader: asyncio.StreamReader) -> bytes:
    """The status line, or nothing when the connection is cut without one."""
    try:
        return await reader.readline()
    except (ConnectionError, ssl.SSLError):
        return b""


async def test_connections_without_a_word_are_borne_and_let_go(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Two hundred of them stand while a review is answered; when a handshake's time is over each is closed."""
    monkeypatch.setattr(served, "HANDSHAKE_SECONDS", 1.0)
    async with asyncio.timeout(60), serving(tmp_path) as address:
        silent = [await asyncio.open_connection(*address) for _ in range(200)]
        assert b'"allowed":true' in await review(address)
        for reader, writer in silent:
            with contextlib.suppress(ConnectionError):
                assert await reader.read() == b""
            writer.close()


async def test_a_flood_of_handshakes_leaves_room_for_reviews(tmp_path: Path) -> None:
    """Clients that shake hands and leave, sixteen at a time, for as long as five reviews take."""
    async with asyncio.timeout(60), serving(tmp_path) as address:
        over = asyncio.Event()

        async def flood() -> None:
            context = trusting()
            while not over.is_set():
                with contextlib.suppress(OSError):
                    _, writer = await asyncio.open_connection(*address, ssl=context)
                    writer.transport.abort()

        flooding = [asyncio.create_task(flood()) for _ in range(16)]
        answers = [await review(address) for _ in range(5)]
        over.set()
        await asyncio.gather(*flooding)
        assert all(b'"uid":"u-1"' in answer for answer in answers)


async def test_clients_that_are_no_tls_are_borne(tmp_path: Path) -> None:
    """Plain HTTP and noise on the TLS port."""
    async with asyncio.timeout(60), serving(tmp_path) as address:
        for noise in (b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\xff\xff" + b"x" * 2000, b"\x00" * 100):
            reader, writer = await asyncio.open_connection(*address)
            writer.write(noise)
            with contextlib.suppress(ConnectionError):
                await reader.read()
            writer.close()
        assert b'"allowed":true' in await review(address)


BODIES: dict[str, tuple[int | None, int]] = {
    "announced": (100 << 20, 0),
    "in chunks": (None, 8 << 20),
}


@pytest.mark.parametrize("sentence", BODIES)
async def test_a_body_of_a_hundred_mebibytes_is_refused_early(tmp_path: Path, sentence: str) -> None:
    """413 at once where it says so, at the limit where it does not; far from all of it is ever taken."""
    announced, limit = BODIES[sentence]
    block = b"x" * 65_536
    async with asyncio.timeout(60), serving(tmp_path) as address:
        reader, writer = await asyncio.open_connection(*address, ssl=trusting())
        answer = asyncio.create_task(told(reader))
        writer.write(head(announced))
        sent = 0
        with contextlib.suppress(ConnectionError):
            while sent < 100 << 20 and not answer.done():
                writer.write(block if announced else b"10000\r\n" + block + b"\r\n")
                await writer.drain()
                sent += len(block)
                await asyncio.sleep(0)
        assert b"413" in await answer
        assert sent < limit + (16 << 20)  # what the sockets between us hold
        writer.transport.abort()
        assert b'"allowed":true' in await review(address)


async def test_a_byte_at_a_time_hurts_nobody(tmp_path: Path) -> None:
    """Heads and bodies that dribble, thirty of them, while a review is answered."""
    async with asyncio.timeout(60), serving(tmp_path) as address:
        slow: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
        for number in range(30):
            slow.append(await asyncio.open_connection(*address, ssl=trusting()))
            slow[-1][1].write(head(4096)[: 20 if number % 2 else None] + b" ")
        for _ in range(5):
            for _, writer in slow:
                writer.write(b" ")
            assert b'"allowed":true' in await review(address)
        for _, writer in slow:
            writer.transport.abort()


def test_the_file_limit_is_taken() -> None:
    """As many files as the system allows, however few a shell hands out."""
    resource: Any = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(1024, before[1]), before[1]))
        assert take_file_limit() == before[1]
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (before[1], before[1])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
