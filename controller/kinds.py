"""The kinds that a status reads: where each is served, how it is projected, and what its absence means.

A kind that the API server does not serve reads as "object not found" (decision D2), but for Workloads under `kueue: required`, where it
is a failed read. A projection that drops an object the statuses never look at is how a cache of a large cluster stays small.
"""

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import msgspec

from api import keys
from api.objects import (
    Deployment,
    KVCachePool,
    KVCachePoolBinding,
    ModelArtifact,
    ModelDeployment,
    ModelDeploymentSpec,
    ObjectMeta,
)
from controller.projection import Commons, WirePod, WireService, WireWorkload, own_metadata
from controller.snapshot import decode_deployment
from kube.resources import DEPLOYMENTS, PODS, SERVICES, Resource


def _ours(plural: str, kind: str, *, namespaced: bool = True) -> Resource:
    return Resource(keys.GROUP, keys.VERSION, plural, kind, namespaced)


MODEL_DEPLOYMENTS: Final = _ours("modeldeployments", keys.MODEL_DEPLOYMENT)
SCALERS: Final = _ours("modeldeploymentscalers", keys.MODEL_DEPLOYMENT_SCALER)
BINDINGS: Final = _ours("kvcachepoolbindings", keys.KV_CACHE_POOL_BINDING)
POOLS: Final = _ours("kvcachepools", keys.KV_CACHE_POOL, namespaced=False)
ARTIFACTS: Final = _ours("modelartifacts", keys.MODEL_ARTIFACT)
INSTANCE_TYPES: Final = _ours("instancetypes", keys.INSTANCE_TYPE, namespaced=False)
WORKLOADS_V1BETA2: Final = Resource("kueue.x-k8s.io", "v1beta2", "workloads", "Workload")
WORKLOADS_V1BETA1: Final = Resource("kueue.x-k8s.io", "v1beta1", "workloads", "Workload")


# The fastest that zlib has: a status of five KiB becomes 1.4, and slower levels find little more.
PACKING: Final = 1


class KindName(StrEnum):
    """The kinds of the cache."""

    DEPLOYMENT = "ModelDeployment"
    POD = "Pod"
    WORKLOAD = "Workload"
    SERVICE = "Service"
    ROUTER = "Deployment"
    BINDING = "KVCachePoolBinding"
    POOL = "KVCachePool"
    ARTIFACT = "ModelArtifact"


class CachedDeployment(msgspec.Struct, frozen=True, gc=False):
    """A ModelDeployment as the cache keeps it: the bytes of its `spec`, which the explicit spec hash covers whole, and its `status` packed.

    Of ten thousand the decoded form would take fifty MiB more; a pass decodes one in some twenty microseconds.
    """

    metadata: ObjectMeta
    spec_json: bytes
    packed_status: bytes

    @property
    def spec(self) -> ModelDeploymentSpec:
        """Decoded anew each time."""
        return _decode_spec(self.spec_json)

    @property
    def status_json(self) -> bytes:
        """The stored status as it came, `null` where there is none."""
        return zlib.decompress(self.packed_status)

    @property
    def deployment(self) -> ModelDeployment:
        """The whole object, decoded anew each time."""
        return ModelDeployment(
            api_version=MODEL_DEPLOYMENTS.api_version,
            kind=MODEL_DEPLOYMENTS.kind,
            metadata=self.metadata,
            spec=self.spec,
            status=msgspec.Raw(self.status_json),
        )


_decode_spec: Final = msgspec.json.Decoder(ModelDeploymentSpec).decode


Projection = Callable[[bytes | msgspec.Raw], Any]


def _as_it_is(item: Any) -> Any:
    return item


@dataclass(frozen=True, slots=True)
class Kind:
    """One row of the table. `resources` newest first; the first that is served is read.

    `project` is from JSON; where a page may be decoded at once, `shape` is the type of its items and `shrink` the rest of the projection.
    """

    name: KindName
    resources: tuple[Resource, ...]
    project: Projection
    label_selector: str | None = None
    must_be_served: bool = False
    shape: type[Any] | None = None
    shrink: Callable[[Any], Any] = _as_it_is


def project_deployment(raw: bytes | msgspec.Raw) -> CachedDeployment:
    """The small form of a ModelDeployment, all of which has to have its shape. Raises msgspec.ValidationError or DecodeError."""
    deployment, spec_json = decode_deployment(raw)
    return CachedDeployment(own_metadata(deployment.metadata), spec_json, zlib.compress(deployment.status, PACKING))


def _projector(kind: type[Any], shrink: Callable[[Any], Any] = _as_it_is) -> Projection:
    decode = msgspec.json.Decoder(kind).decode
    return decode if shrink is _as_it_is else lambda raw: shrink(decode(raw))


def _kept(keep: Callable[[Any], bool], shrink: Callable[[Any], Any] = _as_it_is) -> Callable[[Any], Any]:
    return lambda item: shrink(item) if keep(item) else None


def _of_a_pod(workload: WireWorkload) -> bool:
    return any(ref.kind == "Pod" and ref.api_version == "v1" for ref in workload.metadata.owner_references)


def _owned_by_us(item: WireService | Deployment) -> bool:
    owner = item.metadata.controller
    return owner is not None and owner.kind == keys.MODEL_DEPLOYMENT and owner.api_version.partition("/")[0] == keys.GROUP


def kinds(kueue: str) -> tuple[Kind, ...]:
    """The table under that setting of `kueue`: with `absent` no Workload is ever read."""
    commons = Commons()
    services = _kept(_owned_by_us, commons.service)
    always = (
        Kind(KindName.DEPLOYMENT, (MODEL_DEPLOYMENTS,), project_deployment, must_be_served=True),
        Kind(
            KindName.POD,
            (PODS,),
            _projector(WirePod, commons.pod),
            f"{keys.NAME}={keys.NAME_VALUE}",
            must_be_served=True,
            shape=WirePod,
            shrink=commons.pod,
        ),
        Kind(
            KindName.SERVICE,
            (SERVICES,),
            _projector(WireService, services),
            must_be_served=True,
            shape=WireService,
            shrink=services,
        ),
        Kind(KindName.ROUTER, (DEPLOYMENTS,), _projector(Deployment, _kept(_owned_by_us)), must_be_served=True),
        Kind(KindName.BINDING, (BINDINGS,), _projector(KVCachePoolBinding)),
        Kind(KindName.POOL, (POOLS,), _projector(KVCachePool)),
        Kind(KindName.ARTIFACT, (ARTIFACTS,), _projector(ModelArtifact)),
    )
    if kueue == "absent":
        return always
    shrink = _kept(_of_a_pod, commons.workload)
    return (
        *always,
        Kind(
            KindName.WORKLOAD,
            (WORKLOADS_V1BETA2, WORKLOADS_V1BETA1),
            _projector(WireWorkload, shrink),
            must_be_served=True,
            shape=WireWorkload,
            shrink=shrink,
        ),
    )


class MetadataOnly(msgspec.Struct, frozen=True, gc=False):
    """The part of an object that can be read even where the rest cannot."""

    metadata: ObjectMeta = ObjectMeta()


read_metadata: Final = msgspec.json.Decoder(MetadataOnly).decode
