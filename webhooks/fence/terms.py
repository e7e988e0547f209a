"""Terms and decisions: what a new binding and a new decision have to be so that a stale process cannot write.

Source: admission facts 1.3, decisions D4.
"""

from collections.abc import Iterator

from webhooks.fence.payloads import Binding, Decision, InvalidPayloadError, digest_of
from webhooks.fence.words import (
    BINDING_FIELD,
    DECISION_FIELD,
    IMMUTABLE,
    INVALID,
    STALE_DECISION,
    STALE_TERM,
    Target,
    Violation,
    changed,
    counts,
    edited,
    parse_decision,
)


def check_term(taken: Binding, held: Binding | None, old: Target) -> Iterator[Violation]:
    """A new binding's term is above the present binding's and the present decision's; the very first is 1."""
    known = [held.term] if held else []
    if old.decision is not None:
        last = parse_decision(old.decision)
        if isinstance(last, InvalidPayloadError):
            yield Violation(
                rule=STALE_TERM, field=DECISION_FIELD, said=f"the present decision cannot be read ({last}), so no term is known to be newer"
            )
            return
        known.append(last.term)
    if known:
        if taken.term <= max(known):
            yield Violation(
                rule=STALE_TERM,
                field=BINDING_FIELD,
                said=f"a new binding needs a term above {max(known)}",
                present=f"term {max(known)}",
                attempted=f"term {taken.term}",
            )
    elif taken.term != 1:
        yield Violation(
            rule=STALE_TERM, field=BINDING_FIELD, said="the first binding of a deployment has term 1", attempted=f"term {taken.term}"
        )


def check_decision(old: Target, new: Target, binding: Binding) -> Iterator[Violation]:
    """The decision beside a binding that is in force after the write."""
    moved = changed(old, new)
    if new.decision == old.decision:
        for change in moved:
            yield Violation(
                rule=STALE_DECISION,
                field=change.field,
                said="a change of counts comes with a new decision",
                present=change.present,
                attempted=change.attempted,
            )
        return
    if new.decision is None:
        said = "the decision is kept as long as a scaler is bound"
        yield edited(STALE_DECISION if moved else IMMUTABLE, DECISION_FIELD, old.decision, None, said)
        return
    decided = parse_decision(new.decision)
    if isinstance(decided, InvalidPayloadError):
        said = f"the decision cannot be read: {decided}"
        yield edited(STALE_DECISION if moved else INVALID, DECISION_FIELD, old.decision, new.decision, said)
        return
    last = parse_decision(old.decision) if old.decision is not None else None
    own = last if isinstance(last, Decision) and last.uid == decided.uid else None
    if decided.term != binding.term:
        yield _stale(STALE_TERM, "the decision's term is not the binding's", f"term {binding.term}", f"term {decided.term}")
    elif own is not None and (decided.term, decided.sequence) <= (own.term, own.sequence):
        yield _stale(
            STALE_DECISION,
            "the sequence has to grow within a term",
            f"sequence {own.sequence} of term {own.term}",
            f"sequence {decided.sequence} of term {decided.term}",
        )
    if decided.uid != binding.uid:
        yield _stale(STALE_DECISION, "the decision's uid is not the binding's", binding.uid, decided.uid)
    if isinstance(last, InvalidPayloadError):
        yield _stale(STALE_DECISION, f"the present decision cannot be read ({last}) and can only be removed", "", "")
    if decided.target_generation != old.generation:
        yield _stale(
            STALE_DECISION,
            "the decision was planned on another generation",
            f"generation {old.generation}",
            f"generation {decided.target_generation}",
        )
    if decided.replicas != new.replicas:
        yield _stale(
            STALE_DECISION, "the decision's replicas are not exactly the roles' counts", counts(new.replicas), counts(decided.replicas)
        )
    yield from check_digest(decided)


def check_digest(decided: Decision) -> Iterator[Violation]:
    """A decision's digest is its own."""
    if decided.digest != digest_of(decided.uid, decided.term, decided.sequence, decided.replicas):
        yield _stale(STALE_DECISION, "the digest is not that of the decision", "", decided.digest)


def _stale(rule: str, said: str, present: str, attempted: str) -> Violation:
    return Violation(rule=rule, field=DECISION_FIELD, said=said, present=present, attempted=attempted)
