"""What the controller manager and a kubelet do to an ending: dependents follow their owners, namespaces empty, a Pod's grace runs out.

One task, woken by the store's changes. It looks only at what changed, so a quiet cluster costs nothing.
"""

import asyncio
from collections import deque
from datetime import timedelta

from api.clock import Clock, parse_time
from local.callers import Caller
from local.kinds import CRDS, NAMESPACES, PODS, Registry
from local.operation import Operation
from local.removal import FOREGROUND, ORPHAN, Remover
from local.statuses import StatusError
from local.store import DELETED, Change, Key, Store, TableName
from local.wire import JSON
from local.writes import Transform, Writer

COLLECTOR = Caller("system:serviceaccount:kube-system:generic-garbage-collector", ("system:serviceaccounts", "system:authenticated"))


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

    def notice(self, table: TableName, change: Change) -> None:
        """A change that may ask for tidying; called for every write, so it only decides and queues."""
        entry = change.entry
        going = change.type == DELETED or b'"deletionTimestamp"' in entry.body
        orphaned = any(uid not in self._store.by_uid for uid in entry.owners)
        if going or orphaned:
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
                    await self._tidy(table, change)
                    self._changes.popleft()
        finally:
            for timer in self._timers.values():
                timer.cancel()

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

    # ---------------------------------------------------------------------------------------------------- dependents

    async def _follow(self, uid: str) -> None:
        """Delete what the gone object owned, unless another owner still stands."""
        for table, key in sorted(self._store.owned.get(uid, ())):
            await self._delete_ownerless(table, key)

    async def _delete_ownerless(self, table: TableName, key: Key) -> None:
        entry = self._store.get(table, key)
        if entry is None or not entry.owners:
            return
        alive = [uid for uid in entry.owners if uid in self._store.by_uid]
        if not alive:
            await self._delete(table, key, {"preconditions": {"uid": entry.uid}, "propagationPolicy": "Background"})
            return
        await self._edit(table, key, lambda obj: _without_owners(obj, set(entry.owners) - set(alive)))

    async def _loosen(self, owners: tuple[str, ...]) -> None:
        """An owner that waits for its dependents may be able to go now."""
        for uid in owners:
            where = self._store.by_uid.get(uid)
            entry = self._store.get(*where) if where else None
            if where and entry is not None and FOREGROUND.encode() in entry.body:
                await self._foreground(*where, uid)

    async def _foreground(self, table: TableName, key: Key, uid: str) -> None:
        left = sorted(self._store.owned.get(uid, ()))
        for below, name in left:
            await self._delete(below, name, {"propagationPolicy": "Foreground"})
        if not self._store.owned.get(uid):
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
                await self._delete(name, key, {})
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
        if not due:
            return
        timer = self._timers.pop(uid, None)
        if timer is not None:
            timer.cancel()
        seconds = max((parse_time(due) - self._clock.now()) / timedelta(seconds=1), 0.0)
        self._timers[uid] = asyncio.get_running_loop().create_task(self._end_pod(uid, key, seconds))

    async def _end_pod(self, uid: str, key: Key, seconds: float) -> None:
        await self._clock.sleep(seconds)
        self._timers.pop(uid, None)
        await self._delete(PODS.table, key, {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}})

    # --------------------------------------------------------------------------------------------------------- shared

    def _operation(self, table: TableName, key: Key) -> Operation | None:
        served = self._registry.by_table(table)
        if served is None:
            return None
        return Operation(served, namespace=key[0], name=key[1], internal=True, caller=COLLECTOR, manager="kube-controller-manager")

    async def _delete(self, table: TableName, key: Key, options: JSON) -> None:
        op = self._operation(table, key)
        if op is None:
            return
        try:
            await self._remover.delete(op, options)
        except StatusError as fault:
            if fault.code not in {404, 409}:
                raise

    async def _edit(self, table: TableName, key: Key, change: Transform) -> None:
        op = self._operation(table, key)
        if op is None:
            return
        try:
            await self._writer.update(op, change)
        except StatusError as fault:
            if fault.code not in {404, 409}:
                raise


def _without_owners(obj: JSON, uids: set[str]) -> JSON:
    meta = obj["metadata"]
    meta["ownerReferences"] = [ref for ref in meta.get("ownerReferences") or () if ref.get("uid") not in uids]
    return obj


def _without_finalizer(obj: JSON, name: str) -> JSON:
    meta = obj["metadata"]
    meta["finalizers"] = [mark for mark in meta.get("finalizers") or () if mark != name]
    return obj
