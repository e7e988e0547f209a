"""`judge(snapshot)`: the whole status of one pass, and the intermediate values that acting and explaining read.

A pure function: the same snapshot gives the same bytes. It reads the snapshot and nothing else, each list once, and every field from the
same sorting-out of Pods.

Source: architecture page "The status path", decisions D1, D2, D7, status facts 1.4.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from api import reasons
from api.clock import format_time
from api.objects import KVCachePoolBinding
from api.status import CacheStatus, Condition, Group, Retirement, RoleStatus, Status
from controller.snapshot import Rollout, Snapshot
from controller.status import elastic, endpoint, groups, phase, publisher, retirement, rollout, router, serving
from controller.status.conditions import (
    cache_attached,
    domain_registered,
    elastic_resize,
    endpoint_eligibility,
    kv_events_publishing,
    quota_reserved,
    replicas_up_to_date,
    role_kinds_ready,
    router_ready,
    weights_ready,
)
from controller.status.eligibility import Standing, eligible_of, standings_of
from controller.status.reading import balances_itself, encrypted, read, spreads
from controller.status.replicas import Fleet, fleet_of
from controller.status.roles import role_status, unmanaged_of
from controller.status.serving import Selection
from controller.status.verdict import Verdict, merged, previous, written
from engines.facade import RoleReading


@dataclass(frozen=True)
class Ground:
    """What every field of a pass stands on: the snapshot, sorted out once.

    `readings`, `unmanaged` (the deployed command mode) and `hashes` (the desired ones) are by role name; `resolved` is the Binding where
    the declared cache resolves.
    """

    snapshot: Snapshot
    fleet: Fleet
    readings: Mapping[str, RoleReading | None]
    unmanaged: Mapping[str, bool]
    selection: Selection
    resolved: KVCachePoolBinding | None
    hashes: Mapping[str, str]

    def standings(self, operation: Retirement | None) -> dict[str, tuple[Standing, ...]]:
        """Every supervised replica's criteria while that operation holds."""
        return standings_of(self.fleet, self.snapshot.deployment.spec.engine, self.snapshot.observations, operation)


@dataclass(frozen=True)
class Assessment:
    """A status with what it was made of."""

    ground: Ground
    status: Status
    standings: Mapping[str, tuple[Standing, ...]]
    rollout: Rollout


def judge(snapshot: Snapshot) -> Status:
    """The status that the snapshot's facts give."""
    return assess(snapshot).status


def assess(snapshot: Snapshot) -> Assessment:
    """The status, and the values it was made of."""
    deployment, spec = snapshot.deployment, snapshot.deployment.spec
    before = snapshot.previous.conditions if snapshot.previous else ()
    fleet = fleet_of(snapshot)
    domain = domain_registered.judge(deployment, snapshot.binding)
    resolved = snapshot.binding if domain.reason == "Registered" else None
    ground = Ground(
        snapshot=snapshot,
        fleet=fleet,
        readings={role.name: read(spec.engine, role) for role in spec.roles},
        unmanaged=unmanaged_of(fleet),
        selection=serving.selection_of(snapshot, fleet),
        resolved=resolved,
        hashes=rollout.hashes_of(snapshot, resolved),
    )
    weights = weights_ready.judge(deployment, snapshot.artifact, fleet)
    held_by = "Weights" if weights.status == "False" else "Cache" if spec.kv_cache is not None and resolved is None else None
    figures = rollout.rollout_of(snapshot, fleet, ground.hashes, held_by)
    operation = _retirement(ground)
    standings = ground.standings(operation)
    roles = _roles(ground, standings)

    https = {name: encrypted(reading) for name, reading in ground.readings.items()}
    publishing = {role.name: publisher.publishes(role, spec.engine, spec.router, fleet) for role in spec.roles}
    routed = router_ready.judge(deployment, snapshot.router_deployment)
    quota = quota_reserved.judge(snapshot, fleet)
    verdicts = {
        reasons.DOMAIN_REGISTERED: domain,
        reasons.QUOTA_RESERVED: quota,
        reasons.CACHE_ATTACHED: cache_attached.judge(deployment, snapshot.binding, fleet, ground.unmanaged, snapshot.observations),
        reasons.REPLICAS_UP_TO_DATE: replicas_up_to_date.judge(figures, previous(before, reasons.REPLICAS_UP_TO_DATE), fleet),
        reasons.ROLE_KINDS_READY: role_kinds_ready.judge(roles),
        reasons.KV_EVENTS_PUBLISHING: kv_events_publishing.judge(deployment, publishing),
        reasons.ROUTER_READY: routed,
        reasons.ENDPOINT_ELIGIBILITY: endpoint_eligibility.judge(s for of_role in standings.values() for s in of_role),
        reasons.WEIGHTS_READY: weights,
    }
    shown_phase, message = phase.phase_of(
        deployment.metadata.deleting, roles, router=routed, quota=quota, weights=weights, pods=fleet.owned
    )
    found = router.owned(deployment, snapshot.router_deployment)
    status = Status(
        observed_generation=deployment.metadata.generation,
        phase=shown_phase,
        phase_message=message,
        role_summary=phase.summary_of(roles, None if spec.router is None else found.status.ready_replicas if found else 0),
        endpoint=endpoint.endpoint_of(deployment, https, routed.status == "True"),
        roles=roles,
        router=router.contract(deployment, snapshot.pool if resolved is not None else None, snapshot.services, https, publishing),
        kv_cache=_kv_cache(snapshot, resolved),
        model=weights_ready.published(deployment, snapshot.artifact),
        retirement=operation,
        conditions=merged(_conditions(snapshot, verdicts, before), before),
    )
    return Assessment(ground, status, standings, figures)


def _retirement(ground: Ground) -> Retirement | None:
    """One step of the operation; the criteria for an adoption are judged against the stored one."""
    snapshot, fleet = ground.snapshot, ground.fleet
    stored = snapshot.previous.retirement if snapshot.previous else None
    intents = retirement.intents_of(snapshot, fleet, ground.hashes)
    if stored is None and not intents:
        return None
    spread = {name for name, found in ground.readings.items() if found is not None and balances_itself(found)}
    if stored is not None and stored.state == "Draining" and _targets_spread(ground, stored):
        spread.add(stored.role_name)
    view = retirement.View(snapshot, fleet, ground.selection, intents, frozenset(spread))
    return retirement.step(view, ground.standings(stored) if stored else {})


def _targets_spread(ground: Ground, operation: Retirement) -> bool:
    """Whether the targets were deployed so that each serves requests itself; the spec may say otherwise by now, or drop the role."""
    targets, engine = frozenset(operation.target_member_uids), ground.snapshot.deployment.spec.engine
    return any(pod.metadata.uid in targets and pod.main is not None and spreads(engine, pod.main) for pod in ground.fleet.owned)


def _roles(ground: Ground, standings: Mapping[str, tuple[Standing, ...]]) -> tuple[RoleStatus, ...]:
    snapshot, fleet, spec = ground.snapshot, ground.fleet, ground.snapshot.deployment.spec
    memory = groups.Memory(snapshot, fleet)
    now = format_time(snapshot.now)
    entries = []
    for role in spec.roles:
        of_role = standings[role.name]
        shown: tuple[Group, ...]
        if role.elastic_ep is None:
            seen = serving.serving_of(ground.selection, (m.uid for replica in fleet.role(role.name) for m in replica.members))
            shown = groups.groups_of(role.name, of_role, ground.selection, memory, now)
        else:
            seen = elastic.serving_of(spec.router is not None)
            shown = elastic.collective_of(fleet.workers[role.name])
        entries.append(
            role_status(
                role,
                spec.engine,
                fleet,
                ground.readings[role.name],
                unmanaged=ground.unmanaged,
                eligible=eligible_of(of_role),
                serving=seen,
                groups=shown,
                workloads_read=snapshot.settings.kueue == "required",
            )
        )
    return tuple(entries)


def _binding_stands(snapshot: Snapshot) -> Condition | None:
    """DomainRegistered as a teardown leaves it: that does not look for the Binding again once a pass has looked."""
    if not snapshot.deployment.metadata.deleting or snapshot.previous is None:
        return None
    return previous(snapshot.previous.conditions, reasons.DOMAIN_REGISTERED)


def _kv_cache(snapshot: Snapshot, resolved: KVCachePoolBinding | None) -> CacheStatus | None:
    """Published when the Binding resolves, kept when it is lost, left as it stood by a teardown."""
    if snapshot.deployment.spec.kv_cache is None:
        return None
    kept = snapshot.previous.kv_cache if snapshot.previous else None
    looks = not snapshot.deployment.metadata.deleting or (kept is None and _binding_stands(snapshot) is None)
    return domain_registered.published(resolved) if resolved is not None and looks else kept


def _conditions(snapshot: Snapshot, verdicts: Mapping[str, Verdict], before: tuple[Condition, ...]) -> Iterator[Condition]:
    """Ours, as entries. What this pass did not look at stays exactly as it stood."""
    metadata = snapshot.deployment.metadata
    now = format_time(snapshot.now)
    for kind, found in verdicts.items():
        stood = previous(before, kind)
        if kind == reasons.DOMAIN_REGISTERED and (stands := _binding_stands(snapshot)) is not None:
            yield stands
        else:
            yield written(found, stood, metadata.generation, now)
    role = elastic.elastic_role(snapshot.deployment.spec.roles)
    if role is None or role.elastic_ep is None:
        return
    stood = previous(before, reasons.ELASTIC_RESIZE)
    resize = elastic_resize.judge(role.elastic_ep.width, snapshot.observations.elastic if snapshot.observations else None)
    if resize is not None:
        yield written(resize, stood, metadata.generation, now)
    else:
        yield stood if stood is not None else written(elastic_resize.first(), None, metadata.generation, now)
