"""`status.retirement`: the operation that takes a replica away without cutting requests, as a pure transition of at most one step a pass.

    Admitted -> Disqualified -> Withdrawing -> Draining -> Deleting -> Settling -> Completed (the field clears)
    any before Deleting -> Aborted: the budget is spent (capacity is retained), or the targets ended by themselves

The state is written before anything is done about it; what a persisted state asks for is `controller.status.acts`. The target is the UID
set and nothing else. While an operation is in flight, or an Aborted one still holds its members, every other removal is refused.

Source: seed "Retirement", decision D7, status facts 5.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from msgspec.structs import replace

from api import keys
from api.clock import format_time, parse_time
from api.objects import Pod, Workload
from api.status import Retirement
from controller.snapshot import DrainRead, Snapshot
from controller.status import quota
from controller.status.eligibility import NO_PLANNED_RETIREMENT, Leg, Standing
from controller.status.removal import Removal, removals
from controller.status.replicas import Fleet, decimal, terminal
from controller.status.serving import Selection
from controller.status.text import bounded, listed

TOTAL: Final = timedelta(seconds=300)
BUDGETS: Final[Mapping[str, timedelta]] = {
    # The first three share one clock: the withdrawal's.
    "Admitted": timedelta(seconds=30),
    "Disqualified": timedelta(seconds=30),
    "Withdrawing": timedelta(seconds=30),
    "Draining": timedelta(seconds=240),
    "Settling": timedelta(seconds=30),
}
STEP_NAMES: Final[Mapping[str, str]] = {
    "Admitted": "withdrawal",
    "Disqualified": "withdrawal",
    "Withdrawing": "withdrawal",
    "Draining": "drain",
}
REVERSIBLE: Final = frozenset(STEP_NAMES)
TOKEN_BOUND: Final = 1024  # what the schema lets a status remember
_PAST: Final = datetime.min.replace(tzinfo=UTC)  # what cannot be read was long ago
REFUSED: Final = " Refused meanwhile, and left in place: "


@dataclass(frozen=True)
class View:
    """What a transition reads beside the stored operation."""

    snapshot: Snapshot
    fleet: Fleet
    selection: Selection
    intents: tuple[Removal, ...]
    every_member_answers: frozenset[str] = frozenset()
    """Roles each of whose members serves requests itself, as they are declared or deployed; elsewhere the leader answers for all."""

    @property
    def now(self) -> datetime:
        """The pass's clock."""
        return self.snapshot.now

    def targets(self, operation: Retirement) -> tuple[Pod, ...]:
        """The captured Pods that still exist, departing ones included, whatever their labels say now."""
        wanted = set(operation.target_member_uids)
        return tuple(pod for pod in self.fleet.owned if pod.metadata.uid in wanted)


def intents_of(snapshot: Snapshot, fleet: Fleet, wanted: Mapping[str, str]) -> tuple[Removal, ...]:
    """The removals that the spec asks for; a deployment on its way out asks for none."""
    metadata = snapshot.deployment.metadata
    return () if metadata.deleting else tuple(removals(fleet, wanted, metadata.name))


def directive_of(snapshot: Snapshot) -> tuple[str, int, str] | None:
    """The retry annotation as (role, ordinal, token), None where it is absent or malformed."""
    parts = snapshot.deployment.metadata.annotations.get(keys.RETIREMENT_RETRY, "").split(":")
    if len(parts) != 3 or not parts[0] or not 0 < len(parts[2]) <= TOKEN_BOUND:
        return None
    ordinal = decimal(parts[1])
    return None if ordinal is None else (parts[0], ordinal, parts[2])


def step(view: View, standings: Mapping[str, Sequence[Standing]]) -> Retirement | None:
    """The next `status.retirement`: one step from the stored one, or a new reservation, or None.

    `standings` are judged against the stored operation, for the adoption of a retained one.
    """
    operation = view.snapshot.previous.retirement if view.snapshot.previous else None
    if operation is None or not operation.target_member_uids:
        return _admit(view)
    if view.snapshot.deployment.metadata.deleting:
        return operation
    if operation.state == "Aborted":
        return _noting_refusals(view, _from_aborted(view, operation, standings))
    if operation.state in REVERSIBLE:
        return _noting_refusals(view, _reversible(view, operation))
    if operation.state == "Deleting":
        return _noting_refusals(view, _deleting(view, operation))
    if operation.state == "Settling":
        return _noting_refusals(view, _settling(view, operation))
    return None if operation.state == "Completed" else operation  # a state of another release is left to that release


def holds(view: View, operation: Retirement) -> bool:
    """Whether some captured member is still there and has not ended by itself."""
    return any(not terminal(pod) for pod in view.targets(operation))


# ------------------------------------------------------------------------------------------------------------ admission


def _admit(view: View) -> Retirement | None:
    for intent in view.intents:
        if not all(intent.uids):
            continue  # an empty UID would match everything: the removal is held until every member has one
        workload = next((view.fleet.claims[uid] for uid in intent.uids if uid in view.fleet.claims), None)
        now = format_time(view.now)
        return Retirement(
            role_name=intent.role,
            replica_ordinal=intent.ordinal,
            observed_generation=view.snapshot.deployment.metadata.generation,
            target_member_uids=intent.uids,
            target_workload_uid=workload.metadata.uid if workload is not None else "",
            state="Admitted",
            reason=f"Admitted: {intent.cause}.",
            started_at=now,
            deadline=format_time(view.now + TOTAL),
            phase_started_at=now,
        )
    return None


def _from_aborted(view: View, operation: Retirement, standings: Mapping[str, Sequence[Standing]]) -> Retirement | None:
    if not holds(view, operation):
        admitted = _admit(view)
        if admitted is not None:
            return admitted
        return None if _declared(view, operation) else operation
    if _adopted(view, operation, standings):
        return None
    directive = directive_of(view.snapshot)
    if directive is not None and directive[:2] == (operation.role_name, operation.replica_ordinal):
        token = directive[2]
        if token != operation.last_consumed_retry_token:
            now = format_time(view.now)
            return replace(
                operation,
                state="Admitted",
                reason="Admitted again by the retry directive.",
                started_at=now,
                deadline=format_time(view.now + TOTAL),
                phase_started_at=now,
                last_consumed_retry_token=token,
            )
    return operation


def _declared(view: View, operation: Retirement) -> bool:
    role = view.fleet.roles.get(operation.role_name)
    return role is not None and operation.replica_ordinal < role.replicas


def _adopted(view: View, operation: Retirement, standings: Mapping[str, Sequence[Standing]]) -> bool:
    """Whether the spec declares the position again and the very same members meet every other criterion."""
    if not _declared(view, operation):
        return False
    for standing in standings.get(operation.role_name, ()):
        if standing.replica.ordinal == operation.replica_ordinal:
            same = {member.uid for member in standing.replica.members} == set(operation.target_member_uids)
            return same and all(leg is Leg.VERIFIED for name, leg in standing.legs.items() if name != NO_PLANNED_RETIREMENT)
    return False


# --------------------------------------------------------------------------------------------------- before the deletion


def _reversible(view: View, operation: Retirement) -> Retirement:
    if not holds(view, operation):
        reason = "Aborted: every target member ended outside the operator; nothing is held."
        return _abort(view, operation, reason)
    if view.now >= _end(operation):
        what = STEP_NAMES[operation.state]
        total = view.now >= _time(operation.deadline, view.now)
        spent = "the operation's total budget" if total else f"the {what}'s budget of {int(BUDGETS[operation.state].total_seconds())} s"
        reason = f"Aborted: {spent} was spent during the {what}; members, Workload and capacity are retained."
        return _abort(view, operation, reason)
    if operation.state == "Admitted":
        labelled = [p.metadata.name for p in view.targets(operation) if p.metadata.labels.get(keys.ENDPOINT_ELIGIBLE) == "true"]
        if labelled:
            return _hold(operation, f"Waiting for the eligibility label to leave {listed(labelled)}.")
        return replace(operation, state="Disqualified", reason="Disqualified: no target member is labelled eligible.")
    if operation.state == "Disqualified":
        if hold := _residual(view, operation):
            return _hold(operation, hold)
        return replace(operation, state="Withdrawing", reason="Withdrawing: no Router selects a target member.")
    if operation.state == "Withdrawing":
        return _enter(view, operation, "Draining", "Draining: waiting for the targets' requests to end.")
    if hold := _undrained(view, operation):
        return _hold(operation, hold)
    return _enter(view, operation, "Deleting", "Deleting: every answering member was idle twice in a row.")


def _residual(view: View, operation: Retirement) -> str:
    """Why the withdrawal is not confirmed; empty where no Router can still pick a target. Other replicas being served does not block."""
    if view.selection.state == "NotConfigured":
        return "No router is declared: established direct-Service connections cannot be observed, so the withdrawal cannot be confirmed."
    if not view.selection.complete:
        return f"The withdrawal cannot be confirmed: serving is {view.selection.state}, {view.selection.cause}."
    served = view.selection.pods() & set(operation.target_member_uids)
    return f"A Router still selects {listed(served)}." if served else ""


def _undrained(view: View, operation: Retirement) -> str:
    """Why the drain is not over; empty where every answering member gave two idle and complete reads in a row."""
    answering = _answering(view, operation)
    if not answering:
        return "The member that answers for the replica cannot be named."
    observations = view.snapshot.observations
    reads = {entry.pod_uid: entry.reads for entry in observations.drain} if observations else {}
    since = _time(operation.phase_started_at, view.now)
    held = []
    for pod in answering:
        if keys.PROMETHEUS_PORT not in pod.metadata.annotations:
            held.append(f"{pod.metadata.name}: its command is replaced, so its gauges are not known")
            continue
        seen = _within(reads.get(pod.metadata.uid, ()), since)
        if len(seen) < 2 or any(read.outcome != "Idle" for read in seen[-2:]):
            held.append(f"{pod.metadata.name}: {_last(seen)}")
    return f"Draining: {'; '.join(sorted(held))}." if held else ""


def _answering(view: View, operation: Retirement) -> list[Pod]:
    """A replica of one Pod answers for itself; of several, the leader at seat 0, or every member where each serves requests itself."""
    found = []
    for pod in view.targets(operation):
        alone = pod.metadata.annotations.get(keys.POD_GROUP_TOTAL_COUNT, "1") == "1" or operation.role_name in view.every_member_answers
        leads = pod.metadata.labels.get(keys.MEMBER_INDEX) == "0"
        if (alone or leads) and not terminal(pod):
            found.append(pod)
    return found


def _within(reads: Iterable[DrainRead], since: datetime) -> list[DrainRead]:
    """The reads of this drain, oldest first: one from before it, or of no readable time, says nothing about it."""
    timed = [(_time(read.at or "", _PAST), read) for read in reads]
    return [read for at, read in sorted(timed, key=lambda pair: pair[0]) if at >= since]


def _last(seen: Sequence[DrainRead]) -> str:
    if not seen:
        return "not read yet"
    if seen[-1].outcome == "Idle":
        return "idle once"
    outcome = "refused, a replica of that kind cannot be read" if seen[-1].outcome == "Refused" else seen[-1].outcome.lower()
    return f"{outcome} ({seen[-1].detail})" if seen[-1].detail else outcome


# ------------------------------------------------------------------------------------------------------ the deletion on


def _deleting(view: View, operation: Retirement) -> Retirement:
    remaining = view.targets(operation)
    if remaining:
        return _hold(operation, f"Deleting: waiting for {listed(pod.metadata.name for pod in remaining)} to leave the API server.")
    return _enter(view, operation, "Settling", "Settling: waiting for the release of accelerators and quota.")


def _settling(view: View, operation: Retirement) -> Retirement | None:
    """None once the release is observed: Completed clears the field in the same pass. A late settling is only reported."""
    workload = _unreleased(view, operation)
    if workload is None:
        return None
    late = ", past its budget of 30 s" if view.now >= _end(operation) else ""
    return _hold(operation, f"Settling{late}: Workload {workload.metadata.name} still holds quota.")


def _unreleased(view: View, operation: Retirement) -> Workload | None:
    """The target's Workload while it holds quota of its own; one that other Pods share was never the operation's to release."""
    if view.snapshot.settings.kueue != "required" or not operation.target_workload_uid:
        return None
    for workload in view.snapshot.workloads:
        if workload.metadata.uid == operation.target_workload_uid:
            return workload if quota.holds(workload, "QuotaReserved") and sole(workload, operation.target_member_uids) else None
    return None


def sole(workload: Workload, uids: Iterable[str]) -> bool:
    """Whether the Workload owns no Pod outside the target set."""
    owned = {ref.uid for ref in workload.metadata.owner_references if ref.kind == "Pod" and ref.api_version == "v1"}
    return owned <= set(uids)


# --------------------------------------------------------------------------------------------------------------- clocks


def _end(operation: Retirement) -> datetime:
    """The end of the present phase: exactly at it counts as spent. A clock that cannot be read is spent."""
    deadline = _time(operation.deadline, _PAST)
    budget = BUDGETS.get(operation.state)
    started = _time(operation.phase_started_at, _PAST)
    if budget is None or deadline - started <= budget:
        return deadline  # compared as a span: an instant at the calendar's end has no later one
    return started + budget


def _time(text: str, otherwise: datetime) -> datetime:
    try:
        return parse_time(text)
    except ValueError:
        return otherwise


def _enter(view: View, operation: Retirement, state: str, reason: str) -> Retirement:
    return replace(operation, state=state, reason=reason, phase_started_at=format_time(view.now))


def _hold(operation: Retirement, reason: str) -> Retirement:
    return replace(operation, reason=bounded(reason))


def _abort(view: View, operation: Retirement, reason: str) -> Retirement:
    return replace(operation, state="Aborted", reason=reason, deadline=format_time(view.now))


def _noting_refusals(view: View, operation: Retirement | None) -> Retirement | None:
    """The reason also names the removals that wait behind the operation; nothing else records them."""
    if operation is None or not (operation.state in {"Deleting", "Settling"} or holds(view, operation)):
        return operation
    own = (operation.role_name, operation.replica_ordinal)
    refused = [intent.where for intent in view.intents if (intent.role, intent.ordinal) != own]
    note = f"{REFUSED}{listed(refused)}." if refused else ""
    return replace(operation, reason=bounded(operation.reason.partition(REFUSED)[0] + note))
