"""The only way out of the observers: plain HTTP to an address that an owned object gave, with every bound in one place.

No name is resolved but a Service's that was derived here, no redirect is followed, no proxy and no credential of the environment is used.
Loopback, link-local, multicast and unspecified addresses are refused, for a Pod's status is written by whoever runs the node: only the
embedded cluster lifts that. Bodies are read up to a cap and never decompressed. TLS is not verified, as the kubelet's own probe does not:
an engine's certificate is self-made, and what is read here is no secret and grants nothing.
"""

import asyncio
import copy
import ipaddress
from collections import defaultdict
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from api.clock import Clock
from controller.waiting import within

if TYPE_CHECKING:
    import httpx

MIB: Final = 1 << 20
PER_HOST: Final = 2


class ObservationError(Exception):
    """A reading that did not come about. It is a fact of its own kind, Unknown, and never a negative answer."""


def refuse_address(host: str, *, allow_local: bool) -> None:
    """Raise ObservationError for an address that no Pod of a cluster has, or for what is no address at all."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError as fault:
        raise ObservationError(f"{host!r} is no Pod address") from fault
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    if address.is_unspecified or address.is_multicast:
        raise ObservationError(f"{host} is no Pod's address")
    if not allow_local and (address.is_loopback or address.is_link_local):
        raise ObservationError(f"{host} is a local address and is not dialled")


class Dialer:
    """Bounded in total and per host. Use as a context.

    `concurrency` is a lane's: there may be several, so that questions of one kind which nobody answers keep none of another waiting.
    """

    def __init__(
        self, clock: Clock, *, concurrency: int = 16, allow_local: bool = False, transport: "httpx.AsyncBaseTransport | None" = None
    ) -> None:
        import httpx  # noqa: PLC0415 - a fifth of a second that a start need not wait for; whoever never observes never pays

        self._failures = (httpx.HTTPError, httpx.InvalidURL, OSError)
        self._url = httpx.URL
        self._clock = clock
        self._allow_local = allow_local
        self._concurrency = concurrency
        self._total = asyncio.Semaphore(concurrency)
        self._hosts: defaultdict[str, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(PER_HOST))
        self._http = httpx.AsyncClient(
            verify=False,  # noqa: S501 - see the module's docstring
            follow_redirects=False,
            trust_env=False,
            transport=transport,
            timeout=httpx.Timeout(None, connect=2.0),
            # Connections are bounded by the lanes' turns, of which the pool knows nothing.
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=concurrency, keepalive_expiry=20),
            headers={"Accept-Encoding": "identity", "User-Agent": "modelwarden"},
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self._http.aclose()

    def lane(self) -> "Dialer":
        """The same way out with turns of its own. It is closed with this one."""
        beside = copy.copy(self)
        beside._total = asyncio.Semaphore(self._concurrency)
        return beside

    async def get(self, host: str, port: int, path: str, *, scheme: str = "http", seconds: float, cap: int = MIB) -> bytes:
        """The body of a 200. Raises ObservationError for everything else."""
        return await self._ask("GET", host, port, path, scheme=scheme, seconds=seconds, cap=cap)

    async def post(
        self,
        host: str,
        port: int,
        path: str,
        body: Mapping[str, Any],
        *,
        scheme: str = "http",
        seconds: float,
        cap: int = MIB,
        headers: Mapping[str, str] | None = None,
    ) -> bytes:
        """The body of a 200 to a JSON request. Raises ObservationError for everything else."""
        return await self._ask("POST", host, port, path, scheme=scheme, seconds=seconds, cap=cap, body=body, headers=headers)

    async def _ask(
        self,
        method: str,
        host: str,
        port: int,
        path: str,
        *,
        scheme: str,
        seconds: float,
        cap: int,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> bytes:
        refuse_address(host, allow_local=self._allow_local)
        if scheme not in ("http", "https") or not 0 < port < 65536:
            raise ObservationError(f"{scheme}://{host}:{port} is no endpoint")
        url = self._url(scheme=scheme, host=host, port=port, path=path)
        async with self._hosts[host], self._total:
            try:
                return await within(self._clock, seconds, self._read(method, url, cap, body, headers))
            except TimeoutError as fault:
                raise ObservationError(f"no answer within {seconds:g} s") from fault
            except self._failures as fault:
                raise ObservationError(f"{type(fault).__name__}: {fault}") from fault
            finally:
                if len(self._hosts) > 4096:
                    for idle in [each for each, turns in self._hosts.items() if not turns.locked()]:
                        del self._hosts[idle]

    async def _read(
        self, method: str, url: "httpx.URL", cap: int, body: Mapping[str, Any] | None, headers: Mapping[str, str] | None
    ) -> bytes:
        async with self._http.stream(method, url, json=body, headers=dict(headers) if headers else None) as response:
            if response.status_code != 200:
                raise ObservationError(f"answered {response.status_code}")
            if response.headers.get("Content-Encoding", "identity") != "identity":
                raise ObservationError("answered in an encoding that was not asked for")
            chunks: list[bytes] = []
            size = 0
            async for chunk in response.aiter_raw():
                size += len(chunk)
                if size > cap:
                    raise ObservationError(f"answered more than {cap} bytes")
                chunks.append(chunk)
            return b"".join(chunks)
