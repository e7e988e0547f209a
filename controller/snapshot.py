"""One pass's view of a deployment as a frozen value: everything a judgement may read, and nothing it could read twice.

The runner builds a Snapshot from its cache once a pass and `controller.dump` builds one from a file; `controller.status.judge` reads only
this. Absence is spelled out: `None` for an object that was looked for and not found, while a look-up that failed yields no Snapshot at all.

`Observations` is the file-only document of a dump (decision D8), and what the observers hand over in a cluster.

Source: architecture page "The status path", decisions D2, D7, D8.
"""

from datetime import datetime
from typing import Literal

import msgspec

from api.objects import (
    Deployment,
    KVCachePool,
    KVCachePoolBinding,
    ModelArtifact,
    ModelDeployment,
    ObjectMeta,
    Pod,
    Service,
    Struct,
    Workload,
)
from api.status import Status


class StatusSettings(Struct, frozen=True):
    """The settings that a judgement reads.

    `kueue`: `absent` reads no Workload (D2). `reserved_namespaces`: exact names, or prefixes that end with `*`; they have no LocalQueue.
    `act`: `retire` lets the controller perform what a retirement asks for; `status` only reports it.
    """

    kueue: Literal["required", "absent"] = "required"
    reserved_namespaces: tuple[str, ...] = ("gpustack-system",)
    act: Literal["status", "retire"] = "status"

    def reserves(self, namespace: str) -> bool:
        """Whether the namespace deliberately has no LocalQueue."""
        return any(namespace.startswith(entry[:-1]) if entry.endswith("*") else namespace == entry for entry in self.reserved_namespaces)


# -------------------------------------------------------------------------------------------------------- observations


class CacheOperations(Struct, frozen=True):
    """Store operations that one engine accounted for. A Pod without an entry gave no account."""

    pod_uid: str = msgspec.field(name="podUID", default="")
    succeeded: int = 0
    failed: int = 0


class Forward(Struct, frozen=True):
    """What came of asking one member whether its forward path carries a request."""

    pod_uid: str = msgspec.field(name="podUID", default="")
    outcome: str = "Unanswered"


class RouterWorker(Struct, frozen=True):
    """One row of a router's registry, bound to a Pod."""

    pod_uid: str = msgspec.field(name="podUID", default="")
    port: int = 0
    role: str = ""
    in_selection: bool = False


class RouterView(Struct, frozen=True):
    """What one router Pod answered, or why it did not."""

    router_pod_uid: str = msgspec.field(name="routerPodUID", default="")
    boot_generation: int | None = None
    received_at: str | None = None
    error: str | None = None
    workers: tuple[RouterWorker, ...] = ()


class DrainRead(Struct, frozen=True):
    """One reading of a member's request gauges."""

    at: str | None = None
    outcome: str = "Error"
    detail: str = ""


class Drain(Struct, frozen=True):
    """A member's drain readings, oldest first."""

    pod_uid: str = msgspec.field(name="podUID", default="")
    reads: tuple[DrainRead, ...] = ()


class ScaleRefusal(Struct, frozen=True):
    """An engine's refusal of a scale command."""

    attempts: int = 0
    message: str = ""
    abandoned: bool = False


class ElasticObservation(Struct, frozen=True):
    """The elastic world as last seen. `record`: whether the operation's record was there; None: it was not looked for."""

    desired: int | None = None
    observed: int | None = None
    known: bool | None = None
    refusal: ScaleRefusal | None = None
    proof: str = ""
    record: bool | None = None


class Slot(Struct, frozen=True):
    """One replica position of a role."""

    role: str = ""
    ordinal: int = 0


class Rollout(Struct, frozen=True):
    """What a converging pass accounted for. Absent: it is derived from the Pods (decision D8)."""

    observed: bool = True
    outdated: int = 0
    held: int = 0
    held_by: str | None = None
    missing: tuple[Slot, ...] = ()
    replacing: tuple[Slot, ...] = ()
    accounted: int | None = None


class Observations(Struct, frozen=True):
    """The file-only document of a dump; `metadata` names the deployment it belongs to."""

    metadata: ObjectMeta = ObjectMeta()
    now: str | None = None
    cache_operations: tuple[CacheOperations, ...] = ()
    forward: tuple[Forward, ...] = ()
    router_views: tuple[RouterView, ...] = ()
    drain: tuple[Drain, ...] = ()
    elastic: ElasticObservation | None = None
    rollout: Rollout | None = None


class Membership(Struct, frozen=True):
    """An uncached list of the deployment's Pods, read when the router views were collected.

    `complete` is False where that read failed: then nothing is proved by it, and what an earlier read of the same pass disproved stays so.
    """

    pods: tuple[Pod, ...] = ()
    complete: bool = True


# ------------------------------------------------------------------------------------------------------------ snapshot


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """Everything one pass reads.

    `spec_json` is the deployment's `spec` as the API server sent it: the explicit spec hash (D9) covers fields that no projection names.
    `pods` are all Pods of the namespace that carry the instance label, departing ones included; the judgement keeps those whose controller
    is this deployment's UID. `membership` None means that `pods` are themselves an uncached reading (a dump is one).
    `workloads` may be those of the whole namespace; only references by Pod UID count.
    """

    deployment: ModelDeployment
    spec_json: bytes
    now: datetime
    pods: tuple[Pod, ...] = ()
    workloads: tuple[Workload, ...] = ()
    router_deployment: Deployment | None = None
    router_pods: tuple[Pod, ...] = ()
    services: tuple[Service, ...] = ()
    binding: KVCachePoolBinding | None = None
    pool: KVCachePool | None = None
    artifact: ModelArtifact | None = None
    observations: Observations | None = None
    membership: Membership | None = None
    previous: Status | None = None
    settings: StatusSettings = StatusSettings()


class _SpecOnly(msgspec.Struct, frozen=True):
    spec: msgspec.Raw = msgspec.Raw(b"{}")


_DEPLOYMENT = msgspec.json.Decoder(ModelDeployment)
_SPEC = msgspec.json.Decoder(_SpecOnly)


def decode_deployment(raw: bytes | msgspec.Raw) -> tuple[ModelDeployment, bytes]:
    """A ModelDeployment and the bytes of its `spec`, from its JSON. Raises msgspec.ValidationError or DecodeError."""
    return _DEPLOYMENT.decode(raw), bytes(_SPEC.decode(raw).spec)
