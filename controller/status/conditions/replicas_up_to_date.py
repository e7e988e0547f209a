"""ReplicasUpToDate: do the running replicas match the desired explicit spec hash and the minimum render-version?

Source: seed "ReplicasUpToDate", decision D9, status facts 4.4, lesson F60.
"""

from collections.abc import Sequence

from api.reasons import REPLICAS_UP_TO_DATE
from api.status import Condition
from controller.snapshot import Rollout, Slot
from controller.status.replicas import Fleet
from controller.status.text import counted, every, named, verb
from controller.status.verdict import Verdict, verdict


def judge(rollout: Rollout, before: Condition | None, fleet: Fleet) -> Verdict:
    """`before` is the stored condition: a gap that a rollout left is still that rollout's. `fleet` knows who still occupies a position."""
    if not rollout.observed or not rollout.accounted:
        return verdict(REPLICAS_UP_TO_DATE, "RolloutNotObserved", "This pass could account for no replica.")
    held = f"{rollout.held} of {rollout.outdated} outdated replicas"
    if rollout.held > 0 and rollout.held_by == "Weights":
        text = f"{held} {verb(rollout.held, 'wait')} until WeightsReady is True; an edit that changes a running Pod would wait too."
        return verdict(REPLICAS_UP_TO_DATE, "RolloutHeldByWeights", text)
    if rollout.held > 0:
        left = f"{held} {verb(rollout.held, 'are')} left alone while the KV cache does not resolve"
        text = f"{left}; an edit that changes a running Pod would wait too."
        return verdict(REPLICAS_UP_TO_DATE, "RolloutHeldByCache", text)
    if rollout.outdated > 0:
        text = f"{counted(rollout.outdated, 'replica')} of {rollout.accounted} accounted for {verb(rollout.outdated, 'are')} outdated."
        return verdict(REPLICAS_UP_TO_DATE, "RolloutInProgress", text)
    if rollout.missing:
        rolling = before is not None and before.reason == "RolloutInProgress"
        count = f"{counted(len(rollout.missing), 'replica')} {verb(len(rollout.missing), 'are')} missing"
        text = f"{count}: {_slots(rollout.missing)}{_occupied(rollout.missing, fleet)}."
        return verdict(REPLICAS_UP_TO_DATE, "RolloutInProgress" if rolling else "ReplacementInProgress", text)
    text = f"{every(rollout.accounted, 'replica')} accounted for {verb(rollout.accounted, 'match')}."
    return verdict(REPLICAS_UP_TO_DATE, "UpToDate", text)


def _occupied(missing: Sequence[Slot], fleet: Fleet) -> str:
    """Departing Pods that hold a missing position: its successor is created once they have left the API server."""
    seats = [fleet.occupied.get((slot.role, slot.ordinal)) for slot in missing]
    names = [member.name for replica in seats if replica is not None for member in replica.members if member.pod.metadata.deleting]
    return f"; departing {named('Pod', names)} still {verb(len(names), 'hold')} a position" if names else ""


def _slots(missing: Sequence[Slot]) -> str:
    by_role: dict[str, list[int]] = {}
    for slot in missing:
        by_role.setdefault(slot.role, []).append(slot.ordinal)
    return "; ".join(f"{role} ordinal {', '.join(map(str, sorted(ordinals)))}" for role, ordinals in sorted(by_role.items()))
