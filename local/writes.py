"""Create and update: the road of an object from a request body to the store.

The order is the API server's: prune and default, mutating webhooks, prune and default again, identity and field management, validation,
validating webhooks, store. Everything up to the store works on copies; the store is touched once, in one step, at the end.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ipaddress import IPv4Address
from typing import Any

from api.clock import Clock, format_time
from local import builtins, checks, crds, managers, metadata, statuses, structural
from local.admission import Admission
from local.conversion import from_stored, to_stored
from local.kinds import CRDS, NAMESPACES, SERVICES, Registry, Served
from local.operation import CREATE, UPDATE, Operation
from local.statuses import Cause, InvalidError, StatusError
from local.store import Entry, Key, Store
from local.wire import JSON, copy

Transform = Callable[[JSON], Any]
Written = Callable[[Served, JSON], None]

FIRST_ADDRESS = IPv4Address("10.96.0.0")
_ATTEMPTS = 5
_LEFT_ALONE = ("metadata", "status", "apiVersion", "kind")


@contextmanager
def _typed(served: Served) -> Iterator[None]:
    """Built-in kinds have no schema here: what trips over a member of the wrong shape says that it cannot be decoded. Raises 400."""
    try:
        yield
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as fault:
        if isinstance(fault, StatusError):
            raise
        text = f'{served.kind} in version "{served.version}" cannot be handled as a {served.kind}: {fault}'
        raise statuses.UndecodableError(text) from fault


def _without_status(served: Served, obj: JSON) -> None:
    """A new object has no status but what the server gives it; only a kubelet reports its Node's with the Node."""
    if served.status_kept_apart and served.kind != "Node":
        obj.pop("status", None)


class Writer:
    """Creates and updates objects."""

    def __init__(self, store: Store, registry: Registry, admission: Admission, clock: Clock, written: Written) -> None:
        self._store = store
        self._registry = registry
        self._admission = admission
        self._clock = clock
        self._written = written
        self._addresses = 9  # the last part of the latest cluster address

    # ------------------------------------------------------------------------------------------------------- create

    async def create(self, op: Operation, obj: Any) -> JSON:
        """Store a new object. Raises 400, 403, 404 (namespace), 409, 422, or a webhook's refusal."""
        op.kind = CREATE
        served = op.served
        obj = self._received(op, obj)
        meta = obj["metadata"]
        if meta.get("resourceVersion"):
            raise statuses.bad_request("resourceVersion should not be set on objects to be created")
        if op.name and meta.get("name") and meta["name"] != op.name:
            raise statuses.bad_request(f"the name of the object ({meta['name']}) does not match the name on the URL ({op.name})")
        op.name = op.name or meta.get("name") or ""
        self._namespace_open(op)
        if served.namespaced:
            meta["namespace"] = op.namespace
        _without_status(served, obj)
        obj = self._complete(op, obj)
        mutated = await self._admission.mutate(op, obj, None, lambda patched: self._of_kind(op, self._complete(op, patched)))
        obj = mutated if mutated is not None else obj
        self._same_namespace(op, obj)
        now = self._clock.now()
        metadata.new_identity(obj, served, op.namespace if served.namespaced else "", now, self._taken(op))
        if served.custom and served.status_kept_apart:
            obj.pop("status", None)
        managers.record_update(served, None, obj, op.manager, subresource="", now=format_time(now))
        return await self._store_new(op, obj)

    async def _store_new(self, op: Operation, obj: JSON) -> JSON:
        served = op.served
        if served.table == SERVICES.table:
            with _typed(served):
                self._give_address(obj["spec"])  # the server's own doing, so no manager's field
        self._validate(op, obj, None)
        await self._admission.validate(op, obj, None)
        op.name = obj["metadata"]["name"]
        if self._store.get(served.table, op.key) is not None:
            raise statuses.already_exists(served.plural, served.group, op.name)
        self._namespace_open(op)
        if op.dry_run:
            return obj
        self._put(op, obj)
        return obj

    def holds(self, op: Operation) -> bool:
        """Whether the object of the request is there."""
        return self._store.get(op.served.table, op.key) is not None

    def _taken(self, op: Operation) -> Callable[[str], bool]:
        table, space = self._store.table(op.served.table), op.key[0]
        return lambda name: (space, name) in table.entries

    def _namespace_open(self, op: Operation) -> None:
        """Refuse new objects in a namespace that is not there or is going."""
        if not op.served.namespaced:
            return
        entry = self._store.get(NAMESPACES.table, ("", op.namespace))
        if entry is None:
            raise statuses.not_found("namespaces", "", op.namespace)
        if (entry.object().get("status") or {}).get("phase") == "Terminating" and not op.internal:
            what = statuses.qualified(op.served.plural, op.served.group)
            why = f"unable to create new content in namespace {op.namespace} because it is being terminated"
            text = f'{what} "{op.name}" is forbidden: {why}'
            causes = [
                {
                    "reason": "NamespaceTerminating",
                    "message": f"namespace {op.namespace} is being terminated",
                    "field": "metadata.namespace",
                }
            ]
            raise statuses.forbidden(text, {"name": op.name, "kind": op.served.plural, "causes": causes})

    # ------------------------------------------------------------------------------------------------------- update

    async def update(self, op: Operation, transform: Transform, *, replacing: bool = False) -> JSON:
        """Change a stored object; a writer that named no version is tried again on a newer one. Raises as create does, and 404."""
        op.kind = UPDATE
        for _ in range(_ATTEMPTS):
            entry = self._store.get(op.served.table, op.key)
            if entry is None:
                raise statuses.not_found(op.served.plural, op.served.group, op.name)
            outcome = await self._update_once(op, entry, transform, replacing=replacing)
            if outcome is not None:
                return outcome
        raise statuses.conflict(op.served.plural, op.served.group, op.name)

    async def _update_once(self, op: Operation, entry: Entry, transform: Transform, *, replacing: bool) -> JSON | None:
        """The stored object, or None when another writer was faster and the request may be tried again."""
        served = op.served
        old = from_stored(served, entry.object())
        new = self._received(op, transform(copy(old)))
        self._check_preconditions(op, entry, new, replacing=replacing)
        new = self._settled(op, new, old)
        mutated = await self._admission.mutate(op, new, old, lambda patched: self._of_kind(op, self._settled(op, patched, old)))
        new = mutated if mutated is not None else new
        self._generation(op, new, old)
        if not op.applied:
            now = format_time(self._clock.now())
            managers.record_update(served, old, new, op.manager, subresource=op.subresource, now=now)
        self._validate(op, new, old)
        await self._admission.validate(op, new, old)
        if self._store.table(served.table).entries.get(op.key) is not entry:
            return None  # a body that names its version meets the newer one at the next try
        new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
        if new == old or op.dry_run:
            return new
        if self.finished(new):
            self.discard(op, new)
        else:
            self._put(op, new)
        return new

    def _check_preconditions(self, op: Operation, entry: Entry, new: JSON, *, replacing: bool) -> None:
        served, meta = op.served, new["metadata"]
        if meta.get("name") != op.name:
            if meta.get("name"):
                raise statuses.bad_request(f"the name of the object ({meta['name']}) does not match the name on the URL ({op.name})")
            raise statuses.bad_request("the name of the object is missing" if replacing else "metadata.name: must not be removed")
        version = meta.get("resourceVersion")
        if meta.get("uid") and meta["uid"] != entry.uid and not replacing:
            text = f'Invalid value: "{meta["uid"]}": field is immutable'
            raise InvalidError(served.kind, served.group, op.name, [Cause("metadata.uid", "FieldValueInvalid", text)])
        if meta.get("uid") and meta["uid"] != entry.uid:
            why = f"Precondition failed: UID in precondition: {meta['uid']}, UID in object meta: {entry.uid}"
            raise statuses.conflict(served.plural, served.group, op.name, why)
        if not version and replacing and not served.unconditional_update:
            text = "Invalid value: 0x0: must be specified for an update"
            raise InvalidError(served.kind, served.group, op.name, [Cause("metadata.resourceVersion", "FieldValueInvalid", text)])
        if version and version != str(entry.rv):
            raise statuses.conflict(served.plural, served.group, op.name)

    def _settled(self, op: Operation, new: JSON, old: JSON) -> JSON:
        """What an update may change, with prunes and defaults."""
        metadata.keep_identity(new, old)
        served = op.served
        if op.subresource == "status":
            kept = {key: value for key, value in old.items() if key != "status"}
            if not served.custom:
                kept["metadata"] = new["metadata"]
            else:
                kept["metadata"] = {**old["metadata"], "managedFields": new["metadata"].get("managedFields", [])}
                if not kept["metadata"]["managedFields"]:
                    del kept["metadata"]["managedFields"]
            if "status" in new:
                kept["status"] = new["status"]
            new = kept
        elif served.status_kept_apart and not op.internal:
            new = {key: value for key, value in new.items() if key != "status"}
            if "status" in old:
                new["status"] = old["status"]
        if not served.custom:
            builtins.keep(new, old)
        return self._complete(op, new)

    def _generation(self, op: Operation, new: JSON, old: JSON) -> None:
        """One step when what the object asks for changed."""
        if op.subresource or not (op.served.custom or op.served.generation):
            return
        skipped = _LEFT_ALONE if op.served.status_kept_apart or not op.served.custom else ("metadata", "apiVersion", "kind")
        if {k: v for k, v in new.items() if k not in skipped} != {k: v for k, v in old.items() if k not in skipped}:
            new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1

    # ------------------------------------------------------------------------------------------------------- shared

    def _received(self, op: Operation, obj: Any) -> JSON:
        """A body that has the right type. Raises 400."""
        served = op.served
        if not isinstance(obj, dict):
            raise statuses.bad_request("the request body is not an object")
        if obj.get("kind", served.kind) != served.kind:
            raise statuses.UndecodableError(f'{obj["kind"]} in version "{served.version}" cannot be handled as a {served.kind}')
        if obj.get("apiVersion", served.api_version) != served.api_version:
            text = f"the API version in the data ({obj['apiVersion']}) does not match the expected API version ({served.api_version})"
            raise statuses.bad_request(text)
        obj["apiVersion"], obj["kind"] = served.api_version, served.kind
        obj.setdefault("metadata", {})
        metadata.check_types(obj)
        if not served.custom:
            for key in [key for key, value in obj.items() if value is None]:
                del obj[key]
        self._same_namespace(op, obj)
        if op.validation != "Ignore":
            self._unknown_fields(op, obj)
        return obj

    @staticmethod
    def _same_namespace(op: Operation, obj: JSON) -> None:
        """The request's namespace, also after webhooks. Raises 400."""
        stated = obj["metadata"].get("namespace")
        if op.served.namespaced and stated and stated != op.namespace:
            raise statuses.bad_request("the namespace of the provided object does not match the namespace sent on the request")

    def _unknown_fields(self, op: Operation, obj: JSON) -> None:
        texts = [f'unknown field "{path}"' for path in structural.unknown_fields(op.served, obj)]
        if texts and op.validation == "Strict":
            raise statuses.bad_request(
                f'{op.served.kind} in version "{op.served.version}" cannot be handled as a {op.served.kind}: '
                f"strict decoding error: {', '.join(texts)}"
            )
        op.warnings += [text for text in texts if text not in op.warnings]

    def _complete(self, op: Operation, obj: JSON) -> JSON:
        """Prunes and defaults."""
        if op.served.custom:
            return structural.complete(op.served, obj)
        with _typed(op.served):
            if op.served.table == CRDS.table:
                crds.complete(obj)
            builtins.complete(obj)
        return obj

    @staticmethod
    def _of_kind(op: Operation, obj: JSON) -> JSON:
        """What a webhook made, which has to be readable as the kind. Raises UndecodableError."""
        metadata.check_types(obj)
        if not op.served.custom and op.subresource != "status":
            with _typed(op.served):
                checks.faults(obj, None)
        return obj

    def _give_address(self, spec: JSON) -> None:
        """A cluster address that nobody else had; nothing listens there."""
        if spec.get("type") != "ExternalName" and not spec.get("clusterIP"):
            self._addresses += 1
            spec["clusterIP"] = str(FIRST_ADDRESS + self._addresses)

    def _validate(self, op: Operation, obj: JSON, old: JSON | None) -> None:
        served = op.served
        found = metadata.faults(obj, served, old)
        if served.custom:
            found += structural.faults(served, obj, old)
        else:
            with _typed(served):
                found += crds.faults(obj) if served.table == CRDS.table else checks.faults(obj, old) if op.subresource != "status" else []
        if found:
            raise InvalidError(served.kind, served.group, obj["metadata"].get("name", ""), found)

    def _put(self, op: Operation, obj: JSON) -> None:
        served = op.served
        stored = to_stored(served, obj)
        self._store.put(served.table, op.key, stored, served.selectable)
        self._written(served, obj)

    def put_internal(self, served: Served, key: Key, obj: JSON) -> None:
        """Store an object of the server's own making."""
        obj = {"apiVersion": served.api_version, "kind": served.kind, "metadata": {"name": key[1]}, **obj}
        metadata.new_identity(obj, served, key[0], self._clock.now())
        self._store.put(served.table, key, obj, served.selectable)

    def discard(self, op: Operation, obj: JSON) -> None:
        """Remove an object that nothing holds any more."""
        served = op.served
        stored = to_stored(served, obj)
        self._store.remove(served.table, op.key, stored, served.selectable)
        self._written(served, {})

    @staticmethod
    def finished(obj: JSON) -> bool:
        """Whether an object is on its way out and nothing holds it."""
        meta = obj["metadata"]
        return bool(meta.get("deletionTimestamp")) and not meta.get("finalizers") and not meta.get("deletionGracePeriodSeconds")

    # -------------------------------------------------------------------------------------------------------- apply

    async def apply(self, op: Operation, wanted: JSON, *, force: bool) -> tuple[JSON, bool]:
        """Server-side apply: the stored object, and whether it was created. Raises 500, as the API server does, for unknown fields."""
        if not isinstance(wanted, dict):
            raise statuses.bad_request("the request body is not an object")
        if not wanted.get("apiVersion") or not wanted.get("kind"):
            raise statuses.bad_request("apiVersion and kind must be set in an apply patch")
        strange = [f".{path}: field not declared in schema" for path in structural.unknown_fields(op.served, wanted)]
        if faults := [*structural.mistyped(op.served, wanted), *strange]:
            raise managers.untyped(faults)
        wanted = self._received(op, wanted)
        op.applied = True

        def merged(live: JSON | None) -> JSON:
            now = format_time(self._clock.now())
            return managers.apply(op.served, live, copy(wanted), op.manager, subresource=op.subresource, force=force, now=now)

        if self._store.get(op.served.table, op.key) is not None:
            return await self.update(op, merged), False
        if op.subresource:
            raise statuses.not_found(op.served.plural, op.served.group, op.name)
        if uid := wanted["metadata"].get("uid"):
            why = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
            raise statuses.conflict(op.served.plural, op.served.group, op.name, why)
        return await self._create_applied(op, merged(None)), True

    async def _create_applied(self, op: Operation, obj: JSON) -> JSON:
        op.kind = CREATE
        kept = obj["metadata"].pop("managedFields", [])
        if obj["metadata"].setdefault("name", op.name) != op.name:
            raise statuses.bad_request(f"the name of the object ({obj['metadata']['name']}) does not match the name on the URL ({op.name})")
        self._namespace_open(op)
        if op.served.namespaced:
            obj["metadata"]["namespace"] = op.namespace
        _without_status(op.served, obj)
        obj = self._complete(op, obj)
        mutated = await self._admission.mutate(op, obj, None, lambda patched: self._of_kind(op, self._complete(op, patched)))
        obj = mutated if mutated is not None else obj
        self._same_namespace(op, obj)
        metadata.new_identity(obj, op.served, op.namespace if op.served.namespaced else "", self._clock.now())
        if op.served.status_kept_apart and op.served.custom:
            obj.pop("status", None)
        obj["metadata"]["managedFields"] = kept
        return await self._store_new(op, obj)
