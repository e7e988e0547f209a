"""How each step of a scenario changes the world. A step whose object is not there does nothing."""

from datetime import timedelta
from typing import Any, TypeVar

from api import keys
from controller.kinds import BINDINGS, MODEL_DEPLOYMENTS
from kube.resources import LEASES, PODS
from tests.simulation import scenario
from tests.simulation.actors import is_router
from tests.simulation.faults import Rule
from tests.simulation.objects import NAMESPACE, controller_uid, is_leaving, with_condition
from tests.simulation.objects import pod as replica_pod
from tests.simulation.scenario import NAME, Step
from tests.simulation.stage import LEASE_NAME, LEASE_NAMESPACE, Stage
from tests.simulation.store import Object, labels, meta

T = TypeVar("T")
WATCHED = ("modeldeployments", "pods", "workloads", "services", "deployments", "kvcachepoolbindings")
# Outcomes that a rule of requests may have, with the methods they make sense for.
REFUSALS = (
    ("429", ()),
    ("500", ()),
    ("503", ()),
    ("409", ("PATCH", "PUT")),
    ("lost", ("PATCH", "DELETE")),
    ("lost", ()),
    ("unsent", ()),
    ("hang", ("PATCH",)),
    ("hang", ("GET",)),
    ("500", ("GET",)),
    ("500", ("DELETE", "PATCH")),
)


def pick(items: list[T], at: float) -> T | None:
    """One of them, or None where there is none."""
    return items[int(at * len(items))] if items else None


class Steps:
    """Takes steps on a stage."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._world = stage.world

    def take(self, step: Step) -> None:
        """Let it happen now."""
        getattr(self, "_" + step.kind.replace("-", "_"))(step)

    # ---------------------------------------------------------------------------------------------------------- finding

    def _deployment(self) -> Object | None:
        return self._world.store.find(MODEL_DEPLOYMENTS, NAMESPACE, NAME)

    def _edit_spec(self, change: Any) -> None:
        found = self._deployment()
        if found is not None and not is_leaving(found):
            self._world.store.patch(MODEL_DEPLOYMENTS, NAMESPACE, NAME, {"spec": change(found["spec"])}, author="user")

    def _pod(self, at: float) -> Object | None:
        found = self._deployment()
        uid = meta(found)["uid"] if found else ""
        return pick([p for p in self._world.pods() if controller_uid(p) == uid and not is_leaving(p)], at)

    # ------------------------------------------------------------------------------------------------------------- user

    def _scale(self, step: Step) -> None:
        def change(spec: Object) -> Object:
            roles = [dict(role) for role in spec["roles"]]
            role = roles[int(step.at * len(roles))]
            role["replicas"] = int(step.size * 4)
            return {"roles": roles}

        self._edit_spec(change)

    def _shrink(self, step: Step) -> None:
        """One replica less, or two."""

        def change(spec: Object) -> Object:
            roles = [dict(role) for role in spec["roles"]]
            role = max(roles, key=lambda one: one.get("replicas", 1)) if step.at < 0.7 else roles[-1]
            role["replicas"] = max(role.get("replicas", 1) - (1 if step.size < 0.7 else 2), 0)
            return {"roles": roles}

        self._edit_spec(change)

    def _drop_role(self, step: Step) -> None:
        def change(spec: Object) -> Object:
            roles = spec["roles"]
            gone = int(step.at * len(roles))
            return {"roles": [role for index, role in enumerate(roles) if index != gone]} if len(roles) > 1 else {}

        self._edit_spec(change)

    def _restore_role(self, _step: Step) -> None:
        def change(spec: Object) -> Object:
            present = {role["name"] for role in spec["roles"]}
            return {"roles": [*spec["roles"], *(r for r in self._stage.scenario.spec["roles"] if r["name"] not in present)]}

        self._edit_spec(change)

    def _edit(self, step: Step) -> None:
        def change(spec: Object) -> Object:
            roles = [dict(role) for role in spec["roles"]]
            roles[int(step.at * len(roles))]["extraArgs"] = ["--max-model-len", str(1000 + int(step.size * 9000))]
            return {"roles": roles}

        self._edit_spec(change)

    def _toggle_router(self, _step: Step) -> None:
        self._edit_spec(lambda spec: {"router": None if spec.get("router") else {"name": "vllm-router", "replicas": 1}})

    def _retry(self, step: Step) -> None:
        found = self._deployment()
        operation = ((found or {}).get("status") or {}).get("retirement")
        where = f"{operation['roleName']}:{operation['replicaOrdinal']}" if operation else "main:0"
        self._annotate(f"{where}:token-{int(step.size * 2)}")

    def _bad_retry(self, step: Step) -> None:
        self._annotate(("main:0", "main:x:t", ":0:t", "main:0:", "other:7:t")[int(step.size * 5)])

    def _annotate(self, value: str) -> None:
        if self._deployment() is not None:
            annotations = {"metadata": {"annotations": {keys.RETIREMENT_RETRY: value}}}
            self._world.store.patch(MODEL_DEPLOYMENTS, NAMESPACE, NAME, annotations, author="user")

    def _surplus(self, step: Step) -> None:
        """A second Pod at a position that is taken."""
        found, twin = self._deployment(), self._pod(step.at)
        if found is None or twin is None or is_leaving(found):
            return
        name, ordinal = labels(twin).get(keys.COMPONENT), labels(twin).get(keys.POD_ORDINAL, "")
        role = next((r for r in found["spec"]["roles"] if r["name"] == name and r.get("size", 1) == 1), None)
        if role is not None and ordinal.isdigit():
            made = replica_pod(found, role, int(ordinal), 0, meta(twin)["annotations"].get(keys.EXPLICIT_SPEC_HASH, ""))
            self._world.store.create(PODS, made, "user")

    def _unseat(self, step: Step) -> None:
        self._relabel(self._pod(step.at), {keys.POD_ORDINAL: None})

    def _relabel(self, pod: Object | None, change: Object) -> None:
        if pod is not None:
            self._world.store.patch(PODS, NAMESPACE, meta(pod)["name"], {"metadata": {"labels": change}}, author="user")

    def _delete_deployment(self, _step: Step) -> None:
        if self._deployment() is not None:
            self._world.store.delete(MODEL_DEPLOYMENTS, NAMESPACE, NAME, author="user")

    def _recreate_deployment(self, _step: Step) -> None:
        """Gone and back under the same name, all at once: another UID."""
        if self._deployment() is not None:
            self._world.store.patch(MODEL_DEPLOYMENTS, NAMESPACE, NAME, {"metadata": {"finalizers": None}}, author="user")
            self._world.store.delete(MODEL_DEPLOYMENTS, NAMESPACE, NAME, author="user")
        self._stage.create_deployment()

    def _foreign_condition(self, step: Step) -> None:
        found = self._deployment()
        if found is not None:
            entry = {
                "type": "Audited",
                "status": "True",
                "reason": f"R{int(step.size * 3)}",
                "message": "",
                "lastTransitionTime": self._world.stamp(),
            }
            status = {"status": {"conditions": with_condition(found, entry)}}
            self._world.store.patch(MODEL_DEPLOYMENTS, NAMESPACE, NAME, status, subresource="status", author="auditor")

    # --------------------------------------------------------------------------------------------------------- kubelets

    def _unready(self, step: Step) -> None:
        pod = self._pod(step.at)
        if pod is not None:
            name, uid = meta(pod)["name"], meta(pod)["uid"]
            self._stage.kubelet.report(name, uid, False)
            self._world.after(1.0 + 20.0 * step.size, self._stage.kubelet.report, name, uid, True)

    def _restart(self, step: Step) -> None:
        if (pod := self._pod(step.at)) is not None:
            self._stage.kubelet.restart(meta(pod)["name"], meta(pod)["uid"])

    def _fail(self, step: Step) -> None:
        if (pod := self._pod(step.at)) is not None:
            phase = "Failed" if step.size < 0.7 else "Succeeded"
            self._stage.kubelet.finish(meta(pod)["name"], meta(pod)["uid"], phase=phase)

    def _evict(self, step: Step) -> None:
        if (pod := self._pod(step.at)) is not None:
            self._stage.kubelet.finish(meta(pod)["name"], meta(pod)["uid"], phase="Failed", reason="Evicted")

    def _delete_pod(self, step: Step) -> None:
        """By hand; one in three at once, without any grace."""
        if (pod := self._pod(step.at)) is not None:
            self._world.store.delete(PODS, NAMESPACE, meta(pod)["name"], grace=0 if step.size < 0.33 else None, author="user")

    # ------------------------------------------------------------------------------------------------------------ Kueue

    def _preempt(self, step: Step) -> None:
        if self._world.kueue and (found := pick(self._world.store.list(self._world.workloads), step.at)) is not None:
            self._stage.kueue.preempt(found)

    def _no_capacity(self, step: Step) -> None:
        self._stage.kueue.held = True
        self._world.after(40.0 * step.size, setattr, self._stage.kueue, "held", False)

    # ------------------------------------------------------------------------------------------ engines, routers, cache

    def _busy(self, step: Step) -> None:
        if (pod := self._pod(step.at)) is not None:
            self._stage.network.occupy(meta(pod)["uid"], 400.0 * step.size**2)

    def _engine_down(self, step: Step) -> None:
        if (pod := self._pod(step.at)) is not None:
            self._stage.network.down[meta(pod)["uid"]] = self._world.now + 60.0 * step.size

    def _router_restart(self, step: Step) -> None:
        if (pod := pick([p for p in self._world.pods() if is_router(p)], step.at)) is not None:
            uid = meta(pod)["uid"]
            self._stage.network.boots[uid] = self._stage.network.boots.get(uid, 0) + 1

    def _nonsense(self, step: Step) -> None:
        self._stage.network.nonsense = self._world.now + 40.0 * step.size

    def _dissent(self, step: Step) -> None:
        self._stage.network.dissent = self._world.now + 40.0 * step.size

    def _operations(self, step: Step) -> None:
        if (pod := self._pod(step.at)) is not None:
            self._stage.network.operations[meta(pod)["uid"]] = (5, 1) if step.size < 0.5 else (0, 3)

    def _binding(self, step: Step) -> None:
        found = self._world.store.find(BINDINGS, NAMESPACE, "cache")
        if found is None:
            self._world.store.create(BINDINGS, scenario.binding(self._world.stamp()))
        elif step.size < 0.5:
            phase = "Degraded" if found["status"]["phase"] == "Ready" else "Ready"
            self._world.store.patch(BINDINGS, NAMESPACE, "cache", {"status": {"phase": phase}})
        else:
            self._world.store.delete(BINDINGS, NAMESPACE, "cache")

    # ------------------------------------------------------------------------------------------------------- API server

    def _plural(self, at: float) -> str:
        return WATCHED[int(at * len(WATCHED))]

    def _drop_watch(self, step: Step) -> None:
        for wire in self._world.wires:
            wire.drop_watches(self._plural(step.at))

    def _compact(self, step: Step) -> None:
        """For a while nothing is told, then the history is gone and the watches with it: what happened meanwhile only a list shows."""
        seconds = 6.0 * step.size
        self._world.faults.lag[self._plural(step.at)] = (self._world.now + seconds, 60.0)
        self._world.after(seconds * 0.99, self._forget, step)

    def _forget(self, step: Step) -> None:
        for collection in self._world.store.collections.values():
            if collection.resource.plural == self._plural(step.at):
                self._world.store.compact(collection.resource)
        self._drop_watch(step)

    def _silence(self, step: Step) -> None:
        self._world.faults.silent[self._plural(step.at)] = self._world.now + 45.0 * step.size

    def _lag(self, step: Step) -> None:
        self._world.faults.lag[self._plural(step.at)] = (self._world.now + 30.0, 8.0 * step.size)

    def _repeat(self, step: Step) -> None:
        self._world.faults.repeated[self._plural(step.at)] = 1 + int(step.size * 8)

    def _refuse(self, step: Step) -> None:
        outcome, methods = REFUSALS[int(step.at * len(REFUSALS))]
        left = 1 + int(step.size * 6)
        plurals = ("modeldeployments", "pods", "workloads") if outcome != "hang" else ("modeldeployments", "pods")
        self._world.faults.rules.append(Rule(outcome, self._world.now + 30.0, methods, plurals, left=left))

    def _slow_list(self, step: Step) -> None:
        self._world.faults.slow[self._plural(step.at)] = (self._world.now + 60.0, 25.0 * step.size)
        self._compact(step)

    # -------------------------------------------------------------------------------------------------------- processes

    def _crash(self, step: Step) -> None:
        if (process := pick(self._stage.alive(), step.at)) is not None:
            process.kill()
            self._world.after(0.5 + 10.0 * step.size, self._stage.start_process)

    def _crash_at_await(self, step: Step) -> None:
        """At one of its next resumptions, wherever it waits then."""
        leaders = [p for p in self._stage.alive() if p.controller.election.leading]
        if leaders:
            leaders[0].dies_at = leaders[0].steps + 1 + int(400 * step.size**2)
            self._world.after(2.0 + 10.0 * step.at, self._stage.ensure_process)

    def _stop(self, step: Step) -> None:
        if (process := pick(self._stage.alive(), step.at)) is not None:
            process.stop()
            self._world.after(0.5 + 5.0 * step.size, self._stage.start_process)

    def _second(self, _step: Step) -> None:
        if len(self._stage.alive()) < 2:
            self._stage.start_process()

    def _cut_lease(self, step: Step) -> None:
        """The holder cannot renew, by errors or by silence, and does not hear of it otherwise."""
        leaders = [p for p in self._stage.alive() if p.controller.election.leading]
        if leaders:
            outcome = ("hang", "500", "unsent")[int(step.at * 3)]
            rule = Rule(outcome, self._world.now + 40.0 * step.size, plurals=("leases",), who=leaders[0].who)
            self._world.faults.rules.append(rule)

    def _steal_lease(self, _step: Step) -> None:
        if self._world.store.find(LEASES, LEASE_NAMESPACE, LEASE_NAME) is not None:
            spec = {"holderIdentity": "thief", "leaseDurationSeconds": 8, "renewTime": "2026-01-01T00:00:00.000000Z"}
            self._world.store.patch(LEASES, LEASE_NAMESPACE, LEASE_NAME, {"spec": spec}, author="thief")

    def _clock(self, step: Step) -> None:
        """A process's wall clock jumps, up to five minutes either way."""
        if (process := pick(self._stage.alive(), step.at)) is not None:
            process.clock.skew += timedelta(seconds=int(600 * step.size - 300))
