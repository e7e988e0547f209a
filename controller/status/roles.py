"""`status.roles[]`: one entry a spec role, in spec order.

`desired` and `parallelism` are the spec's; `ready`, `quotaReserved`, `assignedFlavors` and `unmanaged` are what runs, whatever spec it was
rendered from.

Source: seed "Phase and role summary" and "Readiness gates", status facts 3.4-3.8, lessons F43 and F46.
"""

from collections.abc import Mapping

from api import keys
from api.objects import EngineSpec, Role
from api.status import Endpoints, Group, RoleStatus, Serving
from controller.status.flavors import flavors_of
from controller.status.quota import reserved_count
from controller.status.reading import parallelism_of
from controller.status.replicas import Fleet, Replica
from engines.facade import RoleReading


def unmanaged_of(fleet: Fleet) -> dict[str, bool]:
    """Every role's deployed command mode: whether some replica of it replaced its command."""
    return {name: any(took_over(replica) for replica in fleet.role(name)) for name in fleet.roles}


def took_over(replica: Replica) -> bool:
    """Every member has an engine container and none was stamped for scraping. A mixed replica is unreadable, which is no evidence."""
    # A list, for a generator costs twice as much and this is asked of every replica in every pass.
    return not [m for m in replica.members if keys.PROMETHEUS_PORT in m.pod.metadata.annotations or m.pod.main is None]


def ready_of(fleet: Fleet, role: str) -> int:
    """Replicas that are whole and every member of which is ready and stays."""
    return sum(replica.ready for replica in fleet.role(role))


def role_status(
    role: Role,
    engine: EngineSpec,
    fleet: Fleet,
    reading: RoleReading | None,
    *,
    unmanaged: Mapping[str, bool],
    eligible: int | None,
    serving: Serving,
    groups: tuple[Group, ...],
    workloads_read: bool,
) -> RoleStatus:
    """One entry. Without Workloads (decision D2) `quotaReserved` is left out rather than zero."""
    replicas = fleet.role(role.name)
    return RoleStatus(
        name=role.name,
        kind=role.effective_kind,
        desired=role.replicas,
        ready=ready_of(fleet, role.name),
        quota_reserved=reserved_count(replicas) if workloads_read else None,
        unmanaged=unmanaged[role.name],
        assigned_flavors=flavors_of(replicas),
        parallelism=parallelism_of(engine, reading),
        endpoints=Endpoints(eligible=eligible, serving=serving),
        groups=groups,
    )
