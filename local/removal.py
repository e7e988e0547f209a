"""Delete: preconditions, finalizers, a Pod's grace period, and namespaces that have to empty first."""

from datetime import timedelta

from api.clock import Clock, format_time
from local import statuses
from local.admission import Admission
from local.conversion import from_stored, to_stored
from local.kinds import NAMESPACES, PODS
from local.operation import DELETE, Operation
from local.store import Entry, Store
from local.wire import JSON, copy
from local.writes import Writer

IMMORTAL = frozenset({"default", "kube-system", "kube-public"})
FOREGROUND, ORPHAN = "foregroundDeletion", "orphan"


class Remover:
    """Deletes objects, or marks them where something holds them."""

    def __init__(self, store: Store, admission: Admission, clock: Clock, writer: Writer) -> None:
        self._store = store
        self._admission = admission
        self._clock = clock
        self._writer = writer

    async def delete(self, op: Operation, options: JSON) -> tuple[JSON, bool]:
        """The object as it now is, and whether it is gone. Raises 403, 404, 409, or a webhook's refusal."""
        op.kind = DELETE
        op.options = {key: value for key, value in options.items() if key not in {"apiVersion", "kind"}}
        if op.served.table == NAMESPACES.table and op.name in IMMORTAL:
            text = f'namespaces "{op.name}" is forbidden: this namespace may not be deleted'
            raise statuses.forbidden(text, {"name": op.name, "kind": "namespaces"})
        entry = self._entry(op)
        self._check_preconditions(op, entry, options.get("preconditions") or {})
        old = from_stored(op.served, entry.object())
        await self._admission.mutate(op, None, old, lambda patched: patched)
        await self._admission.validate(op, None, old)
        entry = self._entry(op)
        self._check_preconditions(op, entry, options.get("preconditions") or {})
        return self._remove(op, from_stored(op.served, entry.object()), options)

    def _entry(self, op: Operation) -> Entry:
        entry = self._store.get(op.served.table, op.key)
        if entry is None:
            raise statuses.not_found(op.served.plural, op.served.group, op.name)
        return entry

    def _check_preconditions(self, op: Operation, entry: Entry, wanted: JSON) -> None:
        for what, key, have in (("UID", "uid", entry.uid), ("ResourceVersion", "resourceVersion", str(entry.rv))):
            if wanted.get(key) and wanted[key] != have:
                why = f"Precondition failed: {what} in precondition: {wanted[key]}, {what} in object meta: {have}"
                raise statuses.conflict(op.served.plural, op.served.group, op.name, why)

    def _remove(self, op: Operation, obj: JSON, options: JSON) -> tuple[JSON, bool]:
        meta = obj["metadata"]
        finalizers = self._finalizers(meta, options)
        grace = self._grace(obj, options)
        holds = bool(finalizers) or grace > 0 or self._holds_content(op)
        if not holds:
            if not op.dry_run:
                self._announce(op, obj)
                self._writer.discard(op, obj)
            return obj, True
        before = copy(obj)
        if finalizers:
            meta["finalizers"] = finalizers
        shorter = meta.get("deletionTimestamp") and grace < meta.get("deletionGracePeriodSeconds", 0)
        if not meta.get("deletionTimestamp") or shorter:
            meta["deletionTimestamp"] = format_time(self._clock.now() + timedelta(seconds=grace))
            meta["deletionGracePeriodSeconds"] = grace
            if meta.get("generation"):
                meta["generation"] += 1
        if op.served.table == NAMESPACES.table:
            obj.setdefault("status", {})["phase"] = "Terminating"
        if obj != before and not op.dry_run:
            stored = to_stored(op.served, obj)
            self._store.put(op.served.table, op.key, stored, op.served.selectable)
            obj["metadata"]["resourceVersion"] = stored["metadata"]["resourceVersion"]
        return obj, False

    def _announce(self, op: Operation, obj: JSON) -> None:
        """A Pod is seen to be ending before it is gone, however short its grace is."""
        if op.served.table != PODS.table or obj["metadata"].get("deletionGracePeriodSeconds") == 0:
            return
        obj["metadata"] |= {"deletionTimestamp": format_time(self._clock.now()), "deletionGracePeriodSeconds": 0}
        self._store.put(op.served.table, op.key, to_stored(op.served, obj), op.served.selectable)

    def _finalizers(self, meta: JSON, options: JSON) -> list[str]:
        out: list[str] = [name for name in meta.get("finalizers") or () if name not in {FOREGROUND, ORPHAN}]
        policy = options.get("propagationPolicy")
        if policy is None and meta.get("deletionTimestamp"):
            return list(meta.get("finalizers") or ())
        owns = bool(self._store.owned.get(meta["uid"]))
        if policy == "Foreground" and owns:
            out.append(FOREGROUND)
        elif owns and (policy == "Orphan" or options.get("orphanDependents") is True):
            out.append(ORPHAN)
        return out

    @staticmethod
    def _grace(obj: JSON, options: JSON) -> int:
        """Seconds; only a Pod that runs somewhere has any."""
        if not _runs(obj):
            return 0
        asked = options.get("gracePeriodSeconds")
        if asked is None:
            asked = obj["spec"].get("terminationGracePeriodSeconds", 30)
        return 1 if asked < 0 else int(asked)

    def _holds_content(self, op: Operation) -> bool:
        return op.served.table == NAMESPACES.table and any(
            table.keys(op.name) for name, table in self._store.tables.items() if name != NAMESPACES.table
        )


def _runs(obj: JSON) -> bool:
    """Whether it is a Pod that somebody has to stop."""
    if obj.get("kind") != "Pod" or obj.get("apiVersion") != "v1":
        return False
    phase = (obj.get("status") or {}).get("phase")
    return bool((obj.get("spec") or {}).get("nodeName")) and phase not in {"Succeeded", "Failed"}
