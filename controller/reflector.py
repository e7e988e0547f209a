"""One kind kept in step with the API server: list in pages, then watch from that list's version, for as long as the process lives.

A 410 means list again and tell the differences, deletions among them. A list that failed is never an empty list: what was known stays, the
kind is marked unreadable, and no status is written until a list succeeds. A broken watch goes on from the last version seen, bookmarks
included; its state is that version and nothing else. A kind that is not served reads as empty where the table allows it, and is asked for
again when somebody rings `appeared` (a CustomResourceDefinition came), or after a long while.
"""

import asyncio
import random
from collections.abc import Callable
from contextlib import aclosing
from functools import cached_property
from typing import Any, Final

import msgspec
import structlog
from prometheus_client import Gauge

from api.clock import Clock
from controller import metrics
from controller.cache import Cache
from controller.keeping import Keeping
from controller.kinds import Kind, KindName, read_metadata
from controller.store import Change, Key, ObjectMap, Store
from controller.waiting import first_of
from kube.client import Client, Event, Page
from kube.errors import ApiError, ConnectFailed, Gone, KubeError, NotFound, ServerError, TooManyRequests, TransportError
from kube.resources import Resource

FIRST_WAIT: Final = 0.8
LONGEST_WAIT: Final = 30.0
# A connection that is refused costs nobody anything and says nothing of a server's load: the wait grows up to the third one only, or a
# server that is back would be heard of half a minute late.
MOST_UNCONNECTED: Final = 3
ABSENT_RECHECK: Final = 600.0
SHORTEST_WATCH: Final = 300
LONGEST_WATCH: Final = 600
# A definition comes before discovery knows of it: look a few times more.
HOPEFUL_WAITS: Final = (0.5, 1.0, 2.0, 4.0, 8.0)
# A watch that cannot be opened again for so long leaves the kind unreadable: what is known may be long untrue.
BLIND_SECONDS: Final = 60.0
# Two starts of a watch are at least this far apart: who ends every watch at once, a server or a proxy, is not asked without a breath.
LEAST_WATCH: Final = 1.0
# An attempt that lasted longer had been connected before it broke.
LONGEST_OPENING: Final = 15.0

log = structlog.get_logger("controller.reflector")


class Reflector:
    """Feeds one store. `on_keys` gets the deployments that a change concerns, `on_readable` is told when reading turns good or bad.

    With a `keeping` the list is taken anew when more is to be kept; `listed` is its serial when the last list began, `on_listed` is told.
    """

    def __init__(
        self,
        client: Client,
        kind: Kind,
        cache: Cache,
        clock: Clock,
        *,
        namespace: str | None = None,
        page_size: int = 500,
        on_keys: Callable[[set[Key]], None],
        on_readable: Callable[[], None],
        keeping: Keeping | None = None,
        on_listed: Callable[[], None] = lambda: None,
        rand: Callable[[], float] = random.random,
    ) -> None:
        self._client = client
        self.kind = kind
        self._cache = cache
        self._store: Store = cache.stores[kind.name]
        self._clock = clock
        self._namespace = namespace
        self._page_size = page_size
        self._on_keys = on_keys
        self._on_readable = on_readable
        self._keeping = keeping
        self._on_listed = on_listed
        self.listed = -1
        self._rand = rand
        self._resource: Resource | None = None
        self._version = ""
        self._hopes: list[float] = []
        self._failures = 0
        self._unconnected = 0
        self._contact = clock.monotonic()
        self.readable = False
        self.synced = False
        self.reason = "not listed yet"
        self.served: bool | None = None
        self.appeared = asyncio.Event()

    # Children of labelled metrics, looked up once, for every event of a watch sets them; and not before, for an unknown count is no zero.

    @cached_property
    def _count(self) -> Gauge:
        return metrics.CACHED.labels(self.kind.name)

    @cached_property
    def _last_contact(self) -> Gauge:
        return metrics.CACHE_EVENT.labels(self.kind.name)

    # ------------------------------------------------------------------------------------------------------------- loop

    async def run(self) -> None:
        """List and watch until cancelled."""
        while True:
            try:
                listed = await self._list()
            except KubeError as error:
                metrics.LIST_FAILURES.labels(self.kind.name).inc()
                self._unreadable(f"list failed: {error}")
                await self._back_off(error)
                continue
            if not listed:
                await self._wait_until_served()
                continue
            if self._keeping is None:
                await self._watch_until_stale()
            else:
                await first_of(self._watch_until_stale(), self._keeping.outgrown(self.listed))

    async def _watch_until_stale(self) -> None:
        """Watch again and again from where the last one ended; return when only a new list helps."""
        broken: float | None = None
        while True:
            began = self._clock.monotonic()
            try:
                await self._watch()
            except Gone as error:
                self._restarted("gone")
                await self._relist_after(error)
                return
            except (TransportError, TooManyRequests, ServerError) as error:
                self._restarted(type(error).__name__)
                now = self._clock.monotonic()
                if broken is None or now - began > LONGEST_OPENING or self._contact >= began:
                    broken = now  # this one had been open: only what follows is blindness
                if now - broken > BLIND_SECONDS:
                    self._unreadable(f"watch failed: {error}")
                    await self._back_off(error)
                    return
                await self._back_off(error)
            except ApiError as error:
                self._restarted(type(error).__name__)
                await self._relist_after(error)
                return
            else:
                broken = None
                self._restarted("timeout")
                if (early := LEAST_WATCH - (self._clock.monotonic() - began)) > 0:
                    await self._clock.sleep(early)

    def _restarted(self, reason: str) -> None:
        metrics.WATCH_RESTARTS.labels(self.kind.name, reason).inc()
        log.debug("watch ended", kind=str(self.kind.name), reason=reason)

    async def _relist_after(self, error: KubeError) -> None:
        """At once the first time; a server that ends every watch so must not be asked for list after list."""
        if self._failures:
            await self._back_off(error)
        else:
            self._failures = 1

    async def _back_off(self, error: KubeError) -> None:
        if isinstance(error, ConnectFailed):
            self._unconnected = min(self._unconnected + 1, MOST_UNCONNECTED)
            count = self._unconnected
        else:
            self._unconnected = 0
            self._failures += 1
            count = self._failures
        wait = min(FIRST_WAIT * 2 ** min(count - 1, 30), LONGEST_WAIT) * (0.5 + 0.5 * self._rand())
        await self._clock.sleep(max(wait, min(error.retry_after or 0.0, LONGEST_WAIT)))

    # ------------------------------------------------------------------------------------------------------------- list

    async def _list(self) -> bool:
        """Take the whole list into the store. False when the kind is not served and that means "no objects"."""
        started = self._clock.monotonic()
        serial = self._keeping.serial if self._keeping is not None else 0
        resource = await self._served_resource()
        if resource is None:
            return False
        fresh = ObjectMap()
        version = ""
        size = 0
        try:
            kind = self.kind
            pages = self._client.pages(
                resource, self._namespace, label_selector=kind.label_selector, limit=self._page_size, shape=kind.shape
            )
            async with aclosing(pages):
                async for page in pages:
                    if page.number == 0:
                        fresh, size = ObjectMap(), 0
                    for item in self._projected(page):
                        self._store.collect(item, fresh)
                    version = page.resource_version
                    size += page.size
        except NotFound:
            self._resource = None  # the version went away: look again which one is served
            if self.kind.must_be_served or await self._served_resource() is not None:
                raise
            return False
        if not version:
            raise TransportError(f"the list of {resource.plural} bears no resourceVersion")
        self._version = version
        self.served = True
        self._commit(fresh)
        metrics.LIST_SECONDS.labels(self.kind.name).observe(self._clock.monotonic() - started)
        metrics.LIST_BYTES.labels(self.kind.name).set(size)
        self._heard()
        self.listed = serial
        self._become_readable()
        self._on_listed()
        return True

    async def _served_resource(self) -> Resource | None:
        """The newest version that is served. Kinds of one version are simply asked for: their list answers 404 where they are not."""
        if self._resource is None:
            if len(self.kind.resources) == 1:
                self._resource = self.kind.resources[0] if self.kind.must_be_served else await self._first_served()
            else:
                self._resource = await self._first_served()
            if self._resource is None:
                self.served = False
                if self.kind.must_be_served:
                    raise NotFound(404, "NotFound", f"the API server serves no {self.kind.resources[0].plural}")
                self._commit(ObjectMap())
                self._fall_silent()
                self._become_readable()
        return self._resource

    async def _first_served(self) -> Resource | None:
        for resource in self.kind.resources:
            if await self._client.serves(resource):
                return resource
        return None

    def _projected(self, page: Page) -> list[Any]:
        """The page's objects that are kept. Where one is amiss, each is looked at by itself."""
        if page.shaped:
            try:
                found = [self.kind.shrink(item) for item in page.items]
            except (msgspec.MsgspecError, RecursionError):
                found = [self._project(raw) for raw in page.raws()]
        else:
            found = [self._project(raw) for raw in page.items]
        return [item for item in found if item is not None]

    def _project(self, raw: msgspec.Raw | bytes) -> Any:
        """The projection. Of an object that does not have its shape the metadata still counts: it exists, and nothing else is known."""
        try:
            return self.kind.project(raw)
        except (msgspec.MsgspecError, RecursionError) as fault:
            meta = read_metadata(raw).metadata
            metrics.UNREADABLE_OBJECTS.labels(self.kind.name).inc()
            log.warning("object cannot be read", kind=str(self.kind.name), namespace=meta.namespace, name=meta.name, error=str(fault))
            if self.kind.name is KindName.DEPLOYMENT:
                return None  # a status judged from an empty spec would be a lie; none is written
            return self.kind.project(msgspec.json.encode({"metadata": msgspec.to_builtins(meta)}))

    def _commit(self, fresh: ObjectMap) -> None:
        concerned: set[Key] = set()
        for change in self._store.replace(fresh):
            concerned |= self._cache.note(self.kind.name, change)
        metrics.CACHED.labels(self.kind.name).set(len(self._store.objects))
        self._on_keys(concerned)

    async def _wait_until_served(self) -> None:
        self._resource = None
        log.debug("kind is not served", kind=str(self.kind.name))
        wait = self._hopes.pop(0) if self._hopes else ABSENT_RECHECK * (1 + self._rand())
        self.appeared.clear()
        await first_of(self.appeared.wait(), self._clock.sleep(wait))
        if self.appeared.is_set():
            self._hopes = list(HOPEFUL_WAITS)

    # ------------------------------------------------------------------------------------------------------------ watch

    async def _watch(self) -> None:
        resource = self._resource
        if resource is None:
            raise RuntimeError("a watch before the first list")
        seconds = int(SHORTEST_WATCH + (LONGEST_WATCH - SHORTEST_WATCH) * self._rand())
        events = self._client.watch(
            resource,
            self._namespace,
            resource_version=self._version,
            label_selector=self.kind.label_selector,
            timeout_seconds=seconds,
        )
        async with aclosing(events):
            async for event in events:
                self._apply(event)
                self._failures = self._unconnected = 0
        self._heard()
        self._failures = self._unconnected = 0

    def _apply(self, event: Event) -> None:
        change: Change | None = None
        match event.type:
            case "ADDED" | "MODIFIED":
                item = self._project(event.object)
                meta = item.metadata if item is not None else read_metadata(event.object).metadata
                change = self._store.put(item) if item is not None else self._store.drop(meta)
            case "DELETED":
                meta = read_metadata(event.object).metadata
                change = self._store.drop(meta)
            case "BOOKMARK":
                meta = read_metadata(event.object).metadata
            case other:
                raise TransportError(f"a watch event of the unknown type {other!r}")
        if meta.resource_version:
            self._version = meta.resource_version
        self._heard()
        if change is not None:
            self._count.set(len(self._store.objects))
            self._on_keys(self._cache.note(self.kind.name, change))

    # ------------------------------------------------------------------------------------------------------- readability

    def _heard(self) -> None:
        self._contact = self._clock.monotonic()
        self._last_contact.set(self._clock.now().timestamp())

    def _fall_silent(self) -> None:
        """Nothing is heard of what is not served: no age of it is to grow, and raise an alarm."""
        if "_last_contact" in self.__dict__:
            del self.__dict__["_last_contact"]
            metrics.CACHE_EVENT.remove(self.kind.name)

    def _become_readable(self) -> None:
        self.synced = True
        metrics.READABLE.labels(self.kind.name).set(1)
        if not self.readable:
            self.readable, self.reason = True, ""
            self._on_readable()

    def _unreadable(self, reason: str) -> None:
        metrics.READABLE.labels(self.kind.name).set(0)
        if self.readable or self.reason != reason:
            log.warning("kind cannot be read; no status is written", kind=str(self.kind.name), reason=reason)
        changed = self.readable
        self.readable, self.reason = False, reason
        if changed:
            self._on_readable()


def unsynced(reflectors: dict[KindName, Reflector]) -> dict[str, str]:
    """The kinds that were never read, each with its reason."""
    return {str(name): reflector.reason for name, reflector in reflectors.items() if not reflector.synced}
