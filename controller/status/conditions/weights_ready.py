"""WeightsReady and `status.model`: are the model's weights where the Pods need them?

What the artifact itself reports (its Resolved condition, and per-node states under `status.nodes`) is passed on; claims and volumes are the
artifact's business and are not read here.

Source: status facts 4.10, decision D1; the leaf names under `status.nodes` are ours (docs/decisions.md).
"""

from collections.abc import Mapping
from typing import Any

from api import keys, reasons
from api.objects import ModelArtifact, ModelDeployment, Pod, condition
from api.reasons import WEIGHTS_READY
from api.status import ModelStatus
from controller.status.replicas import Fleet, terminal
from controller.status.text import bounded, counted, listed, verb
from controller.status.verdict import Verdict, verdict

# Reasons of this vocabulary that an artifact may give for not being resolved; they are more telling than ArtifactNotResolved.
_PASSED_ON = frozenset(
    {"ClaimNotBound", "AccessModeConflict", "NodeDeliveryUnavailable", "FilterNeedsNodeDelivery", "AnchorNeedsNodeDelivery"}
)


def judge(deployment: ModelDeployment, artifact: ModelArtifact | None, fleet: Fleet) -> Verdict:
    """`artifact` is the referenced one of the deployment's namespace, None where there is none."""
    ref = deployment.spec.model.artifact_ref
    if ref is None:
        return verdict(WEIGHTS_READY, "NotApplicable", "The deployment references no artifact.")
    where = f"Artifact {ref.name} of namespace {deployment.metadata.namespace}"
    if artifact is None:
        return verdict(WEIGHTS_READY, "ArtifactNotFound", f"{where} does not exist.")
    resolved = _condition(artifact, "Resolved")
    if resolved.get("status") != "True":
        reason = str(resolved.get("reason", ""))
        said = f": {resolved['message']}" if resolved.get("message") else "."
        return verdict(WEIGHTS_READY, reason if reason in _PASSED_ON else "ArtifactNotResolved", f"{where} is not resolved{said}")
    delivery = delivery_of(artifact)
    waiting = [pod for pod in candidates(fleet) if not _has_weights(pod, delivery)]
    if not waiting:
        done = "Downloaded" if delivery == "Engine" else "Mounted"
        return verdict(WEIGHTS_READY, done, f"{where} is resolved, and no Pod waits for its weights.")
    if delivery == "Node" and (found := _on_nodes(artifact, waiting)):
        return found
    names = listed(pod.metadata.name for pod in waiting)
    if delivery == "Engine":
        return verdict(WEIGHTS_READY, "Downloading", f"{counted(len(waiting), 'engine')} still downloading: {names}.")
    told = f"{counted(len(waiting), 'Pod')} {verb(len(waiting), 'wait')} for {'its' if len(waiting) == 1 else 'their'} volumes"
    return verdict(WEIGHTS_READY, "WeightsNotMounted", f"{told}: {names}.")


def published(deployment: ModelDeployment, artifact: ModelArtifact | None) -> ModelStatus | None:
    """`status.model`: absent without a reference and while the artifact is unresolved."""
    if deployment.spec.model.artifact_ref is None or artifact is None or _condition(artifact, "Resolved").get("status") != "True":
        return None
    resolved = artifact.status.get("resolved")
    facts: Mapping[str, Any] = resolved if isinstance(resolved, dict) else {}
    return ModelStatus(
        artifact=artifact.metadata.name,
        revision=bounded(str(facts.get("revision") or ""), 512),
        manifest_digest=bounded(str(facts.get("manifestDigest") or ""), 256),
        delivery=delivery_of(artifact),
    )


def delivery_of(artifact: ModelArtifact) -> str:
    """PVC, Engine, Node or Image: as the artifact says, else by its source."""
    for part in (artifact.status, artifact.spec):
        if (said := part.get("delivery")) in {"PVC", "Engine", "Node", "Image"}:
            return str(said)
    source = artifact.spec.get("source")
    kinds = source if isinstance(source, dict) else {}
    return "PVC" if "persistentVolumeClaim" in kinds else "Image" if "image" in kinds else "Engine"


def _condition(artifact: ModelArtifact, kind: str) -> Mapping[str, Any]:
    entries = artifact.status.get("conditions")
    found = (c for c in entries if isinstance(c, dict) and c.get("type") == kind) if isinstance(entries, list) else iter(())
    return next(found, {})


def candidates(fleet: Fleet) -> list[Pod]:
    """Live Pods of the declared roles that have not ended; of an elastic role every worker, not its master alone."""
    members = [member for replica in fleet.supervised() if replica.role not in fleet.workers for member in replica.members]
    members += [member for workers in fleet.workers.values() for member in workers]
    return [member.pod for member in members if not terminal(member.pod)]


def main_ready(pod: Pod) -> bool:
    """Whether the engine's container reports ready."""
    return any(status.name == keys.MAIN_CONTAINER and status.ready for status in pod.status.container_statuses)


def _has_weights(pod: Pod, delivery: str) -> bool:
    """Whether the Pod waits no longer. A kubelet before 1.29 does not report volumes; an engine that is ready has them all the same."""
    started = None if delivery == "Engine" else condition(pod.status.conditions, "PodReadyToStartContainers")
    return main_ready(pod) if started is None else started.status == "True"


def _on_nodes(artifact: ModelArtifact, waiting: list[Pod]) -> Verdict | None:
    """What the waiting Pods' nodes report: a failure beats a download still running."""
    nodes = {pod.spec.node_name for pod in waiting}
    entries = artifact.status.get("nodes")
    known = [n for n in entries if isinstance(n, dict) and n.get("name") in nodes] if isinstance(entries, list) else []
    known.sort(key=lambda n: str(n.get("name")))
    for node in known:
        if node.get("state") == "Failed":
            parts = [f"node {node.get('name')} failed to fetch {node.get('digest') or 'the weights'}"]
            parts += [str(node[key]) for key in ("reason", "message") if node.get(key)]
            parts += [f"next try {node['retryTime']}"] if node.get("retryTime") else []
            return verdict(WEIGHTS_READY, "MaterializationFailed", "; ".join(parts) + ".")
    if busy := [str(node.get("name")) for node in known if node.get("state") != "Ready"]:
        return verdict(WEIGHTS_READY, "Materializing", f"Nodes are still fetching the weights: {listed(busy)}.")
    return None


assert all(reasons.find(WEIGHTS_READY, reason) for reason in _PASSED_ON)  # noqa: S101 - a typing slip would only show when an artifact fails
