"""Bytes to and from one API server: an aiohttp session with the credential kept fresh, and every failure turned into our error tree.

Sockets are kept alive by the kernel, so that a watch on a peer that vanished ends within two minutes and not with its server's time-out.
"""

import asyncio
import socket
import ssl
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final
from urllib.parse import urlsplit

import aiohttp
from yarl import URL

from kube import metrics
from kube.access import Access, Source
from kube.errors import ConfigError, ConnectFailed, RequestTimeout, TransportError, error_from, parse_retry_after

USER_AGENT: Final = "modelwarden"
CONNECT_SECONDS: Final = 10.0
# Everybody waits for a renewal: a plugin that hangs must not hang them all.
RENEWAL_SECONDS: Final = 60.0


def keepalive_socket(address: Any) -> socket.socket:
    """A TCP socket that notices a dead peer: 30 s of silence, then six probes 15 s apart."""
    family, kind, protocol = address[0], address[1], address[2]
    sock = socket.socket(family=family, type=kind, proto=protocol)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 6)):
        if hasattr(socket, option):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    return sock


class Session:
    """One connection pool. `monotonic` is handed in so that tests own the credential's age, `http` so that they own the wire."""

    def __init__(
        self,
        source: Source,
        access: Access,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        http: aiohttp.ClientSession | None = None,
    ) -> None:
        self._source = source
        self._access = access
        self._monotonic = monotonic
        self._loaded_at = monotonic()
        self._renewal = asyncio.Lock()
        self._host = urlsplit(access.host).netloc
        self._http = http or aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                ssl=access.tls if access.tls is not None else True,
                limit=100,
                keepalive_timeout=60,
                socket_factory=keepalive_socket,
            ),
            headers={"User-Agent": USER_AGENT, "Accept": "application/json"},
            auto_decompress=True,
            cookie_jar=aiohttp.DummyCookieJar(),
            skip_auto_headers={"Content-Type"},
        )

    @property
    def namespace(self) -> str:
        """The namespace that the context or the service account names."""
        return self._access.namespace

    async def close(self) -> None:
        """Drop every connection."""
        await self._http.close()

    async def request(
        self,
        method: str,
        path: str,
        params: Mapping[str, str] | None = None,
        *,
        body: bytes | None = None,
        content_type: str = "application/json",
        seconds: float,
    ) -> bytes:
        """One request and its whole answer. Raises ApiError, TransportError or ConfigError.

        It never repeats, but for one 401 with a renewed credential.
        """
        started = self._monotonic()
        timeout = aiohttp.ClientTimeout(total=seconds, sock_connect=min(CONNECT_SECONDS, seconds))
        async with self.open(method, path, params, body=body, content_type=content_type, timeout=timeout) as response:
            data = await response.read()
        metrics.SECONDS.labels(method).observe(self._monotonic() - started)
        return data

    @asynccontextmanager
    async def open(
        self,
        method: str,
        path: str,
        params: Mapping[str, str] | None = None,
        *,
        body: bytes | None = None,
        content_type: str = "application/json",
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 - aiohttp's own value, handed through
        answer_within: float | None = None,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """An answer that is 2xx, to be read by the caller, whose read errors are translated too.

        `answer_within` bounds, in seconds, the wait for the status line and headers apart from the life of the body behind them.
        """
        url = URL(self._access.host + path, encoded=True)
        if params:
            url = url.with_query(params)
        headers = {"Content-Type": content_type} if body is not None else {}
        code = "<error>"
        try:
            async with asyncio.timeout(answer_within):
                response = await self._send(method, url, headers, body, timeout)
            code = str(response.status)
            try:
                if not 200 <= response.status < 300:
                    # A redirect too: whoever sends one (a proxy that wants a login) is no API server, and has done nothing.
                    raise error_from(response.status, await response.read(), parse_retry_after(response.headers.get("Retry-After")))
                yield response
            finally:
                response.release()
        except aiohttp.ConnectionTimeoutError as fault:
            raise ConnectFailed(f"{method} {path}: no connection within {CONNECT_SECONDS:g} s") from fault
        except TimeoutError as fault:
            raise RequestTimeout(
                f"{method} {path}: no answer within {answer_within if code == '<error>' and answer_within else timeout.total} s"
            ) from fault
        except (aiohttp.ClientConnectorError, aiohttp.ClientProxyConnectionError) as fault:
            raise ConnectFailed(f"{method} {path}: {fault}") from fault
        except (aiohttp.ClientError, ssl.SSLError, OSError) as fault:
            raise TransportError(f"{method} {path}: {type(fault).__name__}: {fault}") from fault
        finally:
            metrics.REQUESTS.labels(code, method, self._host).inc()

    async def _send(
        self,
        method: str,
        url: URL,
        headers: dict[str, str],
        body: bytes | None,
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 - as above
    ) -> aiohttp.ClientResponse:
        access = await self._current()
        for last in (False, True):
            sent = {**headers, "Authorization": access.authorization} if access.authorization else headers
            response = await self._http.request(
                method,
                url,
                data=body,
                headers=sent,
                timeout=timeout,
                proxy=access.proxy,
                server_hostname=access.server_hostname,
                allow_redirects=False,
            )
            if response.status != 401 or last:
                return response
            try:
                renewed = await self._renew(access)
            except BaseException:
                response.release()
                raise
            if renewed.authorization == access.authorization:
                return response
            response.release()
            access = renewed
        raise AssertionError("unreachable")

    async def _current(self) -> Access:
        access = self._access
        if access.good_for is not None and self._monotonic() - self._loaded_at >= access.good_for:
            return await self._renew(access)
        return access

    async def _renew(self, seen: Access) -> Access:
        """Read the credential again, once for all who found the same one stale."""
        async with self._renewal:
            if self._access is seen:
                try:
                    async with asyncio.timeout(RENEWAL_SECONDS):
                        self._access = await self._source.load()
                except TimeoutError as fault:
                    raise ConfigError(
                        f"the credential could not be renewed within {RENEWAL_SECONDS:.0f} s: does its plugin hang?"
                    ) from fault
                self._loaded_at = self._monotonic()
        return self._access
