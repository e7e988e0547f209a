"""A thin client of the Kubernetes API: raw JSON in and out, and nothing of HTTP hidden.

Callers decode with msgspec into structs that name only what they read. Lists come in pages, watches with bookmarks; a 410 is told as
Gone and never papered over. Requests have deadlines on both sides. What is sent again, and when, follows from the error's type
(`kube.retry`): a read repeats whatever may pass by itself, a write only what was certainly not carried out.
"""

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Generic, Literal, Self, TypeVar

import aiohttp
import msgspec

from kube import metrics
from kube.errors import Gone, KubeError, NotFound, TransportError, error_from
from kube.lines import LineSplitter
from kube.resources import Resource
from kube.retry import RetryPolicy
from kube.session import Session
from kube.shallow import decoded

T = TypeVar("T")
PatchKind = Literal["merge", "json", "strategic", "apply"]

REQUEST_SECONDS: Final = 30.0
PAGE_SECONDS: Final = 60.0
# A watch lives for minutes, but its headers come at once: a server that hangs before them must not look like a quiet kind.
WATCH_ANSWER_SECONDS: Final = 30.0
WATCH_SECONDS: Final = 300
# How much later than the server's own time-out a watch is given up.
WATCH_GRACE: Final = 30.0
# A list that loses its continue token this often is asked for whole.
RESTARTS_IN_PAGES: Final = 2

_CONTENT_TYPES: Final[Mapping[PatchKind, str]] = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a list. `number` counts from 0; a later page that is numbered 0 again starts the list anew, and all before it is void.

    The items point into the page's own buffer: decode them or copy them, do not keep them. They are values of the shape that was asked
    for, unless some item of the page does not have it (`shaped` is False then). `size` is the answer's bytes.
    """

    items: list[Any]
    resource_version: str
    number: int = 0
    last: bool = True
    size: int = 0
    shaped: bool = False
    data: bytes = b""

    def raws(self) -> list[msgspec.Raw]:
        """The items as they came, also where they have their shape."""
        return _decode(self.data, _List).items or [] if self.shaped else self.items


@dataclass(frozen=True, slots=True)
class Event:
    """One line of a watch: ADDED, MODIFIED, DELETED or BOOKMARK, and the object as it came."""

    type: str
    object: msgspec.Raw


class _ListMeta(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")


class _List(msgspec.Struct, frozen=True, rename="camel"):
    metadata: _ListMeta = _ListMeta()
    items: list[msgspec.Raw] | None = None


class _ListOf(msgspec.Struct, Generic[T], frozen=True, rename="camel"):
    metadata: _ListMeta = _ListMeta()
    items: list[T] | None = None


@cache
def _decoder_of(shape: type[Any]) -> "msgspec.json.Decoder[_ListOf[Any]]":
    return msgspec.json.Decoder(_ListOf[shape])  # type: ignore[valid-type]  # a type known at run time


class _WatchLine(msgspec.Struct, frozen=True):
    type: str
    object: msgspec.Raw


class _ServedResource(msgspec.Struct, frozen=True):
    name: str = ""


class _ServedList(msgspec.Struct, frozen=True):
    resources: list[_ServedResource] | None = None


class Client:
    """Talks to one API server. Made by `kube.config.connect`; closed by whoever made it."""

    def __init__(self, session: Session, retry: RetryPolicy) -> None:
        self._session = session
        self._retry = retry

    @property
    def default_namespace(self) -> str:
        """The namespace that the kubeconfig's context or the service account names."""
        return self._session.namespace

    async def close(self) -> None:
        """Drop every connection."""
        await self._session.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # ------------------------------------------------------------------------------------------------------------- reads

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> bytes:
        """One object, uncached. Raises NotFound and the rest of the tree."""
        return await self._call("GET", resource.path(namespace, name))

    async def pages(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        label_selector: str | None = None,
        field_selector: str | None = None,
        limit: int = 500,
        shape: type[Any] | None = None,
    ) -> AsyncGenerator[Page, None]:
        """The list, page by page, as of one resourceVersion. A continue token that expired in the middle restarts it (see Page).

        `shape`: a msgspec type of the items; decoding a page straight into it spares a walk over every byte.
        """
        base = _params(labelSelector=label_selector, fieldSelector=field_selector)
        token = ""
        number = restarts = 0
        while True:
            params = dict(base)
            if restarts <= RESTARTS_IN_PAGES:
                params["limit"] = str(limit)
            if token:
                params["continue"] = token
            try:
                data = await self._call("GET", resource.path(namespace), params, seconds=PAGE_SECONDS)
            except Gone:
                if not token:
                    raise
                token, number, restarts = "", 0, restarts + 1
                metrics.RETRIES.labels("continue-expired").inc()
                continue
            listing, shaped = _listing(data, shape)
            token = listing.metadata.continue_
            yield Page(listing.items or [], listing.metadata.resource_version, number, not token, len(data), shaped, data)
            if not token:
                return
            number += 1

    async def watch(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        resource_version: str,
        label_selector: str | None = None,
        field_selector: str | None = None,
        timeout_seconds: int = WATCH_SECONDS,
    ) -> AsyncGenerator[Event, None]:
        """Changes after `resource_version`, bookmarks included, until the server's time-out ends the stream.

        Raises Gone where that version is no longer kept (as HTTP status or as an ERROR line), TransportError when the stream breaks.
        """
        params = _params(
            watch="true",
            allowWatchBookmarks="true",
            resourceVersion=resource_version,
            labelSelector=label_selector,
            fieldSelector=field_selector,
            timeoutSeconds=str(timeout_seconds),
        )
        timeout = aiohttp.ClientTimeout(total=timeout_seconds + WATCH_GRACE, sock_connect=10.0)
        opened = self._session.open("GET", resource.path(namespace), params, timeout=timeout, answer_within=WATCH_ANSWER_SECONDS)
        async with opened as response:
            lines = LineSplitter()
            async for chunk in response.content.iter_any():
                for line in lines.feed(chunk):
                    event = _decode(line, _WatchLine)
                    if event.type == "ERROR":
                        raise error_from(0, bytes(event.object))
                    yield Event(event.type, event.object)
            if lines.rest:
                raise TransportError("the stream ended in the middle of a line")

    async def serves(self, resource: Resource) -> bool:
        """Whether discovery lists the resource in its group and version. Asked anew each time."""
        try:
            data = await self._call("GET", resource.root)
        except NotFound:
            return False
        return any(entry.name == resource.plural for entry in _decode(data, _ServedList).resources or ())

    async def version(self) -> dict[str, Any]:
        """The server's `/version`."""
        return _decode(await self._call("GET", "/version"), dict[str, Any])

    # ------------------------------------------------------------------------------------------------------------ writes

    async def create(
        self, resource: Resource, body: bytes, namespace: str | None = None, *, dry_run: bool = False, field_manager: str | None = None
    ) -> bytes:
        """POST. Raises AlreadyExists when the name is taken."""
        params = _params(dryRun="All" if dry_run else None, fieldManager=field_manager)
        return await self._call("POST", resource.path(namespace), params, body=body)

    async def replace(
        self, resource: Resource, name: str, body: bytes, namespace: str | None = None, *, subresource: str | None = None
    ) -> bytes:
        """PUT of the whole object. Raises Conflict when its resourceVersion is stale."""
        return await self._call("PUT", resource.path(namespace, name, subresource), body=body)

    async def patch(
        self,
        resource: Resource,
        name: str,
        body: bytes,
        namespace: str | None = None,
        *,
        kind: PatchKind = "merge",
        subresource: str | None = None,
        dry_run: bool = False,
        field_manager: str | None = None,
        force: bool = False,
    ) -> bytes:
        """PATCH. A body that carries `metadata.resourceVersion` raises Conflict when that is stale. `force` is for kind "apply"."""
        if kind == "apply" and not field_manager:
            raise ValueError("an apply patch needs a field manager")
        params = _params(dryRun="All" if dry_run else None, fieldManager=field_manager, force="true" if force and kind == "apply" else None)
        path = resource.path(namespace, name, subresource)
        return await self._call("PATCH", path, params, body=body, content_type=_CONTENT_TYPES[kind])

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        grace_seconds: int | None = None,
    ) -> bytes:
        """DELETE. With `uid` or `resource_version` the server refuses (Conflict) an object that is not that one."""
        if uid == "":
            raise ValueError("an empty UID is no precondition: it would delete whatever bears the name")
        preconditions = _params(uid=uid, resourceVersion=resource_version)
        options: dict[str, Any] = {"kind": "DeleteOptions", "apiVersion": "v1"}
        if preconditions:
            options["preconditions"] = preconditions
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        return await self._call("DELETE", resource.path(namespace, name), body=msgspec.json.encode(options))

    # ----------------------------------------------------------------------------------------------------------- sending

    async def _call(
        self,
        method: str,
        path: str,
        params: Mapping[str, str] | None = None,
        *,
        body: bytes | None = None,
        content_type: str = "application/json",
        seconds: float = REQUEST_SECONDS,
    ) -> bytes:
        attempt = 0
        while True:
            attempt += 1
            try:
                return await self._session.request(method, path, params, body=body, content_type=content_type, seconds=seconds)
            except KubeError as error:
                if attempt >= self._retry.attempts or not self._retry.may_repeat(error, read=method == "GET"):
                    raise
                metrics.RETRIES.labels(type(error).__name__).inc()
                await self._retry.sleep(self._retry.delay(attempt, error))


def _params(**values: str | None) -> dict[str, str]:
    return {key: value for key, value in values.items() if value is not None}


def _listing(data: bytes, shape: type[Any] | None) -> tuple[_List | _ListOf[Any], bool]:
    """A page, and whether its items are of that shape. One item amiss leaves them all as they came: the caller looks at each."""
    if shape is not None:
        try:
            return _decoder_of(shape).decode(data), True  # type: ignore[arg-type]  # a class is hashable
        except (msgspec.ValidationError, RecursionError):
            pass
    return _decode(data, _List), False


def _decode(data: bytes, kind: type[T]) -> T:
    """An answer that is no JSON of the expected shape is a broken answer, not an empty one. Of a too deep one, what is not too deep."""
    try:
        return decoded(lambda text: msgspec.json.decode(text, type=kind), data)
    except (msgspec.MsgspecError, RecursionError) as fault:
        raise TransportError(f"the answer cannot be read: {fault}") from fault
