"""The players of a scenario: the operator's converger, Kueue, the kubelet and the router's Deployment, each as a few writes to the API.

They talk to a cluster through a client of the shape of `kube.client.Client`, so that they play on the embedded cluster and on a real one.
"""

from collections.abc import Awaitable, Callable, Iterable

from api import keys
from api.clock import Clock, format_time
from local import rendering
from local.places import (
    DEPLOYMENTS,
    INSTANCE_TYPES,
    MODEL_DEPLOYMENTS,
    POD_PLACE,
    SCALERS,
    SERVICES,
    WORKLOADS,
    Client,
    Place,
    ScenarioError,
)
from local.rendering import condition, merged
from local.wire import JSON, decode, encode


def code_of(fault: Exception) -> int:
    """The HTTP code of a client's error, 0 where it has none."""
    return int(getattr(fault, "code", 0) or 0)


Become = Callable[[str], Awaitable[Client]]


class Cast:
    """Everybody who acts in a scenario, in one namespace."""

    def __init__(self, client: Client, clock: Clock, namespace: str, become: Become | None = None) -> None:
        self.client = client
        self._become = become
        self.namespace = namespace
        self._clock = clock
        self._workloads: Place | None = None

    def _now(self) -> str:
        return format_time(self._clock.now())

    async def find(self, place: Place, name: str) -> JSON | None:
        """The object, or None."""
        try:
            found: JSON = decode(await self.client.get(place, name, self.namespace if place.namespaced else None))
        except Exception as fault:
            if code_of(fault) == 404:
                return None
            raise
        return found

    async def deployment(self, name: str) -> JSON:
        """The ModelDeployment. Raises ScenarioError where the scenario forgot to make it."""
        found = await self.find(MODEL_DEPLOYMENTS, name)
        if found is None:
            raise ScenarioError(f"the scenario acts on ModelDeployment {name!r}, which is not there")
        return found

    async def make(self, place: Place, obj: JSON) -> None:
        """Create an object unless it is there."""
        if await self.find(place, obj["metadata"]["name"]) is None:
            await self.client.create(place, encode(obj), self.namespace)

    async def status(self, place: Place, name: str, status: JSON) -> None:
        """Merge into an object's status."""
        body = encode({"status": status})
        await self.client.patch(place, name, body, self.namespace if place.namespaced else None, subresource="status")

    async def as_user(self, user: str) -> "Cast":
        """The cast with another user's client. Raises ScenarioError where nobody can be somebody else."""
        if self._become is None:
            raise ScenarioError(f"the scenario writes as {user}, and this player has only one client")
        return Cast(await self._become(user), self._clock, self.namespace)

    # ---------------------------------------------------------------------------------------------------------- scaler

    async def bind(self, name: str, *, scaler: str, term: int = 1) -> None:
        """The scaler takes the replica counts over."""
        owner = await self._scaler(scaler)
        binding = {"version": 1, "scaler": scaler, "uid": owner["metadata"]["uid"], "term": term, "acquiredAt": self._now()}
        await self._annotate(name, {keys.SCALER_BINDING: encode(binding).decode()})

    async def decide(self, name: str, *, scaler: str, replicas: dict[str, int], term: int = 1, sequence: int = 1) -> None:
        """The scaler changes the counts, together with the decision that says so."""
        owner, target = await self._scaler(scaler), await self.deployment(name)
        counts = {role["name"]: replicas.get(role["name"], role.get("replicas", 1)) for role in target["spec"]["roles"]}
        uid = owner["metadata"]["uid"]
        decision = {
            "version": 1,
            "uid": uid,
            "term": term,
            "sequence": sequence,
            "scalerGeneration": owner["metadata"]["generation"],
            "targetGeneration": target["metadata"]["generation"],
            "replicas": counts,
            "digest": rendering.decision_digest(uid, term, sequence, counts),
            "decidedAt": self._now(),
        }
        roles = [role | {"replicas": counts[role["name"]]} for role in target["spec"]["roles"]]
        await self._annotate(name, {keys.SCALER_DECISION: encode(decision).decode()}, {"roles": roles})

    async def release(self, name: str) -> None:
        """Take both annotations off."""
        await self._annotate(name, {keys.SCALER_BINDING: None, keys.SCALER_DECISION: None})

    async def scale(self, name: str, *, role: str, replicas: int) -> None:
        """Somebody edits a role's count."""
        target = await self.deployment(name)
        roles = [entry | {"replicas": replicas} if entry["name"] == role else entry for entry in target["spec"]["roles"]]
        await self.client.patch(MODEL_DEPLOYMENTS, name, encode({"spec": {"roles": roles}}), self.namespace, kind="merge")

    async def _scaler(self, name: str) -> JSON:
        found = await self.find(SCALERS, name)
        if found is None:
            raise ScenarioError(f"the scenario acts as ModelDeploymentScaler {name!r}, which is not there")
        return found

    async def _annotate(self, name: str, annotations: JSON, spec: JSON | None = None) -> None:
        patch: JSON = {"metadata": {"annotations": annotations}}
        if spec is not None:
            patch["spec"] = spec
        await self.client.patch(MODEL_DEPLOYMENTS, name, encode(patch), self.namespace, kind="merge")

    # ------------------------------------------------------------------------------------------------------- converger

    async def _queue(self, role: JSON) -> str:
        kind = await self.find(INSTANCE_TYPES, role["instanceType"])
        return str(((kind or {}).get("status") or {}).get("entrance", ""))

    async def converge(self, name: str, *, roles: Iterable[str] = ()) -> None:
        """Create the Pods that the spec declares and nobody made, the Services, and the router; shed Pods beyond the count."""
        owner = await self.deployment(name)
        for role in _chosen(owner, roles):
            queue = await self._queue(role)
            for ordinal in range(role.get("replicas", 1)):
                for member in range(role.get("size", 1)):
                    await self.make(POD_PLACE, rendering.pod(owner, role, ordinal, member, queue=queue))
            await self._shed(owner, role)
            port = (role.get("ports") or [{"port": keys.DEFAULT_SERVING_PORT}])[0]["port"]
            selector = {keys.NAME: keys.NAME_VALUE, keys.INSTANCE: name, keys.COMPONENT: role["name"]}
            await self.make(SERVICES, rendering.service(owner, f"{name}-{role['name']}", selector, port))
            if role is owner["spec"]["roles"][0]:
                await self.make(SERVICES, rendering.service(owner, name, selector, port))
        if owner["spec"].get("router"):
            await self.make(DEPLOYMENTS, rendering.router(owner))
            selector = {keys.INSTANCE: name, keys.ROUTER: owner["spec"]["router"]["name"]}
            await self.make(SERVICES, rendering.service(owner, f"{name}-router", selector, keys.ROUTER_PORT))

    async def _shed(self, owner: JSON, role: JSON) -> None:
        ordinal = role.get("replicas", 1)
        while (found := await self.find(POD_PLACE, _seat(owner, role, ordinal, 0))) is not None:
            del found
            for member in range(role.get("size", 1)):
                await self.client.delete(POD_PLACE, _seat(owner, role, ordinal, member), self.namespace)
            ordinal += 1

    # ----------------------------------------------------------------------------------------------------------- kueue

    async def _workload_place(self) -> Place | None:
        """The newest Workload version that is served, None without Kueue."""
        if self._workloads is None:
            for place in WORKLOADS:
                if await self.client.serves(place):
                    self._workloads = place
                    break
        return self._workloads

    async def quota(
        self, name: str, *, reserved: bool = True, roles: Iterable[str] = (), ordinals: Iterable[int] | None = None, **said: str
    ) -> None:
        """Make the replicas' Workloads and give, or withhold, or take back their quota. `said`: reason, message, flavor."""
        place = await self._workload_place()
        if place is None:
            return
        owner = await self.deployment(name)
        for role in _chosen(owner, roles):
            for ordinal in _ordinals(role, ordinals):
                await self._quota_of(owner, role, ordinal, place, reserved=reserved, said=said)

    async def _quota_of(self, owner: JSON, role: JSON, ordinal: int, place: Place, *, reserved: bool, said: dict[str, str]) -> None:
        seats = [_seat(owner, role, ordinal, member) for member in range(role.get("size", 1))]
        pods = [found for found in [await self.find(POD_PLACE, seat) for seat in seats] if found is not None]
        if not pods:
            return
        group = rendering.group_name(owner, role["name"], ordinal)
        queue = await self._queue(role)
        obj = rendering.workload(owner, role, ordinal, pods, api_version=place.api_version, queue=queue)
        await self.make(place, obj)
        present = await self.find(place, group) or obj
        await self.client.patch(place, group, encode({"metadata": {"ownerReferences": obj["metadata"]["ownerReferences"]}}), self.namespace)
        before = present.get("status") or {}
        now = self._now()
        if reserved:
            entries = [
                condition("QuotaReserved", holds=True, at=now, reason="QuotaReserved", message=said.get("message", "")),
                condition("Admitted", holds=True, at=now, reason="Admitted"),
                condition("Evicted", holds=False, at=now, reason="QuotaReserved"),
            ]
            if any(entry["type"] == "Preempted" for entry in before.get("conditions") or ()):
                entries.append(condition("Preempted", holds=False, at=now, reason="QuotaReserved"))  # as Kueue does
            status: JSON = {"admission": rendering.admission(role, len(pods), said.get("flavor", str(role["instanceType"])))}
        else:
            reason = said.get("reason", "Pending")
            entries = [condition("QuotaReserved", holds=False, at=now, reason=reason, message=said.get("message", ""))]
            if any(entry["type"] == "Admitted" for entry in before.get("conditions") or ()):
                entries.append(condition("Admitted", holds=False, at=now, reason="NoReservation"))
            if reason == "Preempted":
                entries.append(condition("Evicted", holds=True, at=now, reason=reason, message=said.get("message", "")))
                entries.append(condition("Preempted", holds=True, at=now, reason="InClusterQueue", message=said.get("message", "")))
            status = {"admission": None}
        await self.status(place, group, status | {"conditions": merged(before.get("conditions"), *entries)})

    # --------------------------------------------------------------------------------------------------------- kubelet

    async def ready(
        self,
        name: str,
        *,
        ready: bool = True,
        roles: Iterable[str] = (),
        ordinals: Iterable[int] | None = None,
        members: Iterable[int] | None = None,
        message: str = "",
    ) -> None:
        """Let Pods run and be ready, or run and not be."""
        owner = await self.deployment(name)
        for role in _chosen(owner, roles):
            for ordinal in _ordinals(role, ordinals):
                for member in range(role.get("size", 1)) if members is None else members:
                    await self._pod_status(_seat(owner, role, ordinal, member), ready=ready, message=message)

    async def _pod_status(self, seat: str, *, ready: bool, message: str) -> None:
        present = await self.find(POD_PLACE, seat)
        if present is None:
            return
        now = self._now()
        reason = "" if ready else "ContainersNotReady"
        entries = [
            condition("PodScheduled", holds=True, at=now, reason=""),
            condition("Initialized", holds=True, at=now, reason=""),
            condition("ContainersReady", holds=ready, at=now, reason=reason, message=message),
            condition("Ready", holds=ready, at=now, reason=reason, message=message),
        ]
        container = {"name": keys.MAIN_CONTAINER, "ready": ready, "restartCount": 0, "started": True, "image": "", "imageID": ""}
        status = {
            "phase": "Running",
            "podIP": f"10.1.0.{1 + int(present['metadata']['uid'][:2], 16) % 250}",
            "conditions": merged((present.get("status") or {}).get("conditions"), *entries),
            "containerStatuses": [container | {"state": {"running": {"startedAt": now}}}],
        }
        await self.status(POD_PLACE, seat, status)

    async def lose(self, name: str, *, role: str, ordinal: int, member: int = 0) -> None:
        """A Pod goes away with its node: deleted at once, nobody replaces it until the next converge."""
        owner = await self.deployment(name)
        for found in _chosen(owner, (role,)):
            await self.client.delete(POD_PLACE, _seat(owner, found, ordinal, member), self.namespace, grace_seconds=0)

    async def evict(self, name: str, *, role: str, ordinal: int, member: int = 0, message: str = "") -> None:
        """A kubelet evicts a Pod: it fails with a reason and stays to be seen."""
        owner = await self.deployment(name)
        status = {"phase": "Failed", "reason": "Evicted", "message": message, "conditions": []}
        for found in _chosen(owner, (role,)):
            await self.status(POD_PLACE, _seat(owner, found, ordinal, member), status)

    # ---------------------------------------------------------------------------------------------------------- router

    async def router(self, name: str, *, ready: int) -> None:
        """The router's Deployment reports this many ready replicas."""
        present = await self.find(DEPLOYMENTS, f"{name}-router")
        generation = (present or {}).get("metadata", {}).get("generation", 1)
        available = condition("Available", holds=ready > 0, at=self._now(), reason="MinimumReplicasAvailable" if ready else "Unavailable")
        counts = {"replicas": 1, "updatedReplicas": 1, "readyReplicas": ready, "availableReplicas": ready}
        await self.status(DEPLOYMENTS, f"{name}-router", counts | {"observedGeneration": generation, "conditions": [available]})


def _chosen(owner: JSON, names: Iterable[str]) -> list[JSON]:
    wanted = set(names)
    roles: list[JSON] = owner["spec"]["roles"]
    unknown = wanted - {role["name"] for role in roles}
    if unknown:
        raise ScenarioError(
            f"the scenario acts on roles that ModelDeployment {owner['metadata']['name']!r} lacks: {', '.join(sorted(unknown))}"
        )
    return [role for role in roles if not wanted or role["name"] in wanted]


def _ordinals(role: JSON, chosen: Iterable[int] | None) -> list[int]:
    return list(range(role.get("replicas", 1)) if chosen is None else chosen)


def _seat(owner: JSON, role: JSON, ordinal: int, member: int) -> str:
    """The name of the Pod on a seat."""
    name: str = rendering.pod(owner, role, ordinal, member)["metadata"]["name"]
    return name
