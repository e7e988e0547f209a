"""RoleKindsReady: does every declared role kind have at least one ready replica? Completeness is what phase answers.

Source: seed "RoleKindsReady", status facts 4.5.
"""

from collections.abc import Sequence

from api.reasons import ROLE_KINDS_READY
from api.status import RoleStatus
from controller.status.verdict import Verdict, verdict


def judge(roles: Sequence[RoleStatus]) -> Verdict:
    """Kinds are pooled over roles and named in role order."""
    if not roles:
        return verdict(ROLE_KINDS_READY, "NoRoleStatuses", "The pass computed no role.")
    ready: dict[str, int] = {}
    for role in roles:
        ready[role.kind] = ready.get(role.kind, 0) + role.ready
    if lacking := [kind for kind, count in ready.items() if not count]:
        return verdict(ROLE_KINDS_READY, "KindsNotReady", f"No ready replica of kind {', '.join(lacking)}.")
    return verdict(ROLE_KINDS_READY, "AllKindsReady", f"A ready replica of every declared kind: {', '.join(ready)}.")
