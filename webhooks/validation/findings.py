"""What a rule says, and the rule itself: an id that never changes, a name, one sentence, the fields it points at."""

import json
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Literal

import msgspec

if TYPE_CHECKING:
    from webhooks.validation.subject import Subject

Reason = Literal["Required", "Invalid", "Forbidden", "Duplicate", "NotFound"]

_WIRE = {
    "Required": "FieldValueRequired",
    "Invalid": "FieldValueInvalid",
    "Forbidden": "FieldValueForbidden",
    "Duplicate": "FieldValueDuplicate",
    "NotFound": "FieldValueNotFound",
}
_WORDS = {
    "Required": "Required value",
    "Invalid": "Invalid value",
    "Forbidden": "Forbidden",
    "Duplicate": "Duplicate value",
    "NotFound": "Not found",
}

Phase = Literal["object", "types", "fabric", "transport"]
"""When a rule is judged: on the object alone; with the InstanceTypes; only if nothing was wrong so far, with the fabric and the pool."""

Feature = Literal[
    "always",
    "artifact",
    "balance",
    "cache",
    "cards",
    "crossed",
    "declared",
    "elastic",
    "encode",
    "env",
    "faulty",
    "interface",
    "kindred",
    "kinds",
    "members",
    "moved",
    "namesakes",
    "new-role",
    "p-flags",
    "parts",
    "privileged",
    "router",
    "router-arguments",
    "s-flags",
    "several",
    "shm",
    "strange",
    "topology",
    "unversioned",
    "volumes",
    "wiring",
]
"""What a deployment has to have, or a write has to touch, for a rule to have anything to say; see `webhooks.validation.features`."""

VALUE_CHARACTERS = 128
SAID_CHARACTERS = 512
"""As much of a value, and of a sentence, as a message shows: an argument may have 32 KiB, and there may be thousands of them."""


class Problem(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One thing that is wrong, before it knows its rule."""

    field: str
    said: str
    reason: Reason = "Invalid"
    value: Any = None
    fix: str = ""


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """One rule of the registry."""

    id: str
    name: str
    sentence: str
    fields: tuple[str, ...]
    check: "Callable[[Subject], Iterable[Problem]]"
    phase: Phase = "object"
    when: Feature = "always"
    source: str = ""


class Finding(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One thing that is wrong, with its rule. `refuses` is false for what only warns, and then `severity` says how much it matters."""

    rule: str
    name: str
    field: str
    message: str
    reason: Reason = "Invalid"
    value: Any = None
    fix: str = ""
    refuses: bool = True
    severity: Literal["error", "warning", "info"] = "error"

    @property
    def cause_reason(self) -> str:
        """The reason of `status.details.causes[]`."""
        return _WIRE[self.reason]

    @property
    def cause_message(self) -> str:
        """The message of `status.details.causes[]`: reason, value, rule and what is wrong."""
        value = f": {shown(self.value)}" if self.value is not None and self.reason not in ("Required", "Forbidden") else ""
        fix = f" ({self.fix})" if self.fix else ""
        return f"{_WORDS[self.reason]}{value}: {self.rule} {self.name}: {self.message}{fix}"


def finding(rule: str, name: str, problem: Problem) -> Finding:
    """A rule's problem as the finding that answers tell, its sentence bounded."""
    return Finding(
        rule=rule,
        name=name,
        field=problem.field,
        message=_bounded(problem.said, SAID_CHARACTERS),
        reason=problem.reason,
        value=problem.value,
        fix=problem.fix,
    )


def shown(value: Any) -> str:
    """A value for a message: JSON, bounded."""
    return _bounded(json.dumps(value, ensure_ascii=False), VALUE_CHARACTERS)


def _bounded(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def rule(
    id: str,  # noqa: A002 - it is the rule's id everywhere else
    name: str,
    sentence: str,
    *fields: str,
    phase: Phase = "object",
    when: Feature = "always",
    source: str = "",
) -> "Callable[[Callable[[Subject], Iterable[Problem]]], Rule]":
    """Make a function a rule."""

    def made(check: "Callable[[Subject], Iterable[Problem]]") -> Rule:
        return Rule(id=id, name=name, sentence=sentence, fields=fields, check=check, phase=phase, when=when, source=source)

    return made
