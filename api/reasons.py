"""The vocabulary of conditions: every type, every reason, what it means, what to do about it and who acts, as data.

The status writes only what stands here, `mdctl explain` and the generated page read the same rows, and a test holds that each (type,
reason) pair has exactly one status. The module judges nothing.

Source: seed "Conditions", status facts 4, decisions D1 and D2.
"""

from typing import Final

import msgspec


class Reason(msgspec.Struct, frozen=True):
    """One row: a condition's type, the status and reason it shows, its meaning, what to do, and who acts.

    `actor` is one of: nobody, wait, user, platform, operator.
    """

    type: str
    status: str
    reason: str
    meaning: str
    action: str
    actor: str


class ConditionType(msgspec.Struct, frozen=True):
    """A condition: the question it answers, and the objects and fields it reads."""

    type: str
    question: str
    reads: tuple[str, ...]
    reasons: tuple[Reason, ...]


_WAIT: Final = "Nothing; it clears by itself."
_NONE: Final = "Nothing to do."


def _condition(kind: str, question: str, reads: tuple[str, ...], *rows: tuple[str, str, str, str, str]) -> ConditionType:
    return ConditionType(kind, question, reads, tuple(Reason(kind, *row) for row in rows))


DOMAIN_REGISTERED: Final = "DomainRegistered"
QUOTA_RESERVED: Final = "QuotaReserved"
CACHE_ATTACHED: Final = "CacheAttached"
REPLICAS_UP_TO_DATE: Final = "ReplicasUpToDate"
ROLE_KINDS_READY: Final = "RoleKindsReady"
KV_EVENTS_PUBLISHING: Final = "KVEventsPublishing"
ROUTER_READY: Final = "RouterReady"
ENDPOINT_ELIGIBILITY: Final = "EndpointEligibility"
WEIGHTS_READY: Final = "WeightsReady"
ELASTIC_RESIZE: Final = "ElasticResize"

CONDITIONS: Final[tuple[ConditionType, ...]] = (
    _condition(
        DOMAIN_REGISTERED,
        "Did the referenced Binding resolve, and was its domain read?",
        ("KVCachePoolBinding metadata.deletionTimestamp, status.phase, status.conditions[QuotaGranted], spec.poolRef, spec.domain",),
        ("True", "NotApplicable", "The deployment declares no KV cache.", _NONE, "nobody"),
        (
            "True",
            "Registered",
            "The Binding is ready, its quota is granted, and its domain is published in status.kvCache.",
            _NONE,
            "nobody",
        ),
        (
            "False",
            "BindingNotFound",
            "No KVCachePoolBinding of that name exists in the deployment's namespace.",
            "Create the Binding in the deployment's own namespace.",
            "user",
        ),
        ("False", "BindingDeleting", "The Binding is being deleted.", "Recreate the Binding, or deploy without a KV cache.", "user"),
        (
            "False",
            "BindingNotReady",
            "The Binding exists, but it is not Ready or its quota is not granted.",
            "Read the Binding's own phase and conditions.",
            "platform",
        ),
    ),
    _condition(
        QUOTA_RESERVED,
        "Does every one of the deployment's Workloads hold Kueue quota?",
        (
            "Pod metadata.ownerReferences, labels component and pod-ordinal, annotation pod-group-total-count",
            "Workload metadata.ownerReferences, spec.active, status.admissionChecks",
            "Workload status.conditions[QuotaReserved, Admitted, Preempted, Evicted]",
        ),
        ("True", "Reserved", "Every live replica's Workload holds a quota reservation.", _NONE, "nobody"),
        (
            "False",
            "Parked",
            "Workloads were deactivated after waiting too long for the rest of the set; they no longer ask for quota.",
            "Free capacity, then set the Workloads' spec.active to true, or delete and recreate the deployment.",
            "user",
        ),
        (
            "False",
            "PreemptedInPart",
            "Some replicas lost their quota to preemption while others keep theirs, and the kept ones hold accelerators meanwhile.",
            "Add capacity, or delete and recreate the deployment; give the roles different instance types.",
            "user",
        ),
        ("Unknown", "NoReplicas", "No replica exists, so there is no Workload to read.", _WAIT, "wait"),
        ("Unknown", "AllReplicasTerminating", "Every Pod is on its way out.", _WAIT, "wait"),
        (
            "False",
            "PodGroupIncomplete",
            "A role has fewer whole replicas than it declares; Kueue composes no Workload for an incomplete group.",
            "Wait for the missing replica; if it does not come, read the Pods' events.",
            "wait",
        ),
        (
            "False",
            "NoQueueInReservedNamespace",
            "The namespace is reserved and deliberately has no LocalQueue.",
            "Deploy in another namespace; this does not clear by itself.",
            "user",
        ),
        ("Unknown", "AdmissionInFlight", "A whole replica has no Workload yet; Kueue is composing it.", _WAIT, "wait"),
        ("False", "Pending", "Workloads wait for quota.", "Wait for capacity, or free some in the queue that the message names.", "wait"),
        (
            "Unknown",
            "KueueNotInstalled",
            "The setting kueue is absent: no Workload is read, so nothing is known about quota.",
            "Set kueue to required where Kueue is installed.",
            "platform",
        ),
    ),
    _condition(
        CACHE_ATTACHED,
        "Is the cache observed to be in effect?",
        (
            "Pod status.conditions[Ready], annotation prometheus.io/port",
            "engine store operations (observation), KVCachePoolBinding status.blocks, status.usage",
        ),
        ("True", "NotApplicable", "The deployment declares no KV cache.", _NONE, "nobody"),
        ("True", "CacheActive", "A replica stored successfully, or the shared domain holds data.", _NONE, "nobody"),
        (
            "False",
            "CacheOperationsFailing",
            "Replicas tried the store and every operation failed.",
            "Read the engine's log and the store's health.",
            "platform",
        ),
        (
            "Unknown",
            "Unmanaged",
            "A role runs a replaced command, so nothing downstream of it can be attributed.",
            "Nothing; the replaced command is the role's own book.",
            "nobody",
        ),
        ("Unknown", "NoReplicaReady", "No replica is ready, so none can be asked.", _WAIT, "wait"),
        (
            "Unknown",
            "NoObservationAvailable",
            "No replica gave an account and the domain holds nothing: an idle cache looks exactly like an unread one.",
            "Send traffic, then read again.",
            "wait",
        ),
    ),
    _condition(
        REPLICAS_UP_TO_DATE,
        "Do the running replicas match the desired explicit spec hash and the minimum render-version?",
        (
            "ModelDeployment spec, annotation render-version",
            "Pod annotations explicit-spec-hash and render-version, metadata.deletionTimestamp",
            "conditions DomainRegistered and WeightsReady of the same pass",
        ),
        ("True", "UpToDate", "Every live replica matches, and none is missing.", _NONE, "nobody"),
        (
            "Unknown",
            "RolloutNotObserved",
            "The pass could account for no replica: a teardown, or the gap between a delete and the create that answers it.",
            _WAIT,
            "wait",
        ),
        (
            "False",
            "RolloutHeldByCache",
            "Outdated replicas are left alone while the declared KV cache does not resolve.",
            "Bring the Binding back; read DomainRegistered.",
            "platform",
        ),
        (
            "False",
            "RolloutHeldByWeights",
            "Outdated replicas are left alone while the weights are not ready.",
            "Read WeightsReady.",
            "user",
        ),
        ("False", "RolloutInProgress", "An edit has not reached every replica yet.", _WAIT, "operator"),
        (
            "False",
            "ReplacementInProgress",
            "Capacity moved although nothing was edited: a replica is gone and its successor waits for the departed Pod.",
            "Watch the departed Pod; its finalizers block the ordinal.",
            "wait",
        ),
    ),
    _condition(
        ROLE_KINDS_READY,
        "Does every declared role kind have at least one ready replica?",
        ("status.roles[].ready of the same pass",),
        ("True", "AllKindsReady", "Every declared kind has a ready replica; completeness is what phase answers.", _NONE, "nobody"),
        ("False", "KindsNotReady", "A declared kind has no ready replica.", "Read the Pods of the kinds that the message names.", "user"),
        ("Unknown", "NoRoleStatuses", "The pass computed no role.", _WAIT, "wait"),
    ),
    _condition(
        KV_EVENTS_PUBLISHING,
        "Does every role that produces cache blocks carry publisher configuration?",
        ("ModelDeployment spec.router, spec.roles[].command and kind", "Pod spec.containers[main].args and ports"),
        ("True", "NotApplicable", "Only Server roles and no router: nobody would listen.", _NONE, "nobody"),
        ("True", "Publishing", "Every producing role is configured to publish; live traffic is not judged.", _NONE, "nobody"),
        ("False", "NoRouter", "Roles are disaggregated but no router listens.", "Declare a router.", "user"),
        ("Unknown", "RoleUnmanaged", "A producing role replaced its command, so its configuration is not read.", _NONE, "nobody"),
        (
            "False",
            "PublisherDisabled",
            "A producing role is not configured to publish.",
            "Use llm-d-router with vLLM where KV-event routing is wanted, and let the Pods be rendered anew.",
            "user",
        ),
    ),
    _condition(
        ROUTER_READY,
        "Did the managed router render, and has it a ready replica?",
        ("ModelDeployment spec.router, spec.roles[].ports", "Deployment <name>-router metadata.ownerReferences, status.readyReplicas"),
        ("True", "NotApplicable", "The deployment declares no router.", _NONE, "nobody"),
        ("True", "Ready", "At least one router replica is ready.", _NONE, "nobody"),
        ("False", "RenderFailed", "The router cannot be rendered from this spec.", "Change what the message names.", "user"),
        ("Unknown", "NotDeployed", "The router's Deployment does not exist yet.", _WAIT, "wait"),
        ("False", "NoReadyReplicas", "The router's Deployment has no ready replica.", "Read the router Pods' events and logs.", "platform"),
    ),
    _condition(
        ENDPOINT_ELIGIBILITY,
        "Have the deployment's endpoints been qualified?",
        ("Pod status.conditions[Ready], labels and annotations of the group", "forward observations", "status.retirement", "rollout"),
        ("True", "Qualified", "Every observed replica meets all five criteria.", _NONE, "nobody"),
        ("Unknown", "NotObserved", "No member has reported a readiness yet.", _WAIT, "wait"),
        ("False", "Revoked", "A replica definitely fails a criterion.", "Read the group that fails; see status.roles[].groups[].", "user"),
        (
            "Unknown",
            "Unsupported",
            "The forward path of a replica of several Pods cannot be checked for this engine version, kind or command.",
            "Nothing; an earlier decision stands.",
            "nobody",
        ),
        ("Unknown", "HeldUnverified", "A criterion cannot be evaluated, so the earlier decision is kept.", _WAIT, "wait"),
    ),
    _condition(
        WEIGHTS_READY,
        "Are the model's weights where the Pods need them?",
        (
            "ModelArtifact status.conditions[Resolved], status.resolved, spec.source",
            "Pod status.conditions[PodReadyToStartContainers], status.containerStatuses[main].ready",
        ),
        ("True", "NotApplicable", "The deployment references no artifact.", _NONE, "nobody"),
        ("True", "Mounted", "No Pod waits for its weights to be mounted.", _NONE, "nobody"),
        ("True", "Downloaded", "No engine is still downloading.", _NONE, "nobody"),
        ("False", "ArtifactNotFound", "No ModelArtifact of that name exists in the namespace.", "Create the artifact.", "user"),
        ("False", "ArtifactNotResolved", "The artifact is not resolved yet.", "Read the artifact's own conditions.", "user"),
        ("False", "ClaimNotBound", "The artifact's claim is not bound.", "Read the PersistentVolumeClaim.", "platform"),
        ("False", "AccessModeConflict", "The claim's access mode does not allow the Pods to share it.", "Use a shareable claim.", "user"),
        ("False", "NodeDeliveryUnavailable", "Node delivery is not available in this cluster.", "Use another delivery.", "platform"),
        ("False", "FilterNeedsNodeDelivery", "A file filter needs node delivery.", "Drop the filter, or use node delivery.", "user"),
        ("False", "AnchorNeedsNodeDelivery", "A pinned digest needs node delivery.", "Drop the anchor, or use node delivery.", "user"),
        ("False", "Materializing", "Nodes are still fetching the weights.", _WAIT, "wait"),
        ("False", "MaterializationFailed", "A node failed to fetch the weights.", "Read the node's reason in the message.", "platform"),
        ("False", "WeightsNotMounted", "Pods wait for their volumes.", "Read the waiting Pods' events.", "wait"),
        ("False", "Downloading", "Engines are still downloading the weights.", _WAIT, "wait"),
    ),
    _condition(
        ELASTIC_RESIZE,
        "Does an elastic scale stand blocked or terminally refused?",
        ("ModelDeployment spec.roles[].elasticEp.width", "elastic observation: record, refusal, desired and observed width"),
        ("True", "NoRefusal", "Nothing is refused; an operation may be in flight or inside its retry bound.", _NONE, "nobody"),
        ("False", "ScaleRefused", "The engine refused the scale until the bound was spent.", "Read the engine's last refusal.", "user"),
        (
            "Unknown",
            "WorldUnprovable",
            "The record is gone and the live width disagrees with the spec or cannot be named.",
            "Nothing; it levels back once a pass proves the live world.",
            "wait",
        ),
        ("Unknown", "NotObserved", "No pass has read the resize record yet.", _WAIT, "wait"),
    ),
)

TYPES: Final[tuple[str, ...]] = tuple(condition.type for condition in CONDITIONS)
BY_TYPE: Final[dict[str, ConditionType]] = {condition.type: condition for condition in CONDITIONS}
_ROWS: Final[dict[tuple[str, str], Reason]] = {(row.type, row.reason): row for condition in CONDITIONS for row in condition.reasons}


def row(kind: str, reason: str) -> Reason:
    """The row of a condition's reason. Raises KeyError for a pair outside the vocabulary."""
    return _ROWS[kind, reason]


def find(kind: str, reason: str) -> Reason | None:
    """The row, or None: a stored status may carry a reason of another release."""
    return _ROWS.get((kind, reason))


def markdown() -> str:
    """The page `docs/conditions.md`."""
    lines = [
        "# Conditions",
        "",
        "Generated from `api/reasons.py` by `make docs`; a test holds the two equal.",
        "",
        "Ten conditions stand on a ModelDeployment, independent of one another. `ElasticResize` is written only for a deployment with an",
        "`elasticEp` role. `Unknown` means that the operator could not tell; it never means no. `lastTransitionTime` moves only when the",
        "status does.",
    ]
    for condition in CONDITIONS:
        lines += ["", f"## {condition.type}", "", condition.question, ""]
        lines += ["Reads:", "", *(f"* {read}" for read in condition.reads), ""]
        lines += ["| status | reason | meaning | what to do | who acts |", "|---|---|---|---|---|"]
        lines += [f"| {r.status} | `{r.reason}` | {r.meaning} | {r.action} | {r.actor} |" for r in condition.reasons]
    return "\n".join(lines) + "\n"
