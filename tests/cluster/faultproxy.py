"""An HTTPS proxy between one replica and its API server that can be cut, held and made slow, and that counts what passes.

It ends TLS on both sides, because a bad day is told in requests. A *cut* breaks every connection and refuses new ones. A *hold* takes what
is sent and lets nothing through, as a network that drops packets does; when it ends everything is delivered, also a write that its sender
has long given up (a kernel goes on sending what a closed socket still had to say). A read that was given up changes nothing and is dropped:
hundreds of them at once would stall this process, in which the embedded API server and the other replica's proxy live too. A *delay* keeps
each request back for half the time before the server sees it, and each answer for the other half. One replica, one proxy: the calls it kept
are that replica's calls.
"""

import asyncio
import base64
import json
import ssl
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import yaml
from aiohttp import web
from yarl import URL

from local.pki import Authority, write_kubeconfig

_HOP_BY_HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "content-length", "host", "accept-encoding", "authorization"})


@dataclass(slots=True)
class Call:
    """One request: when it came, when the server got it, when its answer was whole. Seconds of `time.monotonic`; 0.0 for never."""

    method: str
    path: str
    watch: bool
    body: bytes
    came: float
    sent: float = 0.0
    answered: float = 0.0
    code: int = 0
    version: str = ""

    @property
    def is_write(self) -> bool:
        """Whether it would change something."""
        return self.method not in ("GET", "HEAD")


class Upstream:
    """Where a kubeconfig leads, and who one is there."""

    def __init__(self, kubeconfig: Path) -> None:
        document = yaml.safe_load(kubeconfig.read_text())
        cluster, user = document["clusters"][0]["cluster"], document["users"][0]["user"]
        self.url: str = cluster["server"]
        self.trust = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
        with tempfile.TemporaryDirectory() as folder:
            names = [Path(folder) / name for name in ("client-certificate-data", "client-key-data")]
            for name in names:
                name.write_bytes(base64.b64decode(user[name.name]))
            self.trust.load_cert_chain(*names)


class FaultProxy:
    """One replica's way to the API server. `kubeconfig` is what the replica is given."""

    def __init__(self, kubeconfig: Path, folder: Path) -> None:
        self._upstream = Upstream(kubeconfig)
        self._authority = Authority("modelwarden-test-proxy")
        self._folder = folder
        self._open = asyncio.Event()
        self._open.set()
        self._writes_open = asyncio.Event()
        self._writes_open.set()
        self._delay = 0.0
        self._cut = False
        self._server: asyncio.Server | None = None
        self._http: aiohttp.ClientSession | None = None
        self._protocols = web.Server(self._handle, access_log=None, keepalive_timeout=600)
        self._port = 0
        self._watches: set[asyncio.Task[Any]] = set()
        self.calls: list[Call] = []
        self.under_way = 0
        self.most_under_way = 0
        self.kubeconfig = folder / "proxied.kubeconfig"

    # ------------------------------------------------------------------------------------------------------------ faults

    async def cut(self) -> None:
        """Break every connection, refuse new ones."""
        self._cut = True
        if self._server is not None:
            self._server.close()
            self._server = None
        for connection in list(self._protocols.connections):
            if connection.transport is not None:
                connection.transport.abort()
        for watch in list(self._watches):
            watch.cancel()

    def hold(self) -> None:
        """Let nothing through, in either direction; nobody is told."""
        self._open.clear()

    def hold_writes(self) -> None:
        """Let reads and watches through, and keep every write back."""
        self._writes_open.clear()

    def slow(self, seconds: float) -> None:
        """Every answer, and every event of a watch, comes that much later."""
        self._delay = seconds

    async def heal(self) -> None:
        """As if nothing had been. What was held is delivered."""
        self._delay = 0.0
        self._open.set()
        self._writes_open.set()
        if self._cut:
            self._cut = False
            await self._listen()

    def since(self, moment: float) -> list[Call]:
        """The calls that came after that moment."""
        return [call for call in self.calls if call.came >= moment]

    def busiest(self, since: float, seconds: float = 30) -> int:
        """The most requests that came within one second, of those seconds after that moment."""
        came = [call.came for call in self.calls if since <= call.came < since + seconds]
        return max((sum(each <= other < each + 1 for other in came) for each in came), default=0)

    # ----------------------------------------------------------------------------------------------------------- running

    async def start(self) -> None:
        """Listen, and write the kubeconfig."""
        self._http = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=self._upstream.trust, limit=0, keepalive_timeout=60),
            auto_decompress=False,
            timeout=aiohttp.ClientTimeout(total=None),
        )
        await self._listen()
        write_kubeconfig(self.kubeconfig, f"https://127.0.0.1:{self._port}", self._authority.pem, "replica", token="proxied")

    async def _listen(self) -> None:
        pair = self._authority.server()
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        certificate, key = self._folder / "proxy.crt", self._folder / "proxy.key"
        certificate.write_bytes(pair.certificate)
        key.write_bytes(pair.key)
        context.load_cert_chain(certificate, key)
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._protocols, "127.0.0.1", self._port, ssl=context)
        self._port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Close everything."""
        await self.cut()
        self._open.set()
        self._writes_open.set()
        await self._protocols.shutdown(1)
        if self._http is not None:
            await self._http.close()

    # ------------------------------------------------------------------------------------------------------------ serving

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        call = Call(request.method, request.path, "watch" in request.query, await request.read(), time.monotonic())
        self.calls.append(call)
        if call.watch:
            return await self._watched(request, call)
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            return await self._answered(request, call)
        finally:
            self.under_way -= 1

    async def _pass(self) -> None:
        """Half of a delay, then the gate."""
        if self._delay:
            await asyncio.sleep(self._delay / 2)
        await self._open.wait()

    def _send(self, request: web.BaseRequest, call: Call) -> Any:
        assert self._http is not None
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _HOP_BY_HOP}
        url = URL(self._upstream.url + request.raw_path, encoded=True)
        call.sent = time.monotonic()
        return self._http.request(request.method, url, data=call.body or None, headers=headers | {"Accept-Encoding": "identity"})

    async def _answered(self, request: web.BaseRequest, call: Call) -> web.Response:
        await self._pass()
        if call.is_write:
            await self._writes_open.wait()
        elif request.transport is None:
            return web.Response(status=502)
        try:
            async with self._send(request, call) as answer:
                body = await answer.read()
        except aiohttp.ClientError:
            self._break(request)
            return web.Response(status=502)
        call.code = answer.status
        if call.is_write and call.code < 300:
            call.version = json.loads(body).get("metadata", {}).get("resourceVersion", "")
        call.answered = time.monotonic()
        await self._pass()
        headers = {name: answer.headers[name] for name in ("Content-Type", "Retry-After", "Warning") if name in answer.headers}
        return web.Response(body=body, status=answer.status, headers=headers)

    async def _watched(self, request: web.BaseRequest, call: Call) -> web.StreamResponse:
        await self._pass()
        if request.transport is None:
            return web.Response(status=502)
        task = asyncio.current_task()
        assert task is not None
        self._watches.add(task)
        response = web.StreamResponse()
        try:
            async with self._send(request, call) as answer:
                call.code = answer.status
                response.set_status(answer.status)
                response.content_type = "application/json"
                await self._pass()
                await response.prepare(request)
                async with aclosing(self._later(answer.content)) as chunks:
                    async for chunk in chunks:
                        await response.write(chunk)
                await response.write_eof()
        except (aiohttp.ClientError, ConnectionError):
            self._break(request)
        finally:
            self._watches.discard(task)
            call.answered = time.monotonic()
        return response

    async def _later(self, content: aiohttp.StreamReader) -> AsyncGenerator[bytes, None]:
        """The chunks in their order, each as late as the delay says: one that is kept back does not keep back the next any longer."""
        came: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

        async def read() -> None:
            try:
                async for chunk in content.iter_any():
                    came.put_nowait((time.monotonic(), chunk))
            except aiohttp.ClientError:
                pass
            came.put_nowait((time.monotonic(), b""))

        reading = asyncio.create_task(read())
        try:
            while (item := await came.get())[1]:
                await asyncio.sleep(max(0.0, item[0] + self._delay - time.monotonic()))
                await self._open.wait()
                yield item[1]
        finally:
            reading.cancel()

    def _break(self, request: web.BaseRequest) -> None:
        if request.transport is not None:
            request.transport.abort()


class Front:
    """What a Service is to an API server: one address, behind it every replica whose /readyz was good when it was last asked.

    A replica leaves after two bad answers and comes back with a good one, asked every second. A connection that is refused is the caller's
    affair, as it is with a real Service.
    """

    PERIOD = 1.0
    BAD = 2

    def __init__(self, targets: dict[str, int], ask: Callable[[str], Awaitable[bool]]) -> None:
        self._targets = targets
        self._ask = ask
        self._bad = dict.fromkeys(targets, 0)
        self._turn = 0
        self._server: asyncio.Server | None = None
        self._probing: asyncio.Task[None] | None = None
        self._relays: set[asyncio.Task[None]] = set()
        self.port = 0

    @property
    def endpoints(self) -> list[str]:
        """The names behind the address now."""
        return [name for name, bad in self._bad.items() if bad < self.BAD]

    async def start(self) -> None:
        """Listen and probe."""
        self._server = await asyncio.start_server(self._relay, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        self._probing = asyncio.create_task(self._probe())

    async def stop(self) -> None:
        """Close."""
        assert self._server is not None
        assert self._probing is not None
        self._probing.cancel()
        self._server.close()
        for relay in list(self._relays):
            relay.cancel()
        await asyncio.gather(self._probing, *self._relays, return_exceptions=True)

    async def _probe(self) -> None:
        while True:
            good = await asyncio.gather(*(self._ask(name) for name in self._targets))
            for name, fine in zip(self._targets, good, strict=True):
                self._bad[name] = 0 if fine else self._bad[name] + 1
            await asyncio.sleep(self.PERIOD)

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._relays.add(task)
        behind: asyncio.StreamWriter | None = None
        try:
            names = self.endpoints
            if not names:
                return
            self._turn += 1
            answers, behind = await asyncio.open_connection("127.0.0.1", self._targets[names[self._turn % len(names)]])
            await asyncio.gather(_copy(reader, behind), _copy(answers, writer))
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            self._relays.discard(task)
            for each in (writer, behind):
                if each is not None:
                    each.transport.abort()


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    while data := await source.read(65536):
        target.write(data)
        await target.drain()
    raise ConnectionError("one side is done")
