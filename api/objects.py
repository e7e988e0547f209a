"""Projections of the Kubernetes objects that the product reads: structs that name only the fields used.

Everything here decodes from the API server's JSON with msgspec and skips what it does not name, so a Pod costs one to two KiB and a field
nobody reads costs nothing. The structs are lenient where the API is (an absent list is empty); what has to be told apart from absent is
`None`. Times are the RFC 3339 texts of the wire: most passes never look at them, and those that do parse them once.
Source: status facts 1.2 and 2, admission facts 3.1, decisions D1.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from api import keys


class Struct(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """A frozen value with the wire's camelCase names."""


class OwnerReference(Struct, frozen=True):
    """`metadata.ownerReferences[]`."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class ObjectMeta(Struct, frozen=True):
    """`metadata`, as far as it is read."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    generate_name: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[OwnerReference, ...] = ()

    @property
    def deleting(self) -> bool:
        """Whether the object is on its way out."""
        return self.deletion_timestamp is not None

    @property
    def controller(self) -> OwnerReference | None:
        """The owner that controls the object, if it has one."""
        return next((ref for ref in self.owner_references if ref.controller), None)


class Condition(Struct, frozen=True):
    """One entry of `status.conditions` of any kind."""

    type: str = ""
    status: str = "Unknown"
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None
    observed_generation: int | None = None


def condition(conditions: tuple[Condition, ...], kind: str) -> Condition | None:
    """The condition of that type, or None when nobody reported it."""
    return next((c for c in conditions if c.type == kind), None)


class LocalRef(Struct, frozen=True):
    """A reference by name within the namespace."""

    name: str = ""


# ---------------------------------------------------------------------------------------------------- ModelDeployment


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


class EnvVar(Struct, frozen=True):
    """`env[]`: a role's values are literal; a Pod's may come from elsewhere, then `value` is None."""

    name: str = ""
    value: str | None = None


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


# ---------------------------------------------------------------------------------------------- ModelDeploymentScaler


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
    algorithm: dict[str, Any] = {}


class ModelDeploymentScaler(Struct, frozen=True):
    """A ModelDeploymentScaler."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ScalerSpec = ScalerSpec()


# ------------------------------------------------------------------------------------------------------- cluster kinds


class ContainerPort(Struct, frozen=True):
    """`containers[].ports[]`."""

    container_port: int = 0
    name: str = ""
    protocol: str = "TCP"


class Container(Struct, frozen=True):
    """A container of a Pod, as far as it is read."""

    name: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    env: tuple[EnvVar, ...] = ()
    ports: tuple[ContainerPort, ...] = ()


class ContainerStatus(Struct, frozen=True):
    """`status.containerStatuses[]`."""

    name: str = ""
    ready: bool = False
    restart_count: int = 0


class PodSpec(Struct, frozen=True):
    """`spec` of a Pod."""

    containers: tuple[Container, ...] = ()
    node_name: str | None = None


class PodStatus(Struct, frozen=True):
    """`status` of a Pod."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    conditions: tuple[Condition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    pod_ip: str = msgspec.field(name="podIP", default="")


class Pod(Struct, frozen=True):
    """A Pod."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def main(self) -> Container | None:
        """The engine's container."""
        return next((c for c in self.spec.containers if c.name == keys.MAIN_CONTAINER), None)


class PodSetAssignment(Struct, frozen=True):
    """`status.admission.podSetAssignments[]`."""

    name: str = ""
    flavors: dict[str, str] = {}


class Admission(Struct, frozen=True):
    """`status.admission` of a Workload."""

    cluster_queue: str = ""
    pod_set_assignments: tuple[PodSetAssignment, ...] = ()


class AdmissionCheckState(Struct, frozen=True):
    """`status.admissionChecks[]` of a Workload."""

    name: str = ""
    state: str = ""
    message: str = ""


class WorkloadSpec(Struct, frozen=True):
    """`spec` of a Workload; an absent `active` means true."""

    active: bool = True


class WorkloadStatus(Struct, frozen=True):
    """`status` of a Workload."""

    conditions: tuple[Condition, ...] = ()
    admission: Admission | None = None
    admission_checks: tuple[AdmissionCheckState, ...] = ()


class Workload(Struct, frozen=True):
    """A Kueue Workload (v1beta1 and v1beta2 agree on what is read)."""

    metadata: ObjectMeta = ObjectMeta()
    spec: WorkloadSpec = WorkloadSpec()
    status: WorkloadStatus = WorkloadStatus()


class DeploymentStatus(Struct, frozen=True):
    """`status` of an apps/v1 Deployment."""

    ready_replicas: int = 0
    replicas: int = 0
    observed_generation: int = 0


class Deployment(Struct, frozen=True):
    """An apps/v1 Deployment: the router."""

    metadata: ObjectMeta = ObjectMeta()
    status: DeploymentStatus = DeploymentStatus()


class Service(Struct, frozen=True):
    """A Service, as far as it is read."""

    metadata: ObjectMeta = ObjectMeta()
    spec: dict[str, Any] = {}


class BindingDomain(Struct, frozen=True):
    """`spec.domain` of a KVCachePoolBinding."""

    name: str = ""
    block_size: int | None = None
    dtype: str | None = None


class BindingSpec(Struct, frozen=True):
    """`spec` of a KVCachePoolBinding."""

    pool_ref: LocalRef = LocalRef()
    domain: BindingDomain = BindingDomain()


class BindingStatus(Struct, frozen=True):
    """`status` of a KVCachePoolBinding; an absent figure is not a zero."""

    phase: str = ""
    phase_message: str = ""
    conditions: tuple[Condition, ...] = ()
    blocks: int | None = None
    usage: str | int | float | None = None


class KVCachePoolBinding(Struct, frozen=True):
    """A KVCachePoolBinding."""

    metadata: ObjectMeta = ObjectMeta()
    spec: BindingSpec = BindingSpec()
    status: BindingStatus = BindingStatus()


class KVCachePoolStatus(Struct, frozen=True):
    """`status` of a KVCachePool."""

    phase: str = ""
    client_endpoint: str = ""


class KVCachePool(Struct, frozen=True):
    """A KVCachePool."""

    metadata: ObjectMeta = ObjectMeta()
    spec: dict[str, Any] = {}
    status: KVCachePoolStatus = KVCachePoolStatus()


class InstanceTypeSpec(Struct, frozen=True):
    """`spec` of an InstanceType."""

    acceleratable: bool = False
    accelerator_group: str = ""


class InstanceTypeStatus(Struct, frozen=True):
    """`status` of an InstanceType; `detail` absent means not observed yet."""

    entrance: str = ""
    accelerator: dict[str, Any] | None = None
    detail: dict[str, Any] | None = None


class InstanceType(Struct, frozen=True):
    """An InstanceType."""

    metadata: ObjectMeta = ObjectMeta()
    spec: InstanceTypeSpec = InstanceTypeSpec()
    status: InstanceTypeStatus = InstanceTypeStatus()


class ModelArtifact(Struct, frozen=True):
    """A ModelArtifact; read as raw parts by the weights judgement."""

    metadata: ObjectMeta = ObjectMeta()
    spec: dict[str, Any] = {}
    status: dict[str, Any] = {}
