"""What runs for a deployment: its Pods, their Kueue Workloads, the router's Deployment, the Services.

Source: status facts 2.
"""

from typing import Any

import msgspec

from api import keys
from api.meta import Condition, EnvVar, ObjectMeta, Struct


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
        for container in self.spec.containers:  # asked of every Pod in every pass: no generator
            if container.name == keys.MAIN_CONTAINER:
                return container
        return None


class PodSetAssignment(Struct, frozen=True):
    """`status.admission.podSetAssignments[]`."""

    name: str = ""
    flavors: dict[str, str] = msgspec.field(default_factory=dict)


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


class ServiceSpec(Struct, frozen=True):
    """`spec` of a Service. Of a selector that is no map of texts nothing can be said, so it is kept as it came."""

    selector: Any = None


class Service(Struct, frozen=True):
    """A Service, as far as it is read."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ServiceSpec = ServiceSpec()
