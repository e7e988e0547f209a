"""Pods seen as replicas: which Pods are ours, which replica each belongs to, whether a replica is whole, and which Workload speaks for it.

Ownership is the controller reference's UID; labels only narrow. A departing Pod belongs to no live replica but still occupies its ordinal.
A replica's shape is judged against its own declared total, never against the present spec. Everything is computed once a pass and each
list is walked once.

Source: status facts 2.1-2.3, lessons F43, F49, F51, F60.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property, lru_cache
from typing import Final

import msgspec

from api import keys
from api.objects import Pod, Role, Workload, condition
from controller.snapshot import Snapshot

HEAD_SUFFIX: Final = "-elastic-head"
TERMINAL_PHASES: Final = frozenset({"Succeeded", "Failed"})
INT32: Final = 2**31 - 1


class Shape(StrEnum):
    """Whether a replica's members are the set that they themselves declare."""

    COMPLETE = "Complete"
    INCOMPLETE = "Incomplete"
    UNREADABLE = "Unreadable"


class Ready(StrEnum):
    """A Pod's readiness as reported; nobody's report is Unknown."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


_REPORTED: Final = {"True": Ready.TRUE, "False": Ready.FALSE}


@lru_cache(maxsize=4096)
def decimal(text: str | None) -> int | None:
    """A non-negative decimal that fits an int32, or None for anything else."""
    if text is None or len(text) > 10 or not (text.isascii() and text.isdigit()):
        return None
    value = int(text)
    return value if value <= INT32 else None


def readiness(pod: Pod) -> Ready:
    """The Pod's Ready condition. A departing Pod is never ready."""
    if pod.metadata.deleting:
        return Ready.FALSE
    reported = condition(pod.status.conditions, "Ready")
    return Ready.UNKNOWN if reported is None else _REPORTED.get(reported.status, Ready.UNKNOWN)


def terminal(pod: Pod) -> bool:
    """Whether the Pod has ended by itself."""
    return pod.status.phase in TERMINAL_PHASES


class Member(msgspec.Struct, frozen=True):
    """One Pod of a replica; `seat` is the member-index it claims, None where it claims none or an unreadable one."""

    pod: Pod
    name: str
    uid: str
    seat: int | None
    ready: Ready


class Replica(msgspec.Struct, frozen=True):
    """The Pods at one (role, ordinal), ordered by seat and name.

    `total` is what the members declare, None where that cannot be read. `ready`: whole, and every member reports ready.
    """

    role: str
    ordinal: int
    members: tuple[Member, ...]
    total: int | None
    shape: Shape
    workload: Workload | None
    ready: bool

    @property
    def single(self) -> bool:
        """Whether the replica is one Pod by its own declaration."""
        return self.shape is Shape.COMPLETE and self.total == 1

    @property
    def where(self) -> str:
        """How messages name the replica."""
        return f"{self.role} ordinal {self.ordinal}"


def shape_of(members: tuple[Member, ...]) -> tuple[int | None, Shape]:
    """The total that the members declare (None where they disagree or cannot be read), and the verdict on the set."""
    if len(members) == 1:
        metadata = members[0].pod.metadata
        declared = metadata.annotations.get(keys.POD_GROUP_TOTAL_COUNT, "1")
        if members[0].seat == 0 and declared == "1":  # nearly all there are
            return 1, Shape.COMPLETE
        if keys.MEMBER_INDEX not in metadata.labels:
            alone = decimal(declared) or None
            return alone, Shape.COMPLETE if alone == 1 else Shape.UNREADABLE
    totals = {decimal(m.pod.metadata.annotations.get(keys.POD_GROUP_TOTAL_COUNT, "1")) for m in members}
    total = totals.pop() if len(totals) == 1 else None
    if not total:
        return None, Shape.UNREADABLE
    claims = [m.seat for m in members if keys.MEMBER_INDEX in m.pod.metadata.labels]
    if claims:
        readable = len(claims) == len(members) == len(set(claims)) and all(seat is not None and seat < total for seat in claims)
    else:
        readable = total == 1 and len(members) == 1
    if not readable:
        return total, Shape.UNREADABLE
    return total, Shape.COMPLETE if len(members) == total else Shape.INCOMPLETE


def claims_of(workloads: Iterable[Workload]) -> dict[str, Workload]:
    """Pod UID to the Workload that claims it: the first by name wins (status facts 2.3)."""
    claims: dict[str, Workload] = {}
    for workload in sorted(workloads, key=lambda w: w.metadata.name):
        for ref in workload.metadata.owner_references:
            if ref.kind == "Pod" and ref.api_version == "v1" and ref.uid:
                claims.setdefault(ref.uid, workload)
    return claims


@dataclass(frozen=True)
class Fleet:
    """A deployment's Pods, sorted out once a pass.

    `replicas` hold live members only; `occupied` also counts departing Pods and answers preemption and "how many Pods at all".
    `workers` are an elastic role's live GPU Pods, all ordinals; its replica is the master at ordinal 0 alone.
    """

    roles: Mapping[str, Role]
    owned: tuple[Pod, ...]
    replicas: Mapping[tuple[str, int], Replica]
    occupied: Mapping[tuple[str, int], Replica]
    claims: Mapping[str, Workload]
    workers: Mapping[str, tuple[Member, ...]] = field(default_factory=dict)

    @cached_property
    def live(self) -> tuple[Pod, ...]:
        """Owned Pods that are not on their way out."""
        return tuple(pod for pod in self.owned if not pod.metadata.deleting)

    @cached_property
    def of_role(self) -> Mapping[str, tuple[Replica, ...]]:
        """Live replicas by role name, by ordinal; an elastic role's workers are no replicas."""
        found: dict[str, list[Replica]] = {}
        for (role, ordinal), replica in sorted(self.replicas.items()):
            if ordinal == 0 or role not in self.workers:
                found.setdefault(role, []).append(replica)
        return {role: tuple(replicas) for role, replicas in found.items()}

    def role(self, name: str) -> tuple[Replica, ...]:
        """Live replicas of a role, by ordinal."""
        return self.of_role.get(name, ())

    def supervised(self) -> tuple[Replica, ...]:
        """Live replicas of the roles that the spec declares, in spec order."""
        return tuple(replica for name in self.roles for replica in self.role(name))


def owned_by(pod: Pod, uid: str) -> bool:
    """Whether that deployment controls the Pod."""
    owner = pod.metadata.controller
    return owner is not None and owner.uid == uid and bool(uid)


def _member(pod: Pod) -> Member:
    metadata = pod.metadata
    return Member(pod, metadata.name, metadata.uid, decimal(metadata.labels.get(keys.MEMBER_INDEX)), readiness(pod))


def _seating(member: Member) -> tuple[int, str, str]:
    return (-1 if member.seat is None else member.seat, member.name, member.uid)


def _replica(role: str, ordinal: int, pods: list[Pod], claims: Mapping[str, Workload]) -> Replica:
    members = (_member(pods[0]),) if len(pods) == 1 else tuple(sorted(map(_member, pods), key=_seating))
    total, shape = shape_of(members)
    if len(members) == 1:
        workload, ready = claims.get(members[0].uid), members[0].ready is Ready.TRUE
    else:
        workload = next((claims[m.uid] for m in members if m.uid in claims), None)
        ready = all(member.ready is Ready.TRUE for member in members)
    ready = ready and shape is Shape.COMPLETE
    return Replica(role, ordinal, members, total, shape, workload, ready)


def fleet_of(snapshot: Snapshot) -> Fleet:
    """Sort out the snapshot's Pods and Workloads."""
    uid = snapshot.deployment.metadata.uid
    owned = sorted((pod for pod in snapshot.pods if owned_by(pod, uid)), key=lambda pod: (pod.metadata.name, pod.metadata.uid))
    claims = claims_of(snapshot.workloads) if snapshot.settings.kueue == "required" else {}
    seated: dict[tuple[str, int], list[Pod]] = {}
    for pod in owned:
        role, ordinal = pod.metadata.labels.get(keys.COMPONENT), decimal(pod.metadata.labels.get(keys.POD_ORDINAL))
        if role and ordinal is not None:
            seated.setdefault((role, ordinal), []).append(pod)
    occupied = {key: _replica(*key, pods, claims) for key, pods in seated.items()}
    replicas: dict[tuple[str, int], Replica] = {}
    for key, pods in seated.items():
        live = [pod for pod in pods if not pod.metadata.deleting]
        if live:
            replicas[key] = occupied[key] if len(live) == len(pods) else _replica(*key, live, claims)
    roles = {role.name: role for role in snapshot.deployment.spec.roles}
    elastic = {name for name, role in roles.items() if role.elastic_ep is not None}
    workers = {
        name: tuple(m for (role, _), replica in sorted(replicas.items()) if role == name for m in replica.members) for name in elastic
    }
    return Fleet(roles, tuple(owned), replicas, occupied, claims, workers)
