"""The wire between the real client and the fake API server: what aiohttp's session is to `kube.session`, answered in the process.

A request takes a little time on its way there and back, may be befallen by a fault on either, and is carried out in between, so that a
caller that is stopped while it waits may have been heard or not. Watches are streams that end, lag and break.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

import aiohttp
import msgspec
from yarl import URL

from tests.simulation.faults import Faults
from tests.simulation.store import Change, Object, RefusedError, Store, encode, meta, selects

BOOKMARK_SECONDS: Final = 60.0
WAYS: Final = {"GET", "POST", "PUT", "PATCH", "DELETE"}


class Request(NamedTuple):
    """A request as the server understands it."""

    who: str
    method: str
    plural: str
    namespace: str
    name: str
    subresource: str
    params: dict[str, str]
    body: Any
    kind: str


class Response:
    """As much of aiohttp.ClientResponse as the client reads."""

    def __init__(self, status: int, data: bytes, headers: dict[str, str] | None = None) -> None:
        self.status = status
        self.headers = headers or {}
        self.content: Any = None
        self._data = data

    async def read(self) -> bytes:
        """The body."""
        return self._data

    @property
    def version(self) -> str:
        """The resourceVersion of the object in a 2xx."""
        return str(msgspec.json.decode(self._data)["metadata"]["resourceVersion"]) if self.status < 300 else ""

    def release(self) -> None:
        """Nothing is held."""


class Stream:
    """`response.content` of a watch."""

    def __init__(self, chunks: AsyncIterator[bytes]) -> None:
        self._chunks = chunks

    def iter_any(self) -> AsyncIterator[bytes]:
        """Pieces as they come."""
        return self._chunks


class Wire:
    """The session of one process. `sending` sees a request when it is sent, `audit` when it arrives, `answered` its end; `dead` cuts it."""

    def __init__(self, who: str, store: Store, faults: Faults, rng: random.Random) -> None:
        self.who = who
        self.dead = False
        self.sending: list[Callable[[Request], None]] = []
        self.audit: list[Callable[[Request, float], None]] = []
        self.answered: list[Callable[[Request, Response | None], None]] = []
        self._store = store
        self._faults = faults
        self._rng = rng
        self._continuations: dict[str, tuple[int, list[Object], Any]] = {}
        self._drops: dict[str, int] = {}

    async def close(self) -> None:
        """Nothing is open."""

    def drop_watches(self, plural: str) -> None:
        """Break every watch of the kind that is open now."""
        self._drops[plural] = self._drops.get(plural, 0) + 1
        for collection in self._store.collections.values():
            if collection.resource.plural == plural:
                for wake in list(collection.watchers):
                    wake()

    async def request(
        self,
        method: str,
        url: URL,
        *,
        data: bytes | None = None,
        headers: dict[str, str] | None = None,
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 - aiohttp's own signature
        **_: Any,
    ) -> Response:
        """One exchange. Raises what aiohttp raises."""
        deadline = asyncio.get_running_loop().time() + (timeout.total or 3600.0)
        request = _understood(self.who, method, url, data, (headers or {}).get("Content-Type", ""))
        if not self.dead:
            for told in self.sending:
                told(request)
        response: Response | None = None
        try:
            async with asyncio.timeout_at(deadline):
                response = await self._exchange(request, url, deadline)
                return response
        finally:
            for received in self.answered:
                received(request, response)

    async def _exchange(self, request: Request, url: URL, deadline: float) -> Response:
        outcome, sent = self._faults.outcome(request.method, request.plural, self.who), asyncio.get_running_loop().time()
        if self.dead or outcome == "unsent":
            await asyncio.sleep(0)
            raise _unreachable(url)
        await asyncio.sleep(self._rng.uniform(0.0005, 0.01))
        if self.dead:
            raise _unreachable(url)
        if outcome == "hang":
            await self._faults.cleared.wait()
            raise aiohttp.ServerDisconnectedError
        refusal = _REFUSALS.get(outcome)
        if refusal is not None and not (outcome == "409" and request.method not in ("PUT", "PATCH")):
            return _refused(*refusal)
        for heard in self.audit:
            heard(request, sent)
        response = self._carry_out(request, deadline)
        if request.method == "GET" and not request.name:
            await asyncio.sleep(self._faults.list_seconds(request.plural))
        await asyncio.sleep(self._rng.uniform(0.0005, 0.01) if self._rng.random() < 0.5 else 0)
        if self.dead or outcome == "lost":
            raise aiohttp.ServerDisconnectedError
        return response

    # ----------------------------------------------------------------------------------------------------------- serving

    def _carry_out(self, request: Request, deadline: float) -> Response:
        try:
            return self._answer(request, deadline)
        except RefusedError as refusal:
            return _refused(refusal.code, refusal.reason, refusal.message)

    def _answer(self, request: Request, deadline: float) -> Response:
        if not request.plural:
            return Response(200, self._discovery(request.namespace))
        resource = self._collection(request).resource
        namespace, name = request.namespace, request.name
        match request.method:
            case "GET" if name:
                return Response(200, encode(self._store.get(resource, namespace, name)))
            case "GET" if request.params.get("watch"):
                return self._watched(resource, request, deadline)
            case "GET":
                return Response(200, self._page(resource, request))
            case "POST":
                body = {**request.body, "metadata": {**request.body.get("metadata", {}), "namespace": namespace}}
                return Response(201, encode(self._store.create(resource, body, self.who)))
            case "PUT":
                return Response(
                    200,
                    encode(self._store.replace(resource, namespace, name, request.body, subresource=request.subresource, author=self.who)),
                )
            case "PATCH":
                if request.kind != "application/merge-patch+json":
                    raise RefusedError(415, "UnsupportedMediaType", request.kind)
                return Response(
                    200,
                    encode(self._store.patch(resource, namespace, name, request.body, subresource=request.subresource, author=self.who)),
                )
            case "DELETE":
                wanted = (request.body or {}).get("preconditions") or {}
                gone = self._store.delete(
                    resource,
                    namespace,
                    name,
                    uid=wanted.get("uid"),
                    version=wanted.get("resourceVersion"),
                    grace=(request.body or {}).get("gracePeriodSeconds"),
                    author=self.who,
                )
                return Response(200, encode(gone))
        raise RefusedError(405, "MethodNotAllowed", request.method)

    def _collection(self, request: Request) -> Any:
        for (_, _, plural), collection in self._store.collections.items():
            if plural == request.plural and collection.resource.root == request.params["root"]:
                return collection
        raise RefusedError(404, "NotFound", "the server could not find the requested resource")

    def _discovery(self, root: str) -> bytes:
        found = [{"name": c.resource.plural} for c in self._store.collections.values() if c.resource.root == root]
        if not found:
            raise RefusedError(404, "NotFound", root)
        return encode({"resources": found})

    def _page(self, resource: Any, request: Request) -> bytes:
        token, limit = request.params.get("continue", ""), int(request.params.get("limit", "0"))
        if token:
            version, items, _ = self._continuations.pop(token, (0, [], None))
            if version < self._store.collection(resource).floor:
                raise RefusedError(410, "Expired", "the continue token is too old")
        else:
            version = self._store.version
            items = self._store.list(resource, request.namespace, request.params.get("labelSelector", ""))
        rest = ""
        if limit and len(items) > limit:
            rest = f"{version}-{len(self._continuations)}-{self._rng.getrandbits(16)}"
            self._continuations[rest] = (version, items[limit:], resource)
            items = items[:limit]
        return encode({"kind": "List", "metadata": {"resourceVersion": str(version), "continue": rest}, "items": items})

    # ---------------------------------------------------------------------------------------------------------- watching

    def _watched(self, resource: Any, request: Request, deadline: float) -> Response:
        version = int(request.params["resourceVersion"])
        self._store.since(resource, version)  # raises 410
        response = Response(200, b"")
        response.content = Stream(self._lines(resource, request, version, deadline))
        return response

    async def _lines(self, resource: Any, request: Request, version: int, deadline: float) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        ends = loop.time() + int(request.params.get("timeoutSeconds", "300"))
        selector, plural = request.params.get("labelSelector", ""), request.plural
        drops = self._drops.get(plural, 0)
        changed = asyncio.Event()
        watchers = self._store.collection(resource).watchers
        watchers.append(changed.set)
        bookmark = loop.time() + BOOKMARK_SECONDS
        try:
            while True:
                changed.clear()
                if self.dead or self._drops.get(plural, 0) != drops:
                    raise aiohttp.ClientPayloadError("the connection was lost")
                if loop.time() >= deadline:
                    raise TimeoutError
                silent = self._faults.is_silent(plural)
                wait = min(deadline, silent or min(ends, bookmark))
                if not silent:
                    if loop.time() >= ends:
                        return
                    try:
                        fresh = list(self._store.since(resource, version))
                    except RefusedError as refusal:
                        yield _line("ERROR", _status(refusal.code, refusal.reason, refusal.message))
                        return
                    for change in fresh:
                        due = change.at + self._faults.lag_seconds(plural)
                        if due > loop.time():
                            wait = min(deadline, ends, due)
                            break
                        version = change.version
                        line = _told(change, selector, request.namespace)
                        if line:
                            for piece in self._pieces(line * 2 if self._faults.repeat(plural) else line):
                                yield piece
                    else:
                        if loop.time() >= bookmark:
                            bookmark = loop.time() + BOOKMARK_SECONDS
                            version = self._store.version
                            yield _line("BOOKMARK", {"kind": resource.kind, "metadata": {"resourceVersion": str(version)}})
                            continue
                await _wait(changed, wait)
        finally:
            watchers.remove(changed.set)

    def _pieces(self, line: bytes) -> tuple[bytes, ...]:
        """A line in one piece or two, as the network cuts it."""
        if self._rng.random() < 0.8:
            return (line,)
        cut = self._rng.randrange(len(line))
        return (line[:cut], line[cut:])


async def _wait(changed: asyncio.Event, until: float) -> None:
    if asyncio.get_running_loop().time() >= until:
        await asyncio.sleep(0)
        return
    try:
        async with asyncio.timeout_at(until):
            await changed.wait()
    except TimeoutError:
        pass


def _told(change: Change, selector: str, namespace: str) -> bytes:
    """The line of a watch with that selector; what no longer matches is told as deleted."""
    old, new = change.old, change.new
    if namespace and meta(change.object).get("namespace", "") != namespace:
        return b""
    before = old is not None and selects(selector, old)
    after = new is not None and selects(selector, new)
    if after:
        return _line("MODIFIED" if before else "ADDED", new)
    if not before:
        return b""
    gone = change.object if new is None else {**(old or {}), "metadata": {**meta(old or {}), "resourceVersion": str(change.version)}}
    return _line("DELETED", gone)


def _line(kind: str, item: Any) -> bytes:
    return encode({"type": kind, "object": item}) + b"\n"


def _status(code: int, reason: str, message: str) -> Object:
    return {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": message}


def _refused(code: int, reason: str, message: str) -> Response:
    return Response(code, encode(_status(code, reason, message)), {"Retry-After": "1"} if code == 429 else {})


_REFUSALS: Final = {
    "429": (429, "TooManyRequests", "not now"),
    "500": (500, "InternalError", "etcd is unwell"),
    "503": (503, "ServiceUnavailable", "starting"),
    "409": (409, "Conflict", "the object has been modified; please apply your changes to the latest version"),
}


def _unreachable(url: URL) -> aiohttp.ClientError:
    where: Any = SimpleNamespace(host=url.host, port=url.port, ssl=True, is_ssl=True)
    return aiohttp.ClientConnectorError(where, OSError(111, "refused"))


def _understood(who: str, method: str, url: URL, data: bytes | None, kind: str) -> Request:
    """The path taken apart: /api/v1 or /apis/group/version, a namespace perhaps, the kind, a name, a subresource."""
    assert method in WAYS
    parts = url.path.strip("/").split("/")
    count = 2 if parts[0] == "api" else 3
    root, rest = "/" + "/".join(parts[:count]), parts[count:]
    namespace = ""
    if len(rest) > 2 and rest[0] == "namespaces":
        namespace, rest = rest[1], rest[2:]
    params = {**dict(url.query), "root": root}
    if not rest:
        return Request(who, method, "", root, "", "", params, None, kind)
    plural, name, subresource = (*rest, "", "")[:3]
    body = msgspec.json.decode(data) if data else None
    return Request(who, method, plural, namespace, name, subresource, params, body, kind)
