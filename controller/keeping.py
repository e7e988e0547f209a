"""What a replica of a sharded fleet keeps in memory: the objects of its own shards, and of others what cannot be told apart from them.

The shard follows from a deployment's UID. A replica Pod, a router's Service and Deployment name that UID as their controller; a Workload
names Pods. Objects of foreign shards are dropped as they are decoded. A router's Pods belong to a ReplicaSet and are kept, whosever they
are. A shard that comes needs what was dropped: its objects count as known once every kind was listed anew since.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import msgspec

from api import keys
from api.objects import Deployment, OwnerReference, Pod, Service, Workload
from controller.kinds import CachedDeployment, Kind, KindName
from controller.projection import WirePod, WireWorkload
from controller.shards import shard_of

# In this order: that a Pod is foreign is known before its Workload is looked at.
NARROWED: Final = (KindName.DEPLOYMENT, KindName.POD, KindName.SERVICE, KindName.ROUTER, KindName.WORKLOAD)
# Foreign Pods that are remembered. Forgetting them costs memory for their Workloads, never a status.
BOUND: Final = 1 << 21

_owners: Final = msgspec.json.Decoder(tuple[OwnerReference, ...]).decode


class Keeping:
    """`kept` shards of so many. `serial` counts growth: a list shows the shards that came at or before the serial it began with."""

    def __init__(self, shards: int) -> None:
        self.shards = shards
        self.kept: frozenset[int] = frozenset()
        self.serial = 0
        self._since: dict[int, int] = {}
        self._foreign: set[int] = set()
        self._grown = asyncio.Event()

    def keep(self, shards: frozenset[int]) -> None:
        """From now on these."""
        came = shards - self.kept
        self.kept = shards
        if came:
            self.serial += 1
            self._since.update(dict.fromkeys(came, self.serial))
            self._foreign.clear()
            self._grown.set()

    def covered(self, listed: int) -> frozenset[int]:
        """The kept shards that a list shows which began at that serial."""
        return frozenset(shard for shard in self.kept if self._since[shard] <= listed)

    async def outgrown(self, listed: int) -> None:
        """Return when a list that began at that serial no longer shows all that is to be kept."""
        while self.serial <= listed:
            self._grown.clear()
            await self._grown.wait()

    def narrowed(self, kind: Kind) -> Kind:
        """The same kind with foreign objects dropped: where that is possible before they are made small, so that they fill no tables."""
        if kind.name not in NARROWED:
            return kind
        project, shrink, name = kind.project, kind.shrink, kind.name

        def shrunk(decoded: Any) -> Any:
            return shrink(decoded) if self.keeps(name, decoded) else None

        if kind.shape is not None:
            decode = msgspec.json.Decoder(kind.shape).decode
            return replace(kind, project=lambda raw: shrunk(decode(raw)), shrink=shrunk)

        def projected(raw: bytes | msgspec.Raw) -> Any:
            item = project(raw)
            return item if item is not None and self.keeps(name, item) else None

        return replace(kind, project=projected)

    def keeps(self, kind: KindName, item: Any) -> bool:
        """Whether the object belongs to a kept shard, or may. It may be as it came or as it is kept."""
        return _QUESTIONS[kind](self, item)

    def ours(self, uid: str) -> bool:
        """Whether the deployment of that UID is in a kept shard."""
        return shard_of(uid, self.shards) in self.kept

    def _deployment(self, item: CachedDeployment) -> bool:
        return self.ours(item.metadata.uid)

    def _child(self, item: Service | Deployment) -> bool:
        owner = item.metadata.controller
        return owner is None or self.ours(owner.uid)

    def _pod(self, pod: WirePod | Pod) -> bool:
        references = pod.metadata.owner_references
        owners = _owners(references) if isinstance(references, msgspec.Raw) else references
        owner = next((ref for ref in owners if ref.controller), None)
        if owner is None or owner.kind != keys.MODEL_DEPLOYMENT or self.ours(owner.uid):
            return True
        if len(self._foreign) >= BOUND:
            self._foreign.clear()
        self._foreign.add(hash(pod.metadata.uid))
        return False

    def _workload(self, workload: WireWorkload | Workload) -> bool:
        owners = [hash(ref.uid) for ref in workload.metadata.owner_references if ref.kind == "Pod"]
        return not owners or not self._foreign.issuperset(owners)


_QUESTIONS: Final[dict[KindName, Callable[[Keeping, Any], bool]]] = {
    KindName.DEPLOYMENT: Keeping._deployment,
    KindName.POD: Keeping._pod,
    KindName.SERVICE: Keeping._child,
    KindName.ROUTER: Keeping._child,
    KindName.WORKLOAD: Keeping._workload,
}
