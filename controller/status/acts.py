"""What a persisted status asks an actor to do, as values. Nothing here does it.

The order is the contract's: a state is written first, what it asks for is done afterwards. So deletions come only from a `Deleting` that
the stored status already shows, and the retry annotation is cleared only when the stored status already carries its token. The actor
performs the acts of a pass after that pass's status was written (or needed no write); each deletion carries the UID as its precondition.

Source: seed "Retirement", status facts 5.2-5.6 and 6.3.
"""

from collections.abc import Iterator
from typing import Literal

import msgspec

from api import keys
from controller.status.judge import Assessment
from controller.status.retirement import directive_of, sole


class Act(msgspec.Struct, frozen=True, kw_only=True):
    """One wish.

    `label` and `unlabel` write or remove the `endpoint-eligible` label of a Pod, `clearRetry` removes the retry annotation of the
    deployment, both by a patch that carries the resourceVersion that was judged; `deletePod` and `deleteWorkload` delete with a UID
    precondition.
    """

    kind: Literal["label", "unlabel", "deletePod", "deleteWorkload", "clearRetry"]
    namespace: str
    name: str
    uid: str
    resource_version: str = ""


def acts_of(assessment: Assessment) -> tuple[Act, ...]:
    """The acts of this pass, in the order in which they are to be done; none where the setting only reports."""
    if assessment.ground.snapshot.settings.act != "retire":
        return ()
    return (*_retry(assessment), *_labels(assessment), *_deletions(assessment))


def _retry(assessment: Assessment) -> Iterator[Act]:
    """The directive whose token the stored operation already carries."""
    snapshot = assessment.ground.snapshot
    stored = snapshot.previous.retirement if snapshot.previous else None
    directive = directive_of(snapshot)
    if stored is None or directive is None:
        return
    if directive == (stored.role_name, stored.replica_ordinal, stored.last_consumed_retry_token):
        metadata = snapshot.deployment.metadata
        yield Act(
            kind="clearRetry",
            namespace=metadata.namespace,
            name=metadata.name,
            uid=metadata.uid,
            resource_version=metadata.resource_version,
        )


def _labels(assessment: Assessment) -> Iterator[Act]:
    """Eligible replicas are labelled, definitely failing ones lose the label, an unknown criterion changes nothing."""
    namespace = assessment.ground.snapshot.deployment.metadata.namespace
    wanted: dict[str, bool] = {}
    for standings in assessment.standings.values():
        for standing in standings:
            if standing.eligible or standing.failed:
                wanted.update((member.uid, standing.eligible) for member in standing.replica.members)
    operation = assessment.status.retirement
    if operation is not None:
        wanted.update((uid, False) for uid in operation.target_member_uids)
    for pod in assessment.ground.fleet.live:
        labelled = pod.metadata.labels.get(keys.ENDPOINT_ELIGIBLE) == "true"
        if wanted.get(pod.metadata.uid, labelled) != labelled:
            kind: Literal["label", "unlabel"] = "unlabel" if labelled else "label"
            version = pod.metadata.resource_version
            yield Act(kind=kind, namespace=namespace, name=pod.metadata.name, uid=pod.metadata.uid, resource_version=version)


def _deletions(assessment: Assessment) -> Iterator[Act]:
    """The captured Pods that still stand, then their Workload where it owns no other Pod."""
    snapshot, operation = assessment.ground.snapshot, assessment.status.retirement
    stored = snapshot.previous.retirement if snapshot.previous else None
    if (
        operation is None
        or stored is None
        or operation.state not in {"Deleting", "Settling"}
        or stored.state not in {"Deleting", "Settling"}
    ):
        return
    namespace, targets = snapshot.deployment.metadata.namespace, set(stored.target_member_uids)
    for pod in assessment.ground.fleet.live:
        if pod.metadata.uid in targets:
            yield Act(kind="deletePod", namespace=namespace, name=pod.metadata.name, uid=pod.metadata.uid)
    for workload in snapshot.workloads:
        metadata = workload.metadata
        if metadata.uid and metadata.uid == stored.target_workload_uid and not metadata.deleting and sole(workload, targets):
            yield Act(kind="deleteWorkload", namespace=namespace, name=metadata.name, uid=metadata.uid)
