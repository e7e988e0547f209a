"""`roles[].assignedFlavors`: the flavors of the accelerator credits that a role's replicas were assigned.

Source: seed "Quota and flavors", status facts 3.6.
"""

from collections.abc import Iterable
from typing import Final

from api.objects import Workload
from controller.status.replicas import Replica

CREDITS: Final = "credits.gpustack.ai/"
MANUFACTURERS: Final = frozenset({"nvidia", "ascend", "amd", "metax", "mthreads", "iluvatar", "hygon", "thead", "cambricon"})


def is_credit(resource: str) -> bool:
    """Whether the resource is an accelerator credit of a known manufacturer."""
    return resource.startswith(CREDITS) and resource[len(CREDITS) :] in MANUFACTURERS


def flavor_of(workload: Workload | None, role: str) -> str | None:
    """The flavor of the role's PodSet: of its one credit, or None where there is none or more than one."""
    if workload is None or workload.status.admission is None:
        return None
    flavors = [
        flavor
        for assignment in workload.status.admission.pod_set_assignments
        if assignment.name == role
        for resource, flavor in assignment.flavors.items()
        if is_credit(resource)
    ]
    return flavors[0] if len(flavors) == 1 else None


def flavors_of(replicas: Iterable[Replica]) -> tuple[str, ...]:
    """The distinct flavors over the replicas, sorted."""
    return tuple(sorted({flavor for replica in replicas if (flavor := flavor_of(replica.workload, replica.role))}))
