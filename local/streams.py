"""Watches: the stream of one resource's changes from a version on, as lines of JSON.

A follower is registered in the same step in which its start is read, so nothing falls between. Lines are encoded once for all who watch.
"""

import asyncio
from collections.abc import Callable, Iterator

from aiohttp import web

from local import statuses
from local.answering import METADATA, TABLE, Representation
from local.asking import Asked
from local.conversion import show
from local.faults import Faults
from local.options import whole_number
from local.selectors import compile_selectors
from local.statuses import StatusError
from local.store import ADDED, Change, Store, Table, Watcher
from local.wire import JSON, decode, encode

Row = Callable[[JSON, bool], JSON]

DEFAULT_SECONDS = 1800
_BATCH = 256


class Streams:
    """Opens and feeds watches."""

    def __init__(self, store: Store, faults: Faults, *, bookmark_seconds: float = 10.0) -> None:
        self._store = store
        self._faults = faults
        self._bookmark_seconds = bookmark_seconds

    async def watch(self, request: web.BaseRequest, asked: Asked, representation: Representation, row: Row) -> web.StreamResponse:
        """Serve one watch until its time is over, it is dropped, or the client goes."""
        query = request.query
        matches = compile_selectors(asked.served, query.get("labelSelector", ""), query.get("fieldSelector", ""))
        if asked.name:
            by_name = asked.name
            inner = matches
            matches = lambda entry: entry.key[1] == by_name and (inner is None or inner(entry))  # noqa: E731  a second test around the first
        seconds = whole_number(request, "timeoutSeconds") or DEFAULT_SECONDS
        stream = _Stream(self._store, asked, representation, row, self._faults, bookmarks=query.get("allowWatchBookmarks") == "true")
        watcher = Watcher(asked.namespace, matches)
        table = self._store.table(asked.served.table)
        try:
            first = self._start(request, table, watcher, stream)
            fault = None
        except StatusError as gone:
            if gone.code != 410:
                raise
            first, fault = iter(()), gone
        answer = web.StreamResponse(headers={"Content-Type": "application/json", "Cache-Control": "no-cache, private"})
        answer.enable_chunked_encoding()
        table.watchers.add(watcher)
        try:
            await answer.prepare(request)
            await _send(answer, first)
            if fault is not None:
                await answer.write(_error(fault))
            else:
                await self._follow(answer, watcher, stream, seconds)
            if not (watcher.ended and watcher.fault is None):
                await answer.write_eof()
            elif request.transport is not None:
                request.transport.close()  # dropped: the connection breaks, as it would
        except (ConnectionError, asyncio.CancelledError):
            if request.transport is not None and not request.transport.is_closing():
                raise
        finally:
            table.watchers.discard(watcher)
        return answer

    def _start(self, request: web.BaseRequest, table: Table, watcher: Watcher, stream: "_Stream") -> Iterator[bytes]:
        """What is sent before anything new happens."""
        query = request.query
        version = query.get("resourceVersion", "")
        wants_initial = query.get("sendInitialEvents", "")
        if wants_initial == "true" and query.get("resourceVersionMatch") != "NotOlderThan":
            raise statuses.StatusError(
                422, "Invalid", "resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
            )
        if version and not (version.isascii() and version.isdigit()):
            raise statuses.bad_request(f'resourceVersion: Invalid value: "{version}": must be a number')
        if wants_initial == "true" or (version in {"", "0"} and wants_initial != "false"):
            lines = stream.initial(table, watcher)
            return iter([*lines, stream.bookmark(initial=True)]) if wants_initial == "true" else lines
        rv = int(version or self._store.revision)
        if rv > self._store.revision:
            raise StatusError(504, "Timeout", f"Too large resource version: {rv}, current: {self._store.revision}", retry_after=1)
        missed = [(kind, change) for change in table.since(rv) if (kind := watcher.kind_of(change))]
        return iter([line for kind, change in missed for line in stream.lines(kind, change)])

    async def _follow(self, answer: web.StreamResponse, watcher: Watcher, stream: "_Stream", seconds: int) -> None:
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while (left := end - loop.time()) > 0:
            if not await watcher.wait(min(left, self._bookmark_seconds)):
                if stream.bookmarks:
                    await answer.write(stream.bookmark())
                continue
            batch: list[bytes] = []
            while watcher.queue and len(batch) < _BATCH:
                batch += stream.lines(*watcher.queue.popleft())
            if batch:
                await answer.write(b"".join(batch))
            if watcher.ended and not watcher.queue:
                if watcher.fault is not None:
                    await answer.write(_error(watcher.fault))
                return
        if stream.bookmarks and not watcher.queue:
            await answer.write(stream.bookmark())


class _Stream:
    """How changes become lines for one client."""

    def __init__(self, store: Store, asked: Asked, representation: Representation, row: Row, faults: Faults, *, bookmarks: bool) -> None:
        self._store = store
        self._served = asked.served
        self._kind = representation.kind
        self._row = row
        self._faults = faults
        self._heads = True
        self.bookmarks = bookmarks

    def initial(self, table: Table, watcher: Watcher) -> Iterator[bytes]:
        """Every present object as ADDED; taken now, sent as the client reads."""
        entries = [table.entries[key] for key in table.keys(watcher.namespace)]
        chosen = [entry for entry in entries if watcher.matches is None or watcher.matches(entry)]
        return (self._line(ADDED, show(self._served, entry.body)) for entry in chosen)

    def lines(self, kind: str, change: Change) -> list[bytes]:
        """A change's line, twice where a test asked for that."""
        if self._kind in {TABLE, METADATA}:
            line = self._line(kind, show(self._served, change.body(kind)))
        else:
            line = change.line(kind, self._served.api_version, lambda body: show(self._served, body))
        return [line] * self._faults.copies(self._served.plural)

    def _line(self, kind: str, body: bytes) -> bytes:
        if self._kind in {TABLE, METADATA}:
            body = encode(self._row(decode(body), self._heads))
            self._heads = False
        return b'{"type":"' + kind.encode() + b'","object":' + body + b"}\n"

    def bookmark(self, *, initial: bool = False) -> bytes:
        """A BOOKMARK at the present version."""
        meta: JSON = {"resourceVersion": str(self._store.revision), "creationTimestamp": None}
        if initial:
            meta["annotations"] = {"k8s.io/initial-events-end": "true"}
        obj: JSON = {"kind": self._served.kind, "apiVersion": self._served.api_version, "metadata": meta}
        if self._kind == TABLE:
            obj = {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {"resourceVersion": str(self._store.revision)}}
            obj |= {"columnDefinitions": None, "rows": [{"cells": None, "object": {"metadata": meta}}]}
        return encode({"type": "BOOKMARK", "object": obj}) + b"\n"


async def _send(answer: web.StreamResponse, lines: Iterator[bytes]) -> None:
    batch: list[bytes] = []
    for line in lines:
        batch.append(line)
        if len(batch) == _BATCH:
            await answer.write(b"".join(batch))
            batch = []
    if batch:
        await answer.write(b"".join(batch))


def _error(fault: StatusError) -> bytes:
    return encode({"type": "ERROR", "object": fault.body()}) + b"\n"
