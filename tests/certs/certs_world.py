"""A small world for the certificate tests: a clock that the test owns, and an API server that keeps objects and tells of changes."""

import asyncio
import heapq
import json
import ssl
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import msgspec

from certs.material import Material
from kube.errors import AlreadyExists, Conflict, Invalid, KubeError, NotFound
from kube.resources import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS, Resource

# OpenSSL judges handshakes by the machine's own clock, so virtual time starts at the real one. Nothing else depends on the date.
START = datetime.now(UTC).replace(microsecond=0)


class VirtualClock:
    """Time moves when the test says so; sleepers wake in order."""

    def __init__(self, start: datetime = START) -> None:
        self._now = start
        self._monotonic = 0.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._count = 0

    def now(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return self._monotonic

    async def sleep(self, seconds: float) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._count += 1
        heapq.heappush(self._sleepers, (self._monotonic + seconds, self._count, future))
        await future

    def jump(self, delta: timedelta) -> None:
        """The wall clock is set; nobody's sleep gets shorter."""
        self._now += delta

    def tick(self, delta: timedelta) -> None:
        """Time passes, without letting sleepers run in between."""
        self._now += delta
        self._monotonic += delta.total_seconds()

    async def advance(self, seconds: float) -> None:
        """Let that much time pass and everybody who is due act."""
        end = self._monotonic + seconds
        await settle()
        while self._sleepers and self._sleepers[0][0] <= end:
            moment, _, future = heapq.heappop(self._sleepers)
            self._now += timedelta(seconds=max(0.0, moment - self._monotonic))
            self._monotonic = max(self._monotonic, moment)
            if not future.done():
                future.set_result(None)
            await settle()
        self._now += timedelta(seconds=end - self._monotonic)
        self._monotonic = end


async def settle() -> None:
    """Let every task run until it waits."""
    for _ in range(20):
        await asyncio.sleep(0)


@dataclass(frozen=True)
class FakeEvent:
    type: str
    object: msgspec.Raw


@dataclass(frozen=True)
class FakePage:
    resource_version: str


@dataclass
class FakeCluster:
    """Objects by kind, namespace and name; resourceVersions, conflicts, JSON and merge patches, watches. `fail` breaks the next calls."""

    objects: dict[tuple[str, str | None, str], dict] = field(default_factory=dict)
    calls: list[tuple[str, str, str]] = field(default_factory=list)
    fail: Callable[[str, str], KubeError | None] = lambda _verb, _name: None
    before_write: Callable[[str, str], None] = lambda _verb, _name: None
    _version: int = 0
    _log: list[tuple[int, str, str, str, str | None, dict]] = field(default_factory=list)
    _news: list[asyncio.Event] = field(default_factory=list)

    def put(self, resource: Resource, name: str, body: dict, namespace: str | None = None) -> None:
        """Store an object as another writer would."""
        kind = "MODIFIED" if (resource.kind, namespace, name) in self.objects else "ADDED"
        self._store(kind, resource, name, namespace, body)

    def remove(self, resource: Resource, name: str, namespace: str | None = None) -> None:
        """Delete an object as another writer would."""
        self._store("DELETED", resource, name, namespace, self.objects.pop((resource.kind, namespace, name)))

    def find(self, resource: Resource, name: str, namespace: str | None = None) -> dict:
        return self.objects[resource.kind, namespace, name]

    def _store(self, kind: str, resource: Resource, name: str, namespace: str | None, body: dict) -> dict:
        self._version += 1
        body = json.loads(json.dumps(body))
        body.setdefault("metadata", {}).update(name=name, resourceVersion=str(self._version))
        if kind != "DELETED":
            self.objects[resource.kind, namespace, name] = body
        self._log.append((self._version, kind, resource.kind, name, namespace, body))
        for event in self._news:
            event.set()
        return body

    def _called(self, verb: str, resource: Resource, name: str) -> None:
        self.calls.append((verb, resource.kind, name))
        if verb != "get":
            self.before_write(verb, name)
        error = self.fail(verb, name)
        if error is not None:
            raise error

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> bytes:
        self._called("get", resource, name)
        await asyncio.sleep(0)
        found = self.objects.get((resource.kind, namespace, name))
        if found is None:
            raise NotFound(404, "NotFound", name)
        return json.dumps(found).encode()

    async def create(self, resource: Resource, body: bytes, namespace: str | None = None) -> bytes:
        wanted = json.loads(body)
        name = wanted["metadata"]["name"]
        self._called("create", resource, name)
        await asyncio.sleep(0)
        if (resource.kind, namespace, name) in self.objects:
            raise AlreadyExists(409, "AlreadyExists", name)
        return json.dumps(self._store("ADDED", resource, name, namespace, wanted)).encode()

    async def patch(self, resource: Resource, name: str, body: bytes, namespace: str | None = None, *, kind: str = "merge") -> bytes:
        self._called("patch", resource, name)
        await asyncio.sleep(0)
        found = self.objects.get((resource.kind, namespace, name))
        if found is None:
            raise NotFound(404, "NotFound", name)
        found = json.loads(json.dumps(found))
        change = json.loads(body)
        if kind == "merge":
            if change["metadata"]["resourceVersion"] != found["metadata"]["resourceVersion"]:
                raise Conflict(409, "Conflict", name)
            found.setdefault("data", {}).update(change["data"])
        else:
            for operation in change:
                _, _, index, *rest = operation["path"].split("/")
                if operation["op"] == "test":
                    hooks = found["webhooks"]
                    if int(index) >= len(hooks) or hooks[int(index)]["name"] != operation["value"]:
                        raise Invalid(422, "Invalid", "test failed")
                else:
                    assert rest == ["clientConfig", "caBundle"]
                    found["webhooks"][int(index)]["clientConfig"]["caBundle"] = operation["value"]
        return json.dumps(self._store("MODIFIED", resource, name, namespace, found)).encode()

    async def pages(
        self, resource: Resource, namespace: str | None = None, *, field_selector: str | None = None
    ) -> AsyncIterator[FakePage]:
        self._called("get", resource, "")
        yield FakePage(str(self._version))

    async def watch(
        self, resource: Resource, namespace: str | None = None, *, resource_version: str, field_selector: str | None = None
    ) -> AsyncIterator[FakeEvent]:
        self._called("get", resource, "")
        seen = int(resource_version)
        news = asyncio.Event()
        self._news.append(news)
        wanted = (field_selector or "").removeprefix("metadata.name=")
        while True:
            news.clear()
            for version, kind, of, name, where, body in list(self._log):
                if version > seen and (of, where, name) == (resource.kind, namespace, wanted):
                    yield FakeEvent(kind, msgspec.Raw(json.dumps(body).encode()))
            seen = self._version
            await news.wait()


def webhook_configuration(*names: str, bundle: str | None = None) -> dict:
    """A webhook configuration as an installer leaves it."""
    config = {"service": {"name": "modelwarden", "namespace": "modelwarden-system"}} | ({"caBundle": bundle} if bundle is not None else {})
    return {"metadata": {}, "webhooks": [{"name": name, "clientConfig": dict(config)} for name in names]}


def install(cluster: FakeCluster) -> None:
    """Both of our configurations, without a bundle."""
    cluster.put(VALIDATING_WEBHOOKS, "modelwarden-validating", webhook_configuration("a.modelwarden", "b.modelwarden"))
    cluster.put(MUTATING_WEBHOOKS, "modelwarden-mutating", webhook_configuration("c.modelwarden"))


def bundles(cluster: FakeCluster) -> list[str | None]:
    """Every `caBundle` of both configurations."""
    return [
        webhook["clientConfig"].get("caBundle")
        for resource, name in ((VALIDATING_WEBHOOKS, "modelwarden-validating"), (MUTATING_WEBHOOKS, "modelwarden-mutating"))
        for webhook in cluster.find(resource, name)["webhooks"]
    ]


def client_trusting(bundle: bytes) -> ssl.SSLContext:
    """A client as strict as an API server."""
    context = ssl.create_default_context(cadata=bundle.decode())
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def handshake(server: ssl.SSLContext, material_bundle: bytes, name: str | None = "modelwarden.modelwarden-system.svc") -> bytes:
    """Shake hands in memory as an API server that trusts that bundle; the served certificate's DER. Raises ssl.SSLError."""
    client = client_trusting(material_bundle)
    if name is None:
        client.check_hostname = False
    c_in, c_out, s_in, s_out = (ssl.MemoryBIO() for _ in range(4))
    left = client.wrap_bio(c_in, c_out, server_hostname=name)
    right = server.wrap_bio(s_in, s_out, server_side=True)
    done = [False, False]
    for _ in range(20):
        for index, side in enumerate((left, right)):
            try:
                side.do_handshake()
                done[index] = True
            except ssl.SSLWantReadError:
                pass
            s_in.write(c_out.read())
            c_in.write(s_out.read())
        if all(done):
            return left.getpeercert(binary_form=True) or b""
    raise AssertionError("the handshake did not end")


def serial(material: Material | None) -> int:
    """The serving certificate's serial number."""
    assert material is not None
    return material.serving.certificate.serial_number
