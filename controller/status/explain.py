"""Why each part of a status is as it is: verdict, rule, what was read, what would change it, who acts.

A pure function of an assessment; the rows of `api.reasons` carry the meaning and the way out of every condition, and the tables here those
of the other fields.

Source: issue D part 5, architecture page "The vocabulary of reasons is data".
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from api import reasons
from api.status import Condition, Endpoints, Group, RoleStatus
from controller.status.evidence import Evidence, departure, evidence_of, ready
from controller.status.judge import Assessment
from controller.status.replicas import Ready, readiness
from engines.gates import REASONS as WITHHELD


class Explanation(msgspec.Struct, frozen=True):
    """One part of a status. `settled` says that there is nothing to act on; `actor` is nobody, wait, user, platform or operator."""

    part: str
    verdict: str
    message: str
    rule: str
    meaning: str
    read: tuple[Evidence, ...]
    change: str
    actor: str
    settled: bool


_PHASES: Final = {
    "Ready": ("Every declared replica is ready, and so is a declared router.", "Nothing to do.", "nobody"),
    "Degraded": (
        "Some required serving capacity is ready and some is not.",
        "Bring the replicas below to readiness, or the router where the message names it.",
        "user",
    ),
    "Starting": ("No required replica is ready yet.", "Read QuotaReserved and WeightsReady first, then the Pods below.", "wait"),
    "Deleting": ("The deployment is being deleted.", "Nothing; Pods that stay are listed below with their finalizers.", "wait"),
}
_STATES: Final = {
    "Eligible": ("Every criterion passes, or an earlier qualification is retained.", "Nothing to do.", "nobody"),
    "AwaitingObservation": ("Every criterion passes; a valid Router observation is missing.", "Bring the Router's view back.", "platform"),
    "Incomplete": ("A member that the replica declares does not exist.", "Wait for it, or read the Pods' events.", "wait"),
    "NotReady": ("A member's engine does not answer its health route.", "Read that member's log and events.", "user"),
    "Unverified": ("A member's forward path was observed to fail.", "Read the engines' logs of that replica.", "user"),
    "Retiring": ("A retirement operation holds the replica.", "Let it end; see status.retirement.", "operator"),
    "Replacing": ("The rollout is replacing the replica.", "Nothing; the successor qualifies anew.", "operator"),
    "Unknown": ("A criterion cannot be evaluated, which is no evidence of a fault.", "Wait for the observation.", "wait"),
}
_SERVING: Final = {
    "Confirmed": ("Complete, fresh, identity-bound Router views agree.", "Nothing to do.", "nobody"),
    "NotConverged": (
        "Complete Router views disagree about an endpoint.",
        "Wait for the Routers to converge, or read their logs.",
        "platform",
    ),
    "Unknown": ("A required Router view is missing, stale or indeterminate.", "Bring every router Pod's observer back.", "platform"),
    "NotConfigured": ("No router is declared, so no Router's answer can be missing.", "Nothing to do.", "nobody"),
}
_STEPS: Final = {
    "Admitted": ("The removal is reserved; the eligibility label has to go first.", "Wait for the label to go.", "operator"),
    "Disqualified": (
        "No target is labelled eligible; Routers may still hold it.",
        "A fresh, complete Router view without a target.",
        "wait",
    ),
    "Withdrawing": ("No Router selects a target any more.", "Nothing; the drain starts with the next pass.", "operator"),
    "Draining": ("The targets may still hold requests.", "Two idle reads in a row from every answering member.", "wait"),
    "Deleting": ("The targets are being deleted.", "The captured Pods leaving the API server; read their finalizers.", "wait"),
    "Settling": ("The Pods are gone; quota and accelerators are not released yet.", "The Workload's release.", "wait"),
    "Aborted": (
        "A budget was spent; members, Workload and capacity are retained, and other removals wait behind it.",
        "Declare the position again, or set the annotation retirement-retry to <role>:<ordinal>:<new token>.",
        "user",
    ),
}


def explain(assessment: Assessment) -> tuple[Explanation, ...]:
    """Every part, the phase first."""
    return (
        _phase(assessment),
        *(_condition(assessment, found) for found in assessment.status.conditions if found.type in reasons.BY_TYPE),
        *_retirement(assessment),
        *(part for role in assessment.status.roles for part in _role(assessment, role)),
    )


def _phase(assessment: Assessment) -> Explanation:
    status = assessment.status
    meaning, change, actor = _PHASES[status.phase]
    read = [Evidence(f"role {role.name}", "ready", f"{role.ready} of {role.desired}") for role in status.roles]
    for pod in assessment.ground.fleet.owned:
        if pod.metadata.deleting:
            read.append(departure(pod, assessment))
        elif readiness(pod) is not Ready.TRUE:
            read.append(ready(pod))
        if pod.status.reason == "Evicted":
            read.append(Evidence(f"Pod {pod.metadata.name}", "status.reason", f"Evicted ({pod.status.message})"))
    rule = 'seed "Phase and role summary"'
    return Explanation("phase", status.phase, status.phase_message, rule, meaning, tuple(read), change, actor, status.phase == "Ready")


def _condition(assessment: Assessment, found: Condition) -> Explanation:
    row = reasons.find(found.type, found.reason)
    meaning, change, actor = (
        (row.meaning, row.action, row.actor) if row else ("Written by another release.", "Wait for the next pass.", "wait")
    )
    return Explanation(
        f"conditions[{found.type}]",
        f"{found.status}/{found.reason}",
        found.message,
        f'seed "{reasons.BY_TYPE[found.type].source}"',
        meaning,
        evidence_of(found.type, assessment),
        change,
        actor,
        found.status == "True",
    )


def _retirement(assessment: Assessment) -> Iterator[Explanation]:
    operation = assessment.status.retirement
    if operation is None:
        return
    meaning, change, actor = _STEPS.get(operation.state, ("", "", "operator"))
    snapshot, targets = assessment.ground.snapshot, set(operation.target_member_uids)
    where = "status.retirement"
    drain = snapshot.observations.drain if snapshot.observations else ()
    pods = [pod for pod in assessment.ground.fleet.owned if pod.metadata.uid in targets]
    read = (
        Evidence(where, "replica", f"{operation.role_name} ordinal {operation.replica_ordinal}"),
        Evidence(where, "deadline", operation.deadline),
        Evidence(where, "phaseStartedAt", operation.phase_started_at),
        *(departure(pod, assessment) if pod.metadata.deleting else ready(pod) for pod in pods),
        Evidence("Router views", "state", assessment.ground.selection.state),
        *(
            Evidence(f"drain of Pod UID {entry.pod_uid}", "reads", ", ".join(f"{r.at} {r.outcome}" for r in entry.reads) or "none")
            for entry in drain
            if entry.pod_uid in targets
        ),
    )
    yield Explanation("retirement", operation.state, operation.reason, 'seed "Retirement"', meaning, read, change, actor, False)


def _role(assessment: Assessment, role: RoleStatus) -> Iterator[Explanation]:
    name = f"roles[{role.name}]"
    yield _gates(assessment, role.name)
    yield _endpoints(assessment, role)
    for group in role.groups:
        meaning, change, actor = _STATES[group.state]
        yield Explanation(
            f"{name}.groups[{group.ordinal}]",
            f"{group.state}/{group.reason}",
            group.message,
            'seed "Group status", decision D1',
            meaning,
            tuple(_members(group)),
            change,
            actor,
            group.state == "Eligible",
        )


def _endpoints(assessment: Assessment, role: RoleStatus) -> Explanation:
    """What was qualified beside what Routers select: two numbers that never stand for one another."""
    found, snapshot = role.endpoints or Endpoints(), assessment.ground.snapshot
    meaning, change, actor = _SERVING[found.serving.state]
    eligible = "null" if found.eligible is None else str(found.eligible)
    served = f" {found.serving.value}" if found.serving.value is not None else ""
    views = snapshot.observations.router_views if snapshot.observations else ()
    read = (
        *(Evidence(f"router Pod {pod.metadata.name}", "status.phase", pod.status.phase) for pod in snapshot.router_pods),
        *(
            Evidence(
                f"view of router Pod UID {v.router_pod_uid}", "received", f"{v.received_at}{f' with error: {v.error}' if v.error else ''}"
            )
            for v in views
        ),
        *(Evidence(f"replica {s.replica.where}", "eligible", str(s.eligible).lower()) for s in assessment.standings[role.name]),
    )
    verdict = f"eligible {eligible}, serving {found.serving.state}{served}"
    settled = found.eligible is not None and found.serving.state in {"Confirmed", "NotConfigured"}
    cause = assessment.ground.selection.cause
    return Explanation(
        f"roles[{role.name}].endpoints", verdict, cause, 'seed "Endpoint eligibility"', meaning, read, change, actor, settled
    )


def _members(group: Group) -> Iterator[Evidence]:
    yield Evidence("group", "generation", group.generation)
    for member in group.members:
        yield Evidence(f"Pod {member.name}", f"readiness of seat {member.seat}", member.ready)


def _gates(assessment: Assessment, role: str) -> Explanation:
    """Whether the role's readiness is the engine's own answer: what `ready` is worth."""
    reading = assessment.ground.readings.get(role)
    part, rule = f"roles[{role}].gates", 'seed "Readiness gates", decision D3'
    if reading is None:
        return Explanation(
            part, "Unknown", "The engine is not known.", rule, "The arguments are not read.", (), "Use a known engine.", "user", False
        )
    gates = reading.gates
    read = [
        Evidence(f"role {role}", "listener", f"{reading.listener.host}:{reading.listener.port}"),
        Evidence(f"role {role}", "tls", f"{'on' if reading.tls.enabled else 'off'}, client certificate {reading.tls.client_cert}"),
        *(Evidence(f"role {role}", f"finding {finding.id}", finding.message) for finding in reading.findings),
    ]
    if gates.gated:
        meaning = "A ready replica's engine answered its own health route."
        return Explanation(part, f"Gated/{gates.scheme}:{gates.port}", "", rule, meaning, tuple(read), "Nothing to do.", "nobody", True)
    meaning = "A ready replica's process started; nobody asked the engine."
    why = "; ".join(WITHHELD[cause] for cause in gates.withheld_by)
    return Explanation(part, "NotGated", why, rule, meaning, tuple(read), "Drop what withholds the gates.", "user", False)
