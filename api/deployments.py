"""The two kinds that are ours, ModelDeployment and ModelDeploymentScaler, as far as rules and judgement read them.

Source: status facts 1.2, admission facts 3.1, decision D1.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from api import keys
from api.meta import EnvVar, LocalRef, ObjectMeta, Struct


class ModelSpec(Struct, frozen=True):
    """`spec.model`."""

    name: str = ""
    artifact_ref: LocalRef | None = None


class EngineSpec(Struct, frozen=True):
    """`spec.engine`: `name` is vLLM or SGLang."""

    name: str = ""
    version: str | None = None


class KVCacheSpec(Struct, frozen=True):
    """`spec.kvCache`: `poolRef` names a KVCachePoolBinding of the same namespace."""

    pool_ref: LocalRef = LocalRef()
    connector: str = "Mooncake"


class KVTransferSpec(Struct, frozen=True):
    """`spec.kvTransfer`."""

    protocol: str | None = None


class RouterSpec(Struct, frozen=True):
    """`spec.router`."""

    name: str = ""
    replicas: int | None = None
    image: str | None = None
    extra_args: tuple[str, ...] = ()
    image_pull_policy: str | None = None
    image_pull_secrets: tuple[LocalRef, ...] = ()
    request_timeout_seconds: int | None = None
    disaggregation_threshold_tokens: int | None = None


class RolePort(Struct, frozen=True):
    """`spec.roles[].ports[]`; the first entry is the serving port."""

    port: int = 0
    protocol: str = "TCP"


def serving_port(ports: Sequence[RolePort]) -> int:
    """The port that a role with those declared ports serves on: the first of them, 8000 where it declares none."""
    return ports[0].port if ports else keys.DEFAULT_SERVING_PORT


class RoleResources(Struct, frozen=True):
    """`spec.roles[].resources`; quantities as written (text or number)."""

    accelerator: str | int | float | None = None
    accelerator_sliced_memory_percentage: int | None = None
    accelerator_sliced_cores_percentage: int | None = None
    accelerator_partitioned_profile: str | None = None
    interface: str | int | float | None = None


class RoleTopology(Struct, frozen=True):
    """`spec.roles[].topology`."""

    required_level: str | None = None


class ElasticEp(Struct, frozen=True):
    """`spec.roles[].elasticEp`."""

    width: int = 0
    head_instance_type: str | None = None


class VolumeMount(Struct, frozen=True):
    """`spec.roles[].additionalVolumes[]`; the three sources are kept as the JSON they came as."""

    mount_path: str = ""
    read_only: bool = False
    sub_path: str | None = None
    config_map: dict[str, Any] | None = None
    secret: dict[str, Any] | None = None
    host_path: dict[str, Any] | None = None


class Role(Struct, frozen=True):
    """`spec.roles[]`."""

    name: str = ""
    kind: str = "Server"
    replicas: int = 1
    size: int = 1
    instance_type: str = ""
    resources: RoleResources | None = None
    image: str | None = None
    image_pull_policy: str | None = None
    image_pull_secrets: tuple[LocalRef, ...] = ()
    privileged: bool | None = None
    ports: tuple[RolePort, ...] = ()
    additional_volumes: tuple[VolumeMount, ...] = ()
    shm_size: str | int | float | None = None
    command: tuple[str, ...] = ()
    extra_args: tuple[str, ...] = ()
    env: tuple[EnvVar, ...] = ()
    topology: RoleTopology | None = None
    termination_grace_period_seconds: int | None = None
    elastic_ep: ElasticEp | None = None

    @property
    def effective_kind(self) -> str:
        """The kind, `Server` where none is stored."""
        return self.kind or "Server"

    @property
    def serving_port(self) -> int:
        """The port that the role's Service targets."""
        return serving_port(self.ports)

    @property
    def serving_protocol(self) -> str:
        """The transport protocol of the serving port."""
        return self.ports[0].protocol if self.ports else "TCP"


class ModelDeploymentSpec(Struct, frozen=True):
    """`spec` of a ModelDeployment."""

    model: ModelSpec = ModelSpec()
    engine: EngineSpec = EngineSpec()
    kv_cache: KVCacheSpec | None = None
    kv_transfer: KVTransferSpec | None = None
    roles: tuple[Role, ...] = ()
    router: RouterSpec | None = None


class ModelDeployment(Struct, frozen=True):
    """A ModelDeployment; `status` stays raw here, `api.status` decodes it where it is wanted."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    spec: ModelDeploymentSpec = ModelDeploymentSpec()
    status: msgspec.Raw = msgspec.Raw(b"null")


class ScalerRole(Struct, frozen=True):
    """`spec.roles[]` of a scaler."""

    name: str = ""
    min_replicas: int = 1
    max_replicas: int = 0


class ScalerSpec(Struct, frozen=True):
    """`spec` of a ModelDeploymentScaler, as far as the fence and its validation read it."""

    target_ref: LocalRef = LocalRef()
    mode: str = "Shadow"
    suspend: bool = False
    roles: tuple[ScalerRole, ...] = ()
    algorithm: dict[str, Any] = msgspec.field(default_factory=dict)


class ModelDeploymentScaler(Struct, frozen=True):
    """A ModelDeploymentScaler."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ScalerSpec = ScalerSpec()
