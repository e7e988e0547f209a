"""What a condition's verdict was read from: the objects, the fields and their values, for `mdctl explain`.

Source: lessons F40, F60, F113.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

import msgspec

from api import keys, reasons
from api.clock import parse_time
from api.objects import Condition, Pod, Workload, condition
from controller.status import router
from controller.status.conditions.weights_ready import candidates, main_ready
from controller.status.judge import Assessment
from controller.status.roles import took_over
from controller.status.rollout import render_version


class Evidence(msgspec.Struct, frozen=True):
    """One field of one object, as this pass read it; `absent` where the object or the field is not there."""

    object: str
    field: str
    value: str


ABSENT: Final = "absent"


def reported(conditions: tuple[Condition, ...], kind: str) -> str:
    """A condition as text: status, reason and message."""
    found = condition(conditions, kind)
    if found is None:
        return ABSENT
    said = ": ".join(part for part in (found.reason, found.message) if part)
    return f"{found.status} ({said})" if said else found.status


def departure(pod: Pod, assessment: Assessment) -> Evidence:
    """A departing Pod: since when, and what keeps it. It still occupies its ordinal."""
    metadata = pod.metadata
    kept = f"; finalizers {', '.join(metadata.finalizers)}" if metadata.finalizers else ""
    try:
        age = int((assessment.ground.snapshot.now - parse_time(metadata.deletion_timestamp or "")).total_seconds())
        since = f"{age} s ago" if age >= 0 else f"in {-age} s"
    except ValueError:
        since = "at an unreadable time"
    return Evidence(f"Pod {metadata.name}", "metadata.deletionTimestamp", f"{metadata.deletion_timestamp} ({since}){kept}")


def evidence_of(kind: str, assessment: Assessment) -> tuple[Evidence, ...]:
    """Everything that a condition of that type was read from."""
    return tuple(_READERS[kind](assessment))


def _domain(assessment: Assessment) -> Iterator[Evidence]:
    snapshot = assessment.ground.snapshot
    cache = snapshot.deployment.spec.kv_cache
    if cache is None:
        yield Evidence("ModelDeployment", "spec.kvCache", ABSENT)
        return
    name = f"KVCachePoolBinding {cache.pool_ref.name}"
    if snapshot.binding is None:
        yield Evidence(name, "metadata", ABSENT)
        return
    yield Evidence(name, "metadata.deletionTimestamp", snapshot.binding.metadata.deletion_timestamp or ABSENT)
    yield Evidence(name, "status.phase", snapshot.binding.status.phase or ABSENT)
    yield Evidence(name, "status.conditions[QuotaGranted]", reported(snapshot.binding.status.conditions, "QuotaGranted"))


def _quota(assessment: Assessment) -> Iterator[Evidence]:
    fleet = assessment.ground.fleet
    yield Evidence("setting", "kueue", assessment.ground.snapshot.settings.kueue)
    for _, replica in sorted(fleet.occupied.items()):
        if replica.workload is None:
            yield Evidence(f"replica {replica.where}", "Workload that owns a member", ABSENT)
        else:
            yield from _workload(replica.workload, replica.where)


def _workload(workload: Workload, where: str) -> Iterator[Evidence]:
    name = f"Workload {workload.metadata.name} ({where})"
    if not workload.spec.active:
        yield Evidence(name, "spec.active", "false")
    for kind in ("QuotaReserved", "Admitted", "Preempted", "Evicted"):
        if kind == "QuotaReserved" or condition(workload.status.conditions, kind) is not None:
            yield Evidence(name, f"status.conditions[{kind}]", reported(workload.status.conditions, kind))
    for check in workload.status.admission_checks:
        yield Evidence(name, f"status.admissionChecks[{check.name}]", f"{check.state} ({check.message})")


def _cache(assessment: Assessment) -> Iterator[Evidence]:
    ground = assessment.ground
    for replica in ground.fleet.supervised():
        stamped = sum(keys.PROMETHEUS_PORT in member.pod.metadata.annotations for member in replica.members)
        mode = ": command replaced" if took_over(replica) else ""
        yield Evidence(
            f"replica {replica.where}", f"annotation {keys.PROMETHEUS_PORT}", f"on {stamped} of {len(replica.members)} members{mode}"
        )
    observations = ground.snapshot.observations
    accounts = {entry.pod_uid: entry for entry in observations.cache_operations} if observations else {}
    for member in (m for replica in ground.fleet.supervised() if replica.ready for m in replica.members):
        account = accounts.get(member.uid)
        value = f"{account.succeeded} succeeded, {account.failed} failed" if account else "no account"
        yield Evidence(f"Pod {member.name}", "store operations (observed)", value)
    if (binding := ground.snapshot.binding) is not None:
        for field, figure in (("blocks", binding.status.blocks), ("usage", binding.status.usage)):
            yield Evidence(f"KVCachePoolBinding {binding.metadata.name}", f"status.{field}", ABSENT if figure is None else str(figure))


def _rollout(assessment: Assessment) -> Iterator[Evidence]:
    ground = assessment.ground
    minimum = render_version(ground.snapshot.deployment.metadata.annotations)
    for name, wanted in ground.hashes.items():
        yield Evidence(f"role {name}", "desired explicit-spec-hash", wanted)
        yield Evidence(f"role {name}", "minimum render-version", str(minimum))
    for pod in ground.fleet.owned:
        if pod.metadata.deleting:
            yield departure(pod, assessment)
            continue
        annotations = pod.metadata.annotations
        yield Evidence(f"Pod {pod.metadata.name}", keys.EXPLICIT_SPEC_HASH, annotations.get(keys.EXPLICIT_SPEC_HASH, ABSENT))
        if minimum:
            yield Evidence(f"Pod {pod.metadata.name}", keys.RENDER_VERSION, annotations.get(keys.RENDER_VERSION, ABSENT))


def _kinds(assessment: Assessment) -> Iterator[Evidence]:
    for role in assessment.status.roles:
        yield Evidence(f"role {role.name}", "ready", f"{role.ready} of {role.desired} (kind {role.kind})")


def _publishers(assessment: Assessment) -> Iterator[Evidence]:
    spec = assessment.ground.snapshot.deployment.spec
    yield Evidence("ModelDeployment", "spec.router.name", spec.router.name if spec.router else ABSENT)
    yield Evidence("ModelDeployment", "spec.engine.name", spec.engine.name)
    for role in assessment.status.router.roles if assessment.status.router else ():
        yield Evidence(f"role {role.name}", "publisher in container main", role.kv_events.endpoint if role.kv_events else ABSENT)
    for declared in spec.roles:
        if declared.command:
            yield Evidence(f"role {declared.name}", "spec.roles[].command", "replaced")


def _router(assessment: Assessment) -> Iterator[Evidence]:
    snapshot = assessment.ground.snapshot
    spec = snapshot.deployment.spec
    yield Evidence("ModelDeployment", "spec.router.name", spec.router.name if spec.router else ABSENT)
    if spec.router is None:
        return
    yield Evidence("ModelDeployment", "spec.roles[].ports", ", ".join(f"{role.name}: {role.serving_port}" for role in spec.roles))
    name, found = f"Deployment {router.object_name(snapshot.deployment)}", snapshot.router_deployment
    if found is None:
        yield Evidence(name, "metadata", ABSENT)
        return
    owner = found.metadata.controller
    yield Evidence(name, "controller", f"{owner.kind} {owner.name} ({owner.uid})" if owner else ABSENT)
    yield Evidence(name, "status.readyReplicas", str(found.status.ready_replicas))


def _eligibility(assessment: Assessment) -> Iterator[Evidence]:
    for standings in assessment.standings.values():
        for standing in standings:
            legs = ", ".join(f"{name} {leg}" for name, leg in standing.legs.items())
            yield Evidence(f"replica {standing.replica.where}", "criteria", legs)
            for member in standing.replica.members:
                yield ready(member.pod)


def ready(pod: Pod) -> Evidence:
    """A Pod's own report."""
    return Evidence(f"Pod {pod.metadata.name}", "status.conditions[Ready]", reported(pod.status.conditions, "Ready"))


def _weights(assessment: Assessment) -> Iterator[Evidence]:
    snapshot = assessment.ground.snapshot
    ref = snapshot.deployment.spec.model.artifact_ref
    if ref is None:
        yield Evidence("ModelDeployment", "spec.model.artifactRef", ABSENT)
        return
    name = f"ModelArtifact {ref.name}"
    if snapshot.artifact is None:
        yield Evidence(name, "metadata", ABSENT)
        return
    conditions = snapshot.artifact.status.get("conditions")
    entries: Iterable[object] = conditions if isinstance(conditions, list) else ()
    resolved = next((c for c in entries if isinstance(c, dict) and c.get("type") == "Resolved"), {})
    yield Evidence(name, "status.conditions[Resolved]", str(resolved.get("status", ABSENT)))
    for pod in candidates(assessment.ground.fleet):
        yield Evidence(f"Pod {pod.metadata.name}", "status.containerStatuses[main].ready", str(main_ready(pod)).lower())
        started = reported(pod.status.conditions, "PodReadyToStartContainers")
        yield Evidence(f"Pod {pod.metadata.name}", "status.conditions[PodReadyToStartContainers]", started)


def _elastic(assessment: Assessment) -> Iterator[Evidence]:
    snapshot = assessment.ground.snapshot
    for role in snapshot.deployment.spec.roles:
        if role.elastic_ep is not None:
            yield Evidence(f"role {role.name}", "spec.roles[].elasticEp.width", str(role.elastic_ep.width))
    seen = snapshot.observations.elastic if snapshot.observations else None
    if seen is None or seen.record is None:
        yield Evidence("elastic observation", "record", "not read")
    if seen is None:
        return
    if seen.record is not None:
        yield Evidence("elastic observation", "record", "there" if seen.record else ABSENT)
    observed = seen.observed if seen.known and seen.observed is not None else "not known"
    yield Evidence("elastic observation", "width", f"desired {'not named' if seen.desired is None else seen.desired}, observed {observed}")
    if seen.refusal is not None:
        yield Evidence("elastic observation", "refusal", f"{seen.refusal.attempts} attempts: {seen.refusal.message}")


_READERS: Final[dict[str, Callable[[Assessment], Iterator[Evidence]]]] = {
    reasons.DOMAIN_REGISTERED: _domain,
    reasons.QUOTA_RESERVED: _quota,
    reasons.CACHE_ATTACHED: _cache,
    reasons.REPLICAS_UP_TO_DATE: _rollout,
    reasons.ROLE_KINDS_READY: _kinds,
    reasons.KV_EVENTS_PUBLISHING: _publishers,
    reasons.ROUTER_READY: _router,
    reasons.ENDPOINT_ELIGIBILITY: _eligibility,
    reasons.WEIGHTS_READY: _weights,
    reasons.ELASTIC_RESIZE: _elastic,
}
