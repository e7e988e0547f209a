"""The fence's words: rule names, fields, one side of a write, one violation; and the readings that every row shares.

Source: admission facts 1.4, decisions D4.
"""

from collections.abc import Mapping

import msgspec

from api import keys
from api.objects import Struct
from webhooks.fence.payloads import Binding, Decision, InvalidPayloadError, read_binding, read_decision

FORGED = "ScalerAnnotationForged"
IMMUTABLE = "ScalerAnnotationImmutable"
NEEDS_TARGET = "BindingRequiresExistingTarget"
OWNED = "ReplicasOwnedByScaler"
ALIVE = "ScalerAlive"
UNBOUND_WRITE = "UnboundWrite"
STALE_TERM = "StaleTerm"
STALE_DECISION = "StaleDecision"
INVALID = "ScalerAnnotationInvalid"

BINDING_FIELD = f"metadata.annotations[{keys.SCALER_BINDING}]"
DECISION_FIELD = f"metadata.annotations[{keys.SCALER_DECISION}]"


class Target(Struct, frozen=True):
    """One side of the write: the two annotations' texts and what they guard."""

    binding: str | None = None
    decision: str | None = None
    replicas: dict[str, int] = msgspec.field(default_factory=dict)
    generation: int = 0
    deleting: bool = False


class Violation(Struct, frozen=True):
    """One broken rule: its name, the field, what stands there and what was attempted."""

    rule: str
    field: str
    said: str
    present: str = ""
    attempted: str = ""


VALUE_CHARACTERS = 400
"""As much of an annotation as a message shows; a decision of a dozen roles fits."""


def edited(rule: str, field: str, before: str | None, after: str | None, said: str) -> Violation:
    """A violation by an annotation's text, with what stands there and what was attempted."""
    return Violation(rule=rule, field=field, said=said, present=_text(before, "nothing"), attempted=_text(after, "removal"))


def _text(text: str | None, absent: str) -> str:
    if text is None:
        return absent
    clean = "".join([character if character.isprintable() else " " for character in text[:VALUE_CHARACTERS]])
    return (clean or "an empty text") + ("…" if len(text) > VALUE_CHARACTERS else "")


class Change(Struct, frozen=True):
    """A role's count that a write changes."""

    field: str
    present: str
    attempted: str


def annotations(old: Target, new: Target) -> tuple[tuple[str, str | None, str | None], ...]:
    """Field, text before and text after of both annotations."""
    return ((BINDING_FIELD, old.binding, new.binding), (DECISION_FIELD, old.decision, new.decision))


def changed(old: Target, new: Target) -> tuple[Change, ...]:
    """The counts that differ, roles matched by name. Adding and removing roles is another rule's business."""
    if old.replicas == new.replicas:
        return ()
    return tuple(
        Change(field=f"spec.roles[{index}].replicas", present=f"{old.replicas[role]} in role {role!r}", attempted=str(count))
        for index, (role, count) in enumerate(new.replicas.items())
        if role in old.replicas and old.replicas[role] != count
    )


def counts(replicas: Mapping[str, int]) -> str:
    """Counts in words, by role name."""
    return ", ".join(f"{role}={count}" for role, count in sorted(replicas.items()))[:256]


def parse_binding(text: str) -> Binding | InvalidPayloadError:
    """The binding in a text, or why there is none."""
    try:
        return read_binding(text)
    except InvalidPayloadError as error:
        return error


def parse_decision(text: str) -> Decision | InvalidPayloadError:
    """The decision in a text, or why there is none."""
    try:
        return read_decision(text)
    except InvalidPayloadError as error:
        return error
