"""Objects by namespace and name, and keys under keys: what the cache is made of.

A store takes whole lists (differences are told, deletions among them) and single changes. A hundred thousand objects are held, so what
holds them is small: names are keys as the objects carry them, under their namespace, and a newer version of an object takes over the
texts of the older one that indexes and maps hold.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from api.objects import ObjectMeta


class Key(NamedTuple):
    """A namespace and a name; the namespace is empty for cluster kinds."""

    namespace: str
    name: str


class Change(NamedTuple):
    """What became of one object: `old` None when it is new, `new` None when it is gone."""

    old: Any
    new: Any


_NOTHING: Final[Mapping[str, Any]] = {}


def key_of(meta: ObjectMeta) -> Key:
    """The key of an object."""
    return Key(meta.namespace, meta.name)


def is_older(version: str, than: str) -> bool:
    """Whether a resourceVersion lies before another. Texts that are no numbers are never older: then order of arrival counts."""
    return version.isdecimal() and than.isdecimal() and int(version) < int(than)


class ObjectMap:
    """Projected objects by namespace and name. A map within a map: a tuple for each object would take eight MiB a hundred thousand."""

    def __init__(self) -> None:
        self._spaces: dict[str, dict[str, Any]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Key]:
        return (Key(namespace, name) for namespace, space in self._spaces.items() for name in space)

    def values(self) -> Iterator[Any]:
        """Every object."""
        return (item for space in self._spaces.values() for item in space.values())

    def get(self, namespace: str, name: str) -> Any:
        """The object, or None."""
        return self._spaces.get(namespace, _NOTHING).get(name)

    def within(self, namespace: str) -> Mapping[str, Any]:
        """The objects of a namespace by name."""
        return self._spaces.get(namespace, _NOTHING)

    def put(self, item: Any) -> None:
        """Instead of the object of that name, if there is one."""
        meta = item.metadata
        space = self._spaces.get(meta.namespace)
        if space is None:
            space = self._spaces[meta.namespace] = {}
        before = len(space)
        space[meta.name] = item
        self._count += len(space) - before

    def drop(self, meta: ObjectMeta) -> None:
        """The object of that name has to be there."""
        space = self._spaces[meta.namespace]
        del space[meta.name]
        self._count -= 1
        if not space:
            del self._spaces[meta.namespace]


class Store:
    """The objects of one kind."""

    def __init__(self) -> None:
        self.objects = ObjectMap()
        self._news: set[Key] | None = None  # None: nobody follows

    def get(self, namespace: str, name: str) -> Any:
        """The object, or None."""
        return self.objects.get(namespace, name)

    def put(self, item: Any) -> Change | None:
        """A new or changed object. None where it says nothing new: a repetition, or an older version of the same object."""
        meta = item.metadata
        old = self.objects.get(meta.namespace, meta.name)
        if old is not None and old.metadata.uid == meta.uid:
            seen, came = old.metadata.resource_version, meta.resource_version
            if seen == came or is_older(came, seen):
                return None
            item = succeeding(old, item)
        self.objects.put(item)
        self._note(meta)
        return Change(old, item)

    def drop(self, meta: ObjectMeta) -> Change | None:
        """A deleted object. None where what is stored is another object of that name, or nothing."""
        old = self.objects.get(meta.namespace, meta.name)
        if old is None or (meta.uid and old.metadata.uid != meta.uid):
            return None
        self.objects.drop(meta)
        self._note(meta)
        return Change(old, None)

    def collect(self, item: Any, fresh: ObjectMap) -> None:
        """Put one object of a list that is still coming into what `replace` will take."""
        meta = item.metadata
        known = self.objects.get(meta.namespace, meta.name)
        if known is not None and known.metadata.uid == meta.uid:
            # One object in memory, not two; or at least one copy of its texts.
            item = known if known.metadata.resource_version == meta.resource_version else succeeding(known, item)
        fresh.put(item)

    def replace(self, fresh: ObjectMap) -> Iterator[Change]:
        """A whole list instead of what was known: what it does not hold is gone."""
        known, self.objects = self.objects, fresh
        for old in known.values():
            meta = old.metadata
            new = fresh.get(meta.namespace, meta.name)
            if new is None:
                self._note(meta)
                yield Change(old, None)
            elif new is not old and (new.metadata.uid, new.metadata.resource_version) != (meta.uid, meta.resource_version):
                self._note(meta)
                yield Change(old, new)
        for new in fresh.values():
            if known.get(new.metadata.namespace, new.metadata.name) is None:
                self._note(new.metadata)
                yield Change(None, new)

    # --------------------------------------------------------------------------------------------------------- following

    def follow(self) -> None:
        """From now on keep in mind what changes, for one who looks now and then. To begin with, everything is news."""
        self._news = set(self.objects)

    def news(self) -> set[Key]:
        """The keys of what changed, came or went since this was last asked; empty where nobody follows."""
        if not self._news:
            return set()
        found, self._news = self._news, set()
        return found

    def unfollow(self) -> None:
        """Nobody will ask any more."""
        self._news = None

    def _note(self, meta: ObjectMeta) -> None:
        if self._news is not None:
            self._news.add(key_of(meta))


def succeeding(old: Any, new: Any) -> Any:
    """The newer version of an object with the texts that the older one brought, where they are equal: one copy of each is held."""
    was, now = old.metadata, new.metadata
    return replace(
        new,
        metadata=replace(
            now,
            name=was.name,
            uid=was.uid,
            labels=was.labels if was.labels == now.labels else now.labels,
            owner_references=was.owner_references if was.owner_references == now.owner_references else now.owner_references,
        ),
    )


class Index:
    """Keys under a key. Most stand alone, so a single one is kept as itself and only several as a set; none is not kept."""

    def __init__(self) -> None:
        self._held: dict[Any, Any] = {}

    def add(self, under: Any, value: Any) -> None:
        """Put `value` there."""
        held = self._held.setdefault(under, value)
        if isinstance(held, set):
            held.add(value)
        elif held != value:
            self._held[under] = {held, value}

    def discard(self, under: Any, value: Any) -> None:
        """Take `value` away, if it is there."""
        held = self._held.get(under)
        if isinstance(held, set):
            held.discard(value)
            if not held:
                del self._held[under]
        elif held is not None and held == value:
            del self._held[under]

    def get(self, under: Any) -> Collection[Any]:
        """What is there, empty when nothing is."""
        held = self._held.get(under)
        if held is None:
            return ()
        return held if isinstance(held, set) else (held,)

    def __len__(self) -> int:
        return len(self._held)
