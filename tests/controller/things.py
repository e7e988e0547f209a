"""Builders of cluster objects, so that a test says only what it is about."""

from typing import Any, Self

Object = dict[str, Any]
NS = "team"


class Thing:
    """An object under construction; `json` is what the API server would hold."""

    def __init__(self, api_version: str, kind: str, name: str, namespace: str = NS) -> None:
        self.json: Object = {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "uid": f"uid-{name}", "labels": {}}}
        self.json["metadata"]["annotations"] = {}
        if namespace:
            self.json["metadata"]["namespace"] = namespace

    def labelled(self, **labels: str) -> Self:
        self.json["metadata"]["labels"].update(labels)
        return self

    def annotated(self, key: str, value: str) -> Self:
        self.json["metadata"]["annotations"][key] = value
        return self

    def owned_by(self, owner: Object, *, controller: bool = True) -> Self:
        self.json["metadata"].setdefault("ownerReferences", []).append(
            {
                "apiVersion": owner["apiVersion"],
                "kind": owner["kind"],
                "name": owner["metadata"]["name"],
                "uid": owner["metadata"]["uid"],
                "controller": controller,
            }
        )
        return self


def deployment(name: str = "chat", *, replicas: int = 1, size: int = 1, roles: list[Object] | None = None, **spec: Any) -> Object:
    """A ModelDeployment of one Server role."""
    thing = Thing("worker.gpustack.ai/v1", "ModelDeployment", name)
    thing.json["metadata"]["generation"] = 1
    thing.json["spec"] = {
        "model": {"name": "m"},
        "engine": {"name": "vLLM", "version": "0.29.0"},
        "roles": roles or [{"name": "server", "replicas": replicas, "size": size, "instanceType": "h100"}],
        **spec,
    }
    return thing.json


class PodThing(Thing):
    """A replica Pod."""

    def __init__(self, owner: Object, name: str, ordinal: int, role: str = "server") -> None:
        super().__init__("v1", "Pod", name)
        self.owned_by(owner)
        self.json["metadata"]["labels"] = {
            "app.kubernetes.io/name": "model-deployment",
            "app.kubernetes.io/instance": owner["metadata"]["name"],
            "app.kubernetes.io/component": role,
            "modeldeployment.gpustack.ai/role-kind": "server",
            "modeldeployment.gpustack.ai/pod-ordinal": str(ordinal),
            "modeldeployment.gpustack.ai/member-index": "0",
        }
        self.annotated("kueue.x-k8s.io/pod-group-total-count", "1").annotated("prometheus.io/port", "8000")
        self.json["spec"] = {"containers": [{"name": "main", "args": [], "ports": [{"containerPort": 8000}]}]}
        self.json["status"] = {"phase": "Pending", "conditions": []}

    def ready(self, status: str = "True") -> Self:
        self.json["status"]["phase"] = "Running"
        self.json["status"]["conditions"] = [{"type": "Ready", "status": status}]
        return self

    def at(self, address: str) -> Self:
        self.json["status"]["podIP"] = address
        return self

    def eligible(self) -> Self:
        return self.labelled(**{"modeldeployment.gpustack.ai/endpoint-eligible": "true"})


def pod(owner: Object, name: str, ordinal: int = 0, role: str = "server") -> PodThing:
    """A replica Pod of one member."""
    return PodThing(owner, name, ordinal, role)


def workload(*pods: Object, name: str = "w0", reserved: bool = True) -> Object:
    """A Workload that those Pods own."""
    thing = Thing("kueue.x-k8s.io/v1beta1", "Workload", name)
    for each in pods:
        thing.owned_by(each, controller=False)
    thing.json["spec"] = {}
    thing.json["status"] = {"conditions": [{"type": "QuotaReserved", "status": "True" if reserved else "False", "reason": "x"}]}
    return thing.json


def router_pod(owner: Object, name: str = "chat-router-abc-1", router: str = "vllm-router") -> Thing:
    """A Pod of the managed router."""
    thing = Thing("v1", "Pod", name)
    thing.json["metadata"]["labels"] = {
        "app.kubernetes.io/name": "model-deployment",
        "app.kubernetes.io/instance": owner["metadata"]["name"],
        "modeldeployment.gpustack.ai/router": router,
    }
    set_name = f"{owner['metadata']['name']}-router-abc"
    thing.owned_by({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": set_name, "uid": "uid-rs"}})
    thing.json["spec"] = {"containers": []}
    thing.json["status"] = {"phase": "Running", "podIP": "10.0.0.9", "conditions": [{"type": "Ready", "status": "True"}]}
    return thing


def router(owner: Object) -> list[Object]:
    """The managed router's Deployment and the ReplicaSet of `router_pod`."""
    above = Thing("apps/v1", "Deployment", f"{owner['metadata']['name']}-router").owned_by(owner)
    above.json["status"] = {"readyReplicas": 1}
    below = Thing("apps/v1", "ReplicaSet", f"{owner['metadata']['name']}-router-abc").owned_by(above.json)
    below.json["metadata"]["uid"] = "uid-rs"
    return [above.json, below.json]
