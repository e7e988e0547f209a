"""What a replica's Workload says about quota.

Source: seed "Quota and flavors", status facts 2.3 and 3.5, lessons F54 and F56.
"""

from collections.abc import Iterable

from api.objects import Condition, Workload, condition
from controller.status.replicas import Fleet, Replica

PARKED_PHRASE = "parked rather than held"


def holds(workload: Workload, kind: str) -> bool:
    """Whether the Workload's condition of that type is True."""
    found = condition(workload.status.conditions, kind)
    return found is not None and found.status == "True"


def reserved(replica: Replica) -> bool:
    """Whether the replica's Workload holds a quota reservation."""
    return replica.workload is not None and holds(replica.workload, "QuotaReserved")


def admitted(workload: Workload) -> bool:
    """Whether the Workload is admitted; a reservation alone is not an admission."""
    return holds(workload, "Admitted")


def preempted(workload: Workload) -> bool:
    """Whether the Workload is preempted; Kueue takes the mark back when it reserves quota for it again."""
    evicted = condition(workload.status.conditions, "Evicted")
    return holds(workload, "Preempted") or (evicted is not None and evicted.status == "True" and evicted.reason == "Preempted")


def parked(workload: Workload) -> bool:
    """Whether the joint admission check gave the Workload up: inactive, and a check says so in its marker phrase."""
    return not workload.spec.active and any(PARKED_PHRASE in check.message for check in workload.status.admission_checks)


def unremarkable(workloads: Iterable[Workload]) -> bool:
    """Whether none of them is parked or preempted, as nearly always: then nobody needs to ask which."""
    return not any(not workload.spec.active or preempted(workload) for workload in workloads)


def reservation(workload: Workload) -> Condition | None:
    """The Workload's QuotaReserved condition."""
    return condition(workload.status.conditions, "QuotaReserved")


def reserved_count(replicas: Iterable[Replica]) -> int:
    """`roles[].quotaReserved`: replicas whose Workload holds quota, each once."""
    return sum(reserved(replica) for replica in replicas)


def workloads_of(fleet: Fleet) -> tuple[Workload, ...]:
    """Every Workload that claims an owned Pod, once, by name."""
    found = {
        fleet.claims[pod.metadata.uid].metadata.name: fleet.claims[pod.metadata.uid]
        for pod in fleet.owned
        if pod.metadata.uid in fleet.claims
    }
    return tuple(found[name] for name in sorted(found))
