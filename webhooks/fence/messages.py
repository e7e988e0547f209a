"""A refusal by the fence in words: who owns the counts, what stands there, what was attempted, and every way out. Source: decisions D4."""

from webhooks.fence.gitops import ARGO_LINE, FLUX_LINE
from webhooks.fence.judge import Verdict
from webhooks.fence.words import (
    ALIVE,
    FORGED,
    IMMUTABLE,
    INVALID,
    NEEDS_TARGET,
    OWNED,
    STALE_DECISION,
    STALE_TERM,
    UNBOUND_WRITE,
    Violation,
)

SENTENCES = {
    FORGED: "Only a scaler writer sets the scaler annotations; a create carries neither.",
    NEEDS_TARGET: "A scaler binds a deployment that exists, by an update.",
    IMMUTABLE: "The scaler annotations of a bound deployment change only by a new term or a new decision of a scaler writer.",
    OWNED: "While a scaler is bound, the counts of the roles change only by its decisions.",
    ALIVE: "A binding comes off only when its scaler is gone, replaced, suspended, not Active, or points elsewhere.",
    UNBOUND_WRITE: "A scaler that holds no binding changes no count.",
    STALE_TERM: "A binding's term is above every term the deployment has seen; a decision carries the binding's term.",
    STALE_DECISION: "A change of counts comes with a decision that is newer, complete, planned on this generation and rightly digested.",
    INVALID: "A scaler annotation is JSON of exactly the documented members, none twice, within its size.",
}
"""One sentence for each rule of the fence, for messages and docs."""

OUTCOMES = {
    "Bind": "A scaler took the binding.",
    "Commit": "A scaler changed the counts by a decision.",
    "Handover": "Another scaler took the binding of one that let go.",
    "Reacquire": "The same scaler took a new term.",
    "Release": "The scaler gave its binding back.",
    "ScalerGone": "The binding of a scaler that let go was taken off.",
}
"""What the fence calls the writes it lets through."""


def describe(violation: Violation) -> str:
    """One violation: field, why, present and attempted value."""
    return f"{violation.field}: {explain(violation)}"


def explain(violation: Violation) -> str:
    """One violation without its field."""
    facts = [f"{word} {value}" for word, value in (("present", violation.present), ("attempted", violation.attempted)) if value]
    return violation.said + (f" ({', '.join(facts)})" if facts else "")


def refusal(verdict: Verdict) -> str:
    """The whole message of a refused write."""
    owner = "bound to a scaler that its binding does not tell" if verdict.bound else "bound to no scaler"
    if verdict.bound and verdict.scaler:
        owner = f"bound to ModelDeploymentScaler {verdict.scaler!r}, term {verdict.term}"
    said = "; ".join(describe(violation) for violation in verdict.violations)
    out = "; ".join(ways_out(verdict))
    return f"[{verdict.rules}] this ModelDeployment is {owner}: {said}." + (f" Ways out: {out}." if out else "")


def ways_out(verdict: Verdict) -> tuple[str, ...]:
    """What somebody can do who wants the write to pass."""
    rules = {violation.rule for violation in verdict.violations}
    name = verdict.scaler or "the scaler"
    ways: list[str] = []
    if verdict.bound and rules & {OWNED, ALIVE, IMMUTABLE, FORGED}:
        ways.append(f"change {name}'s minReplicas/maxReplicas, set its spec.suspend to true or its spec.mode to Shadow, or delete it")
    if OWNED in rules:
        ways.append("once it let go, remove the scaler-binding annotation in one write and scale in the next")
        ways.append("a merge patch of spec.roles that leaves replicas out sets 1: use a JSON patch")
    if FORGED in rules:
        ways.append("leave both scaler annotations out of the manifest")
    if rules & {OWNED, ALIVE, IMMUTABLE, FORGED}:
        ways.append(f"Argo CD: {ARGO_LINE}")
        ways.append(f"Flux: {FLUX_LINE}")
    if rules & {STALE_TERM, STALE_DECISION, UNBOUND_WRITE}:
        ways.append("read the deployment again, bind with a higher term if need be, and decide anew")
    return tuple(ways)
