"""QuotaReserved: does every one of the deployment's Workloads hold Kueue quota? First match of the table wins.

Groups are named by role and never by instanceType; the queue is named only where one role is concerned.

Source: seed "QuotaReserved", status facts 4.2, decision D2, lessons F57-F59 and F64.
"""

from collections.abc import Iterable, Sequence

from api.objects import Role, Workload
from api.reasons import QUOTA_RESERVED
from controller.snapshot import Snapshot
from controller.status import quota
from controller.status.replicas import HEAD_SUFFIX, Fleet, Replica, Shape
from controller.status.text import counted, every, listed, named, verb
from controller.status.verdict import Verdict, verdict


def judge(snapshot: Snapshot, fleet: Fleet) -> Verdict:
    """The verdict over the whole set of Workloads."""
    if snapshot.settings.kueue == "absent":
        return verdict(QUOTA_RESERVED, "KueueNotInstalled", "Kueue is set to absent: no Workload is read.")
    remarkable = not quota.unremarkable(fleet.claims.values())
    if remarkable and (parked := [w.metadata.name for w in quota.workloads_of(fleet) if quota.parked(w)]):
        held = f"{counted(len(parked), 'Workload')} {verb(len(parked), 'are')} parked and no longer {verb(len(parked), 'ask')} for quota"
        way = f"Somebody has to reactivate {'it' if len(parked) == 1 else 'them'}, or delete and recreate the deployment."
        return verdict(QUOTA_RESERVED, "Parked", f"{held}: {listed(parked)}. {way}")
    lost, kept = _by_preemption(fleet) if remarkable else ([], [])
    if lost and kept:
        return verdict(QUOTA_RESERVED, "PreemptedInPart", _preempted_in_part(fleet, lost, kept))
    note = _note(lost)
    # The Ray head is no replica: its Workload counts like any other, but it owes none.
    head = snapshot.deployment.metadata.name + HEAD_SUFFIX
    live = [replica for replica in fleet.replicas.values() if replica.workload is not None or replica.role != head]
    live.sort(key=lambda r: (r.role, r.ordinal))
    if not fleet.owned:
        return verdict(QUOTA_RESERVED, "NoReplicas", f"No replica exists yet; {counted(_declared(fleet), 'replica')} declared.")
    if not fleet.live:
        text = f"{every(len(fleet.owned), 'Pod')} {verb(len(fleet.owned), 'are')} terminating{note}."
        return verdict(QUOTA_RESERVED, "AllReplicasTerminating", text)
    if short := _short_role(fleet):
        role, have = short
        text = f"{have}/{role.replicas} replicas of role {role.name} are whole; queue {role.instance_type}{note}."
        return verdict(QUOTA_RESERVED, "PodGroupIncomplete", text)
    if not live:
        return verdict(QUOTA_RESERVED, "NoReplicas", "Live Pods exist, but none of them belongs to a replica.")
    unclaimed = [replica for replica in live if replica.workload is None]
    namespace = snapshot.deployment.metadata.namespace
    if unclaimed and snapshot.settings.reserves(namespace):
        text = f"Namespace {namespace} is reserved and has no LocalQueue; no Workload will be composed."
        return verdict(QUOTA_RESERVED, "NoQueueInReservedNamespace", text)
    if unclaimed:
        count = f"{len(unclaimed)} of {_declared(fleet)} replicas {verb(len(unclaimed), 'have')} no Workload yet"
        return verdict(QUOTA_RESERVED, "AdmissionInFlight", f"{count}; {_concerned(fleet, unclaimed)}{note}.")
    waiting = [replica for replica in live if not quota.reserved(replica)]
    if not waiting:
        queue = _queue(fleet, live)
        text = f"{every(len(live), 'replica')} {verb(len(live), 'hold')} quota" + (f" in {queue}." if queue else ".")
        return verdict(QUOTA_RESERVED, "Reserved", text)
    count = f"{len(waiting)} of {_declared(fleet)} replicas {verb(len(waiting), 'wait')} for quota"
    return verdict(QUOTA_RESERVED, "Pending", f"{count}; {_concerned(fleet, waiting)}{_downstream(waiting)}{note}.")


def _by_preemption(fleet: Fleet) -> tuple[list[Replica], list[Replica]]:
    """The positions that lose their quota to preemption, and those that keep an admission; departing replicas count.

    Kueue marks the preemption first and takes the admission away once the Pods have gone. What is marked is being lost; only where nothing
    else is admitted is it what the set still keeps.
    """
    lost: list[Replica] = []
    going: list[Replica] = []
    kept: list[Replica] = []
    for position in fleet.occupied.values():
        workloads = _voices(fleet, position)
        admitted = [workload for workload in workloads if quota.admitted(workload)]
        if not all(map(quota.preempted, admitted)):
            kept.append(position)
        elif any(map(quota.preempted, workloads)):
            (going if admitted else lost).append(position)
    return (lost, going) if lost and going and not kept else (lost + going, kept)


def _voices(fleet: Fleet, position: Replica) -> tuple[Workload, ...]:
    """Who speaks for a position: its live replica's Workload, and that of a replica that is on its way out of it."""
    live = fleet.replicas.get((position.role, position.ordinal))
    leaving = (fleet.claims.get(member.uid) for member in position.members if member.pod.metadata.deleting)
    gone = next((workload for workload in leaving if workload is not None), None)
    return tuple(w for w in (live.workload if live is not None else None, gone) if w is not None)


def _declared(fleet: Fleet) -> int:
    return sum(role.replicas if role.elastic_ep is None else role.elastic_ep.width for role in fleet.roles.values())


def _queue(fleet: Fleet, replicas: Iterable[Replica]) -> str:
    """The queue of the only role; empty where several roles are concerned, for one that the spec dropped drew from another queue."""
    only = next(iter(fleet.roles.values())) if len(fleet.roles) == 1 else None
    return f"queue {only.instance_type}" if only and all(replica.role == only.name for replica in replicas) else ""


def _short_role(fleet: Fleet) -> tuple[Role, int] | None:
    """The first role with fewer whole replicas than it declares, and how many it has."""
    for name, role in fleet.roles.items():
        whole = sum(replica.shape is Shape.COMPLETE for replica in fleet.role(name))
        if whole < role.replicas:
            return role, whole
    return None


def _concerned(fleet: Fleet, replicas: Sequence[Replica]) -> str:
    return _queue(fleet, replicas) or named("role", (replica.role for replica in replicas))


def _preempted_in_part(fleet: Fleet, lost: list[Replica], kept: list[Replica]) -> str:
    kinds_kept = {fleet.roles[r.role].effective_kind for r in kept if r.role in fleet.roles}
    bare = {fleet.roles[r.role].effective_kind for r in lost if r.role in fleet.roles} - kinds_kept
    keepers = {r.role for r in kept}
    meaning = "capacity was lost, but every kind keeps an admitted replica"
    if bare:
        meaning = f"{named('kind', bare)} {verb(len(bare), 'have')} no admitted replica left"
    return (
        f"{len(lost)} of {_declared(fleet)} replicas {verb(len(lost), 'were')} preempted, of {named('role', (r.role for r in lost))}; "
        f"{named('role', keepers)} {verb(len(keepers), 'keep')} admitted replicas, which hold accelerators meanwhile; {meaning}. "
        "Add capacity, or delete and recreate the deployment."
    )


def _note(lost: list[Replica]) -> str:
    return f"; {counted(len(lost), 'replica')} of {named('role', (r.role for r in lost))} lost quota to preemption" if lost else ""


def _downstream(waiting: Iterable[Replica]) -> str:
    """Kueue's own words for each waiting replica, by role, ordinal and Workload."""
    said = [
        f"{replica.where}, Workload {replica.workload.metadata.name}: {found.message}"
        for replica in sorted(waiting, key=lambda r: (r.role, r.ordinal))
        if replica.workload is not None and (found := quota.reservation(replica.workload)) and found.message
    ]
    return f"; downstream admission: {'; '.join(said)}" if said else ""
