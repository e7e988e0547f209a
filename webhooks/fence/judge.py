"""The verdict on one write of a ModelDeployment: every row of the fence's table, as data in and data out.

Two writers exist: a scaler writer (its user name is configured, letter by letter; groups never count) and everybody else. Every violation
of a write is collected, so that a refusal names all of them. Source: admission facts 1.4 as changed by decisions D4.
"""

from collections.abc import Iterator

from api import keys
from api.objects import ModelDeployment, ModelDeploymentScaler, Struct
from webhooks.fence.payloads import Binding, Decision, InvalidPayloadError
from webhooks.fence.terms import check_decision, check_digest, check_term
from webhooks.fence.words import (
    ALIVE,
    BINDING_FIELD,
    DECISION_FIELD,
    FORGED,
    IMMUTABLE,
    INVALID,
    NEEDS_TARGET,
    OWNED,
    STALE_DECISION,
    STALE_TERM,
    UNBOUND_WRITE,
    Target,
    Violation,
    annotations,
    changed,
    edited,
    parse_binding,
    parse_decision,
)


class Scaler(Struct, frozen=True):
    """The scaler object that the present binding names, as just read; None stands for NotFound."""

    uid: str
    active: bool
    suspended: bool
    target: str

    @classmethod
    def of(cls, scaler: ModelDeploymentScaler) -> "Scaler":
        """What the fence looks at in a scaler."""
        return cls(
            uid=scaler.metadata.uid,
            active=scaler.spec.mode == "Active",
            suspended=scaler.spec.suspend,
            target=scaler.spec.target_ref.name,
        )


class FenceRequest(Struct, frozen=True):
    """One write. `scaler` matters only where `scaler_to_read` names one."""

    name: str
    old: Target | None
    new: Target
    scaler_writer: bool
    scaler: Scaler | None = None


class Verdict(Struct, frozen=True):
    """The answer. `rule` names the row that decided, also where it allows; empty where the fence had no say.

    `term` and `scaler` are those of the binding that stands or, while none does (`bound` is false), of the one that was attempted.
    """

    violations: tuple[Violation, ...] = ()
    rule: str = ""
    term: int | None = None
    scaler: str = ""
    bound: bool = False

    @property
    def allowed(self) -> bool:
        """Whether the fence lets the write through."""
        return not self.violations

    @property
    def rules(self) -> str:
        """The rules of the verdict, each once, in the order they were found."""
        return ",".join(dict.fromkeys(v.rule for v in self.violations)) or self.rule


def target_of(deployment: ModelDeployment) -> Target:
    """What the fence looks at in a ModelDeployment. An absent count was defaulted to 1 by the schema."""
    annotations = deployment.metadata.annotations
    return Target(
        binding=annotations.get(keys.SCALER_BINDING),
        decision=annotations.get(keys.SCALER_DECISION),
        replicas={role.name: role.replicas for role in deployment.spec.roles},
        generation=deployment.metadata.generation,
        deleting=deployment.metadata.deleting,
    )


def scaler_to_read(request: FenceRequest) -> str | None:
    """The scaler whose state decides this write, if one does: a present owner that is to lose its binding to somebody else."""
    old, new = request.old, request.new
    if old is None or old.deleting or old.binding is None or new.binding == old.binding:
        return None
    held = parse_binding(old.binding)
    if not isinstance(held, Binding):
        return None
    if new.binding is None:
        return None if request.scaler_writer else held.scaler
    if not request.scaler_writer:
        return None
    taken = parse_binding(new.binding)
    return held.scaler if isinstance(taken, Binding) and taken.uid != held.uid else None


def judge(request: FenceRequest) -> Verdict:
    """The verdict on the write."""
    old, new = request.old, request.new
    if old is None:
        violations = tuple(_create(new, scaler_writer=request.scaler_writer))
        return _verdict(violations, "", None, new.binding)
    if old.deleting:
        violations = () if request.scaler_writer else tuple(_forged(old, new))
        return _verdict(violations, "", old.binding, new.binding)
    if old.binding == new.binding and old.decision == new.decision and not changed(old, new):
        return Verdict()
    if old.binding is None:
        violations, rule = _unbound(request, old)
    else:
        violations, rule = _bound(request, old)
    return _verdict(violations, rule, old.binding, new.binding)


Judged = tuple[tuple[Violation, ...], str]


def _verdict(violations: tuple[Violation, ...], rule: str, present: str | None, attempted: str | None) -> Verdict:
    binding = attempted if present is None else present
    held = parse_binding(binding) if binding is not None else None
    bound = present is not None
    if isinstance(held, Binding):
        return Verdict(violations=violations, rule=rule, term=held.term, scaler=held.scaler, bound=bound)
    return Verdict(violations=violations, rule=rule, bound=bound)


# ------------------------------------------------------------------------------------------------------------- create


def _create(new: Target, *, scaler_writer: bool) -> Iterator[Violation]:
    rule = NEEDS_TARGET if scaler_writer else FORGED
    said = (
        "a binding is made by updating a ModelDeployment that exists"
        if scaler_writer
        else "only a scaler writes this annotation, and only on a ModelDeployment that exists; take it out of the manifest (a backup or an "
        "exported object carries it)"
    )
    for field, text in ((BINDING_FIELD, new.binding), (DECISION_FIELD, new.decision)):
        if text is not None:
            yield edited(rule, field, None, text, said)


# ----------------------------------------------------------------------------------------------------------- deletion


def _forged(old: Target, new: Target) -> Iterator[Violation]:
    """Annotations that somebody who is no scaler writer set or edited; removing is not forging."""
    for field, before, after in annotations(old, new):
        if after is None or after == before:
            continue
        if before is None:
            yield edited(FORGED, field, before, after, "only a scaler sets this annotation")
        else:
            yield edited(IMMUTABLE, field, before, after, "only the scaler that is bound edits this annotation")


# ------------------------------------------------------------------------------------------------------------ unbound


def _unbound(request: FenceRequest, old: Target) -> Judged:
    new = request.new
    if not request.scaler_writer:
        return tuple(
            edited(FORGED, field, before, after, "only a scaler sets this annotation; anyone may remove it while no scaler is bound")
            for field, before, after in annotations(old, new)
            if after is not None and after != before
        ), ""
    if new.binding is None:
        return tuple(_unbound_writes(old, new)), ""
    taken = parse_binding(new.binding)
    if isinstance(taken, InvalidPayloadError):
        return (edited(INVALID, BINDING_FIELD, old.binding, new.binding, f"the binding cannot be read: {taken}"),), ""
    violations = (*check_term(taken, None, old), *check_decision(old, new, taken))
    return violations, "Commit" if changed(old, new) else "Bind"


def _unbound_writes(old: Target, new: Target) -> Iterator[Violation]:
    """A scaler writer without a binding: it may keep the record, not the counts."""
    for change in changed(old, new):
        yield Violation(
            rule=UNBOUND_WRITE,
            field=change.field,
            said="the scaler holds no binding on this deployment: bind first",
            present=change.present,
            attempted=change.attempted,
        )
    if new.decision is None or new.decision == old.decision:
        return
    decided = parse_decision(new.decision)
    if isinstance(decided, InvalidPayloadError):
        yield edited(INVALID, DECISION_FIELD, old.decision, new.decision, f"the decision cannot be read: {decided}")
        return
    yield from check_digest(decided)
    before = parse_decision(old.decision) if old.decision is not None else None
    if isinstance(before, Decision) and (decided.term, decided.sequence) <= (before.term, before.sequence):
        yield Violation(
            rule=STALE_TERM if decided.term < before.term else STALE_DECISION,
            field=DECISION_FIELD,
            said="the record of decisions goes on: it is neither turned back nor written anew at its term and sequence",
            present=f"term {before.term}, sequence {before.sequence}",
            attempted=f"term {decided.term}, sequence {decided.sequence}",
        )


# -------------------------------------------------------------------------------------------------------------- bound


def _bound(request: FenceRequest, old: Target) -> Judged:
    held = parse_binding(old.binding or "")
    if request.scaler_writer:
        return _owner_writes(request, old, held)
    return _others_write(request, old, held)


def _others_write(request: FenceRequest, old: Target, held: "Binding | InvalidPayloadError") -> Judged:
    new = request.new
    released = new.binding is None
    violations: list[Violation] = []
    for field, before, after in annotations(old, new):
        if after is None or after == before:
            continue
        rule = FORGED if before is None else IMMUTABLE
        violations.append(edited(rule, field, before, after, "only the scaler that is bound writes this annotation"))
    if not released and old.decision is not None and new.decision is None:
        said = "the decision is kept as long as a scaler is bound"
        violations.append(edited(IMMUTABLE, DECISION_FIELD, old.decision, None, said))
    if released and isinstance(held, Binding):
        violations.extend(_still_alive(request, held))
    for change in changed(old, new):
        said = (
            "taking the binding off and scaling are two writes: first take the binding off, then scale"
            if released
            else "the count of this role is owned by the scaler that is bound"
        )
        violations.append(Violation(rule=OWNED, field=change.field, said=said, present=change.present, attempted=change.attempted))
    return tuple(violations), "ScalerGone" if released else ""


def _still_alive(request: FenceRequest, held: Binding) -> Iterator[Violation]:
    """The hatch is closed while the owner exists, is Active, not suspended, and still points here."""
    scaler = request.scaler
    if scaler is None or scaler.uid != held.uid or scaler.suspended or not scaler.active or scaler.target != request.name:
        return
    yield Violation(
        rule=ALIVE,
        field=BINDING_FIELD,
        said=f"ModelDeploymentScaler {held.scaler!r} is alive, Active and points at this deployment",
        present=f"term {held.term}",
        attempted="removed" if request.new.binding is None else "another owner",
    )


def _owner_writes(request: FenceRequest, old: Target, held: "Binding | InvalidPayloadError") -> Judged:
    new = request.new
    if new.binding is None:
        return tuple(_release(old, new)), "Release"
    if new.binding == old.binding:
        if isinstance(held, InvalidPayloadError):
            return _unreadable(old, new, held), ""
        return tuple(check_decision(old, new, held)), "Commit"
    if isinstance(held, InvalidPayloadError):
        said = f"the present binding cannot be read ({held}) and can only be removed"
        return (edited(IMMUTABLE, BINDING_FIELD, old.binding, new.binding, said),), ""
    taken = parse_binding(new.binding)
    if isinstance(taken, InvalidPayloadError):
        return (edited(INVALID, BINDING_FIELD, old.binding, new.binding, f"the binding cannot be read: {taken}"),), ""
    if taken.uid == held.uid and taken.term == held.term:
        return (edited(IMMUTABLE, BINDING_FIELD, old.binding, new.binding, "a binding does not change within its term"),), ""
    alive = tuple(_still_alive(request, held)) if taken.uid != held.uid else ()
    violations = (*check_term(taken, held, old), *alive, *check_decision(old, new, taken))
    return violations, "Handover" if taken.uid != held.uid else "Reacquire"


def _release(old: Target, new: Target) -> Iterator[Violation]:
    if new.decision is not None and new.decision != old.decision:
        yield edited(IMMUTABLE, DECISION_FIELD, old.decision, new.decision, "a release keeps the decision as it is, or removes it")
    for change in changed(old, new):
        yield Violation(
            rule=UNBOUND_WRITE,
            field=change.field,
            said="a release leaves the counts alone: commit first, then release",
            present=change.present,
            attempted=change.attempted,
        )


def _unreadable(old: Target, new: Target, why: InvalidPayloadError) -> tuple[Violation, ...]:
    """Under a binding nobody can read, nothing is committed."""
    violations = [
        edited(IMMUTABLE, field, before, after, f"the present binding cannot be read ({why}) and can only be removed")
        for field, before, after in annotations(old, new)
        if before != after
    ]
    violations.extend(
        Violation(
            rule=OWNED,
            field=change.field,
            said=f"the present binding cannot be read ({why}) and can only be removed",
            present=change.present,
            attempted=change.attempted,
        )
        for change in changed(old, new)
    )
    return tuple(violations)
