"""A condition's verdict, and how a verdict becomes an entry of `status.conditions`.

The status shown is the vocabulary's own (`api.reasons`), so a module cannot pair a reason with a wrong status. `lastTransitionTime` moves
only with the status; conditions of other writers are kept.

Source: decision D7, style "Rules of a status controller", lesson F95.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from api import reasons
from api.status import Condition
from controller.status.text import bounded


@dataclass(frozen=True, slots=True)
class Verdict:
    """A reason of the vocabulary with its message."""

    row: reasons.Reason
    message: str

    @property
    def status(self) -> str:
        """True, False or Unknown."""
        return self.row.status

    @property
    def reason(self) -> str:
        """The CamelCase reason."""
        return self.row.reason


def verdict(kind: str, reason: str, message: str) -> Verdict:
    """The verdict with that reason. Raises KeyError where the vocabulary has no such reason."""
    return Verdict(reasons.row(kind, reason), bounded(message))


def previous(conditions: Sequence[Condition], kind: str) -> Condition | None:
    """The stored condition of that type."""
    for condition in conditions:
        if condition.type == kind:
            return condition
    return None


def written(found: Verdict, before: Condition | None, generation: int, now: str) -> Condition:
    """The entry for a verdict of this pass."""
    kept = before is not None and before.status == found.status and before.last_transition_time
    return Condition(
        type=found.row.type,
        status=found.status,
        reason=found.reason,
        message=found.message,
        last_transition_time=before.last_transition_time if before is not None and kept else now,
        observed_generation=generation,
    )


def merged(ours: Iterable[Condition], before: Sequence[Condition]) -> tuple[Condition, ...]:
    """Our conditions in the vocabulary's order, then those of other writers as they stood."""
    by_type = {c.type: c for c in ours}
    mine = [by_type[kind] for kind in reasons.TYPES if kind in by_type]
    return (*mine, *(c for c in before if c.type not in reasons.BY_TYPE))
