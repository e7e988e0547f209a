"""Bytes to and from one API server: an aiohttp session with credential and trust kept fresh, and every failure turned into our error tree.

Each request names the TLS context of the moment. The pool keys its connections by it, so those of an authority that was replaced finish
what they carry and are not used again; nothing is torn down.

Sockets are kept alive by the kernel, so that a watch on a peer that vanished ends within two minutes and not with its server's time-out.
"""

import asyncio
import math
import socket
import ssl
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import cache, lru_cache
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import urlencode, urlsplit

import aiohttp
from prometheus_client import Counter, Histogram
from yarl import URL

from kube import metrics
from kube.access import Access, Source
from kube.errors import ConfigError, ConnectFailed, RequestTimeout, TransportError, error_from, parse_retry_after

USER_AGENT: Final = "modelwarden"
CONNECT_SECONDS: Final = 10.0
# Everybody waits for a renewal: a plugin that hangs must not hang them all.
RENEWAL_SECONDS: Final = 60.0
# How soon a reading that failed, or one whose handshake fails, is followed by another.
REREAD_SECONDS: Final = 5.0


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
        self._tried_at = monotonic()
        self._due = self._next(access.good_for)
        self._renewal = asyncio.Lock()
        self._host = urlsplit(access.host).netloc
        self._http = http or aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
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

        It never repeats, but for one 401 with a renewed credential and one failed handshake with renewed certificates.
        """
        started = self._monotonic()
        timeout = aiohttp.ClientTimeout(total=seconds, sock_connect=min(CONNECT_SECONDS, seconds))
        with _Exchange(method, path, self._host, timeout) as exchange:
            response = await self._answered(exchange, params, body, content_type)
            try:
                data = await response.read()
            finally:
                response.release()
        _seconds(method).observe(self._monotonic() - started)
        return data

    @asynccontextmanager
    async def open(
        self,
        method: str,
        path: str,
        params: Mapping[str, str] | None = None,
        *,
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 - aiohttp's own value, handed through
        answer_within: float,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """An answer that is 2xx, to be read by the caller, whose read errors are translated too.

        `answer_within` bounds, in seconds, the wait for the status line and headers apart from the life of the body behind them.
        """
        with _Exchange(method, path, self._host, timeout, answer_within) as exchange:
            async with asyncio.timeout(answer_within):
                response = await self._answered(exchange, params)
            try:
                yield response
            finally:
                response.release()

    async def _answered(
        self, exchange: "_Exchange", params: Mapping[str, str] | None, body: bytes | None = None, content_type: str = ""
    ) -> aiohttp.ClientResponse:
        query = f"?{_query(tuple(params.items()))}" if params else ""
        url = URL(f"{self._access.host}{exchange.path}{query}", encoded=True)
        headers = {"Content-Type": content_type} if body is not None else {}
        response = await self._send(exchange.method, url, headers, body, exchange.timeout)
        exchange.code = str(response.status)
        if 200 <= response.status < 300:
            return response
        # A redirect too: whoever sends one (a proxy that wants a login) is no API server, and has done nothing.
        try:
            raise error_from(response.status, await response.read(), parse_retry_after(response.headers.get("Retry-After")))
        finally:
            response.release()

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
            try:
                response = await self._http.request(
                    method,
                    url,
                    data=body,
                    headers=sent,
                    timeout=timeout,
                    proxy=access.proxy,
                    ssl=access.tls if access.tls is not None else True,
                    server_hostname=access.server_hostname,
                    allow_redirects=False,
                )
            except (aiohttp.ClientError, ssl.SSLError) as fault:
                renewed = await self._retrusted(access, fault)
                # Sent again only where no handshake came about: a server that refuses our certificate may say so after it.
                if last or renewed.tls is access.tls or not isinstance(fault, aiohttp.ClientSSLError):
                    raise
                access = renewed
                continue
            if response.status != 401 or last:
                return response
            try:
                renewed = await self._renew(access)
            except BaseException:
                response.release()
                raise
            if renewed.authorization == access.authorization and renewed.tls is access.tls:
                return response
            response.release()
            access = renewed
        raise AssertionError("unreachable")

    async def _current(self) -> Access:
        access = self._access
        if self._monotonic() < self._due:
            return access
        try:
            return await self._renew(access)
        except ConfigError:
            # A file that is being replaced, a plugin that is away: what we hold is good until it is refused.
            return access

    async def _retrusted(self, seen: Access, fault: Exception) -> Access:
        """What to trust and to show after TLS failed: read again, as whoever exchanged an authority exchanged the files too."""
        if not _of_tls(fault) or (self._access is seen and self._monotonic() - self._tried_at < REREAD_SECONDS):
            return self._access
        try:
            return await self._renew(seen)
        except ConfigError:
            return seen  # the handshake's own words are the better ones

    async def _renew(self, seen: Access) -> Access:
        """Read the credential again, once for all who found the same one stale."""
        async with self._renewal:
            if self._access is seen:
                self._tried_at = self._monotonic()
                try:
                    async with asyncio.timeout(RENEWAL_SECONDS):
                        self._access = await self._source.load()
                except (ConfigError, TimeoutError) as fault:
                    self._access = replace(seen)  # who waited behind us does not ask the same again
                    self._due = max(self._due, self._monotonic() + REREAD_SECONDS)
                    if isinstance(fault, ConfigError):
                        raise
                    raise ConfigError(
                        f"the credential could not be renewed within {RENEWAL_SECONDS:.0f} s: does its plugin hang?"
                    ) from fault
                self._due = self._next(self._access.good_for)
        return self._access

    def _next(self, good_for: float | None) -> float:
        return math.inf if good_for is None else self._monotonic() + good_for


def _of_tls(fault: BaseException | None) -> bool:
    """Whether TLS failed, at the handshake or by an alert that came after it, whatever aiohttp has wrapped it in."""
    while fault is not None:
        if isinstance(fault, ssl.SSLError):
            return True
        fault = fault.__cause__
    return False


@lru_cache(maxsize=1024)
def _query(params: tuple[tuple[str, str], ...]) -> str:
    """Writes say the same time after time."""
    return urlencode(params)


@cache
def _seconds(method: str) -> Histogram:
    return metrics.SECONDS.labels(method)


@lru_cache(maxsize=256)
def _outcomes(code: str, method: str, host: str) -> Counter:
    return metrics.REQUESTS.labels(code, method, host)


class _Exchange:
    """One request and its answer: counted by its outcome, whatever goes wrong in it turned into our error tree."""

    __slots__ = ("_answer_within", "_host", "code", "method", "path", "timeout")

    def __init__(self, method: str, path: str, host: str, timeout: aiohttp.ClientTimeout, answer_within: float | None = None) -> None:
        self.method = method
        self.path = path
        self.timeout = timeout
        self.code = "<error>"
        self._host = host
        self._answer_within = answer_within

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None) -> None:
        _outcomes(self.code, self.method, self._host).inc()
        asked = f"{self.method} {self.path}"
        match fault:
            case aiohttp.ConnectionTimeoutError():
                raise ConnectFailed(f"{asked}: no connection within {CONNECT_SECONDS:g} s") from fault
            case TimeoutError():
                bound = self._answer_within if self.code == "<error>" and self._answer_within else self.timeout.total
                raise RequestTimeout(f"{asked}: no answer within {bound} s") from fault
            case aiohttp.ClientConnectorError() | aiohttp.ClientProxyConnectionError():
                raise ConnectFailed(f"{asked}: {fault}") from fault
            case aiohttp.ClientError() | ssl.SSLError() | OSError():
                raise TransportError(f"{asked}: {type(fault).__name__}: {fault}") from fault
