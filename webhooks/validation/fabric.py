"""Fabric interfaces and the pool's transport, judged only when nothing else is wrong. Source: admission facts 3.9, end.

A leg is a path for KV blocks: the pair's direct one (`spec.kvTransfer.protocol`) and the pool's (the protocols of its member groups, where
the pool states them). What nobody states is not held against the writer.
"""

from collections.abc import Iterator

from api.objects import KVCachePool, ModelDeploymentSpec
from webhooks.quantity import parse_quantity, same_quantity
from webhooks.validation.findings import Problem, rule
from webhooks.validation.subject import RoleView, Subject

FABRIC = frozenset({"RDMA", "EFA"})


def wants_interface(view: RoleView) -> bool:
    """Whether a role asks for at least one interface."""
    written = view.role.resources.interface if view.role.resources else None
    value = parse_quantity(written) if written is not None else None
    return value is not None and value > 0


def pool_protocols(pool: KVCachePool | None) -> frozenset[str]:
    """The protocols that the member groups of a pool state."""
    groups = pool.spec.get("memberGroups") if pool is not None else None
    if not isinstance(groups, list):
        return frozenset()
    return frozenset(str(group["protocol"]) for group in groups if isinstance(group, dict) and group.get("protocol"))


def _constrained(spec: ModelDeploymentSpec) -> bool:
    return spec.kv_transfer is not None and spec.kv_transfer.protocol not in {None, "Auto"}


def _rejudged(subject: Subject, view: RoleView) -> bool:
    """An update judges an interface again only when its quantity, type, command or direct leg changed."""
    old, former = subject.old_spec, view.old
    if old is None or former is None or old.kv_transfer != subject.spec.kv_transfer:
        return True
    before, after = former.resources, view.role.resources
    return (
        former.instance_type != view.role.instance_type
        or bool(former.command) != view.taken_over
        or not same_quantity(before.interface if before else None, after.interface if after else None)
    )


@rule(
    "MD721",
    "InterfaceResolves",
    "A fabric interface is asked for only when the KV cache's binding and pool resolve.",
    "spec.roles[i].resources.interface",
    phase="fabric",
    when="interface",
    source="3.9",
)
def interface_resolves(subject: Subject) -> Iterator[Problem]:
    """The first requesting role is at fault."""
    if subject.spec.kv_cache is None or subject.fabric is None or (subject.fabric.binding and subject.fabric.pool):
        return
    for view in subject.roles:
        if wants_interface(view) and _rejudged(subject, view):
            missing = "KVCachePoolBinding" if subject.fabric.binding is None else "KVCachePool"
            yield Problem(
                field=f"{view.path}.resources.interface", reason="Forbidden", said=f"the {missing} of the KV cache does not exist"
            )
            return


@rule(
    "MD722",
    "InterfaceHasLeg",
    "A fabric interface serves an RDMA or EFA leg, and one protocol only.",
    "spec.roles[i].resources.interface",
    phase="fabric",
    when="interface",
    source="3.9",
)
def interface_leg(subject: Subject) -> Iterator[Problem]:
    """Per role."""
    spec = subject.spec
    if spec.kv_cache is not None and (subject.fabric is None or subject.fabric.pool is None):
        return
    legs = set(pool_protocols(subject.fabric.pool if subject.fabric else None))
    if spec.kv_transfer is not None and spec.kv_transfer.protocol is not None and spec.kv_transfer.protocol != "Auto":
        legs.add(spec.kv_transfer.protocol)
    unknown = spec.kv_transfer is not None and spec.kv_transfer.protocol == "Auto"
    fabric = sorted(legs & FABRIC)
    for view in subject.roles:
        if not wants_interface(view) or not _rejudged(subject, view):
            continue
        field, written = f"{view.path}.resources.interface", view.role.resources.interface if view.role.resources else None
        if len(fabric) > 1:
            yield Problem(field=field, value=written, said=f"the legs mix {' and '.join(fabric)}")
        elif not fabric and not unknown and (legs or spec.kv_cache is None):
            yield Problem(field=field, value=written, said="no leg of this role runs over RDMA or EFA")


@rule(
    "MD723",
    "PoolHasOneTransport",
    "A deployment joins a pool whose member groups offer one protocol, or says which it uses.",
    "spec.kvCache.poolRef.name",
    phase="transport",
    when="cache",
    source="3.9",
)
def pool_transport(subject: Subject) -> Iterator[Problem]:
    """Judged when the binding is new."""
    cache, old = subject.spec.kv_cache, subject.old_spec
    if cache is None or subject.fabric is None or (old is not None and old.kv_cache == cache) or _constrained(subject.spec):
        return
    protocols = pool_protocols(subject.fabric.pool)
    if len(protocols) > 1:
        yield Problem(
            field="spec.kvCache.poolRef.name",
            reason="Forbidden",
            said=f"the pool's member groups offer {' and '.join(sorted(protocols))}",
            fix="set spec.kvTransfer.protocol",
        )


RULES = (interface_resolves, interface_leg, pool_transport)
