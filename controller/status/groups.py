"""`roles[].groups[]`: each serving group with its members, the fact that holds it, and the instant it qualified.

Source: seed "Group status", decision D1 (states, precedence, reasons, the bound), status facts 7.
"""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Final

from api import keys
from api.status import Group, GroupMember, Status
from controller.snapshot import Membership, Snapshot
from controller.status import eligibility
from controller.status.eligibility import Standing
from controller.status.replicas import Fleet, Member, Ready, decimal, owned_by, readiness
from controller.status.serving import DISAGREE, NO_VIEW, STALE, Selection
from controller.status.text import bounded, listed, verb

BOUND: Final = 64
MEMBERS_BOUND: Final = 128  # the schema's; a replica declares 64 at most, so only a broken one is cut

# First match, for criteria that definitely fail.
_FAILED: Final = (
    (eligibility.NO_PLANNED_RETIREMENT, "Retiring"),
    (eligibility.NO_PENDING_REPLACEMENT, "Replacing"),
    (eligibility.MEMBER_SET_COMPLETE, "Incomplete"),
    (eligibility.MEMBERS_READY, "NotReady"),
    (eligibility.GROUP_FORWARD, "Unverified"),
)
_AWAITING: Final[Mapping[str, str]] = {
    NO_VIEW: "Every criterion passes; a required Router view is missing.",
    STALE: "Every criterion passes; a Router view is stale.",
    DISAGREE: "Every criterion passes; complete Router views disagree.",
}


def generation_of(uids: Iterable[str]) -> str:
    """The identity of a member set: order does not matter (D1)."""
    return hashlib.sha256("\n".join(sorted(uids)).encode()).hexdigest()[:16]


def members_of(members: Iterable[Member]) -> tuple[GroupMember, ...]:
    """Members in the order of their seats; one that claims none sits at 0."""
    return tuple(GroupMember(name=m.name, uid=m.uid, seat=m.seat or 0, ready=m.ready.value) for m in members)[:MEMBERS_BOUND]


class Memory:
    """The stored groups, and what an uncached read of the members proves about them now."""

    def __init__(self, snapshot: Snapshot, fleet: Fleet) -> None:
        """Index the previous status by role, ordinal and generation."""
        self._before = _index(snapshot.previous)
        self._proved = _proved(snapshot.membership, snapshot.deployment.metadata.uid, fleet)

    def before(self, role: str, ordinal: int, generation: str) -> Group | None:
        """The stored group of the same generation."""
        return self._before.get((role, ordinal, generation))

    def retains(self, before: Group | None, standing: Standing) -> bool:
        """Whether an earlier qualification outlives a lost observation: the fresh membership is whole, unchanged and ready."""
        if before is None or before.state != "Eligible" or standing.failed or not standing.replica.ready:
            return False
        key = (standing.replica.role, standing.replica.ordinal)
        return self._proved.get(key) == frozenset(member.uid for member in standing.replica.members)


def groups_of(role: str, standings: Iterable[Standing], selection: Selection, memory: Memory, now: str) -> tuple[Group, ...]:
    """A role's groups, lowest ordinals first, at most 64."""
    return tuple(_group(role, standing, selection, memory, now) for standing in list(standings)[:BOUND])


def _group(role: str, standing: Standing, selection: Selection, memory: Memory, now: str) -> Group:
    replica = standing.replica
    generation = generation_of(member.uid for member in replica.members)
    before = memory.before(role, replica.ordinal, generation)
    state, reason, message = _state(standing, selection, memory.retains(before, standing))
    kept = before.qualified_at if before is not None else None
    if state == "Eligible" and (before is None or before.state != "Eligible" or kept is None):
        kept = now  # the transition is what counts: leaving and returning records a new instant
    return Group(
        ordinal=replica.ordinal,
        generation=generation,
        state=state,
        reason=reason,
        message=bounded(message),
        qualified_at=kept,
        members=members_of(replica.members),
    )


def _state(standing: Standing, selection: Selection, retained: bool) -> tuple[str, str, str]:
    for criterion, state in _FAILED:
        if criterion in standing.failed:
            return state, criterion, _fault(criterion, standing)
    if standing.unknown and not retained:
        criterion = standing.unknown[0]
        return "Unknown", criterion, f"{criterion} could not be evaluated."
    if standing.unknown:
        return "Eligible", "Retained", f"Qualified earlier; {standing.unknown[0]} cannot be evaluated now."
    if selection.valid:
        return "Eligible", "Qualified", "Every criterion passes."
    if retained:
        return "Eligible", "Retained", "Qualified earlier; the Router's observation is lost, and the members are unchanged and ready."
    return "AwaitingObservation", selection.cause, _AWAITING[selection.cause]


def _fault(criterion: str, standing: Standing) -> str:
    replica = standing.replica
    if criterion == eligibility.MEMBER_SET_COMPLETE:
        return f"{len(replica.members)} of {replica.total} members {verb(len(replica.members), 'exist')}."
    if criterion == eligibility.MEMBERS_READY:
        return f"Not ready: {listed(member.name for member in replica.members if member.ready is Ready.FALSE)}."
    if criterion == eligibility.GROUP_FORWARD:
        return "The forward path of a member was observed to fail."
    if criterion == eligibility.NO_PLANNED_RETIREMENT:
        return "A retirement operation holds the replica."
    return "The rollout is replacing the replica."


def _index(previous: Status | None) -> dict[tuple[str, int, str], Group]:
    return {(role.name, g.ordinal, g.generation): g for role in previous.roles for g in role.groups} if previous else {}


def _proved(membership: Membership | None, uid: str, fleet: Fleet) -> dict[tuple[str, int], frozenset[str]]:
    """Which member sets are proved ready: by the uncached read, or by the Pods themselves where they are one."""
    if membership is None:
        return {key: frozenset(m.uid for m in r.members) for key, r in fleet.replicas.items() if r.ready}
    if not membership.complete:
        return {}
    sets: dict[tuple[str, int], set[str]] = {}
    unready: set[tuple[str, int]] = set()
    for pod in membership.pods:
        key = _seat_of(pod.metadata.labels)
        if key is None or not owned_by(pod, uid):
            continue
        sets.setdefault(key, set()).add(pod.metadata.uid)
        if readiness(pod) is not Ready.TRUE:
            unready.add(key)
    return {key: frozenset(uids) for key, uids in sets.items() if key not in unready}


def _seat_of(labels: Mapping[str, str]) -> tuple[str, int] | None:
    role, ordinal = labels.get(keys.COMPONENT), decimal(labels.get(keys.POD_ORDINAL))
    return (role, ordinal) if role and ordinal is not None else None
