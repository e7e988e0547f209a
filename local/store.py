"""The store: encoded objects by table, one resourceVersion counter, a bounded history per table, and the watchers that follow it.

An object is kept as its bytes plus what selectors ask for, so 10,000 Pods cost their JSON and a list costs a join. The history keeps each
change with what stood before, which is enough to serve a page of an older list and to tell a selector's watcher what came or went.
"""

import asyncio
from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Callable, Iterator

from local import statuses
from local.wire import JSON, decode, encode_object

Key = tuple[str, str]  # namespace ("" where cluster-scoped), name
TableName = tuple[str, str]  # group, plural

MOST_BEHIND = 16384

ADDED, MODIFIED, DELETED = "ADDED", "MODIFIED", "DELETED"


class Entry:
    """A stored object."""

    __slots__ = ("body", "fields", "key", "labels", "owners", "rv", "uid")

    def __init__(self, key: Key, rv: int, body: bytes, obj: JSON, selectable: tuple[str, ...]) -> None:
        meta = obj["metadata"]
        self.key = key
        self.rv = rv
        self.body = body
        self.uid: str = meta["uid"]
        self.labels: dict[str, str] = meta.get("labels") or {}
        self.fields: dict[str, str] = {path: dig(obj, path) for path in selectable} if selectable else NOTHING
        self.owners: tuple[str, ...] = tuple(ref.get("uid", "") for ref in meta.get("ownerReferences") or ())

    def object(self) -> JSON:
        """A fresh copy of the object."""
        out: JSON = decode(self.body)
        return out


NOTHING: dict[str, str] = {}


def dig(obj: JSON, path: str) -> str:
    """The text at a dotted path, empty where there is none."""
    value: object = obj
    for part in path.removeprefix(".").split("."):
        value = value.get(part) if isinstance(value, dict) else None
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


class Change:
    """One write, as watchers see it."""

    __slots__ = ("_lines", "entry", "previous", "rv", "type")

    def __init__(self, kind: str, entry: Entry, previous: Entry | None) -> None:
        self.type = kind
        self.rv = entry.rv
        self.entry = entry
        self.previous = previous
        self._lines: dict[tuple[str, str], bytes] = {}

    def body(self, kind: str) -> bytes:
        """What a follower is shown. One whose selector the object left sees it as it last was, at the version of the change."""
        if kind != DELETED or self.type == DELETED or self.previous is None:
            return self.entry.body
        obj = self.previous.object()
        obj["metadata"]["resourceVersion"] = str(self.rv)
        return encode_object(obj)

    def line(self, kind: str, wanted: str, show: Callable[[bytes], bytes]) -> bytes:
        """The watch line, encoded once however many watch."""
        line = self._lines.get((kind, wanted))
        if line is None:
            line = b'{"type":"' + kind.encode() + b'","object":' + show(self.body(kind)) + b"}\n"
            self._lines[kind, wanted] = line
        return line


Matches = Callable[[Entry], bool]


class Watcher:
    """One follower of a table: a queue of changes and a bell. One that does not read is dropped, and may begin where it stopped."""

    __slots__ = ("_bell", "ended", "fault", "matches", "namespace", "queue")

    def __init__(self, namespace: str, matches: Matches | None) -> None:
        self.namespace = namespace
        self.matches = matches
        self.queue: deque[tuple[str, Change]] = deque()
        self.fault: statuses.StatusError | None = None
        self.ended = False
        self._bell = asyncio.Event()

    def offer(self, change: Change) -> None:
        """Queue a change if this follower may see it, under the type that it means to it."""
        kind = self.kind_of(change)
        if not kind or self.ended:
            return
        self.queue.append((kind, change))
        self._bell.set()
        if len(self.queue) > MOST_BEHIND:
            self.queue.clear()
            self.end()

    def kind_of(self, change: Change) -> str:
        """ADDED, MODIFIED, DELETED, or nothing."""
        if self.namespace and change.entry.key[0] != self.namespace:
            return ""
        if self.matches is None:
            return change.type
        now = change.type != DELETED and self.matches(change.entry)
        before = change.previous is not None and self.matches(change.previous)
        if now:
            return MODIFIED if before else ADDED
        return DELETED if before else ""

    def end(self, fault: statuses.StatusError | None = None) -> None:
        """Close the stream, with an ERROR event first where a fault is given."""
        self.fault = fault
        self.ended = True
        self._bell.set()

    async def wait(self, timeout: float) -> bool:  # noqa: ASYNC109  the queue's own time-out, in the shape of Condition.wait
        """True when something came, False after the time-out."""
        if not self.queue and not self.ended:
            self._bell.clear()
            try:
                async with asyncio.timeout(timeout):
                    await self._bell.wait()
            except TimeoutError:
                return False
        return True


class Table:
    """All objects of one resource."""

    def __init__(self, history: int) -> None:
        self.entries: dict[Key, Entry] = {}
        self.order: list[Key] = []
        self.log: deque[Change] = deque(maxlen=history)
        self.floor = 0  # the newest version that the log does not reach back to
        self.watchers: set[Watcher] = set()

    def keys(self, namespace: str, after: Key | None = None) -> list[Key]:
        """The keys of a namespace ("" for all), in order, behind `after`."""
        low = bisect_right(self.order, after) if after else bisect_left(self.order, (namespace, "")) if namespace else 0
        high = bisect_left(self.order, (namespace + "\0", "")) if namespace else len(self.order)
        return self.order[low:high]

    def record(self, change: Change) -> None:
        """Remember a change and tell the watchers."""
        if self.log.maxlen is not None and len(self.log) == self.log.maxlen:
            self.floor = self.log[0].rv
        self.log.append(change)
        for watcher in self.watchers:
            watcher.offer(change)

    def since(self, rv: int) -> Iterator[Change]:
        """Changes after that version. Raises 410 when the history is too short."""
        if rv < self.floor:
            raise statuses.expired(f"too old resource version: {rv} ({self.floor})")
        start = len(self.log)
        while start and self.log[start - 1].rv > rv:
            start -= 1
        return iter([self.log[i] for i in range(start, len(self.log))])

    def at(self, rv: int) -> tuple[list[Key], dict[Key, Entry]]:
        """Keys and entries as they were at that version. Raises 410 when the history is too short."""
        first: dict[Key, Entry | None] = {}
        for change in self.since(rv):
            first.setdefault(change.entry.key, change.previous)
        if not first:
            return self.order, self.entries
        entries = dict(self.entries)
        for key, entry in first.items():
            if entry is None:
                entries.pop(key, None)
            else:
                entries[key] = entry
        return sorted(entries), entries

    def forget_history(self, revision: int) -> None:
        """Compact: every older version reads as too old from now on."""
        self.log.clear()
        self.floor = revision


class Store:
    """Tables, the counter, and who owns whom."""

    def __init__(self, history: int = 16384) -> None:
        self.revision = 1
        self.history = history
        self.tables: dict[TableName, Table] = {}
        self.by_uid: dict[str, tuple[TableName, Key]] = {}
        self.owned: dict[str, set[tuple[TableName, Key]]] = {}
        self._followers: list[Callable[[TableName, Change], None]] = []

    def follow(self, noticed: Callable[[TableName, "Change"], None]) -> None:
        """Call this for every change, in the step that makes it."""
        self._followers.append(noticed)

    def _record(self, name: TableName, table: Table, change: Change) -> None:
        table.record(change)
        for noticed in self._followers:
            noticed(name, change)

    def table(self, name: TableName) -> Table:
        """The table, made on first use."""
        table = self.tables.get(name)
        if table is None:
            table = self.tables[name] = Table(self.history)
            table.floor = 0
        return table

    def get(self, name: TableName, key: Key) -> Entry | None:
        """The entry, or None."""
        return self.table(name).entries.get(key)

    def put(self, name: TableName, key: Key, obj: JSON, selectable: tuple[str, ...] = ()) -> Entry:
        """Store an object under the next version; the object gets it written in."""
        table = self.table(name)
        previous = table.entries.get(key)
        self.revision += 1
        obj["metadata"]["resourceVersion"] = str(self.revision)
        entry = Entry(key, self.revision, encode_object(obj), obj, selectable)
        table.entries[key] = entry
        if previous is None:
            insort(table.order, key)
        else:
            self._unlink(name, previous)
        self._link(name, entry)
        self._record(name, table, Change(MODIFIED if previous else ADDED, entry, previous))
        return entry

    def remove(self, name: TableName, key: Key, obj: JSON, selectable: tuple[str, ...] = ()) -> Entry:
        """Remove an object; its last form carries the version of the removal."""
        table = self.table(name)
        previous = table.entries.pop(key)
        del table.order[bisect_left(table.order, key)]
        self._unlink(name, previous)
        self.revision += 1
        obj["metadata"]["resourceVersion"] = str(self.revision)
        entry = Entry(key, self.revision, encode_object(obj), obj, selectable)
        self._record(name, table, Change(DELETED, entry, previous))
        return entry

    def _link(self, name: TableName, entry: Entry) -> None:
        self.by_uid[entry.uid] = (name, entry.key)
        for uid in entry.owners:
            self.owned.setdefault(uid, set()).add((name, entry.key))

    def _unlink(self, name: TableName, entry: Entry) -> None:
        self.by_uid.pop(entry.uid, None)
        for uid in entry.owners:
            held = self.owned.get(uid)
            if held is not None:
                held.discard((name, entry.key))
                if not held:
                    del self.owned[uid]
