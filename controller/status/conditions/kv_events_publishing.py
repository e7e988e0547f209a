"""KVEventsPublishing: does every role that produces cache blocks carry publisher configuration? Configuration only, not traffic.

Source: seed "KVEventsPublishing", status facts 4.6.
"""

from collections.abc import Mapping

from api.objects import ModelDeployment
from api.reasons import KV_EVENTS_PUBLISHING
from controller.status.publisher import produces
from controller.status.text import counted
from controller.status.verdict import Verdict, verdict


def judge(deployment: ModelDeployment, publishing: Mapping[str, bool]) -> Verdict:
    """`publishing` says of each role whether its Pods carry a publisher. The first offender in role order decides."""
    roles = deployment.spec.roles
    if deployment.spec.router is None:
        if all(role.effective_kind == "Server" for role in roles):
            return verdict(KV_EVENTS_PUBLISHING, "NotApplicable", "Only Server roles and no router: nobody would listen.")
        return verdict(KV_EVENTS_PUBLISHING, "NoRouter", "Roles are disaggregated, but no router is declared to listen.")
    producing = [role for role in roles if produces(role)]
    for role in producing:
        if role.command:
            return verdict(KV_EVENTS_PUBLISHING, "RoleUnmanaged", f"Role {role.name} replaced its command; its publisher is not read.")
        if not publishing.get(role.name, False):
            return verdict(KV_EVENTS_PUBLISHING, "PublisherDisabled", f"Role {role.name} is not configured to publish KV events.")
    return verdict(KV_EVENTS_PUBLISHING, "Publishing", f"{counted(len(producing), 'producing role')} configured to publish.")
