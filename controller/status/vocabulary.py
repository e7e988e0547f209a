"""What the fields beside the conditions can say, what each value means, what would change it and who acts, as data.

`mdctl explain` and the generated page `docs/status.md` read the same tables, as they do the rows of `api.reasons` for the conditions. The
module judges nothing.

Source: seed "Phase and role summary", "Readiness gates", "Endpoint eligibility", "Group status" and "Retirement", decisions D1 and D3.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from engines.gates import REASONS as WITHHELD


class Word(msgspec.Struct, frozen=True):
    """One value of a field. `actor` is one of: nobody, wait, user, platform, operator."""

    meaning: str
    change: str
    actor: str


NOTHING: Final = "Nothing to do."

PHASES: Final[Mapping[str, Word]] = {
    "Ready": Word("Every declared replica is ready, and so is a declared router.", NOTHING, "nobody"),
    "Degraded": Word(
        "Some required serving capacity is ready and some is not.",
        "Bring the replicas that are not ready to readiness, or the router where the message names it.",
        "user",
    ),
    "Starting": Word("No required replica is ready yet.", "Read QuotaReserved and WeightsReady first, then the Pods.", "wait"),
    "Deleting": Word("The deployment is being deleted.", "Nothing; a Pod that stays is held by its finalizers.", "wait"),
}
GATES: Final[Mapping[str, Word]] = {
    "Gated": Word("A ready replica's engine answered its own health route.", NOTHING, "nobody"),
    "NotGated": Word("A ready replica's process started; nobody asked the engine.", "Drop what withholds the gates.", "user"),
    "Unknown": Word("The arguments are not read, since the engine is not known.", "Use a known engine.", "user"),
}
SERVING: Final[Mapping[str, Word]] = {
    "Confirmed": Word("Complete, fresh, identity-bound Router views agree.", NOTHING, "nobody"),
    "NotConverged": Word(
        "Complete Router views disagree about an endpoint.", "Wait for the Routers to converge, or read their logs.", "platform"
    ),
    "Unknown": Word("A required Router view is missing, stale or indeterminate.", "Bring every router Pod's observer back.", "platform"),
    "NotConfigured": Word("No router is declared, so no Router's answer can be missing.", NOTHING, "nobody"),
}
STATES: Final[Mapping[str, Word]] = {
    "Retiring": Word("A retirement operation holds the replica.", "Let it end; see status.retirement.", "operator"),
    "Replacing": Word("The rollout is replacing the replica.", "Nothing; the successor qualifies anew.", "operator"),
    "Incomplete": Word("A member that the replica declares does not exist.", "Wait for it, or read the Pods' events.", "wait"),
    "NotReady": Word("A member's engine does not answer its health route.", "Read that member's log and events.", "user"),
    "Unverified": Word("A member's forward path was observed to fail.", "Read the engines' logs of that replica.", "user"),
    "Unknown": Word("A criterion cannot be evaluated, which is no evidence of a fault.", "Wait for the observation.", "wait"),
    "AwaitingObservation": Word(
        "Every criterion passes; a valid Router observation is missing.", "Bring the Router's view back.", "platform"
    ),
    "Eligible": Word("Every criterion passes, or an earlier qualification is retained.", NOTHING, "nobody"),
}
# What an elastic role shows in place of a group's state and of a serving count, and it never changes: nobody has to bring an observation.
COLLECTIVE: Final = Word(
    "The whole elastic collective is not evaluated as one group.", "Nothing to do; its members tell their own.", "nobody"
)
UNCOUNTED: Final = Word("Routers observe the master alone, so the collective carries no count.", NOTHING, "nobody")
STEPS: Final[Mapping[str, Word]] = {
    "Admitted": Word("The removal is reserved; the eligibility label has to go first.", "Wait for the label to go.", "operator"),
    "Disqualified": Word(
        "No target is labelled eligible; Routers may still hold it.", "A fresh, complete Router view without a target.", "wait"
    ),
    "Withdrawing": Word("No Router selects a target any more.", "Nothing; the drain starts with the next pass.", "operator"),
    "Draining": Word("The targets may still hold requests.", "Two idle reads in a row from every answering member.", "wait"),
    "Deleting": Word("The targets are being deleted.", "The captured Pods leaving the API server; read their finalizers.", "wait"),
    "Settling": Word("The Pods are gone; quota and accelerators are not released yet.", "The Workload's release.", "wait"),
    "Completed": Word("The release was observed.", "Nothing; the next pass clears the field.", "operator"),
    "Aborted": Word(
        "A budget was spent; members, Workload and capacity are retained, and other removals wait behind it.",
        "Declare the position again, or set the annotation retirement-retry to ROLE:ORDINAL:TOKEN, with a token not used before.",
        "user",
    ),
}

_PHASE: Final = """\
What is ready beside what the spec declares. Each role counts for at most what it declares, so that the surplus of one role does not hide
that another is short. `roleSummary` counts what is ready by kind: `1R2P1D` is a router, two Prefill and one Decode."""
_GATES: Final = """\
Whether `ready` of a role is the engine's own answer. The operator fills the listener and sets three probes of `/health` where it knows
where the engine listens. It sets none where:

""" + "\n".join(f"* {sentence}" for sentence in WITHHELD.values())
_ENDPOINTS: Final = """\
`eligible` counts the replicas that pass every criterion of their groups, `serving` those that every Router confirms to select. A number
that cannot be had is absent, never 0."""
_GROUPS: Final = """\
A replica is one group, told by the UIDs of its members. The first state that applies, from the top, is shown. The workers of an elastic
role are one group that is not evaluated as one: `Unknown`, reason `CollectiveNotEvaluated`, always, and without a serving count."""
_RETIREMENT: Final = "One replica is taken out of service at a time, step by step; `reason` says what the step waits for."
_SECTIONS: Final[tuple[tuple[str, str, str, Mapping[str, Word]], ...]] = (
    ("Phase", "phase", _PHASE, PHASES),
    ("Readiness gates", "gates", _GATES, GATES),
    ("Endpoints", "roles[].endpoints.serving.state", _ENDPOINTS, SERVING),
    ("Groups", "roles[].groups[].state", _GROUPS, STATES),
    ("Retirement", "retirement.state", _RETIREMENT, STEPS),
)


def rule(section: str) -> str:
    """Where the rule of a part can be looked up. Raises KeyError for a section that the page does not have."""
    if section not in {title for title, *_ in _SECTIONS}:
        raise KeyError(section)
    return f'docs/status.md, section "{section}"'


def markdown() -> str:
    """The page `docs/status.md`."""
    lines = [
        "# The other fields of a status",
        "",
        "Generated from `controller/status/vocabulary.py` by `make docs`; a test holds the two equal. The conditions have a page of their",
        "own, [conditions.md](conditions.md). `mdctl explain md/NAME` says which value a deployment shows, and what was read for it.",
    ]
    for title, field, text, words in _SECTIONS:
        lines += ["", f"## {title}", "", text, "", f"| {field} | meaning | what changes it | who acts |", "|---|---|---|---|"]
        lines += [f"| `{value}` | {word.meaning} | {word.change} | {word.actor} |" for value, word in words.items()]
    return "\n".join(lines) + "\n"
