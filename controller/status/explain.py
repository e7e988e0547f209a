"""Why each part of a status is as it is: verdict, rule, what was read, what would change it, who acts.

A pure function of an assessment; the rows of `api.reasons` carry the meaning and the way out of every condition, and those of
`controller.status.vocabulary` what the other fields can say. The rule of a part is the section of the page that lists its verdicts.

Source: architecture page "The vocabulary of reasons is data".
"""

from collections.abc import Iterator

import msgspec

from api import reasons
from api.status import Condition, Endpoints, Group, RoleStatus
from controller.status import elastic
from controller.status.evidence import Evidence, departure, evidence_of, ready
from controller.status.judge import Assessment
from controller.status.replicas import Ready, readiness
from controller.status.vocabulary import COLLECTIVE, GATES, PHASES, SERVING, STATES, STEPS, UNCOUNTED, Word, rule
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
    word = PHASES[status.phase]
    read = [Evidence(f"role {role.name}", "ready", f"{role.ready} of {role.desired}") for role in status.roles]
    for pod in assessment.ground.fleet.owned:
        if pod.metadata.deleting:
            read.append(departure(pod, assessment))
        elif readiness(pod) is not Ready.TRUE:
            read.append(ready(pod))
        if pod.status.reason == "Evicted":
            read.append(Evidence(f"Pod {pod.metadata.name}", "status.reason", f"Evicted ({pod.status.message})"))
    return Explanation(
        "phase",
        status.phase,
        status.phase_message,
        rule("Phase"),
        word.meaning,
        tuple(read),
        word.change,
        word.actor,
        status.phase == "Ready",
    )


def _condition(assessment: Assessment, found: Condition) -> Explanation:
    row = reasons.find(found.type, found.reason)
    meaning, change, actor = (
        (row.meaning, row.action, row.actor) if row else ("Written by another release.", "Wait for the next pass.", "wait")
    )
    return Explanation(
        f"conditions[{found.type}]",
        f"{found.status}/{found.reason}",
        found.message,
        f'docs/conditions.md, section "{found.type}"',
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
    word = STEPS.get(operation.state, Word("Written by another release.", "Let it end.", "operator"))
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
    yield Explanation(
        "retirement", operation.state, operation.reason, rule("Retirement"), word.meaning, read, word.change, word.actor, False
    )


def _role(assessment: Assessment, role: RoleStatus) -> Iterator[Explanation]:
    name = f"roles[{role.name}]"
    yield _gates(assessment, role.name)
    yield _endpoints(assessment, role)
    for group in role.groups:
        word = COLLECTIVE if group.reason == elastic.REASON else STATES[group.state]
        yield Explanation(
            f"{name}.groups[{group.ordinal}]",
            f"{group.state}/{group.reason}",
            group.message,
            rule("Groups"),
            word.meaning,
            tuple(_members(group)),
            word.change,
            word.actor,
            group.state == "Eligible" or word is COLLECTIVE,
        )


def _endpoints(assessment: Assessment, role: RoleStatus) -> Explanation:
    """What was qualified beside what Routers select: two numbers that never stand for one another."""
    found, snapshot = role.endpoints or Endpoints(), assessment.ground.snapshot
    uncounted = role.name in assessment.ground.fleet.workers
    word = UNCOUNTED if uncounted else SERVING[found.serving.state]
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
    settled = found.eligible is not None and (uncounted or found.serving.state in {"Confirmed", "NotConfigured"})
    cause = "" if uncounted else assessment.ground.selection.cause
    return Explanation(
        f"roles[{role.name}].endpoints", verdict, cause, rule("Endpoints"), word.meaning, read, word.change, word.actor, settled
    )


def _members(group: Group) -> Iterator[Evidence]:
    yield Evidence("group", "generation", group.generation)
    for member in group.members:
        yield Evidence(f"Pod {member.name}", f"readiness of seat {member.seat}", member.ready)


def _gates(assessment: Assessment, role: str) -> Explanation:
    """Whether the role's readiness is the engine's own answer: what `ready` is worth."""
    reading = assessment.ground.readings.get(role)
    part, source = f"roles[{role}].gates", rule("Readiness gates")
    if reading is None:
        word = GATES["Unknown"]
        return Explanation(part, "Unknown", "The engine is not known.", source, word.meaning, (), word.change, word.actor, False)
    gates = reading.gates
    read = (
        Evidence(f"role {role}", "listener", f"{reading.listener.host}:{reading.listener.port}"),
        Evidence(f"role {role}", "tls", f"{'on' if reading.tls.enabled else 'off'}, client certificate {reading.tls.client_cert}"),
        *(Evidence(f"role {role}", f"finding {finding.id}", finding.message) for finding in reading.findings),
    )
    word = GATES["Gated" if gates.gated else "NotGated"]
    verdict = f"Gated/{gates.scheme}:{gates.port}" if gates.gated else "NotGated"
    why = "; ".join(WITHHELD[cause] for cause in gates.withheld_by)
    return Explanation(part, verdict, why, source, word.meaning, read, word.change, word.actor, gates.gated)
