"""The elastic expert-parallel collective: one group at ordinal zero instead of replica-derived ones, and a serving answer without a count.

The members are the role's current GPU workers, the master included; the Ray head carries another component and a departing worker is no
member. The collective is never evaluated as one group, so it never qualifies. The role's own counts come from the master alone.

Source: seed "Elastic EP collective", decision D1, status facts 7.
"""

from api import keys
from api.objects import Role
from api.status import Group, GroupMember, Serving
from controller.status.groups import MEMBERS_BOUND, generation_of
from controller.status.replicas import Member, decimal

REASON = "CollectiveNotEvaluated"


def elastic_role(roles: tuple[Role, ...]) -> Role | None:
    """The deployment's elastic role; admission allows one at most."""
    return next((role for role in roles if role.elastic_ep is not None), None)


def collective_of(workers: tuple[Member, ...]) -> tuple[Group, ...]:
    """The collective's group; none without workers. A seat records the admission ordinal, not the engine's rank."""
    if not workers:
        return ()
    seated = sorted(
        ((decimal(m.pod.metadata.labels.get(keys.POD_ORDINAL)) or 0, m) for m in workers), key=lambda pair: (pair[0], pair[1].name)
    )
    return (
        Group(
            ordinal=0,
            generation=generation_of(member.uid for member in workers),
            state="Unknown",
            reason=REASON,
            message="The whole elastic collective has not been evaluated as one group.",
            members=tuple(GroupMember(name=m.name, uid=m.uid, seat=seat, ready=m.ready.value) for seat, m in seated[:MEMBERS_BOUND]),
        ),
    )


def serving_of(routed: bool) -> Serving:
    """Unknown with a router, NotConfigured without: there is no count of a collective."""
    return Serving(state="Unknown" if routed else "NotConfigured")
