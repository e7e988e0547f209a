"""Does to a cluster what a stored status asks for (`controller.status.acts` says what), behind `act: retire`.

Acts follow the write, never accompany it: the pass that admits or advances an operation writes and does nothing else, so that a crash
between the two loses no fact. Before the first delete of a pass the API server is asked once more whether the operation that wants it is
still stored there. A delete carries the captured UID, so it meets that object or nobody. What was not done is asked for again by the next
pass.

Every act asks anew whether it is still permitted: a process that stood still between two of them may have lost the Lease meanwhile, and
another one act on what it does not know of.
"""

from collections.abc import Callable, Sequence

import msgspec
import structlog

from api import keys
from api.status import Retirement, decode_status
from controller import metrics
from controller.kinds import MODEL_DEPLOYMENTS, WORKLOADS_V1BETA1, WORKLOADS_V1BETA2, project_deployment
from controller.snapshot import Snapshot
from controller.status.acts import Act
from controller.store import Key
from kube.client import Client
from kube.errors import Conflict, NotFound
from kube.resources import PODS, Resource
from kube.shallow import decoded

log = structlog.get_logger("controller.acting")


class RetirementActs:
    """Performs; decides nothing."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._workloads: Resource | None = None

    async def perform(self, key: Key, snapshot: Snapshot, acts: Sequence[Act], permitted: Callable[[], bool]) -> None:
        """Do the acts in their order, for as long as they are permitted.

        Raises the kube error tree, Conflict where a Pod or the deployment is newer than what was judged.
        """
        confirmed: bool | None = None
        outdated: Conflict | None = None
        for act in acts:
            if act.kind in ("deletePod", "deleteWorkload") and confirmed is None:
                confirmed = await self._still_stored(key, snapshot)
            resource = await self._workload_resource() if act.kind == "deleteWorkload" else PODS
            if not permitted():
                metrics.HELD.labels("not-leading").inc()
                break
            match act.kind:
                case "label" | "unlabel":
                    try:
                        await self._label(act)
                    except Conflict as conflict:
                        outdated = conflict  # that Pod is judged anew; the others are none of its concern
                case "clearRetry":
                    await self._clear_retry(act)
                case "deletePod" | "deleteWorkload":
                    if confirmed:
                        await self._delete(resource, act)
        if outdated is not None:
            raise outdated

    async def _label(self, act: Act) -> None:
        """The UID makes the patch fail on another Pod of that name, the resourceVersion on a Pod that somebody changed meanwhile.

        Without the latter a controller that was held up, and lost the Lease, could make a retiring Pod eligible again.
        """
        label = {keys.ENDPOINT_ELIGIBLE: "true" if act.kind == "label" else None}
        body = msgspec.json.encode({"metadata": {"uid": act.uid, "resourceVersion": act.resource_version, "labels": label}})
        try:
            await self._client.patch(PODS, act.name, body, act.namespace, field_manager="modelwarden")
        except NotFound:
            metrics.ACTS.labels(act.kind, "gone").inc()
            return
        except Conflict:
            metrics.ACTS.labels(act.kind, "outdated").inc()
            raise
        metrics.ACTS.labels(act.kind, "done").inc()

    async def _clear_retry(self, act: Act) -> None:
        body = {"metadata": {"resourceVersion": act.resource_version, "uid": act.uid, "annotations": {keys.RETIREMENT_RETRY: None}}}
        await self._client.patch(MODEL_DEPLOYMENTS, act.name, msgspec.json.encode(body), act.namespace, field_manager="modelwarden")
        metrics.ACTS.labels(act.kind, "done").inc()

    async def _delete(self, resource: Resource, act: Act) -> None:
        if not act.uid:
            raise ValueError(f"{act.kind} of {act.namespace}/{act.name} without a captured UID")
        try:
            await self._client.delete(resource, act.name, act.namespace, uid=act.uid)
        except (NotFound, Conflict):
            self._workloads = None  # or its version is no longer served: the next pass asks, which is one request
            metrics.ACTS.labels(act.kind, "gone").inc()
            return
        metrics.ACTS.labels(act.kind, "done").inc()
        log.info("deleted for a retirement", kind=resource.kind, namespace=act.namespace, name=act.name, uid=act.uid)

    async def _still_stored(self, key: Key, snapshot: Snapshot) -> bool:
        """Whether the API server, asked now, has the operation that this pass read."""
        read = snapshot.previous.retirement if snapshot.previous is not None else None
        current = decoded(project_deployment, await self._client.get(MODEL_DEPLOYMENTS, key.name, key.namespace))
        status = decode_status(current.deployment.status)
        same = current.metadata.uid == snapshot.deployment.metadata.uid and _same(read, status.retirement if status else None)
        if not same:
            metrics.ACTS.labels("delete", "outdated").inc()
        return same

    async def _workload_resource(self) -> Resource:
        if self._workloads is None:
            self._workloads = WORKLOADS_V1BETA2 if await self._client.serves(WORKLOADS_V1BETA2) else WORKLOADS_V1BETA1
        return self._workloads


def _same(read: Retirement | None, stored: Retirement | None) -> bool:
    if read is None or stored is None:
        return False
    return (read.state, read.target_member_uids, read.target_workload_uid) == (
        stored.state,
        stored.target_member_uids,
        stored.target_workload_uid,
    )
