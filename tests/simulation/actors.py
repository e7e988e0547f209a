"""Who else works on the cluster: kubelets, Kueue, the resizer of elastic worlds, and the garbage collector.

Each reacts to writes, a little later, at its own pace.

How long an actor takes follows from the seed and the object's UID alone. What is random per run is drawn by the steps, not here.
"""

from typing import Any, Final

import msgspec

from api import keys
from controller.kinds import MODEL_DEPLOYMENTS
from controller.observers.elastic import CONFIG_MAPS
from kube.resources import DEPLOYMENTS, PODS, REPLICA_SETS, SERVICES
from tests.simulation.objects import (
    assignment,
    condition,
    controller_uid,
    is_leaving,
    owned_by,
    reported,
    with_condition,
    workload,
)
from tests.simulation.store import Change, Object, labels, meta
from tests.simulation.world import World

FLAVORS: Final = ("a100", "h100")
# How many Pods are on a node that is not heard of for minutes when they are to stop.
LOST_NODES: Final = 0.06
ADMITTED: Final = ("QuotaReserved", "Admitted")
MOUNTED: Final = "PodReadyToStartContainers"


def is_router(pod: Object) -> bool:
    """Whether it is a Pod of a managed router."""
    return keys.ROUTER in labels(pod)


class Kubelet:
    """Starts Pods, reports them ready, takes them away when their grace is over. A leaving Pod goes on reporting ready, as real ones do."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._addresses = 0
        world.watch(self._on_change)

    def _on_change(self, change: Change) -> None:
        if change.resource is not PODS:
            return
        if change.old is None and change.new is not None:
            self._world.after(0.2 + self._chance(change.new, "start"), self._start, meta(change.new)["name"], meta(change.new)["uid"])
        elif change.new is not None and is_leaving(change.new) and change.old is not None and not is_leaving(change.old):
            grace = meta(change.new).get("deletionGracePeriodSeconds", 30)
            seconds = min(grace, 1.0 + 8.0 * self._chance(change.new, "stop"))
            if self._chance(change.new, "node") < LOST_NODES:
                seconds = 40.0 + 150.0 * self._chance(change.new, "stop")
            self._world.after(seconds, self._stop, meta(change.new)["name"], meta(change.new)["uid"])

    def _chance(self, pod: Object, what: str) -> float:
        return self._world.chance(meta(pod)["uid"], what)

    def _find(self, name: str, uid: str) -> Object | None:
        for pod in self._world.store.list(PODS):
            if meta(pod)["uid"] == uid and meta(pod)["name"] == name:
                return pod
        return None

    def _start(self, name: str, uid: str) -> None:
        pod = self._find(name, uid)
        if pod is None or is_leaving(pod) or pod["status"].get("phase") != "Pending":
            return
        if self._world.kueue and not is_router(pod) and not self._admitted(pod):
            self._world.after(1.0, self._start, name, uid)
            return
        self._addresses += 1
        status = {
            **pod["status"],
            "phase": "Running",
            "podIP": f"10.0.{self._addresses // 250}.{self._addresses % 250 + 1}",
            "containerStatuses": [{"name": keys.MAIN_CONTAINER, "ready": False, "restartCount": 0}],
        }
        if self._chance(pod, "reports") < 0.7:  # some report unready first, some nothing until they are ready
            status["conditions"] = [condition("Ready", holds=False, at=self._world.stamp())]
        if self._chance(pod, "mounts") < 0.5:  # the others have their volumes when they report ready
            status["conditions"] = [*status.get("conditions", []), condition(MOUNTED, holds=True, at=self._world.stamp())]
        self._write(pod, status)
        self._world.after(1.0 + 9.0 * self._chance(pod, "load"), self.report, name, uid, True)

    def _admitted(self, pod: Object) -> bool:
        for found in self._world.store.list(self._world.workloads):
            if any(ref["uid"] == meta(pod)["uid"] for ref in meta(found)["ownerReferences"]):
                return reported(found, "Admitted") == "True"
        return False

    def report(self, name: str, uid: str, ready: bool) -> None:
        """Set the Ready condition, as a probe's outcome would."""
        pod = self._find(name, uid)
        if pod is None or pod["status"].get("phase") != "Running":
            return
        entry = condition("Ready", holds=ready, at=self._world.stamp())
        statuses = [{**c, "ready": ready} for c in pod["status"].get("containerStatuses", [])]
        conditions = with_condition(pod, entry)
        if not reported(pod, MOUNTED):
            conditions.append(condition(MOUNTED, holds=True, at=self._world.stamp()))
        self._write(pod, {**pod["status"], "conditions": conditions, "containerStatuses": statuses})

    def finish(self, name: str, uid: str, *, phase: str, reason: str = "") -> None:
        """The Pod ends by itself."""
        pod = self._find(name, uid)
        if pod is not None and not is_leaving(pod):
            entry = condition("Ready", holds=False, at=self._world.stamp(), reason="PodFailed")
            told = {"reason": reason, "message": "The node was low on resource: memory."} if reason else {}
            self._write(pod, {**pod["status"], "phase": phase, "conditions": with_condition(pod, entry), **told})

    def restart(self, name: str, uid: str) -> None:
        """The container ends and begins again: unready, one restart more, ready later."""
        pod = self._find(name, uid)
        if pod is None or pod["status"].get("phase") != "Running":
            return
        statuses = [{**c, "ready": False, "restartCount": c["restartCount"] + 1} for c in pod["status"]["containerStatuses"]]
        entry = condition("Ready", holds=False, at=self._world.stamp())
        self._write(pod, {**pod["status"], "conditions": with_condition(pod, entry), "containerStatuses": statuses})
        self._world.after(4.0, self.report, name, uid, True)

    def _stop(self, name: str, uid: str) -> None:
        pod = self._find(name, uid)
        if pod is not None:
            self._world.store.delete(PODS, meta(pod)["namespace"], name, uid=uid, grace=0, author="kubelet")

    def _write(self, pod: Object, status: Object) -> None:
        self._world.store.patch(
            PODS, meta(pod)["namespace"], meta(pod)["name"], {"status": {**status}}, subresource="status", author="kubelet"
        )


class Kueue:
    """Composes a Workload per whole Pod group, reserves quota and admits it; takes both away when it is told to preempt."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.held = False  # no capacity: nothing new is admitted
        if world.kueue:
            world.watch(self._on_change)

    def _on_change(self, change: Change) -> None:
        if change.resource is PODS and change.new is not None and keys.POD_GROUP_NAME in labels(change.new):
            if change.old is None:
                group = labels(change.new)[keys.POD_GROUP_NAME]
                self._world.after(0.1 + self._world.chance(group, "compose"), self._compose, group)
        elif change.resource is self._world.workloads and change.old is None and change.new is not None:
            self._world.after(0.2 + 2.0 * self._world.chance(meta(change.new)["uid"]), self.admit, meta(change.new)["name"])

    def _compose(self, group: str) -> None:
        pods = [pod for pod in self._world.pods(**{keys.POD_GROUP_NAME: group}) if not is_leaving(pod)]
        if not pods or len(pods) < int(meta(pods[0])["annotations"].get(keys.POD_GROUP_TOTAL_COUNT, "1")):
            return
        namespace = meta(pods[0])["namespace"]
        found = self._world.store.find(self._world.workloads, namespace, group)
        if found is None:
            self._world.store.create(self._world.workloads, workload(group, labels(pods[0])[keys.COMPONENT], pods), "kueue")
            return
        known = meta(found)["ownerReferences"]
        fresh = [owned_by(pod, controller=False) for pod in pods if all(ref["uid"] != meta(pod)["uid"] for ref in known)]
        if fresh:
            owners = {"metadata": {"ownerReferences": [*known, *fresh]}}
            self._world.store.patch(self._world.workloads, namespace, group, owners, author="kueue")

    def admit(self, group: str) -> None:
        """Reserve quota and admit, unless there is none."""
        for found in self._world.store.list(self._world.workloads):
            if meta(found)["name"] == group and not is_leaving(found):
                if self.held or not found["spec"].get("active", True):
                    self._world.after(5.0, self.admit, group)
                    return
                flavor = FLAVORS[int(self._world.chance(group, "flavor") * 1.4)]
                conditions = found["status"].get("conditions", [])
                for kind in ADMITTED:
                    entry = condition(kind, holds=True, at=self._world.stamp())
                    conditions = [*(c for c in conditions if c["type"] not in (kind, "Preempted", "Evicted")), entry]
                role = labels(found)["role"]
                self._write(found, {**found["status"], "conditions": conditions, "admission": assignment(role, flavor)})

    def preempt(self, found: Object) -> None:
        """Take the quota back; the Pods go, as Kueue deletes them, and the group is admitted again later."""
        at = self._world.stamp()
        conditions = [
            *(condition(kind, holds=False, at=at, reason="Preempted", message="preempted to make room") for kind in ADMITTED),
            condition("Evicted", holds=True, at=at, reason="Preempted"),
            condition("Preempted", holds=True, at=at, reason="InCohortReclamation"),
        ]
        self._write(found, {"conditions": conditions})
        namespace = meta(found)["namespace"]
        for reference in meta(found)["ownerReferences"]:
            pod = self._world.store.find(PODS, namespace, reference["name"])
            if pod is not None and meta(pod)["uid"] == reference["uid"]:
                self._world.store.delete(PODS, namespace, reference["name"], uid=reference["uid"], author="kueue")

    def _write(self, found: Object, status: Object) -> None:
        name, namespace = meta(found)["name"], meta(found)["namespace"]
        self._world.store.replace(self._world.workloads, namespace, name, {**found, "status": status}, author="kueue")


class Resizer:
    """Keeps the record of each elastic world: how wide it is to be, how wide it is, what the engine refused.

    `turn` says what is odd about a record from now on: a scale refused or given up, a width that nobody can tell, a text that is none, or
    no record at all.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._moods: dict[str, str] = {}
        self._asked = False
        self.given_up: set[str] = set()  # UIDs whose record has said so at some time
        world.watch(self._on_change)

    def _on_change(self, change: Change) -> None:
        if change.resource in (PODS, MODEL_DEPLOYMENTS) and not self._asked:
            self._asked = True
            self._world.after(2.0, self._record)

    def turn(self, uid: str, mood: str) -> None:
        """From now on the record of that deployment is so."""
        self._moods[uid] = mood
        self._world.after(0.5, self._record)

    def told(self, uid: str, namespace: str) -> tuple[bool, int | None, int | None, bool] | None:
        """What the record says: whether it is there, the desired and the live width, and whether a scale was given up; None for no text."""
        found = self._world.store.find(CONFIG_MAPS, namespace, f"elastic-observation-{uid}")
        if found is None:
            return (False, None, None, False)
        if found["data"]["observation.json"] == "{":
            return None
        document = {name.lower(): value for name, value in msgspec.json.decode(found["data"]["observation.json"]).items()}
        layers = [{name.lower(): value for name, value in document[layer].items()} for layer in ("desired", "effective")]
        width, live = (layer["value"] if layer["known"] else None for layer in layers)
        refusal = {name.lower(): value for name, value in (document.get("refusal") or {}).items()}
        return (True, width, live, refusal.get("abandoned", False))

    def _record(self) -> None:
        self._asked = False
        for deployment in self._world.deployments():
            role = next((role for role in deployment["spec"]["roles"] if "elasticEp" in role), None)
            if role is not None and not is_leaving(deployment):
                self._write(deployment, role)

    def _write(self, deployment: Object, role: Object) -> None:
        uid, namespace = meta(deployment)["uid"], meta(deployment)["namespace"]
        name, mood = f"elastic-observation-{uid}", self._moods.get(uid, "")
        found = self._world.store.find(CONFIG_MAPS, namespace, name)
        if mood == "missing":
            if found is not None:
                self._world.store.delete(CONFIG_MAPS, namespace, name)
            return
        data = {"observation.json": "{" if mood == "garbage" else self._document(deployment, role, mood)}
        if found is None:
            owners = [owned_by(deployment, controller=False)]
            self._world.store.create(
                CONFIG_MAPS, {"metadata": {"name": name, "namespace": namespace, "ownerReferences": owners}, "data": data}
            )
        else:
            self._world.store.patch(CONFIG_MAPS, namespace, name, {"data": data})

    def _document(self, deployment: Object, role: Object, mood: str) -> str:
        """In either spelling of Go's encoder."""
        uid = meta(deployment)["uid"]
        mine = [
            p
            for p in self._world.pods(**{keys.COMPONENT: role["name"]})
            if controller_uid(p) == uid and reported(p, "Ready") == "True" and not is_leaving(p)
        ]
        width = {"known": True, "value": role["elasticEp"]["width"], "reason": ""}
        live = {"known": mood != "blind", "value": len(mine), "reason": "the record of the world is gone" if mood == "blind" else ""}
        document: Object = {"desired": width, "effective": live}
        if mood in ("refused", "abandoned"):
            document["refusal"] = {"attempts": 5 if mood == "abandoned" else 2, "message": "no room", "abandoned": mood == "abandoned"}
        if mood == "abandoned":
            self.given_up.add(uid)
        return msgspec.json.encode(_capital(document) if self._world.chance(uid, "spelling") < 0.5 else document).decode()


def _capital(value: Any) -> Any:
    return {name[:1].upper() + name[1:]: _capital(inner) for name, inner in value.items()} if isinstance(value, dict) else value


class Collector:
    """The garbage collector: what none of its owners outlives goes."""

    def __init__(self, world: World) -> None:
        self._world = world
        world.watch(self._on_change)

    def _on_change(self, change: Change) -> None:
        if change.new is None:
            self._world.after(0.5, self._collect, meta(change.object)["uid"])

    def _collect(self, uid: str) -> None:
        store = self._world.store
        alive = {meta(item)["uid"] for c in store.collections.values() for item in c.objects.values()}
        kinds = [SERVICES, DEPLOYMENTS, REPLICA_SETS, CONFIG_MAPS, PODS, *([self._world.workloads] if self._world.kueue else [])]
        for resource in kinds:
            for item in store.list(resource):
                owners = [ref["uid"] for ref in meta(item).get("ownerReferences") or []]
                if uid in owners and not any(owner in alive for owner in owners) and not is_leaving(item):
                    store.delete(resource, meta(item)["namespace"], meta(item)["name"], uid=meta(item)["uid"], author="collector")
