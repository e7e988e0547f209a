"""RouterReady: did the managed router render, and has it a ready replica?

Source: seed "RouterReady", status facts 2.5 and 4.7.
"""

from api.objects import Deployment, ModelDeployment
from api.reasons import ROUTER_READY
from controller.status import router
from controller.status.text import counted
from controller.status.verdict import Verdict, verdict


def judge(deployment: ModelDeployment, found: Deployment | None) -> Verdict:
    """`found` is the Deployment named `<md>-router`, whoever owns it."""
    if deployment.spec.router is None:
        return verdict(ROUTER_READY, "NotApplicable", "The deployment declares no router.")
    if refusal := router.refusal(deployment):
        return verdict(ROUTER_READY, "RenderFailed", refusal)
    name = router.object_name(deployment)
    if found is None:
        return verdict(ROUTER_READY, "NotDeployed", f"Deployment {name} does not exist yet.")
    if router.owned(deployment, found) is None:
        return verdict(ROUTER_READY, "NotDeployed", f"Deployment {name} exists but belongs to another owner, and is not adopted.")
    ready = found.status.ready_replicas
    if not ready:
        return verdict(ROUTER_READY, "NoReadyReplicas", f"Deployment {name} has no ready replica.")
    return verdict(ROUTER_READY, "Ready", f"Deployment {name} has {counted(ready, 'ready replica')}.")
