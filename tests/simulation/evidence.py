"""What a verdict must rest on, counted a second time from the sender's own cache by a few lines that share nothing with the judgement.

Only definite claims are examined: a number of ready replicas, a member that is ready or not, a condition that is False, a label taken away.
A claim of Unknown needs no support.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from typing import Final

from api import keys
from api.objects import Pod
from api.reasons import TYPES
from controller.cache import Cache
from controller.kinds import CachedDeployment, KindName
from controller.store import Key
from tests.simulation.actors import MOUNTED
from tests.simulation.network import Network
from tests.simulation.store import Object

WORKLOAD: Final = KindName.WORKLOAD
OURS: Final = frozenset(TYPES)
Claim = tuple[str, str]


class View:
    """One deployment as its controller's cache has it at this moment."""

    def __init__(self, cache: Cache, key: Key, cached: CachedDeployment, network: Network, given_up: Collection[str]) -> None:
        self.deployment = cached.deployment
        self.cache = cache
        self.key = key
        self.network = network
        self.given_up = given_up
        self.elastic = {role.name for role in self.deployment.spec.roles if role.elastic_ep is not None}
        uid = cached.metadata.uid
        self.pods = [p for p in cache.pods(key) if any(r.uid == uid and r.controller for r in p.metadata.owner_references)]
        self.by_uid = {pod.metadata.uid: pod for pod in self.pods}
        self.seats: dict[tuple[str, str], list[Pod]] = defaultdict(list)
        for pod in self.pods:
            if pod.metadata.deletion_timestamp is None:
                place = (pod.metadata.labels.get(keys.COMPONENT, ""), pod.metadata.labels.get(keys.POD_ORDINAL, ""))
                self.seats[place].append(pod)

    def ready(self, role: str) -> int:
        """Whole replicas of a role whose every member reports ready and stays."""
        return sum(self._whole(pods) and all(says(pod) == "True" for pod in pods) for pods in self._replicas(role))

    def whole(self, role: str) -> int:
        """Whole replicas of a role."""
        return sum(self._whole(pods) for pods in self._replicas(role))

    def _replicas(self, role: str) -> list[list[Pod]]:
        """Of an elastic role the master at ordinal 0 is the only one."""
        return [pods for (name, at), pods in self._placed() if name == role and (at == "0" or role not in self.elastic)]

    def _placed(self) -> list[tuple[tuple[str, str], list[Pod]]]:
        return [(place, pods) for place, pods in self.seats.items() if place[1].isdigit()]

    @staticmethod
    def _whole(pods: list[Pod]) -> bool:
        totals = {pod.metadata.annotations.get(keys.POD_GROUP_TOTAL_COUNT, "1") for pod in pods}
        members = {pod.metadata.labels.get(keys.MEMBER_INDEX, "0") for pod in pods}
        return len(totals) == 1 and str(len(pods)) in totals and len(members) == len(pods)


def says(pod: Pod) -> str:
    """What the Pod's Ready condition says; nothing where nobody reported."""
    return next((c.status for c in pod.status.conditions if c.type == "Ready"), "")


def unsupported(view: View, patch: Object) -> Iterator[Claim]:
    """The claims of a status patch that the cache does not bear out, each as (invariant, detail)."""
    for role in patch.get("roles") or []:
        yield from _role(view, role)
    for entry in patch.get("conditions") or []:
        supported = FALSE.get(entry["type"])
        if entry["status"] == "False" and supported is not None and not supported(view, entry["reason"]):
            yield "nothing turns False without a definite fact", f"{entry['type']} {entry['reason']}: {entry['message']}"


def _role(view: View, role: Object) -> Iterator[Claim]:
    counted = view.ready(role["name"])
    if role["ready"] > counted:
        yield "a leaving or unreported Pod is never counted ready", f"role {role['name']} claims {role['ready']}, the cache has {counted}"
    elif role["ready"] < counted:
        yield "every ready replica is counted", f"role {role['name']} claims {role['ready']}, the cache has {counted}"
    if role.get("endpoints", {}).get("eligible") is not None and role["endpoints"]["eligible"] > counted:
        yield "what is not ready is not eligible", f"role {role['name']}: {role['endpoints']['eligible']} of {counted}"
    if role["name"] in view.elastic:
        yield from _collective(role)
    for group in role.get("groups") or []:
        failing = False
        for member in group.get("members") or []:
            pod = view.by_uid.get(member["uid"])
            said = says(pod) if pod is not None and pod.metadata.deletion_timestamp is None else "gone"
            failing = failing or said == "False"
            if member["ready"] == "True" and said != "True":
                yield "a leaving or unreported Pod is never counted ready", f"member {member['name']} is {said or 'unreported'}"
            if member["ready"] == "False" and said not in ("False", "gone"):
                yield "Unknown never turns False without a definite fact", f"member {member['name']} is {said or 'unreported'}"
        if group["state"] == "NotReady" and not failing:
            yield "Unknown never turns False without a definite fact", f"group {role['name']}/{group['ordinal']} is NotReady"
        if group["state"] == "Unverified":  # no engine of this world ever fails a probe: it answers, or it does not
            yield "Unknown never turns False without a definite fact", f"group {role['name']}/{group['ordinal']} is Unverified"
        if group["state"] == "Eligible" and not all(m["ready"] == "True" for m in group["members"]):
            yield "what is not ready is not eligible", f"group {role['name']}/{group['ordinal']}"


def _collective(role: Object) -> Iterator[Claim]:
    """An elastic world is one group that is never evaluated, and its routers' selection has no count."""
    groups = role.get("groups") or []
    said = [(group["ordinal"], group["state"], group["reason"], group.get("qualifiedAt")) for group in groups]
    if said not in ([], [(0, "Unknown", "CollectiveNotEvaluated", None)]):
        yield "an elastic collective is one group, and not evaluated", f"{role['name']}: {said}"
    if role["endpoints"]["serving"].get("value") is not None:
        yield "an elastic collective is one group, and not evaluated", f"{role['name']}: serving is counted"


def _quota(view: View, reason: str) -> bool:
    if reason == "PodGroupIncomplete":
        return any(view.whole(role.name) < role.replicas for role in view.deployment.spec.roles)
    return bool(view.cache.stores.get(WORKLOAD) and view.cache.workloads(view.key.namespace, view.pods))


def _cache(view: View, _reason: str) -> bool:
    return any(failed for uid, (_, failed) in view.network.operations.items() if uid in view.by_uid)


def _up_to_date(view: View, reason: str) -> bool:
    if reason == "ReplacementInProgress":
        taken = {place for place, _ in view._placed()}
        roles = view.deployment.spec.roles
        return any((role.name, str(ordinal)) not in taken for role in roles for ordinal in range(role.replicas))
    return bool(view.pods)


def _kinds(view: View, _reason: str) -> bool:
    ready: dict[str, int] = defaultdict(int)
    for role in view.deployment.spec.roles:
        ready[role.kind] += view.ready(role.name)
    return 0 in ready.values()


def _router(view: View, reason: str) -> bool:
    declared = view.deployment.spec.router
    if reason == "RenderFailed" and declared is not None:
        return (declared.name == "vllm-router") != (view.deployment.spec.engine.name == "vLLM")
    found = view.cache.find(KindName.ROUTER, view.key.namespace, f"{view.key.name}-router")
    return found is None or not found.status.ready_replicas or view.deployment.spec.router is None


def _eligibility(view: View, _reason: str) -> bool:
    failing = any(says(pod) == "False" for pod in view.pods)
    return (
        failing
        or b"retirement" in bytes(view.deployment.status)
        or any(not view._whole(pods) for _, pods in view._placed())
        or _intent(view)
    )


def _intent(view: View) -> bool:
    """Whether a removal may be admitted in this very pass."""
    counts = {role.name: role.replicas for role in view.deployment.spec.roles}
    return any(int(ordinal) >= counts.get(role, 0) for (role, ordinal), _ in view._placed())


def _binding(view: View, reason: str) -> bool:
    declared = view.deployment.spec.kv_cache
    if declared is None:
        return False
    found = view.cache.find(KindName.BINDING, view.key.namespace, declared.pool_ref.name)
    if reason == "BindingNotFound" or found is None:
        return found is None
    granted = any(c.type == "QuotaGranted" and c.status == "True" for c in found.status.conditions)
    return found.metadata.deletion_timestamp is not None or found.status.phase != "Ready" or not granted


def _weights(view: View, reason: str) -> bool:
    """The artifact is not there, is not resolved, or some Pod of a declared role has not got its weights."""
    reference = view.deployment.spec.model.artifact_ref
    if reference is None:
        return False
    artifact = view.cache.find(KindName.ARTIFACT, view.key.namespace, reference.name)
    if artifact is None or reason == "ArtifactNotFound":
        return artifact is None and reason == "ArtifactNotFound"
    resolved = any(c["type"] == "Resolved" and c["status"] == "True" for c in artifact.status["conditions"])
    if reason not in ("Downloading", "WeightsNotMounted", "Materializing", "MaterializationFailed"):
        return not resolved
    declared = {role.name for role in view.deployment.spec.roles}
    pods = [
        pod for (role, _), mates in view._placed() if role in declared for pod in mates if pod.status.phase not in ("Failed", "Succeeded")
    ]
    if artifact.status["delivery"] == "Engine":
        return resolved and any(
            not all(c.ready for c in pod.status.container_statuses) or not pod.status.container_statuses for pod in pods
        )
    return resolved and any(not any(c.type == MOUNTED and c.status == "True" for c in pod.status.conditions) for pod in pods)


def _events(view: View, reason: str) -> bool:
    """No router listens; or one does, and a producing role's Pods open no ports for it."""
    spec = view.deployment.spec
    if spec.router is None:
        return reason == "NoRouter" and any(role.kind != "Server" for role in spec.roles)
    if spec.router.name != "llm-d-router" or spec.engine.name != "vLLM":
        return True
    silent = {pod.metadata.labels.get(keys.COMPONENT) for pod in view.pods if len(pod.spec.containers[0].ports) == 1}
    return any(role.kind not in ("Decode", "Encode") and role.name in silent for role in spec.roles)


def _elastic(view: View, _reason: str) -> bool:
    return view.deployment.metadata.uid in view.given_up


FALSE: Final[dict[str, Callable[[View, str], bool]]] = {
    "QuotaReserved": _quota,
    "CacheAttached": _cache,
    "ReplicasUpToDate": _up_to_date,
    "RoleKindsReady": _kinds,
    "RouterReady": _router,
    "EndpointEligibility": _eligibility,
    "DomainRegistered": _binding,
    "WeightsReady": _weights,
    "KVEventsPublishing": _events,
    "ElasticResize": _elastic,
}


def retracted(view: View, pod: Pod) -> bool:
    """Whether taking the eligibility label from a Pod rests on something definite."""
    if pod.metadata.uid.encode() in bytes(view.deployment.status) and b"targetMemberUIDs" in bytes(view.deployment.status):
        return True
    place = (pod.metadata.labels.get(keys.COMPONENT, ""), pod.metadata.labels.get(keys.POD_ORDINAL, ""))
    mates = view.seats.get(place, [])
    return any(says(mate) == "False" for mate in mates) or not view._whole(mates)
