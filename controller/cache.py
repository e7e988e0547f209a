"""What is known of the cluster: projected objects, indexed so that one changed object finds its deployments without a search.

Nothing here decides anything. The stores hold the objects; the cache keeps the indexes on top: Pods and router parts by
deployment, Workloads by the UID of the Pod that owns them, and who refers to which Binding, pool and artifact. Every change
answers with the keys of the deployments that it concerns. What belongs to a deployment stands in its namespace, so names say enough.
"""

from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from typing import Any, Final

from api import keys
from api.objects import Deployment, ObjectMeta, Pod, Service, Workload
from controller.kinds import CachedDeployment, Kind, KindName
from controller.store import Change, Index, Key, Store, key_of

_UNVERSIONED: Final = tuple(name for name in ObjectMeta.__struct_fields__ if name != "resource_version")


def looks_alike(old: Any, new: Any) -> bool:
    """Whether two projections differ in nothing but the resourceVersion: such a change concerns nobody."""
    for name in old.__struct_fields__:
        if name != "metadata" and getattr(old, name) != getattr(new, name):
            return False
    was, now = old.metadata, new.metadata
    return all(getattr(was, name) == getattr(now, name) for name in _UNVERSIONED)


class Cache:
    """All stores and the indexes over them."""

    def __init__(self, kinds: Iterable[Kind]) -> None:
        self.stores: dict[KindName, Store] = {kind.name: Store() for kind in kinds}
        self._workloads: dict[str, Index] = {}  # namespace -> Pod UID -> names of Workloads
        self._children: dict[KindName, Index] = {name: Index() for name in _PARENTS}  # deployment key -> names
        self._referrers = Index()  # (kind, namespace, name) -> deployment keys
        self._bindings_of_pool = Index()  # pool name -> Binding keys

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
            case KindName.WORKLOAD:
                return self._index_workload(old, new)
            case KindName.POD | KindName.SERVICE | KindName.ROUTER:
                return self._index_child(kind, old, new)
            case KindName.BINDING:
                if old is not None:
                    self._bindings_of_pool.discard(old.spec.pool_ref.name, key_of(old.metadata))
                if new is not None:
                    self._bindings_of_pool.add(new.spec.pool_ref.name, key_of(new.metadata))
                return self._referring(kind, old or new)
            case KindName.POOL:
                bindings = self._bindings_of_pool.get((old or new).metadata.name)
                return {key for binding in bindings for key in self._referrers.get((KindName.BINDING, *binding))}
            case KindName.ARTIFACT:
                return self._referring(kind, old or new)

    def _index_child(self, kind: KindName, old: Any, new: Any) -> set[Key]:
        parent, index = _PARENTS[kind], self._children[kind]
        before = parent(old) if old is not None else None
        after = parent(new) if new is not None else None
        if before is not None and before == after:
            return {before}  # most changes move nothing
        places = set()
        if before is not None:
            index.discard(before, old.metadata.name)
            places.add(before)
        if after is not None:
            index.add(after, new.metadata.name)
            places.add(after)
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

    def _index_workload(self, old: Workload | None, new: Workload | None) -> set[Key]:
        before = _pod_owners(old) if old else _NOBODY
        after = _pod_owners(new) if new else _NOBODY
        if before != after:
            meta = (new or old).metadata  # type: ignore[union-attr]  # one of the two is there
            # Apart by namespace: owners are texts, and another namespace's Workload of that name may name the same Pod.
            index = self._workloads.setdefault(meta.namespace, Index())
            for uid in before - after:
                index.discard(uid, meta.name)
            for uid in after - before:
                index.add(uid, meta.name)
            if not len(index):
                del self._workloads[meta.namespace]
        return self._deployments_of(old) | self._deployments_of(new)

    def _deployments_of(self, workload: Workload | None) -> set[Key]:
        """The deployments whose Pods own the Workload, as far as those Pods are known."""
        found: set[Key] = set()
        if workload is None:
            return found
        pods = self.stores[KindName.POD].objects.within(workload.metadata.namespace)
        for ref in workload.metadata.owner_references:
            pod = pods.get(ref.name) if ref.kind == "Pod" else None
            if pod is not None and pod.metadata.uid == ref.uid:
                found.add(_instance(pod))
        return found

    # ------------------------------------------------------------------------------------------------------------ reads

    def deployments(self) -> list[Key]:
        """The key of every ModelDeployment."""
        return list(self.stores[KindName.DEPLOYMENT].objects)

    def deployment(self, key: Key) -> CachedDeployment | None:
        """One ModelDeployment."""
        found: CachedDeployment | None = self.stores[KindName.DEPLOYMENT].get(*key)
        return found

    def pods(self, key: Key) -> list[Pod]:
        """Every Pod that carries the deployment's instance label, router Pods among them, by name."""
        return self._children_of(KindName.POD, key)

    def workloads(self, namespace: str, pods: Iterable[Pod], uid: str = "") -> list[Workload]:
        """The Workloads there that name one of these Pods as an owner, and the one of that UID, whose Pods may be gone; by name."""
        if KindName.WORKLOAD not in self.stores:
            return []
        objects, index = self.stores[KindName.WORKLOAD].objects.within(namespace), self._workloads.get(namespace)
        found = {name for pod in pods for name in index.get(pod.metadata.uid) if name in objects} if index is not None else set()
        if uid and not any(objects[name].metadata.uid == uid for name in found):
            found |= {name for name, item in objects.items() if item.metadata.uid == uid}  # rare: only while an operation settles
        return [objects[name] for name in sorted(found)]

    def services(self, key: Key) -> list[Service]:
        """The Services whose controller is a deployment of that name, by name."""
        return self._children_of(KindName.SERVICE, key)

    def routers(self, key: Key) -> list[Deployment]:
        """The Deployments whose controller is a deployment of that name, by name."""
        return self._children_of(KindName.ROUTER, key)

    def find(self, kind: KindName, namespace: str, name: str) -> Any:
        """One object, or None."""
        return self.stores[kind].get(namespace, name)

    def _children_of(self, kind: KindName, key: Key) -> list[Any]:
        objects = self.stores[kind].objects.within(key.namespace)
        return [objects[name] for name in sorted(self._children[kind].get(key)) if name in objects]


def _instance(pod: Pod) -> Key:
    return Key(pod.metadata.namespace, pod.metadata.labels.get(keys.INSTANCE, ""))


def _owner(item: Service | Deployment) -> Key:
    owner = item.metadata.controller
    return Key(item.metadata.namespace, owner.name if owner else "")


# The deployment that an object of the kind belongs to.
_PARENTS: Final[dict[KindName, Callable[[Any], Key]]] = {
    KindName.POD: _instance,
    KindName.SERVICE: _owner,
    KindName.ROUTER: _owner,
}

_NOBODY: Final[frozenset[str]] = frozenset()


def _pod_owners(workload: Workload) -> AbstractSet[str]:
    return {ref.uid for ref in workload.metadata.owner_references if ref.kind == "Pod" and ref.api_version == "v1"}


def _references(cached: CachedDeployment) -> set[tuple[KindName, str, str]]:
    spec, namespace = cached.spec, cached.metadata.namespace
    found: set[tuple[KindName, str, str]] = set()
    if spec.kv_cache:
        found.add((KindName.BINDING, namespace, spec.kv_cache.pool_ref.name))
    if spec.model.artifact_ref:
        found.add((KindName.ARTIFACT, namespace, spec.model.artifact_ref.name))
    return {reference for reference in found if reference[2]}
