"""From the cache to the one frozen value that a pass judges, and from a verdict to the moment at which time alone changes it.

Nothing is read twice: a snapshot is taken in one go, without an await, so that all of it is from one moment of the cache.
"""

from datetime import datetime, timedelta
from typing import Final

from api import keys
from api.clock import parse_time
from api.status import Retirement, Status, decode_status
from controller.cache import Cache
from controller.kinds import CachedDeployment, KindName
from controller.snapshot import Membership, Observations, Snapshot, StatusSettings
from controller.store import Key

# Seconds that a step of a retirement may take (status facts 5.1); the three withdrawal steps share one clock.
BUDGETS: Final = {"Admitted": 30, "Disqualified": 30, "Withdrawing": 30, "Draining": 240, "Settling": 30}
# A step that waits for something no watch tells is looked at again after so many seconds.
POLL: Final = {"Disqualified": 5.0, "Withdrawing": 1.0, "Draining": 2.0, "Deleting": 2.0, "Settling": 2.0}


def take_snapshot(
    cache: Cache,
    key: Key,
    cached: CachedDeployment,
    *,
    now: datetime,
    settings: StatusSettings,
    observations: Observations | None = None,
    membership: Membership | None = None,
) -> Snapshot:
    """Everything that the judgement of this deployment may read, as the cache has it now."""
    deployment = cached.deployment
    spec = deployment.spec
    labelled = cache.pods(key)
    previous = decode_status(deployment.status)
    retiring = previous.retirement.target_workload_uid if previous is not None and previous.retirement is not None else ""
    binding = cache.find(KindName.BINDING, key.namespace, spec.kv_cache.pool_ref.name) if spec.kv_cache else None
    router_name = f"{key.name}-router"
    return Snapshot(
        deployment=deployment,
        spec_json=cached.spec_json,
        now=now,
        pods=tuple(pod for pod in labelled if keys.ROUTER not in pod.metadata.labels),
        workloads=tuple(cache.workloads(key.namespace, labelled, retiring)),
        router_deployment=next((router for router in cache.routers(key) if router.metadata.name == router_name), None),
        router_pods=tuple(pod for pod in labelled if keys.ROUTER in pod.metadata.labels),
        services=tuple(cache.services(key)),
        binding=binding,
        pool=cache.find(KindName.POOL, "", binding.spec.pool_ref.name) if binding is not None else None,
        artifact=cache.find(KindName.ARTIFACT, key.namespace, spec.model.artifact_ref.name) if spec.model.artifact_ref else None,
        observations=observations,
        membership=membership,
        previous=previous,
        settings=settings,
    )


def next_pass(status: Status, now: datetime) -> float | None:
    """Seconds until a pass could judge differently though nothing was heard; None when only news can change the verdict."""
    operation = status.retirement
    if operation is None or operation.state not in BUDGETS | POLL:
        return None
    end = phase_end(operation)
    left = max((end - now).total_seconds(), 0.0) if end is not None and end > now else None
    poll = POLL.get(operation.state)
    return min((seconds for seconds in (left, poll) if seconds is not None), default=None)


def phase_end(operation: Retirement) -> datetime | None:
    """When the step's budget is spent: min(deadline, start of the phase + its budget). None where the times cannot be read."""
    try:
        deadline = parse_time(operation.deadline)
        started = parse_time(operation.phase_started_at)
    except ValueError:
        return None
    budget = BUDGETS.get(operation.state)
    return deadline if budget is None else min(deadline, started + timedelta(seconds=budget))
