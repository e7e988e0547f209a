"""`status.phase`, `phaseMessage` and `roleSummary`.

Required capacity is what is summed: a role with more ready replicas than it declares does not make up for another that is short.

Source: seed "Phase and role summary", status facts 3.1 and 3.2.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from api.objects import Pod
from api.status import RoleStatus
from controller.status.text import bounded, verb
from controller.status.verdict import Verdict

LETTERS: Final = (("Server", "S"), ("Encode", "E"), ("Prefill", "P"), ("Decode", "D"))


def phase_of(
    deleting: bool,
    roles: Sequence[RoleStatus],
    *,
    router: Verdict,
    quota: Verdict,
    weights: Verdict,
    pods: Sequence[Pod],
) -> tuple[str, str]:
    """The phase and its message. `pods` are the deployment's own, by name; the three verdicts are of the same pass."""
    if deleting:
        return "Deleting", "The deployment is being deleted; its replicas are torn down."
    desired = sum(role.desired for role in roles)
    ready = sum(min(role.ready, role.desired) for role in roles)
    routed = router.status == "True"
    if ready == desired and routed:
        return "Ready", ""
    if ready == desired:
        phase, message = "Degraded", router.message
    elif ready > 0:
        phase, message = "Degraded", f"{ready} of {desired} replicas {verb(ready, 'are')} ready."
    else:
        phase, message = "Starting", quota.message
    return phase, bounded(_annotated(message, weights, pods))


def _annotated(message: str, weights: Verdict, pods: Sequence[Pod]) -> str:
    if weights.status == "False" and not pods:
        return weights.message
    for pod in pods:
        if pod.status.reason == "Evicted" and pod.status.message:
            return f"{message}; Pod {pod.metadata.name} was evicted: {pod.status.message}"
    return message


def summary_of(roles: Iterable[RoleStatus], router_ready: int | None) -> str:
    """The ROLES column, such as `1R2S`; `router_ready` is None without a router."""
    counts: dict[str, int] = {}
    for role in roles:
        counts[role.kind] = counts.get(role.kind, 0) + role.ready
    parts = [] if router_ready is None else [f"{router_ready}R"]
    parts += [f"{counts.pop(kind)}{letter}" for kind, letter in LETTERS if kind in counts]
    parts += [f"{count}{kind.upper()}" for kind, count in counts.items()]
    return "".join(parts)
