"""HTTP/1.1 as clients may speak it: each conversation is bytes in and bytes out, over a socket and over a transport that counts writes."""

import asyncio
import gc
import weakref
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from app import protocol as protocol_module
from app.protocol import BoundedProtocol
from app.server import HttpServer, Listener

POST = b"POST /x?a=b HTTP/1.1\r\nhost: x\r\ncontent-type: text/plain\r\n"


async def echo(scope: Any, receive: Any, send: Any) -> None:
    """Answers with method, path, query and body; `/stream` declares no length, `/broken` fails between head and body."""
    body, more = b"", True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    text = b"%s %s %s %s" % (scope["method"].encode(), scope["path"].encode(), scope["query_string"], body)
    length = [] if scope["path"] == "/stream" else [(b"content-length", b"%d" % len(text))]
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain"), *length]})
    if scope["path"] == "/broken":
        raise RuntimeError("broken")
    half = len(text) // 2
    if scope["path"] in {"/stream", "/halves"}:
        await send({"type": "http.response.body", "body": text[:half], "more_body": True})
        text = text[half:]
    await send({"type": "http.response.body", "body": text})


async def talk(*parts: bytes, keep_alive: float = 60) -> bytes:
    """Send the parts one by one, then read until the server ends; the connection is kept alive for as long as said."""
    keeps: Any = keep_alive
    server = HttpServer(echo, Listener("127.0.0.1", 0).bind(), tls=None, keep_alive=keeps, drain=1)
    task = asyncio.create_task(server.run())
    await server.up()
    try:
        async with asyncio.timeout(10):
            reader, writer = await asyncio.open_connection(*server.address)
            for part in parts:
                writer.write(part)
                await writer.drain()
                await asyncio.sleep(0)
            answer = await reader.read()
            writer.close()
            return answer
    finally:
        server.stop()
        await task


LAST = b"connection: close\r\n\r\n"
CONVERSATIONS: dict[str, tuple[list[bytes], list[bytes]]] = {
    "a body in one piece with its head": ([POST + b"content-length: 3\r\n" + LAST + b"abc"], [b"POST /x a=b abc"]),
    "a body after its head": ([POST + b"content-length: 3\r\n" + LAST, b"abc"], [b"POST /x a=b abc"]),
    "a body byte by byte": ([POST + b"content-length: 3\r\n" + LAST, b"a", b"b", b"c"], [b"POST /x a=b abc"]),
    "a body in chunks": ([POST + b"transfer-encoding: chunked\r\n" + LAST + b"2\r\nab\r\n", b"1\r\nc\r\n0\r\n\r\n"], [b"POST /x a=b abc"]),
    "a head byte by byte": ([bytes([byte]) for byte in b"GET /y HTTP/1.1\r\nhost: x\r\n" + LAST], [b"GET /y  "]),
    "three requests at once": (
        [b"GET /1 HTTP/1.1\r\nhost: x\r\n\r\nGET /2 HTTP/1.1\r\nhost: x\r\n\r\nGET /3 HTTP/1.1\r\nhost: x\r\n" + LAST],
        [b"GET /1  ", b"GET /2  ", b"GET /3  "],
    ),
    "a second request after the first": (
        [b"GET /1 HTTP/1.1\r\nhost: x\r\n\r\n", b"GET /2 HTTP/1.1\r\nhost: x\r\n" + LAST],
        [b"GET /1  ", b"GET /2  "],
    ),
    "a client of HTTP/1.0": ([b"GET /old HTTP/1.0\r\n\r\n"], [b"connection: close", b"GET /old  "]),
    "a path with escapes": ([b"GET /a%20b HTTP/1.1\r\nhost: x\r\n" + LAST], [b"GET /a b  "]),
    "a target with a host": ([b"GET http://other/z?q HTTP/1.1\r\nhost: x\r\n" + LAST], [b"GET /z q "]),
    "an answer without a length": ([b"GET /stream HTTP/1.1\r\nhost: x\r\n" + LAST], [b"transfer-encoding: chunked", b"0\r\n\r\n"]),
    "an answer in halves": (
        [b"GET /halves HTTP/1.1\r\nhost: x\r\n\r\nGET /1 HTTP/1.1\r\nhost: x\r\n" + LAST],
        [b"GET /halves  ", b"GET /1  "],
    ),
    "a client that asks first": (
        [POST + b"expect: 100-continue\r\ncontent-length: 3\r\n" + LAST, b"abc"],
        [b"100 Continue", b"200 OK", b"POST /x a=b abc"],
    ),
    "no HTTP at all": ([b"hello\r\n\r\n"], [b"400 Bad Request"]),
    "a path that is no ASCII": ([b"GET /\xff HTTP/1.1\r\nhost: x\r\n\r\n"], [b"400 Bad Request"]),
}


@pytest.mark.parametrize("sentence", CONVERSATIONS)
async def test_a_conversation(sentence):
    """What was asked is answered, in the order of asking."""
    said, wanted = CONVERSATIONS[sentence]
    answer = await talk(*said)
    places = [answer.find(text) for text in wanted]
    assert -1 not in places, answer
    assert places == sorted(places), answer


async def test_a_head_alone_gets_a_head_alone():
    """HEAD: the length of what a GET would bring, and nothing more."""
    answer = await talk(b"HEAD /y HTTP/1.1\r\nhost: x\r\n" + LAST)
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"content-length: 9" in head
    assert body == b""


async def test_an_application_that_breaks_between_head_and_body_ends_the_connection():
    """No half answer: the client sees the end."""
    assert await talk(b"GET /broken HTTP/1.1\r\nhost: x\r\n\r\n") == b""


async def test_an_idle_connection_is_closed_when_its_time_is_over():
    """The clock starts again with each answer."""
    request = b"GET /1 HTTP/1.1\r\nhost: x\r\n\r\n"
    answer = await talk(request, request, keep_alive=0.05)
    assert answer.count(b"200 OK") == 2
    assert b"close" not in answer


class Wire(asyncio.Transport):
    """A transport that keeps what was written."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.closed = self.aborted = self.paused = False

    def write(self, data: Any) -> None:
        self.written.append(bytes(data))

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default

    def abort(self) -> None:
        self.aborted = True

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False


def connected(application: Any = echo) -> tuple[BoundedProtocol, Wire]:
    """A connection without a socket."""
    config = uvicorn.Config(
        application, http=BoundedProtocol, ws="none", lifespan="off", log_config=None, server_header=False, date_header=False
    )
    config.load()
    protocol, wire = BoundedProtocol(config=config, server_state=ServerState(), app_state={}), Wire()
    protocol.connection_made(wire)
    return protocol, wire


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_an_answer_leaves_in_one_piece():
    """Head and body are one write, so one TLS record and one packet."""
    protocol, wire = connected()
    for _ in range(2):
        protocol.data_received(POST + b"content-length: 3\r\n\r\nabc")
        await settled()
    assert [text.count(b"200 OK") for text in wire.written] == [1, 1]
    assert all(text.endswith(b"POST /x a=b abc") for text in wire.written)
    protocol.connection_lost(None)


async def test_a_server_that_stops_closes_after_the_answer():
    """Told between head and body of an answer as well as before it."""
    gate = asyncio.Event()

    async def slow(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await gate.wait()
        await send({"type": "http.response.body", "body": b"ok"})

    protocol, wire = connected(slow)
    protocol.data_received(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
    await settled()
    protocol.shutdown()
    assert not wire.closed
    gate.set()
    await settled()
    assert (b"".join(wire.written).endswith(b"\r\n\r\nok"), wire.closed) == (True, True)
    protocol.connection_lost(None)


async def test_a_client_that_leaves_is_written_to_no_more():
    """The application learns it from `receive`; what it still sends goes nowhere."""
    heard: list[str] = []

    async def patient(scope: Any, receive: Any, send: Any) -> None:
        heard.append((await receive())["type"])
        heard.append((await receive())["type"])
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})

    protocol, wire = connected(patient)
    protocol.data_received(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
    await settled()
    protocol.connection_lost(None)
    await settled()
    assert heard == ["http.request", "http.disconnect"]
    assert wire.written == []


async def test_one_timer_serves_a_connection():
    """Requests on a kept connection make no timers of their own."""
    protocol, _ = connected()
    protocol.data_received(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
    await settled()
    first = protocol.timeout_keep_alive_task
    assert first is not None
    for _ in range(3):
        protocol.data_received(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        await settled()
    assert protocol.timeout_keep_alive_task is first
    protocol.connection_lost(None)
    assert first.cancelled()


REFUSED = POST + b"content-length: 100\r\n\r\nabc"


async def refuse(scope: Any, receive: Any, send: Any) -> None:
    """Answers before the body is there, and wants no more of it."""
    await send({"type": "http.response.start", "status": 413, "headers": [(b"content-length", b"2"), (b"connection", b"close")]})
    await send({"type": "http.response.body", "body": b"no"})


async def test_a_sender_that_is_refused_in_its_body_is_read_from_no_more(monkeypatch):
    """It gets its answer whole and a moment to read it; what it goes on sending is neither read nor kept."""
    monkeypatch.setattr(protocol_module, "LEAVE_SECONDS", 0.01)
    protocol, wire = connected(refuse)
    protocol.data_received(REFUSED)
    await settled()
    assert [text.partition(b"\r\n")[0] for text in wire.written] == [b"HTTP/1.1 413 Request Entity Too Large"]
    assert (wire.paused, wire.closed) == (True, False)
    protocol.data_received(b"x" * 97 + b"GET /next HTTP/1.1\r\nhost: x\r\n\r\n")
    await settled()
    assert len(wire.written) == 1
    await asyncio.sleep(0.02)
    assert wire.aborted
    protocol.connection_lost(None)


async def test_a_connection_that_is_over_is_forgotten_at_once():
    """No ring of references: with the collector off, the connection is gone when it is lost, whatever it was doing."""
    gc.collect()
    gc.disable()
    try:
        for application, said in ((echo, b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"), (refuse, REFUSED), (echo, b"GET / HT"), (echo, REFUSED)):
            protocol, wire = connected(application)
            protocol.data_received(said)
            await settled()
            protocol.connection_lost(None)
            await settled()
            ghost = weakref.ref(protocol)
            del protocol, wire
            assert ghost() is None, said
    finally:
        gc.enable()
