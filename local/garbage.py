"""What the controller manager and a kubelet do to an ending: dependents follow their owners, namespaces empty, a Pod's grace runs out.

One task, woken by the store's changes. It looks only at what changed, so a quiet cluster costs nothing. What it writes goes through
admission like anybody's write; what a webhook refuses, or cannot be asked about, is tried again later.
"""

import asyncio
import logging
from collections import deque
from datetime import timedelta

from api.clock import Clock, parse_time
from local.callers import Caller
from local.kinds import CRDS, NAMESPACES, PODS, Registry
from local.operation import Operation
from local.removal import FOREGROUND, ORPHAN, Remover
from local.statuses import StatusError
from local.store import DELETED, Change, Entry, Key, Store, TableName
from local.wire import JSON
from local.writes import Transform, Writer

_ACCOUNTS = ("system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated")
COLLECTOR = Caller("system:serviceaccount:kube-system:generic-garbage-collector", _ACCOUNTS)
NAMESPACE_CONTROLLER = Caller("system:serviceaccount:kube-system:namespace-controller", _ACCOUNTS)
# Seconds until a write that was refused is tried again; doubled each time.
FIRST_WAIT, LONGEST_WAIT = 1.0, 60.0

log = logging.getLogger(__name__)


def _kubelet(obj: JSON) -> Caller:
    node = (obj.get("spec") or {}).get("nodeName") or "none"
    return Caller(f"system:node:{node}", ("system:nodes", "system:authenticated"))


class Collector:
    """Follows every change and tidies behind it."""

    def __init__(self, store: Store, registry: Registry, writer: Writer, remover: Remover, clock: Clock, *, kubelet: bool = True) -> None:
        self._store = store
        self._registry = registry
        self._writer = writer
        self._remover = remover
        self._clock = clock
        self._kubelet = kubelet
        self._changes: deque[tuple[TableName, Change]] = deque()
        self._bell = asyncio.Event()
        self._timers: dict[str, asyncio.Task[None]] = {}
        self._waiting: set[asyncio.Task[None]] = set()
        self._waits: dict[tuple[TableName, str], float] = {}

    def notice(self, table: TableName, change: Change) -> None:
        """A change that may ask for tidying; called for every write, so it only decides and queues."""
        entry = change.entry
        going = change.type == DELETED or b'"deletionTimestamp"' in entry.body
        orphaned = any(uid not in self._store.by_uid for uid in entry.owners)
        if going or orphaned or (change.previous is not None and change.previous.owners != entry.owners):
            self._changes.append((table, change))
            self._bell.set()

    @property
    def idle(self) -> bool:
        """Whether nothing waits to be tidied."""
        return not self._changes

    async def run(self) -> None:
        """Tidy until cancelled."""
        try:
            while True:
                await self._bell.wait()
                self._bell.clear()
                while self._changes:
                    table, change = self._changes[0]
                    await self._tidy_or_wait(table, change)
                    self._changes.popleft()
        finally:
            for task in (*self._timers.values(), *self._waiting):
                task.cancel()

    async def _tidy_or_wait(self, table: TableName, change: Change) -> None:
        thing = (table, change.entry.uid)
        try:
            await self._tidy(table, change)
        except StatusError as fault:
            wait = self._waits[thing] = min(2 * self._waits.get(thing, FIRST_WAIT / 2), LONGEST_WAIT)
            log.warning("%s %s is tidied again in %.0f s: %s", table[1], "/".join(change.entry.key), wait, fault)
            task = asyncio.get_running_loop().create_task(self._again(table, change, wait))
            self._waiting.add(task)
            task.add_done_callback(self._waiting.discard)
        except Exception:
            log.exception("%s %s cannot be tidied", table[1], "/".join(change.entry.key))
        else:
            self._waits.pop(thing, None)

    async def _again(self, table: TableName, change: Change, seconds: float) -> None:
        await self._clock.sleep(seconds)
        self._changes.append((table, change))
        self._bell.set()

    async def _tidy(self, table: TableName, change: Change) -> None:
        entry = change.entry
        if change.type == DELETED:
            self._timers.pop(entry.uid, None)
            await self._follow(entry.uid)
            await self._loosen(entry.owners)
            if table != NAMESPACES.table and entry.key[0]:
                await self._close_namespace(entry.key[0])
            return
        if table == NAMESPACES.table:
            await self._empty_namespace(entry.key[1])
        obj = entry.object()
        if table == PODS.table and self._kubelet:
            self._count_down(entry.uid, entry.key, obj)
        marks = set(obj["metadata"].get("finalizers") or ()) if obj["metadata"].get("deletionTimestamp") else set()
        if FOREGROUND in marks:
            await self._foreground(table, entry.key, entry.uid)
        if ORPHAN in marks:
            await self._orphan(table, entry.key, entry.uid)
        if any(uid not in self._store.by_uid for uid in entry.owners):
            await self._delete_ownerless(table, entry.key)
        if change.previous is not None:
            await self._loosen(tuple(uid for uid in change.previous.owners if uid not in entry.owners))

    # ---------------------------------------------------------------------------------------------------- dependents

    async def _follow(self, uid: str) -> None:
        """Delete what the gone object owned, unless another owner still stands."""
        for table, key in sorted(self._store.owned.get(uid, ())):
            await self._delete_ownerless(table, key)

    async def _delete_ownerless(self, table: TableName, key: Key) -> None:
        """Delete what has no owner left; where one still stands, only the references to the others go.

        An owner that waits for its dependents to go stands for none.
        """
        entry = self._store.get(table, key)
        if entry is None or not entry.owners:
            return
        alive = {uid for uid in entry.owners if uid in self._store.by_uid and not self._waits_below(uid)}
        if alive == set(entry.owners):
            return
        if alive:
            await self._edit(table, key, lambda obj: _without_owners(obj, set(entry.owners) - alive))
        elif not entry.object()["metadata"].get("deletionTimestamp"):
            policy = "Foreground" if any(map(self._waits_below, entry.owners)) else "Background"
            await self._delete(table, key, {"preconditions": {"uid": entry.uid}, "propagationPolicy": policy})

    def _waits_below(self, uid: str) -> bool:
        """Whether the object is being deleted in the foreground."""
        where = self._store.by_uid.get(uid)
        entry = self._store.get(*where) if where else None
        if entry is None or FOREGROUND.encode() not in entry.body:
            return False
        meta = entry.object()["metadata"]
        return bool(meta.get("deletionTimestamp")) and FOREGROUND in (meta.get("finalizers") or ())

    async def _loosen(self, owners: tuple[str, ...]) -> None:
        """An owner that waits for its dependents may be able to go now."""
        for uid in owners:
            where = self._store.by_uid.get(uid)
            if where is not None and self._waits_below(uid):
                await self._foreground(*where, uid)

    async def _foreground(self, table: TableName, key: Key, uid: str) -> None:
        for below, name in sorted(self._store.owned.get(uid, ())):
            await self._delete_ownerless(below, name)
        left = (self._store.get(below, name) for below, name in self._store.owned.get(uid, ()))
        if not any(_blocks(entry, uid) for entry in left if entry is not None):
            await self._edit(table, key, lambda obj: _without_finalizer(obj, FOREGROUND))

    async def _orphan(self, table: TableName, key: Key, uid: str) -> None:
        for below, name in sorted(self._store.owned.get(uid, ())):
            await self._edit(below, name, lambda obj: _without_owners(obj, {uid}))
        await self._edit(table, key, lambda obj: _without_finalizer(obj, ORPHAN))

    # ----------------------------------------------------------------------------------------------------- namespaces

    async def _empty_namespace(self, namespace: str) -> None:
        for name, table in list(self._store.tables.items()):
            if name in {NAMESPACES.table, CRDS.table}:
                continue
            for key in table.keys(namespace):
                entry = table.entries.get(key)
                if entry is not None and not entry.object()["metadata"].get("deletionTimestamp"):
                    await self._delete(name, key, {}, NAMESPACE_CONTROLLER)
        await self._close_namespace(namespace)

    async def _close_namespace(self, namespace: str) -> None:
        entry = self._store.get(NAMESPACES.table, ("", namespace))
        if entry is None or not entry.object()["metadata"].get("deletionTimestamp"):
            return
        if any(table.keys(namespace) for name, table in self._store.tables.items() if name != NAMESPACES.table):
            return
        op = Operation(NAMESPACES, name=namespace, internal=True)
        obj = entry.object()
        if not obj["metadata"].get("finalizers"):
            self._writer.discard(op, obj)

    # ----------------------------------------------------------------------------------------------------------- pods

    def _count_down(self, uid: str, key: Key, obj: JSON) -> None:
        """The kubelet's part: when the grace is over the Pod is deleted for good."""
        due = obj["metadata"].get("deletionTimestamp")
        if not due or self._store.get(PODS.table, key) is None:
            return
        timer = self._timers.pop(uid, None)
        if timer is not None:
            timer.cancel()
        seconds = max((parse_time(due) - self._clock.now()) / timedelta(seconds=1), 0.0)
        self._timers[uid] = asyncio.get_running_loop().create_task(self._end_pod(uid, key, seconds, _kubelet(obj)))

    async def _end_pod(self, uid: str, key: Key, seconds: float, caller: Caller) -> None:
        wait = FIRST_WAIT
        await self._clock.sleep(seconds)
        while True:
            try:
                await self._delete(PODS.table, key, {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}}, caller)
                break
            except StatusError as fault:
                log.warning("pod %s is ended again in %.0f s: %s", "/".join(key), wait, fault)
                await self._clock.sleep(wait)
                wait = min(2 * wait, LONGEST_WAIT)
        if self._timers.get(uid) is asyncio.current_task():
            del self._timers[uid]

    # --------------------------------------------------------------------------------------------------------- shared

    def _operation(self, table: TableName, key: Key, caller: Caller) -> Operation | None:
        served = self._registry.by_table(table)
        if served is None:
            return None
        return Operation(served, namespace=key[0], name=key[1], caller=caller, manager="kube-controller-manager")

    async def _delete(self, table: TableName, key: Key, options: JSON, caller: Caller = COLLECTOR) -> None:
        """Delete, unless it is gone or another by now. Raises StatusError for a refusal."""
        op = self._operation(table, key, caller)
        if op is None:
            return
        try:
            await self._remover.delete(op, options)
        except StatusError as fault:
            if fault.code not in {404, 409}:
                raise

    async def _edit(self, table: TableName, key: Key, change: Transform) -> None:
        """Change, unless it is gone or another by now. Raises StatusError for a refusal."""
        op = self._operation(table, key, COLLECTOR)
        if op is None:
            return
        try:
            await self._writer.update(op, change)
        except StatusError as fault:
            if fault.code not in {404, 409}:
                raise


def _blocks(entry: Entry, uid: str) -> bool:
    """Whether a dependent holds its owner's foreground deletion up."""
    refs = entry.object()["metadata"].get("ownerReferences") or ()
    return any(ref.get("uid") == uid and ref.get("blockOwnerDeletion") for ref in refs)


def _without_owners(obj: JSON, uids: set[str]) -> JSON:
    meta = obj["metadata"]
    meta["ownerReferences"] = [ref for ref in meta.get("ownerReferences") or () if ref.get("uid") not in uids]
    return obj


def _without_finalizer(obj: JSON, name: str) -> JSON:
    meta = obj["metadata"]
    meta["finalizers"] = [mark for mark in meta.get("finalizers") or () if mark != name]
    return obj
