"""The operator's other half, which renders Pods, Services and the router. It keeps off what an operation holds.

It creates what the spec declares and nobody occupies, turns one outdated replica over at a time, replaces Pods that ended by themselves,
and tears down. Where the controller only reports, it also does what a stored operation asks for, and in half of the runs removes by itself
what the spec no longer declares, so that a removal past the operation is seen too.
"""

from contextlib import suppress

from api import keys
from controller.kinds import ARTIFACTS, BINDINGS, MODEL_DEPLOYMENTS
from kube.resources import DEPLOYMENTS, PODS, REPLICA_SETS, SERVICES
from tests.simulation.actors import is_router
from tests.simulation.objects import controller_uid, elastic_head, is_leaving, owned_by, pod, positions, reported, router_pod, spec_hash
from tests.simulation.store import Change, Object, RefusedError, labels, meta
from tests.simulation.world import World

FINALIZER = "worker.gpustack.ai/teardown"


class Converger:
    """`removes`: whether it also sheds what the spec no longer declares."""

    def __init__(self, world: World, *, removes: bool) -> None:
        self._world = world
        self._removes = removes
        self._asked = False
        world.watch(self._on_change)

    def _on_change(self, change: Change) -> None:
        if change.resource in (PODS, MODEL_DEPLOYMENTS, DEPLOYMENTS, BINDINGS, ARTIFACTS) and not self._asked:
            self._asked = True
            self._world.after(1.0, self._converge)

    def _converge(self) -> None:
        self._asked = False
        for deployment in self._world.deployments():
            if is_leaving(deployment):
                self._tear_down(deployment)
            else:
                self._roles(deployment)
                self._head(deployment)
                self._services(deployment)
                self._router(deployment)

    def _owned(self, deployment: Object) -> list[Object]:
        """The label narrows, the owner decides."""
        labelled = self._world.pods(**{keys.INSTANCE: meta(deployment)["name"]})
        return [item for item in labelled if controller_uid(item) == meta(deployment)["uid"]]

    def _delete(self, item: Object) -> None:
        self._world.store.delete(PODS, meta(item)["namespace"], meta(item)["name"], uid=meta(item)["uid"], author="converger")

    def _create(self, item: Object) -> None:
        with suppress(RefusedError):  # a Pod of that name that lost its seat may be in the way
            self._world.store.create(PODS, item, "converger")

    # ------------------------------------------------------------------------------------------------------------- roles

    def _roles(self, deployment: Object) -> None:
        spec, owned = deployment["spec"], self._owned(deployment)
        operation = (deployment.get("status") or {}).get("retirement")
        held = set(operation["targetMemberUIDs"]) if operation else set()
        reserved = (operation["roleName"], operation["replicaOrdinal"]) if operation else None
        turning = any(is_leaving(item) for item in owned)
        cache = self._cache(deployment)
        unresolved = not self._weights(deployment)
        blocked = unresolved or ("kvCache" in spec and cache is None)
        for role in spec["roles"]:
            wanted = spec_hash(spec, role, cache)
            for ordinal in range(positions(role)):
                at = [i for i in owned if labels(i).get(keys.COMPONENT) == role["name"] and labels(i).get(keys.POD_ORDINAL) == str(ordinal)]
                if any(is_leaving(item) for item in at) or (role["name"], ordinal) == reserved:
                    continue
                ended = [i for i in at if i["status"].get("phase") in ("Failed", "Succeeded") and meta(i)["uid"] not in held]
                for item in ended:
                    self._delete(item)
                if ended:
                    continue
                sizes = {meta(i)["annotations"].get(keys.POD_GROUP_TOTAL_COUNT) for i in at}
                outdated = any(meta(i)["annotations"].get(keys.EXPLICIT_SPEC_HASH) != wanted for i in at)
                if at and outdated and not blocked and not held & {meta(i)["uid"] for i in at}:
                    if not turning:
                        turning = True
                        for item in at:
                            self._delete(item)
                    continue
                if sizes - {str(role.get("size", 1))} or unresolved:
                    continue
                seats = {labels(i).get(keys.MEMBER_INDEX) for i in at}
                for member in range(role.get("size", 1)):
                    if str(member) not in seats:
                        self._create(pod(deployment, role, ordinal, member, wanted))
        if self._removes:
            for item in owned:
                if operation and operation["state"] == "Deleting" and meta(item)["uid"] in held and not is_leaving(item):
                    self._delete(item)
            if self._world.chance("sheds") < 0.5:
                self._shed(deployment, owned)

    def _shed(self, deployment: Object, owned: list[Object]) -> None:
        counts = {role["name"]: positions(role) for role in deployment["spec"]["roles"]}
        if any("elasticEp" in role for role in deployment["spec"]["roles"]):
            counts[elastic_head(deployment)["name"]] = 1
        for item in owned:
            ordinal = labels(item).get(keys.POD_ORDINAL, "")
            if ordinal.isdigit() and int(ordinal) >= counts.get(labels(item).get(keys.COMPONENT, ""), 0) and not is_leaving(item):
                self._delete(item)

    def _head(self, deployment: Object) -> None:
        """The Ray head of an elastic deployment."""
        head = elastic_head(deployment)
        if not any("elasticEp" in role for role in deployment["spec"]["roles"]) or not self._weights(deployment):
            return
        if not any(labels(item).get(keys.COMPONENT) == head["name"] for item in self._owned(deployment)):
            self._create(pod(deployment, head, 0, 0, "0" * 16))

    def _weights(self, deployment: Object) -> bool:
        """Whether the model's weights can be asked for: no artifact is named, or it is resolved."""
        reference = deployment["spec"]["model"].get("artifactRef")
        if reference is None:
            return True
        found = self._world.store.find(ARTIFACTS, meta(deployment)["namespace"], reference["name"])
        return found is not None and reported(found, "Resolved") == "True"

    def _cache(self, deployment: Object) -> Object | None:
        declared = deployment["spec"].get("kvCache")
        if declared is None:
            return None
        binding = self._world.store.find(BINDINGS, meta(deployment)["namespace"], declared["poolRef"]["name"])
        if binding is None or is_leaving(binding) or binding["status"].get("phase") != "Ready":
            return None
        if reported(binding, "QuotaGranted") != "True":
            return None
        return {"binding": meta(binding)["name"], "pool": binding["spec"]["poolRef"]["name"], "domain": binding["spec"]["domain"]}

    def _tear_down(self, deployment: Object) -> None:
        left = self._owned(deployment)
        for item in left:
            if not is_leaving(item):
                self._delete(item)
        if not left:
            finalizers = {"metadata": {"finalizers": None}}
            self._world.store.patch(MODEL_DEPLOYMENTS, meta(deployment)["namespace"], meta(deployment)["name"], finalizers)

    # ------------------------------------------------------------------------------------------------- services, router

    def _services(self, deployment: Object) -> None:
        namespace, name = meta(deployment)["namespace"], meta(deployment)["name"]
        for service in (name, *(f"{name}-{role['name']}" for role in deployment["spec"]["roles"])):
            found = self._world.store.find(SERVICES, namespace, service)
            if found is None:
                body = {"metadata": {"name": service, "namespace": namespace, "ownerReferences": [owned_by(deployment)]}}
                found = self._world.store.create(SERVICES, {**body, "spec": {"selector": {keys.INSTANCE: name}}}, "converger")
            narrow = any(labels(item).get(keys.ENDPOINT_ELIGIBLE) == "true" for item in self._owned(deployment))
            if narrow and controller_uid(found) == meta(deployment)["uid"]:  # a Service of that name of somebody else is left alone
                change = {"spec": {"selector": {keys.ENDPOINT_ELIGIBLE: "true"}}}
                self._world.store.patch(SERVICES, namespace, service, change, author="converger")

    def _router(self, deployment: Object) -> None:
        namespace, name = meta(deployment)["namespace"], f"{meta(deployment)['name']}-router"
        store = self._world.store
        found = store.find(DEPLOYMENTS, namespace, name)
        declared = deployment["spec"].get("router")
        if declared is None:
            if found is not None:
                store.delete(DEPLOYMENTS, namespace, name, author="converger")
            return
        if found is None:
            body = {"metadata": {"name": name, "namespace": namespace, "ownerReferences": [owned_by(deployment)]}, "spec": {}}
            found = store.create(DEPLOYMENTS, body, "converger")
            body = {"metadata": {"name": f"{name}-5d8", "namespace": namespace, "ownerReferences": [owned_by(found)]}}
            if store.find(REPLICA_SETS, namespace, f"{name}-5d8") is None:
                store.create(REPLICA_SETS, body, "converger")
        replica_set = store.find(REPLICA_SETS, namespace, f"{name}-5d8")
        if replica_set is None or controller_uid(replica_set) != meta(found)["uid"]:
            return
        pods = [p for p in self._world.pods(**{keys.INSTANCE: meta(deployment)["name"]}) if is_router(p)]
        pods = [p for p in pods if controller_uid(p) == meta(replica_set)["uid"]]
        for _ in range(declared.get("replicas", 1) - sum(not is_leaving(p) for p in pods)):
            store.create(PODS, router_pod(deployment, found, replica_set), "converger")
        ready = sum(reported(p, "Ready") == "True" and not is_leaving(p) for p in pods)
        status = {"readyReplicas": ready, "replicas": len(pods), "observedGeneration": meta(found)["generation"]}
        store.patch(DEPLOYMENTS, namespace, name, {"status": status}, subresource="status", author="converger")
