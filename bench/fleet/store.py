"""The stand-in's objects and their versions: lists, changes, and status patches as an API server takes them (RFC 7386 merge patches)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from bench.fleet.feed import Entry, Feed
from bench.fleet.ledger import Ledger
from bench.fleet.world import World, edited

G = "/apis/worker.gpustack.ai/v1"
DEPLOYMENTS, PODS = f"{G}/modeldeployments", "/api/v1/pods"
WORKLOADS = "/apis/kueue.x-k8s.io/v1beta2/workloads"


class StaleError(Exception):
    """The patch names an older version."""


class _PatchMeta(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str = ""


class _Patch(msgspec.Struct, frozen=True):
    metadata: _PatchMeta = _PatchMeta()
    status: dict[str, Any] = {}


_decode_patch = msgspec.json.Decoder(_Patch).decode


@dataclass(slots=True)
class Stored:
    """A deployment as it stands."""

    spec: bytes
    generation: int = 1
    version: int = 1
    status: dict[str, Any] = field(default_factory=dict)
    status_json: bytes = b""


def merge(old: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(old) if isinstance(old, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge(merged.get(name), value)
    return merged


class Store:
    """The world, what became of it, and the feeds that tell of it. `on_write` hears each applied status with its deployment."""

    def __init__(self, world: World, ledger: Ledger, on_write: Callable[[int], None] = lambda _: None) -> None:
        self.world = world
        self.ledger = ledger
        self.on_write = on_write
        self.version = 1
        self.unready: set[int] = set()
        self.stored = [Stored(owner.spec) for owner in world.owners]
        self.numbers = {(owner.namespace, owner.name): number for number, owner in enumerate(world.owners)}
        self._fixed: dict[str, Sequence[bytes]] = {
            WORKLOADS: world.workloads(),
            "/api/v1/services": world.services(),
            f"{G}/instancetypes": world.instance_types(),
            f"{G}/modelartifacts": world.artifacts(),
        }
        self._pods = [world.pod(index, True, 1) for index in range(len(world.places))]
        self.feeds: dict[str, Feed] = {
            PODS: Feed(lambda entry: world.pod(*entry.what, entry.version), self._told),
            DEPLOYMENTS: Feed(lambda entry: bytes(entry.what), kept=4096),
        }

    def feed(self, path: str) -> Feed:
        """The feed of a collection; of one that never changes, an empty one."""
        found = self.feeds.get(path)
        if found is None:
            found = self.feeds[path] = Feed(lambda entry: bytes(entry.what))
        return found

    def count(self, path: str) -> int:
        """How many objects a collection has."""
        return {PODS: len(self._pods), DEPLOYMENTS: len(self.stored)}.get(path, len(self._fixed.get(path, ())))

    def page(self, path: str, numbers: range) -> list[bytes]:
        """Those objects of a collection."""
        if path == PODS:
            return self._pods[numbers.start : numbers.stop]
        if path == DEPLOYMENTS:
            return [self.deployment(number) for number in numbers]
        return list(self._fixed.get(path, ())[numbers.start : numbers.stop])

    def deployment(self, number: int) -> bytes:
        """A ModelDeployment as it stands."""
        stored = self.stored[number]
        return self.world.deployment(number, stored.spec, stored.generation, stored.version, stored.status_json)

    # ------------------------------------------------------------------------------------------------------------ changes

    def flip(self, index: int) -> None:
        """A Pod turns unready, or ready again."""
        self.version += 1
        ready = index in self.unready
        (self.unready.discard if ready else self.unready.add)(index)
        self._pods[index] = self.world.pod(index, ready, self.version)
        self.feeds[PODS].add(self.version, (index, ready))

    def edit(self, number: int) -> None:
        """Somebody changes a deployment's spec."""
        stored = self.stored[number]
        self.version += 1
        stored.spec, stored.generation, stored.version = edited(stored.spec), stored.generation + 1, self.version
        self.feeds[DEPLOYMENTS].add(self.version, self.deployment(number))

    def patch_status(self, number: int, body: bytes) -> bytes:
        """Apply a merge patch to `status`; the answer is the object. Raises StaleError."""
        patch, stored = _decode_patch(body), self.stored[number]
        if patch.metadata.resource_version not in ("", str(stored.version)):
            self.ledger.writes["conflict"] += 1
            raise StaleError
        status = merge(stored.status, patch.status)
        if status == stored.status:
            self.ledger.writes["noop"] += 1
            return self.deployment(number)
        self.version += 1
        stored.status, stored.version, stored.status_json = status, self.version, msgspec.json.encode(status)
        raw = self.deployment(number)
        self.ledger.writes["applied"] += 1
        self.ledger.wrote(number, status)
        self.feeds[DEPLOYMENTS].add(self.version, raw)
        self.on_write(number)
        return raw

    def _told(self, entry: Entry) -> None:
        index, ready = entry.what
        place = self.world.places[index]
        self.ledger.told(place.deployment, place.uid, "True" if ready else "False")

    # ---------------------------------------------------------------------------------------------------------- questions

    def unwritten(self) -> int:
        """Deployments whose status does not show their present generation."""
        return sum(stored.status.get("observedGeneration") != stored.generation for stored in self.stored)

    def settled(self) -> bool:
        """Every change is written, and every edit observed."""
        return not self.ledger.owed and not self.ledger.wrong and not self.feeds[PODS].backlog and not self.unwritten()
