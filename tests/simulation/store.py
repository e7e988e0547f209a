"""The objects of a fake API server with everything that a client can notice: versions, UIDs, generations, history, pages, preconditions.

The rules are the API server's: one counter of versions for all kinds; a write that changes nothing is no write; `generation` counts
changes of `spec`; a status subresource splits an object in two; a delete with a foreign UID is a conflict; a Pod leaves gracefully; old
history is dropped, and whoever asks for it is told 410. Objects are dicts that nobody changes once they are stored.
"""

import random
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, NamedTuple

import msgspec

from api.clock import format_time
from kube.resources import Resource
from tests.simulation.timing import VirtualClock

Object = dict[str, Any]
# Versions begin here, so that they soon grow a digit: as text, "1000" lies before "999".
FIRST_VERSION: Final = 980
GRACE_SECONDS: Final = 30
# What no client can change.
FIXED: Final = (
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "generation",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)


class RefusedError(Exception):
    """An answer of 4xx."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(f"{code} {reason}: {message}")
        self.code, self.reason, self.message = code, reason, message


class Change(NamedTuple):
    """One write: what was there, what is there, at which version and second, and who wrote."""

    version: int
    at: float
    resource: Resource
    old: Object | None
    new: Object | None
    author: str

    @property
    def object(self) -> Object:
        """The object, as it is or as it was last."""
        found = self.new if self.new is not None else self.old
        assert found is not None
        return found


@dataclass
class Collection:
    """One served kind."""

    resource: Resource
    has_status: bool = False
    counts_generations: bool = False
    objects: dict[tuple[str, str], Object] = field(default_factory=dict)
    history: list[Change] = field(default_factory=list)
    floor: int = FIRST_VERSION  # changes at or below are no longer told
    watchers: list[Callable[[], None]] = field(default_factory=list)


def meta(item: Object) -> dict[str, Any]:
    """`metadata`."""
    found: dict[str, Any] = item["metadata"]
    return found


def labels(item: Object) -> Mapping[str, str]:
    """`metadata.labels`."""
    found: Mapping[str, str] = item["metadata"].get("labels") or {}
    return found


def merge(target: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merge(result.get(name), value)
    return result


@lru_cache(maxsize=4096)
def _terms(selector: str) -> tuple[tuple[str, str, str], ...]:
    return tuple(term.partition("=") for term in selector.split(",") if term)


def selects(selector: str, item: Object) -> bool:
    """A label selector of equalities and existences."""
    if not selector:
        return True
    found = labels(item)
    for name, equals, value in _terms(selector):
        if name.startswith("!"):
            if name[1:] in found:
                return False
        elif name not in found or (equals and found[name] != value.lstrip("=")):
            return False
    return True


class Store:
    """All collections. `on_change` is called after each write, in order."""

    def __init__(self, clock: VirtualClock, rng: random.Random) -> None:
        self.clock = clock
        self._rng = rng
        self.version = FIRST_VERSION
        self.collections: dict[tuple[str, str, str], Collection] = {}
        self.on_change: list[Callable[[Change], None]] = []

    def serve(self, resource: Resource, *, has_status: bool = False, counts_generations: bool = False) -> None:
        """Begin to serve a kind."""
        self.collections[resource.group, resource.version, resource.plural] = Collection(resource, has_status, counts_generations)

    def collection(self, resource: Resource) -> Collection:
        """The collection of a kind."""
        return self.collections[resource.group, resource.version, resource.plural]

    # ------------------------------------------------------------------------------------------------------------- reads

    def find(self, resource: Resource, namespace: str, name: str) -> Object | None:
        """An object or None."""
        return self.collection(resource).objects.get((namespace, name))

    def get(self, resource: Resource, namespace: str, name: str) -> Object:
        """An object; 404 where there is none."""
        found = self.find(resource, namespace, name)
        if found is None:
            raise RefusedError(404, "NotFound", f"{resource.plural} {name!r} not found")
        return found

    def list(self, resource: Resource, namespace: str = "", selector: str = "") -> list[Object]:
        """The objects in the order of their keys."""
        found = self.collection(resource).objects
        return [found[key] for key in sorted(found) if (not namespace or key[0] == namespace) and selects(selector, found[key])]

    def since(self, resource: Resource, version: int) -> Iterator[Change]:
        """The changes after `version`; 410 where they are no longer kept."""
        collection = self.collection(resource)
        if version < collection.floor:
            raise RefusedError(410, "Expired", f"too old resource version: {version} ({collection.floor})")
        history = collection.history
        first = len(history)
        while first and history[first - 1].version > version:
            first -= 1
        return iter(history[first:])

    def compact(self, resource: Resource) -> None:
        """Drop the history up to now."""
        collection = self.collection(resource)
        collection.floor = self.version
        collection.history.clear()
        for wake in list(collection.watchers):
            wake()

    # ------------------------------------------------------------------------------------------------------------ writes

    def create(self, resource: Resource, item: Object, author: str = "world") -> Object:
        """POST."""
        given = item.get("metadata") or {}
        name = given.get("name") or f"{given['generateName']}{self._rng.getrandbits(20):05x}"
        namespace = given.get("namespace", "") if resource.namespaced else ""
        collection = self.collection(resource)
        if (namespace, name) in collection.objects:
            raise RefusedError(409, "AlreadyExists", f"{resource.plural} {name!r} already exists")
        made = {
            **given,
            "name": name,
            "uid": str(uuid.UUID(int=self._rng.getrandbits(128))),
            "creationTimestamp": format_time(self.clock.now()),
            **({"generation": 1} if collection.counts_generations else {}),
        }
        item = {"apiVersion": resource.api_version, "kind": resource.kind, **item, "metadata": made}
        if collection.has_status and author != "world":
            item.pop("status", None)
        if resource.plural == "pods":
            item.setdefault("status", {"phase": "Pending"})
        return self._commit(collection, (namespace, name), None, item, author)

    def patch(
        self, resource: Resource, namespace: str, name: str, patch: Object, *, subresource: str = "", author: str = "world"
    ) -> Object:
        """A merge patch."""
        wanted = merge(self.get(resource, namespace, name), patch)
        return self.update(resource, (namespace, name), wanted, patch, subresource=subresource, author=author)

    def replace(
        self, resource: Resource, namespace: str, name: str, item: Object, *, subresource: str = "", author: str = "world"
    ) -> Object:
        """PUT."""
        return self.update(resource, (namespace, name), item, item, subresource=subresource, author=author)

    def update(
        self, resource: Resource, key: tuple[str, str], wanted: Object, sent: Object, *, subresource: str = "", author: str = "world"
    ) -> Object:
        """What PUT and PATCH come to: `wanted` is the whole object to be, `sent` carries the preconditions."""
        collection, old = self.collection(resource), self.get(resource, *key)
        conditions = sent.get("metadata") or {}
        self._hold(resource, old, conditions.get("uid"), conditions.get("resourceVersion"))
        if subresource == "status":
            new = {**old, "status": wanted.get("status", {})}
        else:
            free = {key: value for key, value in meta(wanted).items() if key not in FIXED}
            new = {**wanted, "metadata": {**free, **{key: meta(old)[key] for key in FIXED if key in meta(old)}}}
            if collection.has_status and author != "world":
                new.pop("status", None)
                new |= {"status": old["status"]} if "status" in old else {}
        if new == old:
            return old
        new = {**new, "metadata": dict(meta(new))}
        if collection.counts_generations and new.get("spec") != old.get("spec"):
            meta(new)["generation"] = meta(old)["generation"] + 1
        if "deletionTimestamp" in meta(new) and not meta(new).get("finalizers") and resource.plural != "pods":
            return self._commit(collection, key, old, None, author)
        return self._commit(collection, key, old, new, author)

    def delete(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        *,
        uid: str | None = None,
        version: str | None = None,
        grace: int | None = None,
        author: str = "world",
    ) -> Object:
        """DELETE: a Pod leaves after its grace (somebody deletes it again with none), what bears finalizers after they are gone."""
        collection, old = self.collection(resource), self.get(resource, namespace, name)
        self._hold(resource, old, uid, version)
        if grace is None:
            grace = (old.get("spec") or {}).get("terminationGracePeriodSeconds", GRACE_SECONDS)
        lingers = bool(meta(old).get("finalizers")) or (resource.plural == "pods" and grace > 0)
        if not lingers:
            return self._commit(collection, (namespace, name), old, None, author)
        if "deletionTimestamp" in meta(old):
            return old
        leaving = {**meta(old), "deletionTimestamp": format_time(self.clock.now()), "deletionGracePeriodSeconds": grace}
        return self._commit(collection, (namespace, name), old, {**old, "metadata": leaving}, author)

    @staticmethod
    def _hold(resource: Resource, old: Object, uid: str | None, version: str | None) -> None:
        if uid is not None and uid != meta(old)["uid"]:
            raise RefusedError(409, "Conflict", f"{resource.plural}: the UID in the precondition ({uid}) is not {meta(old)['uid']}")
        if version and version != meta(old)["resourceVersion"]:
            raise RefusedError(409, "Conflict", f"{resource.plural} {meta(old)['name']!r} has been modified")

    def _commit(self, collection: Collection, key: tuple[str, str], old: Object | None, new: Object | None, author: str) -> Object:
        self.version += 1
        stamped = {"resourceVersion": str(self.version)}
        if new is None:
            assert old is not None
            old = {**old, "metadata": {**meta(old), **stamped}}
            del collection.objects[key]
        else:
            new = {**new, "metadata": {**meta(new), **stamped}}
            collection.objects[key] = new
        change = Change(self.version, self.clock.monotonic(), collection.resource, old, new, author)
        collection.history.append(change)
        for told in self.on_change:
            told(change)
        for wake in list(collection.watchers):
            wake()
        return change.object


def encode(item: Any) -> bytes:
    """The wire's JSON."""
    return msgspec.json.encode(item)
