"""How each step of a scenario changes the world. A step whose object is not there does nothing."""

from typing import Any

from api import keys
from controller.kinds import ARTIFACTS, BINDINGS, INSTANCE_TYPES, MODEL_DEPLOYMENTS
from kube.resources import PODS
from tests.simulation import shapes
from tests.simulation.actors import is_router
from tests.simulation.disturbances import Disturbances, pick
from tests.simulation.objects import NAMESPACE, controller_uid, is_leaving, owned_by, with_condition
from tests.simulation.objects import pod as replica_pod
from tests.simulation.scenario import Step
from tests.simulation.store import Object, labels, meta


class Steps(Disturbances):
    """Takes steps on a stage."""

    def take(self, step: Step) -> None:
        """Let it happen now."""
        getattr(self, "_" + step.kind.replace("-", "_"))(step)

    # ---------------------------------------------------------------------------------------------------------- finding

    def _name(self, step: Step) -> str:
        names = self._stage.scenario.names
        return names[int(step.whom * len(names))]

    def _deployment(self, step: Step) -> Object | None:
        return self._world.store.find(MODEL_DEPLOYMENTS, NAMESPACE, self._name(step))

    def _edit_spec(self, step: Step, change: Any) -> None:
        found = self._deployment(step)
        if found is not None and not is_leaving(found):
            self._world.store.patch(MODEL_DEPLOYMENTS, NAMESPACE, meta(found)["name"], {"spec": change(found["spec"])}, author="user")

    def _pod(self, step: Step) -> Object | None:
        found = self._deployment(step)
        uid = meta(found)["uid"] if found else ""
        return pick([p for p in self._world.pods() if controller_uid(p) == uid and not is_leaving(p)], step.at)

    # ------------------------------------------------------------------------------------------------------------- user

    def _scale(self, step: Step) -> None:
        def change(spec: Object) -> Object:
            roles = [dict(role) for role in spec["roles"]]
            role = roles[int(step.at * len(roles))]
            if "elasticEp" not in role:  # whose count admission keeps at one
                role["replicas"] = int(step.size * 4)
            return {"roles": roles}

        self._edit_spec(step, change)

    def _shrink(self, step: Step) -> None:
        """One replica less, or two."""

        def change(spec: Object) -> Object:
            roles = [dict(role) for role in spec["roles"]]
            role = max(roles, key=lambda one: one.get("replicas", 1)) if step.at < 0.7 else roles[-1]
            if "elasticEp" not in role:
                role["replicas"] = max(role.get("replicas", 1) - (1 if step.size < 0.7 else 2), 0)
            return {"roles": roles}

        self._edit_spec(step, change)

    def _drop_role(self, step: Step) -> None:
        def change(spec: Object) -> Object:
            roles = spec["roles"]
            gone = int(step.at * len(roles))
            return {"roles": [role for index, role in enumerate(roles) if index != gone]} if len(roles) > 1 else {}

        self._edit_spec(step, change)

    def _restore_role(self, step: Step) -> None:
        def change(spec: Object) -> Object:
            present = {role["name"] for role in spec["roles"]}
            return {
                "roles": [*spec["roles"], *(r for r in self._stage.scenario.specs[self._name(step)]["roles"] if r["name"] not in present)]
            }

        self._edit_spec(step, change)

    def _edit(self, step: Step) -> None:
        def change(spec: Object) -> Object:
            roles = [dict(role) for role in spec["roles"]]
            roles[int(step.at * len(roles))]["extraArgs"] = ["--max-model-len", str(1000 + int(step.size * 9000))]
            return {"roles": roles}

        self._edit_spec(step, change)

    def _toggle_router(self, step: Step) -> None:
        """Away, or there: one that fits the engine, or now and then one that does not."""
        name = ("vllm-router", "sglang-gateway", "llm-d-router")[int(step.size * 3)]
        self._edit_spec(step, lambda spec: {"router": None if spec.get("router") else {"name": name, "replicas": 1}})

    def _resize(self, step: Step) -> None:
        """An elastic world is to be one wider."""

        def change(spec: Object) -> Object:
            roles = [dict(role) for role in spec["roles"]]
            for role in roles:
                if "elasticEp" in role and role["elasticEp"]["width"] < 5:
                    role["elasticEp"] = {**role["elasticEp"], "width": role["elasticEp"]["width"] + 1}
            return {"roles": roles}

        self._edit_spec(step, change)

    def _instance_type(self, step: Step) -> None:
        """A role asks for another one, or the object itself changes, goes or comes."""
        name = shapes.INSTANCE_TYPES[int(step.at * 2)]
        found = self._world.store.find(INSTANCE_TYPES, "", name)
        if step.size < 0.5:

            def change(spec: Object) -> Object:
                return {"roles": [{**role, "instanceType": name} for role in spec["roles"]]}

            self._edit_spec(step, change)
        elif found is None:
            self._world.store.create(INSTANCE_TYPES, shapes.instance_type(name))
        elif step.size < 0.75:
            self._world.store.delete(INSTANCE_TYPES, "", name)
        else:
            self._world.store.patch(INSTANCE_TYPES, "", name, {"status": {"entrance": f"gpustack-fnv64-{int(step.size * 1000):016d}"}})

    def _impostor(self, step: Step) -> None:
        """A Pod that bears the deployment's labels and belongs to another one, or to nobody."""
        found = self._deployment(step)
        if found is None:
            return
        role = found["spec"]["roles"][0]
        others = [item for item in self._world.deployments() if meta(item)["uid"] != meta(found)["uid"]]
        made = replica_pod(found, {**role, "size": 1}, int(step.at * 3), 0, "0" * 16)
        owner = pick(others, step.size)
        made["metadata"]["ownerReferences"] = [owned_by(owner)] if owner is not None and step.size < 0.7 else []
        self._world.store.create(PODS, made, "user")

    def _strip(self, step: Step) -> None:
        """A Pod loses the stamp that says that the operator built its command."""
        if (pod := self._pod(step)) is not None:
            change = {"metadata": {"annotations": {keys.PROMETHEUS_PORT: None}}}
            self._world.store.patch(PODS, NAMESPACE, meta(pod)["name"], change, author="user")

    def _retry(self, step: Step) -> None:
        found = self._deployment(step)
        operation = ((found or {}).get("status") or {}).get("retirement")
        where = f"{operation['roleName']}:{operation['replicaOrdinal']}" if operation else "main:0"
        self._annotate(step, f"{where}:token-{int(step.size * 2)}")

    def _bad_retry(self, step: Step) -> None:
        self._annotate(step, ("main:0", "main:x:t", ":0:t", "main:0:", "other:7:t")[int(step.size * 5)])

    def _annotate(self, step: Step, value: str) -> None:
        if self._deployment(step) is not None:
            annotations = {"metadata": {"annotations": {keys.RETIREMENT_RETRY: value}}}
            self._world.store.patch(MODEL_DEPLOYMENTS, NAMESPACE, self._name(step), annotations, author="user")

    def _surplus(self, step: Step) -> None:
        """A second Pod at a position that is taken."""
        found, twin = self._deployment(step), self._pod(step)
        if found is None or twin is None or is_leaving(found):
            return
        name, ordinal = labels(twin).get(keys.COMPONENT), labels(twin).get(keys.POD_ORDINAL, "")
        role = next((r for r in found["spec"]["roles"] if r["name"] == name and r.get("size", 1) == 1), None)
        if role is not None and ordinal.isdigit():
            made = replica_pod(found, role, int(ordinal), 0, meta(twin)["annotations"].get(keys.EXPLICIT_SPEC_HASH, ""))
            self._world.store.create(PODS, made, "user")

    def _unseat(self, step: Step) -> None:
        self._relabel(self._pod(step), {keys.POD_ORDINAL: None})

    def _relabel(self, pod: Object | None, change: Object) -> None:
        if pod is not None:
            self._world.store.patch(PODS, NAMESPACE, meta(pod)["name"], {"metadata": {"labels": change}}, author="user")

    def _delete_deployment(self, step: Step) -> None:
        if self._deployment(step) is not None:
            self._world.store.delete(MODEL_DEPLOYMENTS, NAMESPACE, self._name(step), author="user")

    def _recreate_deployment(self, step: Step) -> None:
        """Gone and back under the same name, all at once: another UID. One that is gone comes back, one that is leaving is hurried."""
        name, found = self._name(step), self._deployment(step)
        if found is not None:
            leaving = is_leaving(found)
            self._world.store.patch(MODEL_DEPLOYMENTS, NAMESPACE, name, {"metadata": {"finalizers": None}}, author="user")
            if not leaving:
                self._world.store.delete(MODEL_DEPLOYMENTS, NAMESPACE, name, author="user")
        self._stage.create_deployment(name)

    def _foreign_condition(self, step: Step) -> None:
        found = self._deployment(step)
        if found is not None:
            entry = {
                "type": "Audited",
                "status": "True",
                "reason": f"R{int(step.size * 3)}",
                "message": "",
                "lastTransitionTime": self._world.stamp(),
            }
            status = {"status": {"conditions": with_condition(found, entry)}}
            self._world.store.patch(MODEL_DEPLOYMENTS, NAMESPACE, self._name(step), status, subresource="status", author="auditor")

    # --------------------------------------------------------------------------------------------------------- kubelets

    def _unready(self, step: Step) -> None:
        pod = self._pod(step)
        if pod is not None:
            name, uid = meta(pod)["name"], meta(pod)["uid"]
            self._stage.kubelet.report(name, uid, False)
            self._world.after(1.0 + 20.0 * step.size, self._stage.kubelet.report, name, uid, True)

    def _restart(self, step: Step) -> None:
        if (pod := self._pod(step)) is not None:
            self._stage.kubelet.restart(meta(pod)["name"], meta(pod)["uid"])

    def _fail(self, step: Step) -> None:
        if (pod := self._pod(step)) is not None:
            phase = "Failed" if step.size < 0.7 else "Succeeded"
            self._stage.kubelet.finish(meta(pod)["name"], meta(pod)["uid"], phase=phase)

    def _evict(self, step: Step) -> None:
        if (pod := self._pod(step)) is not None:
            self._stage.kubelet.finish(meta(pod)["name"], meta(pod)["uid"], phase="Failed", reason="Evicted")

    def _delete_pod(self, step: Step) -> None:
        """By hand; one in three at once, without any grace."""
        if (pod := self._pod(step)) is not None:
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
        if (pod := self._pod(step)) is not None:
            self._stage.network.occupy(meta(pod)["uid"], 400.0 * step.size**2)

    def _engine_down(self, step: Step) -> None:
        if (pod := self._pod(step)) is not None:
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
        if (pod := self._pod(step)) is not None:
            self._stage.network.operations[meta(pod)["uid"]] = (5, 1) if step.size < 0.5 else (0, 3)

    def _binding(self, step: Step) -> None:
        found = self._world.store.find(BINDINGS, NAMESPACE, "cache")
        if found is None:
            self._world.store.create(BINDINGS, shapes.binding(self._world.stamp()))
        elif step.size < 0.5:
            phase = "Degraded" if found["status"]["phase"] == "Ready" else "Ready"
            self._world.store.patch(BINDINGS, NAMESPACE, "cache", {"status": {"phase": phase}})
        else:
            self._world.store.delete(BINDINGS, NAMESPACE, "cache")

    def _artifact(self, step: Step) -> None:
        """It goes or comes, stops being resolved for some reason, is delivered otherwise, or nodes report how far they are."""
        store, at = self._world.store, self._world.stamp()
        if store.find(ARTIFACTS, NAMESPACE, "weights") is None:
            store.create(ARTIFACTS, shapes.artifact(at, shapes.DELIVERIES[int(step.at * 4)]))
        elif step.size < 0.2:
            store.delete(ARTIFACTS, NAMESPACE, "weights")
        else:
            reason, states = "", ()
            if step.size < 0.45:
                reason = ("ClaimNotBound", "Listing", "AccessModeConflict")[int(step.at * 3)]
            elif step.at > 0.5:
                states = (("Ready", "Fetching", "Failed"), ("Ready", "Ready", "Fetching"), ("Ready", "Ready", "Ready"))[
                    int(step.at * 6) - 3
                ]
            delivery = "Node" if states else shapes.DELIVERIES[int(step.at * 8) % 4]
            store.patch(ARTIFACTS, NAMESPACE, "weights", {"status": shapes.artifact_status(at, delivery, reason, states)})

    def _elastic_record(self, step: Step) -> None:
        """What the record of an elastic world says from now on, or that it cannot be read, or that there is none."""
        if (found := self._deployment(step)) is not None:
            mood = ("", "refused", "abandoned", "blind", "garbage", "missing")[int(step.size * 6)]
            self._stage.resizer.turn(meta(found)["uid"], mood)
