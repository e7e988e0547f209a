"""EndpointEligibility: have the deployment's endpoints been qualified? It answers for the reading, not for the endpoints.

Source: seed "EndpointEligibility", status facts 4.8.
"""

from collections.abc import Iterable

from api.reasons import ENDPOINT_ELIGIBILITY
from controller.status.eligibility import Leg, Standing
from controller.status.text import every, listed, verb
from controller.status.verdict import Verdict, verdict


def judge(standings: Iterable[Standing]) -> Verdict:
    """Over every supervised replica of the roles in spec."""
    seen = list(standings)
    if not any(standing.observed for standing in seen):
        return verdict(ENDPOINT_ELIGIBILITY, "NotObserved", "No member of any replica has reported a readiness.")
    if revoked := [standing for standing in seen if standing.failed]:
        return verdict(ENDPOINT_ELIGIBILITY, "Revoked", f"Criteria fail: {'; '.join(map(_failing, revoked))}.")
    if unsupported := [standing for standing in seen if Leg.UNSUPPORTED in standing.legs.values()]:
        names = listed(standing.replica.where for standing in unsupported)
        return verdict(ENDPOINT_ELIGIBILITY, "Unsupported", f"GroupForward cannot be checked on {names}; an earlier decision stands.")
    if held := [standing for standing in seen if standing.unknown]:
        legs = listed(leg for standing in held for leg in standing.held)
        return verdict(ENDPOINT_ELIGIBILITY, "HeldUnverified", f"Held by {legs} on {listed(s.replica.where for s in held)}.")
    return verdict(ENDPOINT_ELIGIBILITY, "Qualified", f"{every(len(seen), 'replica')} {verb(len(seen), 'meet')} every criterion.")


def _failing(standing: Standing) -> str:
    """What fails, and apart from it what is only not known: that is no fault."""
    unknown = f" (not known: {listed(standing.unknown)})" if standing.unknown else ""
    return f"{standing.replica.where}: {listed(standing.failed)}{unknown}"
