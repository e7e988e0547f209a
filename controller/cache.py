"""What is known of the cluster: projected objects, indexed so that one changed object finds its deployments without a search.

Nothing here decides anything. A store is a map by namespace and name that takes whole lists (differences are told, deletions among
them) and single changes; the cache keeps the indexes on top: Pods and router parts by deployment, Workloads by the UID of the Pod that
owns them, and who refers to which Binding, pool, artifact, instance type. Every change answers with the keys of the deployments that it
concerns.
"""

from collections.abc import Collection, Iterable, Iterator
from collections.abc import Set as AbstractSet
from typing import Any, Final, NamedTuple

from api import keys
from api.objects import Deployment, InstanceType, ModelDeploymentScaler, ObjectMeta, Pod, Service, Workload
from controller.kinds import CachedDeployment, Kind, KindName


class Key(NamedTuple):
    """A namespace and a name; the namespace is empty for cluster kinds."""

    namespace: str
    name: str


_UNVERSIONED: Final = tuple(name for name in ObjectMeta.__struct_fields__ if name != "resource_version")


class Change(NamedTuple):
    """What became of one object: `old` None when it is new, `new` None when it is gone."""

    old: Any
    new: Any


def key_of(meta: ObjectMeta) -> Key:
    """The key of an object."""
    return Key(meta.namespace, meta.name)


def is_older(version: str, than: str) -> bool:
    """Whether a resourceVersion lies before another. Texts that are no numbers are never older: then order of arrival counts."""
    return version.isdecimal() and than.isdecimal() and int(version) < int(than)


def looks_alike(old: Any, new: Any) -> bool:
    """Whether two projections differ in nothing but the resourceVersion: such a change concerns nobody."""
    if isinstance(old, CachedDeployment):  # the rest of it follows from the spec's JSON
        if old.spec_json != new.spec_json or old.deployment.status != new.deployment.status:
            return False
    else:
        for name in old.__struct_fields__:
            if name != "metadata" and getattr(old, name) != getattr(new, name):
                return False
    was, now = old.metadata, new.metadata
    return all(getattr(was, name) == getattr(now, name) for name in _UNVERSIONED)


class Store:
    """The objects of one kind. `revision` grows with every change of them."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.revision = 0
        self.objects: dict[Key, Any] = {}

    def get(self, namespace: str, name: str) -> Any:
        """The object, or None."""
        return self.objects.get(Key(namespace, name))

    def put(self, item: Any) -> Change | None:
        """A new or changed object. None where it says nothing new: a repetition, or an older version of the same object."""
        key = key_of(item.metadata)
        old = self.objects.get(key)
        if old is not None and old.metadata.uid == item.metadata.uid:
            seen, came = old.metadata.resource_version, item.metadata.resource_version
            if seen == came or is_older(came, seen):
                return None
        self.objects[key] = item
        self.revision += 1
        return Change(old, item)

    def drop(self, meta: ObjectMeta) -> Change | None:
        """A deleted object. None where what is stored is another object of that name, or nothing."""
        key = key_of(meta)
        old = self.objects.get(key)
        if old is None or (meta.uid and old.metadata.uid != meta.uid):
            return None
        del self.objects[key]
        self.revision += 1
        return Change(old, None)

    def replace(self, fresh: dict[Key, Any]) -> Iterator[Change]:
        """A whole list instead of what was known: what it does not hold is gone."""
        known, self.objects = self.objects, fresh
        self.revision += 1
        for key, old in known.items():
            new = fresh.get(key)
            if new is None:
                yield Change(old, None)
            elif new.metadata.uid != old.metadata.uid or new.metadata.resource_version != old.metadata.resource_version:
                yield Change(old, new)
        for key, new in fresh.items():
            if key not in known:
                yield Change(None, new)


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


class Cache:
    """All stores and the indexes over them."""

    def __init__(self, kinds: Iterable[Kind]) -> None:
        self.stores: dict[KindName, Store] = {kind.name: Store(kind) for kind in kinds}
        self._pods = Index()  # deployment key -> Pod keys
        self._keys: dict[Key, Key] = {}
        self._workloads = Index()  # Pod UID -> Workload keys
        self._children: dict[KindName, Index] = {KindName.SERVICE: Index(), KindName.ROUTER: Index()}
        self._referrers = Index()  # (kind, namespace, name) -> deployment keys
        self._bindings_of_pool = Index()  # pool name -> Binding keys
        self._scalers = Index()  # deployment key -> scaler keys

    # ---------------------------------------------------------------------------------------------------------- changes

    def note(self, kind: KindName, change: Change) -> set[Key]:
        """Bring the indexes up to date; the answer is the deployments that the change concerns."""
        old, new = change
        concerned = self._index(kind, old, new)
        return set() if old is not None and new is not None and looks_alike(old, new) else concerned

    def _index(self, kind: KindName, old: Any, new: Any) -> set[Key]:
        match kind:
            case KindName.DEPLOYMENT:
                return self._index_deployment(old, new)
            case KindName.POD:
                return self._index_pod(old, new)
            case KindName.WORKLOAD:
                return self._index_workload(old, new)
            case KindName.SERVICE | KindName.ROUTER:
                return self._move(self._children[kind], old, new, _owner)
            case KindName.SCALER:
                return self._move(self._scalers, old, new, lambda scaler: Key(scaler.metadata.namespace, scaler.spec.target_ref.name))
            case KindName.BINDING:
                self._move(self._bindings_of_pool, old, new, lambda binding: binding.spec.pool_ref.name)
                return self._referring(kind, old or new)
            case KindName.POOL:
                bindings = self._bindings_of_pool.get((old or new).metadata.name)
                return {key for binding in bindings for key in self._referrers.get((KindName.BINDING, *binding))}
            case KindName.ARTIFACT | KindName.INSTANCE_TYPE:
                return self._referring(kind, old or new)

    @staticmethod
    def _move(index: Index, old: Any, new: Any, under: Any) -> set[Any]:
        places = set()
        if old is not None:
            index.discard(under(old), key_of(old.metadata))
            places.add(under(old))
        if new is not None:
            index.add(under(new), key_of(new.metadata))
            places.add(under(new))
        return places

    def _referring(self, kind: KindName, item: Any) -> set[Key]:
        return set(self._referrers.get((kind, item.metadata.namespace, item.metadata.name)))

    def _index_deployment(self, old: CachedDeployment | None, new: CachedDeployment | None) -> set[Key]:
        key = key_of((new or old).metadata)  # type: ignore[union-attr]  # one of the two is there
        if old is not None and new is not None and old.spec_json == new.spec_json:
            return {key}  # a status moved: nobody else is referred to
        before = _references(old) if old else set()
        after = _references(new) if new else set()
        for reference in before - after:
            self._referrers.discard(reference, key)
        for reference in after - before:
            self._referrers.add(reference, key)
        return {key}

    def _index_pod(self, old: Pod | None, new: Pod | None) -> set[Key]:
        before = _instance(old) if old is not None else None
        after = _instance(new) if new is not None else None
        if old is not None and new is not None and before == after and old.metadata.uid == new.metadata.uid:
            return {after}  # type: ignore[arg-type]  # there is one: most changes of Pods move nothing
        if old is not None:
            self._pods.discard(before, key_of(old.metadata))
        if new is not None and after is not None:
            self._pods.add(self._same_key(after), key_of(new.metadata))
        return {key for key in (before, after) if key is not None}

    def _index_workload(self, old: Workload | None, new: Workload | None) -> set[Key]:
        before = _pod_owners(old) if old else _NOBODY
        after = _pod_owners(new) if new else _NOBODY
        if before != after:
            key = key_of((new or old).metadata)  # type: ignore[union-attr]  # one of the two is there
            for uid in before - after:
                self._workloads.discard(uid, key)
            for uid in after - before:
                self._workloads.add(uid, key)
        return self._deployments_of(old) | self._deployments_of(new)

    def _deployments_of(self, workload: Workload | None) -> set[Key]:
        """The deployments whose Pods own the Workload, as far as those Pods are known."""
        found: set[Key] = set()
        if workload is None:
            return found
        pods, namespace = self.stores[KindName.POD].objects, workload.metadata.namespace
        for ref in workload.metadata.owner_references:
            pod = pods.get(Key(namespace, ref.name)) if ref.kind == "Pod" else None
            if pod is not None and pod.metadata.uid == ref.uid:
                found.add(_instance(pod))
        return found

    def _same_key(self, key: Key) -> Key:
        """The key object that is already held, so that a hundred thousand Pods do not bring one each."""
        return self._keys.setdefault(key, key) if len(self._keys) < 1 << 16 else key

    # ------------------------------------------------------------------------------------------------------------ reads

    def deployments(self) -> list[Key]:
        """The key of every ModelDeployment."""
        return list(self.stores[KindName.DEPLOYMENT].objects)

    def deployment(self, key: Key) -> CachedDeployment | None:
        """One ModelDeployment."""
        found: CachedDeployment | None = self.stores[KindName.DEPLOYMENT].objects.get(key)
        return found

    def pods(self, key: Key) -> list[Pod]:
        """Every Pod that carries the deployment's instance label, router Pods among them, by name."""
        return self._children_of(KindName.POD, self._pods.get(key))

    def workloads(self, pods: Iterable[Pod], uid: str = "") -> list[Workload]:
        """The Workloads that name one of these Pods as an owner, and the one of that UID, whose Pods may be gone; by name."""
        if KindName.WORKLOAD not in self.stores:
            return []
        wanted = {key for pod in pods for key in self._workloads.get(pod.metadata.uid)}
        objects = self.stores[KindName.WORKLOAD].objects
        if uid and not any(objects[key].metadata.uid == uid for key in wanted):
            wanted |= {key for key, found in objects.items() if found.metadata.uid == uid}  # rare: only while an operation settles
        return self._children_of(KindName.WORKLOAD, wanted)

    def services(self, key: Key) -> list[Service]:
        """The Services whose controller is a deployment of that name, by name."""
        return self._children_of(KindName.SERVICE, self._children[KindName.SERVICE].get(key))

    def routers(self, key: Key) -> list[Deployment]:
        """The Deployments whose controller is a deployment of that name, by name."""
        return self._children_of(KindName.ROUTER, self._children[KindName.ROUTER].get(key))

    def scalers(self, key: Key) -> list[ModelDeploymentScaler]:
        """The scalers that target the deployment, by name."""
        return self._children_of(KindName.SCALER, self._scalers.get(key))

    def instance_types(self, names: Iterable[str]) -> dict[str, InstanceType]:
        """Those of the named instance types that exist."""
        store = self.stores[KindName.INSTANCE_TYPE]
        return {name: found for name in names if (found := store.get("", name)) is not None}

    def find(self, kind: KindName, namespace: str, name: str) -> Any:
        """One object, or None."""
        return self.stores[kind].get(namespace, name)

    def _children_of(self, kind: KindName, found: Iterable[Key]) -> list[Any]:
        objects = self.stores[kind].objects
        return [objects[key] for key in sorted(found) if key in objects]


def _instance(pod: Pod) -> Key:
    return Key(pod.metadata.namespace, pod.metadata.labels.get(keys.INSTANCE, ""))


def _owner(item: Service | Deployment) -> Key:
    owner = item.metadata.controller
    return Key(item.metadata.namespace, owner.name if owner else "")


_NOBODY: Final[frozenset[str]] = frozenset()


def _pod_owners(workload: Workload) -> AbstractSet[str]:
    return {ref.uid for ref in workload.metadata.owner_references if ref.kind == "Pod" and ref.api_version == "v1"}


def _references(cached: CachedDeployment) -> set[tuple[KindName, str, str]]:
    spec, namespace = cached.deployment.spec, cached.metadata.namespace
    found = {(KindName.INSTANCE_TYPE, "", role.instance_type) for role in spec.roles}
    found |= {(KindName.INSTANCE_TYPE, "", role.elastic_ep.head_instance_type or "") for role in spec.roles if role.elastic_ep}
    if spec.kv_cache:
        found.add((KindName.BINDING, namespace, spec.kv_cache.pool_ref.name))
    if spec.model.artifact_ref:
        found.add((KindName.ARTIFACT, namespace, spec.model.artifact_ref.name))
    return {reference for reference in found if reference[2]}
