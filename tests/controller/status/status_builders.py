"""Fluent builders of what a judgement reads. A test names only what its sentence is about; everything else is a healthy deployment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import msgspec
from status_pods import CURRENT, NAME, NAMESPACE, NOW, UID, PodBuilder, ago, entries

from api import keys
from api.objects import Pod
from api.status import Condition, Group, Retirement, RoleStatus, Status, encode_status
from controller.dump import snapshots
from controller.snapshot import Membership, Snapshot, StatusSettings
from controller.status.acts import Act, acts_of
from controller.status.groups import generation_of
from controller.status.judge import Assessment, assess, judge

__all__ = ["CURRENT", "NAME", "NAMESPACE", "NOW", "UID", "PodBuilder", "Scene", "ago", "entries", "read_pods", "scene"]


class Scene:
    """One deployment and everything around it."""

    def __init__(self) -> None:
        self.metadata: dict[str, Any] = {"name": NAME, "namespace": NAMESPACE, "uid": UID, "generation": 7, "resourceVersion": "11"}
        self.spec: dict[str, Any] = {"model": {"name": "m"}, "engine": {"name": "vLLM", "version": "0.29.0"}, "roles": []}
        self.pods: list[PodBuilder] = []
        self.objects: list[dict[str, Any]] = []
        self.observations: dict[str, Any] = {}
        self.previous: Status | None = None
        self.settings = StatusSettings()
        self.membership: Membership | None = None

    def role(self, name: str = "server", replicas: int = 1, size: int = 1, kind: str = "Server", **more: Any) -> Self:
        """Declare a role."""
        self.spec["roles"].append({"name": name, "kind": kind, "replicas": replicas, "size": size, "instanceType": f"{name}-type", **more})
        return self

    def tap(self, change: Callable[[Self], object]) -> Self:
        """Change something in passing."""
        change(self)
        return self

    def engine(self, name: str, version: str | None = None) -> Self:
        """The engine."""
        self.spec["engine"] = {"name": name} | ({} if version is None else {"version": version})
        return self

    def annotated(self, key: str, value: str) -> Self:
        """An annotation of the deployment."""
        self.metadata.setdefault("annotations", {})[key] = value
        return self

    def deleting(self) -> Self:
        """The deployment is on its way out."""
        self.metadata |= {"deletionTimestamp": ago(20), "finalizers": ["x"]}
        return self

    def within(self, namespace: str) -> Self:
        """Only the deployment's own namespace name changes: enough for what reads it."""
        self.metadata["namespace"] = namespace
        return self

    # ------------------------------------------------------------------------------------------------ Pods, Workloads

    def pod(self, uid: str, role: str = "server", ordinal: int | str | None = 0) -> PodBuilder:
        """Add a Pod and give its builder."""
        self.pods.append(PodBuilder(role, ordinal, uid))
        return self.pods[-1]

    def replicas(self, *uids: str, role: str = "server", first: int = 0) -> Self:
        """Ready replicas of one Pod each, quota held."""
        for ordinal, uid in enumerate(uids, first):
            self.pod(uid, role, ordinal)
            self.admitted(uid)
        return self

    def group(self, role: str, ordinal: int, *uids: str) -> Self:
        """One ready replica of several Pods, quota held."""
        for seat, uid in enumerate(uids):
            self.pod(uid, role, ordinal).seat(seat, len(uids))
        return self.admitted(*uids)

    def workload(self, *uids: str, active: bool = True, checks: str = "", flavors: dict[str, str] | None = None, **conditions: str) -> Self:
        """A Workload that those Pods own, named after the first."""
        pod_set = next((pod.labels.get(keys.COMPONENT, "server") for pod in self.pods if pod.uid == uids[0]), "server")
        status: dict[str, Any] = {"conditions": entries(**conditions)}
        if checks:
            status["admissionChecks"] = [{"name": "joint", "state": "Pending", "message": checks}]
        if flavors is not None:
            status["admission"] = {"clusterQueue": "q", "podSetAssignments": [{"name": pod_set, "flavors": flavors}]}
        self.objects.append(
            {
                "apiVersion": "kueue.x-k8s.io/v1beta2",
                "kind": "Workload",
                "metadata": {
                    "name": f"wl-{uids[0]}",
                    "namespace": NAMESPACE,
                    "uid": f"wl-uid-{uids[0]}",
                    "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": uid, "uid": uid} for uid in uids],
                },
                "spec": {"active": active},
                "status": status,
            }
        )
        return self

    def admitted(self, *uids: str) -> Self:
        """A Workload that holds quota and is admitted."""
        return self.workload(*uids, QuotaReserved="True:QuotaReserved", Admitted="True:Admitted")

    # ------------------------------------------------------------------------------------------------- router, cache

    def router(self, name: str = "llm-d-router", ready: int | None = 1, pods: tuple[str, ...] = ("router-a",)) -> Self:
        """Declare a router with its Deployment (`ready` None: not deployed) and its Pods."""
        self.spec["router"] = {"name": name}
        if ready is not None:
            owner = {"apiVersion": keys.API_VERSION, "kind": "ModelDeployment", "name": NAME, "uid": UID, "controller": True}
            self.objects.append(
                {
                    "apiVersion": "apps/v1",
                    "kind": "Deployment",
                    "metadata": {"name": f"{NAME}-router", "namespace": NAMESPACE, "uid": "dep", "ownerReferences": [owner]},
                    "status": {"readyReplicas": ready} if ready else {},
                }
            )
        for uid in pods:
            self.router_pod(uid, name)
        return self

    def orphan(self, kind: str) -> Self:
        """Everything of that kind so far is somebody else's."""
        for found in self.objects:
            if found["kind"] == kind:
                found["metadata"]["ownerReferences"][0]["uid"] = "somebody"
        return self

    def router_pod(self, uid: str, router: str = "llm-d-router", departing: bool = False) -> Self:
        """A Pod of the router's Deployment."""
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"{NAME}-router-abc", "uid": "rs", "controller": True}
        metadata: dict[str, Any] = {
            "name": f"{NAME}-router-abc-{uid}",
            "namespace": NAMESPACE,
            "uid": uid,
            "labels": {keys.NAME: keys.NAME_VALUE, keys.INSTANCE: NAME, keys.ROUTER: router},
            "ownerReferences": [owner],
        } | ({"deletionTimestamp": ago(3)} if departing else {})
        self.objects.append({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "status": {"phase": "Running"}})
        return self

    def view(self, *rows: str, router: str = "router-a", age: float = 1, generation: int = 1, error: str = "") -> Self:
        """A router's view. A row is a Pod UID; `!uid` is out of selection, `uid@port/role` says more."""
        workers = []
        for row in rows:
            body, _, role = row.lstrip("!").partition("/")
            uid, _, port = body.partition("@")
            workers.append({"podUID": uid, "port": int(port or 8000), "role": role or "server", "inSelection": not row.startswith("!")})
        view = {"routerPodUID": router, "bootGeneration": generation, "receivedAt": ago(age), "workers": workers}
        self.observations.setdefault("routerViews", []).append(view | ({"error": error} if error else {}))
        return self

    def cache(self, phase: str | None = "Ready", granted: bool = True, deleting: bool = False, **status: Any) -> Self:
        """Declare a KV cache, with its Binding (`phase` None: there is none)."""
        self.spec["kvCache"] = {"poolRef": {"name": "b"}, "connector": "Mooncake"}
        if phase is not None:
            metadata = {"name": "b", "namespace": NAMESPACE} | ({"deletionTimestamp": ago(1)} if deleting else {})
            conditions = entries(QuotaGranted="True" if granted else "False")
            self.objects += [
                {
                    "apiVersion": keys.API_VERSION,
                    "kind": "KVCachePoolBinding",
                    "metadata": metadata,
                    "spec": {"poolRef": {"name": "pool-a"}, "domain": {"name": "d1", "blockSize": 64, "dtype": "auto"}},
                    "status": {"phase": phase, "conditions": conditions, **status},
                },
                {
                    "apiVersion": keys.API_VERSION,
                    "kind": "KVCachePool",
                    "metadata": {"name": "pool-a"},
                    "status": {"clientEndpoint": "master.kvcache.svc:50051"},
                },
            ]
        return self

    def artifact(self, source: str = "huggingFace", resolved: str = "True", **status: Any) -> Self:
        """Reference an artifact (`source` empty: it does not exist)."""
        self.spec["model"] = {"name": "m", "artifactRef": {"name": "weights"}}
        if source:
            self.objects.append(
                {
                    "apiVersion": keys.API_VERSION,
                    "kind": "ModelArtifact",
                    "metadata": {"name": "weights", "namespace": NAMESPACE},
                    "spec": {"source": {source: {}}},
                    "status": {
                        "conditions": entries(Resolved=resolved),
                        "resolved": {"revision": "r1", "manifestDigest": "sha256:1"},
                        **status,
                    },
                }
            )
        return self

    def service(self, name: str, owner: str = UID, **selector: str) -> Self:
        """A Service of that name with that selector, controlled by the deployment of that UID."""
        reference = {"apiVersion": keys.API_VERSION, "kind": "ModelDeployment", "name": NAME, "uid": owner, "controller": True}
        metadata = {"name": name, "namespace": NAMESPACE, "ownerReferences": [reference]}
        self.objects.append({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"selector": selector}})
        return self

    # -------------------------------------------------------------------------------------------------- observations

    def forward(self, outcome: str, *uids: str) -> Self:
        """What came of the forward probes of those Pods."""
        self.observations.setdefault("forward", []).extend({"podUID": uid, "outcome": outcome} for uid in uids)
        return self

    def stored(self, uid: str, succeeded: int = 0, failed: int = 0) -> Self:
        """An engine's account of its store operations."""
        entry = {"podUID": uid, "succeeded": succeeded, "failed": failed}
        self.observations.setdefault("cacheOperations", []).append(entry)
        return self

    def drained(self, uid: str, *reads: str) -> Self:
        """Drain reads, the last one a second ago; a read is an outcome, or `Busy 2 running`."""
        found = []
        for back, read in zip(range(len(reads), 0, -1), reads, strict=True):
            outcome, _, detail = read.partition(" ")
            found.append({"at": ago(back), "outcome": outcome, "detail": detail})
        self.observations.setdefault("drain", []).append({"podUID": uid, "reads": found})
        return self

    def elastic(self, **seen: Any) -> Self:
        """What the elastic path saw."""
        self.observations["elastic"] = seen
        return self

    def rollout(self, **figures: Any) -> Self:
        """What a converging pass accounted for."""
        self.observations["rollout"] = {"observed": True, "outdated": 0, "held": 0, "accounted": 1} | figures
        return self

    # ------------------------------------------------------------------------------------------------ previous status

    def before(self, **fields: Any) -> Self:
        """Parts of the stored status."""
        self.previous = msgspec.structs.replace(self.previous or Status(), **fields)
        return self

    def stood(self, kind: str, status: str, reason: str, since: float = 600, message: str = "") -> Self:
        """A stored condition."""
        found = Condition(kind, status, reason, message, ago(since), 3)
        return self.before(conditions=(*(self.previous.conditions if self.previous else ()), found))

    def grouped(self, state: str, *uids: str, role: str = "server", ordinal: int = 0, qualified: float | None = 400) -> Self:
        """A stored group of the generation that those members make."""
        group = Group(ordinal, generation_of(uids), state, "Qualified", "", None if qualified is None else ago(qualified))
        return self.before(roles=(*(self.previous.roles if self.previous else ()), RoleStatus(role, groups=(group,))))

    def retiring(
        self, state: str, *uids: str, role: str = "server", ordinal: int = 1, started: float = 10, phase: float = 10, token: str = ""
    ) -> Self:
        """A stored operation: started and entered its phase so many seconds ago."""
        operation = Retirement(
            role_name=role,
            replica_ordinal=ordinal,
            observed_generation=4,
            target_member_uids=tuple(sorted(uids)),
            target_workload_uid=f"wl-uid-{uids[0]}" if uids else "",
            state=state,
            reason=state,
            started_at=ago(started),
            deadline=ago(started - 300),
            phase_started_at=ago(phase),
            last_consumed_retry_token=token,
        )
        return self.before(retirement=operation)

    def absent_kueue(self) -> Self:
        """Kueue is set to absent."""
        self.settings = msgspec.structs.replace(self.settings, kueue="absent")
        return self

    def acting(self) -> Self:
        """The controller performs what a retirement asks for."""
        self.settings = msgspec.structs.replace(self.settings, act="retire")
        return self

    # ------------------------------------------------------------------------------------------------------- results

    def document(self) -> list[dict[str, Any]]:
        """The scene as the objects of a dump."""
        raw: dict[str, Any] = {"apiVersion": keys.API_VERSION, "kind": "ModelDeployment", "metadata": self.metadata, "spec": self.spec}
        if self.previous is not None:
            raw["status"] = msgspec.json.decode(encode_status(self.previous))
        found = [raw, *self.objects]
        if self.observations:
            head = {"apiVersion": keys.OBSERVATIONS_API_VERSION, "kind": "Observations", "metadata": {"namespace": NAMESPACE, "name": NAME}}
            found.append(head | self.observations)
        hashes = dict(assess(snapshots(found, NOW)[0]).ground.hashes)
        return [*found, *(pod.build(hashes) for pod in self.pods)]

    def snapshot(self) -> Snapshot:
        """The pass's snapshot."""
        namespace = self.metadata["namespace"]
        objects = [
            {**raw, "metadata": {**raw["metadata"], "namespace": namespace}} if "namespace" in raw["metadata"] else raw
            for raw in self.document()
        ]
        (found,) = snapshots(objects, NOW, self.settings)
        return msgspec.structs.replace(found, membership=self.membership)

    def assess(self) -> Assessment:
        """The judgement with what it was made of."""
        return assess(self.snapshot())

    def judge(self) -> Status:
        """The status."""
        return judge(self.snapshot())

    def acts(self) -> tuple[Act, ...]:
        """What the pass asks an actor to do."""
        return acts_of(self.assess())

    def condition(self, kind: str) -> Condition:
        """One condition of the status."""
        return next(c for c in self.judge().conditions if c.type == kind)

    def verdict(self, kind: str) -> tuple[str, str]:
        """A condition's status and reason."""
        found = self.condition(kind)
        return found.status, found.reason

    def shown(self, role: str = "server") -> RoleStatus:
        """One role's entry."""
        return next(entry for entry in self.judge().roles if entry.name == role)

    def shown_group(self, ordinal: int = 0, role: str = "server") -> Group:
        """One group's entry."""
        return next(group for group in self.shown(role).groups if group.ordinal == ordinal)

    def retirement(self) -> Retirement:
        """The operation of the status."""
        found = self.judge().retirement
        assert found is not None
        return found


def scene(**role: Any) -> Scene:
    """A deployment with one Server role (`replicas`, `size`, …); nothing runs yet."""
    return Scene().role(**role)


def read_pods(*builders: PodBuilder, complete: bool = True) -> Membership:
    """An uncached reading of the members."""
    pods = tuple(msgspec.convert(builder.build({}), Pod) for builder in builders)
    return Membership(pods=pods, complete=complete)
