"""What the controller does to a cluster, behind `act: retire`: labels, deletes and one annotation, each after what asks for it is stored.

The operation is read from the *stored* status, never from a verdict that may not have been written: the pass that admits or advances an
operation writes and does nothing else, so that a crash between the two loses no fact. A delete carries the captured UID, so it meets that
Pod or nobody. A Workload goes only when no Pod outside the target set owns it. The retry annotation is cleared after its token is stored.
"""

from typing import Final

import msgspec
import structlog

from api import keys
from api.clock import Clock
from api.objects import Pod, Workload
from api.status import Group, Retirement, Status, decode_status
from controller import metrics
from controller.cache import Key
from controller.kinds import MODEL_DEPLOYMENTS, WORKLOADS_V1BETA1, WORKLOADS_V1BETA2, project_deployment
from controller.snapshot import Snapshot
from kube.client import Client
from kube.errors import Conflict, NotFound
from kube.resources import PODS, Resource

# Groups whose every criterion is verified: their members may be chosen. The others but `Unknown` have a criterion that definitely failed.
QUALIFIED: Final = frozenset({"Eligible", "AwaitingObservation"})
REVOKED: Final = frozenset({"Retiring", "Replacing", "Incomplete", "NotReady"})

log = structlog.get_logger("controller.acting")


class RetirementActs:
    """Performs; decides nothing that the status does not say."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._workloads: Resource | None = None

    async def act(self, key: Key, snapshot: Snapshot, status: Status) -> None:
        """Do what the stored status asks for. Raises the kube error tree; whatever was not done is asked for again by the next pass."""
        stored = snapshot.previous
        if stored is None or snapshot.deployment.metadata.deleting:
            return
        await self._label(key, snapshot, status)
        operation = stored.retirement
        if operation is None:
            return
        await self._clear_directive(key, snapshot, operation)
        if operation.state == "Deleting" and all(operation.target_member_uids):
            await self._delete(key, snapshot, operation)

    # ----------------------------------------------------------------------------------------------------------- labels

    async def _label(self, key: Key, snapshot: Snapshot, status: Status) -> None:
        """Keep `endpoint-eligible` as the groups say: set on qualified ones, gone from revoked ones, left where nobody can tell."""
        owned = {pod.metadata.uid: pod for pod in _owned(snapshot)}
        for role in status.roles:
            for group in role.groups:
                wanted = _wanted(group)
                if wanted is None:
                    continue
                for member in group.members:
                    pod = owned.get(member.uid)
                    if (
                        pod is not None
                        and not pod.metadata.deleting
                        and (pod.metadata.labels.get(keys.ENDPOINT_ELIGIBLE) == "true") != wanted
                    ):
                        await self._relabel(key, pod, eligible=wanted)

    async def _relabel(self, key: Key, pod: Pod, *, eligible: bool) -> None:
        label = {keys.ENDPOINT_ELIGIBLE: "true" if eligible else None}
        body = msgspec.json.encode({"metadata": {"uid": pod.metadata.uid, "labels": label}})
        try:
            await self._client.patch(PODS, pod.metadata.name, body, key.namespace, field_manager="modelwarden")
        except (NotFound, Conflict):
            metrics.ACTS.labels("label", "gone").inc()  # another Pod, or none, has the name by now
            return
        metrics.ACTS.labels("label", "done").inc()

    # ---------------------------------------------------------------------------------------------------------- deletes

    async def _delete(self, key: Key, snapshot: Snapshot, operation: Retirement) -> None:
        if not await self._still_stored(key, snapshot, operation):
            return
        targets = frozenset(operation.target_member_uids)
        for pod in _owned(snapshot):
            if pod.metadata.uid in targets and not pod.metadata.deleting:
                await self._delete_one(PODS, key, pod)
        for workload in snapshot.workloads:
            if workload.metadata.uid == operation.target_workload_uid and not workload.metadata.deleting and _sole(workload, targets):
                await self._delete_one(await self._workload_resource(), key, workload)

    async def _delete_one(self, resource: Resource, key: Key, item: Pod | Workload) -> None:
        act = f"delete-{resource.kind.lower()}"
        try:
            await self._client.delete(resource, item.metadata.name, key.namespace, uid=item.metadata.uid)
        except (NotFound, Conflict):
            metrics.ACTS.labels(act, "gone").inc()
            return
        metrics.ACTS.labels(act, "done").inc()
        log.info("deleted for a retirement", kind=resource.kind, namespace=key.namespace, name=item.metadata.name, uid=item.metadata.uid)

    async def _still_stored(self, key: Key, snapshot: Snapshot, operation: Retirement) -> bool:
        """Whether the API server, asked now, has the very operation that asks for the deletes."""
        current = project_deployment(await self._client.get(MODEL_DEPLOYMENTS, key.name, key.namespace))
        status = decode_status(current.deployment.status)
        found = status.retirement if status is not None else None
        same = (
            current.metadata.uid == snapshot.deployment.metadata.uid
            and found is not None
            and (found.state, found.target_member_uids, found.target_workload_uid)
            == (operation.state, operation.target_member_uids, operation.target_workload_uid)
        )
        if not same:
            metrics.ACTS.labels("delete", "outdated").inc()
        return same

    async def _workload_resource(self) -> Resource:
        if self._workloads is None:
            served = await self._client.serves(WORKLOADS_V1BETA2)
            self._workloads = WORKLOADS_V1BETA2 if served else WORKLOADS_V1BETA1
        return self._workloads

    # -------------------------------------------------------------------------------------------------------- directive

    async def _clear_directive(self, key: Key, snapshot: Snapshot, operation: Retirement) -> None:
        """Take the annotation away whose token is stored as consumed. A newer object raises Conflict, and the next pass looks again."""
        meta = snapshot.deployment.metadata
        directive = meta.annotations.get(keys.RETIREMENT_RETRY)
        token = consumed_token(directive, operation)
        if token is None:
            return
        body = {"metadata": {"resourceVersion": meta.resource_version, "annotations": {keys.RETIREMENT_RETRY: None}}}
        await self._client.patch(MODEL_DEPLOYMENTS, key.name, msgspec.json.encode(body), key.namespace, field_manager="modelwarden")
        metrics.ACTS.labels("clear-directive", "done").inc()


def consumed_token(directive: str | None, operation: Retirement) -> str | None:
    """The directive's token where it names this replica and is the one stored as consumed; else None."""
    if directive is None:
        return None
    parts = directive.split(":")
    if len(parts) != 3:
        return None
    role, ordinal, token = parts
    if role != operation.role_name or not (ordinal.isascii() and ordinal.isdigit()) or int(ordinal) != operation.replica_ordinal:
        return None
    return token if token and token == operation.last_consumed_retry_token else None


def _wanted(group: Group) -> bool | None:
    if group.state in QUALIFIED:
        return True
    return False if group.state in REVOKED else None


def _owned(snapshot: Snapshot) -> list[Pod]:
    uid = snapshot.deployment.metadata.uid
    return [pod for pod in snapshot.pods if (owner := pod.metadata.controller) is not None and owner.uid == uid]


def _sole(workload: Workload, targets: frozenset[str]) -> bool:
    owners = {ref.uid for ref in workload.metadata.owner_references if ref.kind == "Pod" and ref.api_version == "v1"}
    return bool(owners) and owners <= targets
