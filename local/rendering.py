"""What the operator's converger, Kueue and the router's Deployment would put into a cluster for one ModelDeployment, as plain objects.

Source: status facts 2.1 to 2.5, decision D9 for the spec hash. It is a stage prop: the product reads these objects, it never makes them.
"""

import hashlib
from typing import Any

from api import keys
from local.wire import JSON, encode

CREDITS = "credits.gpustack.ai/nvidia"
NODE = "node-1"
_IMAGES = {"vLLM": "example.invalid/runner:vllm", "SGLang": "example.invalid/runner:sglang"}
_COMMANDS = {"vLLM": ["vllm", "serve"], "SGLang": ["python3", "-m", "sglang.launch_server", "--model-path"]}


def spec_hash(spec: JSON, role: JSON, cache: JSON | None = None) -> str:
    """The explicit spec hash (D9): what a replica is rendered from, without name, kind and count of its role."""
    kept = {key: value for key, value in role.items() if key not in {"name", "kind", "replicas"}}
    basis: JSON = {key: spec[key] for key in ("model", "engine", "kvTransfer") if spec.get(key) is not None}
    basis |= {"role": kept, "kvCache": cache}
    return hashlib.sha256(_canonical(basis)).hexdigest()[:16]


def _canonical(value: Any) -> bytes:
    def tidy(item: Any) -> Any:
        if isinstance(item, dict):
            return {key: tidy(item[key]) for key in sorted(item)}
        return [tidy(each) for each in item] if isinstance(item, list) else item

    return encode(tidy(value))


def decision_digest(uid: str, term: int, sequence: int, replicas: dict[str, int]) -> str:
    """The digest of a scaler's decision (admission facts 1.3)."""
    return "sha256:" + hashlib.sha256(_canonical({"uid": uid, "term": term, "sequence": sequence, "replicas": replicas})).hexdigest()


def group_name(owner: JSON, role: str, ordinal: int) -> str:
    """The opaque name of a replica's Pod group, and of its Workload."""
    meta = owner["metadata"]
    text = f"{meta['namespace']}/{meta['name']}/{role}/{ordinal}"
    return f"gpustack-fnv64-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def reference(owner: JSON, *, controller: bool = True) -> JSON:
    """An owner reference."""
    meta = owner["metadata"]
    out: JSON = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": meta["name"], "uid": meta["uid"]}
    return out | {"controller": True, "blockOwnerDeletion": True} if controller else out


def pod(owner: JSON, role: JSON, ordinal: int, member: int, *, queue: str = "") -> JSON:
    """A replica's Pod. Its name is made from its seat, so that a run looks the same every time."""
    name, size = owner["metadata"]["name"], role.get("size", 1)
    spec = owner["spec"]
    labels = {
        keys.NAME: keys.NAME_VALUE,
        keys.INSTANCE: name,
        keys.COMPONENT: role["name"],
        keys.PART_OF: keys.PART_OF_VALUE,
        keys.ROLE_KIND: (role.get("kind") or "Server").lower(),
        keys.POD_ORDINAL: str(ordinal),
        keys.MEMBER_INDEX: str(member),
        keys.POD_GROUP_NAME: group_name(owner, role["name"], ordinal),
    }
    if queue:
        labels[keys.QUEUE_NAME] = queue
    port = (role.get("ports") or [{"port": keys.DEFAULT_SERVING_PORT}])[0]["port"]
    annotations = {
        keys.POD_GROUP_TOTAL_COUNT: str(size),
        keys.EXPLICIT_SPEC_HASH: spec_hash(spec, role),
        keys.RENDER_VERSION: owner["metadata"].get("annotations", {}).get(keys.RENDER_VERSION, "0"),
    }
    engine = spec["engine"]["name"]
    container: JSON = {"name": keys.MAIN_CONTAINER, "image": role.get("image") or _IMAGES[engine], "ports": [{"containerPort": port}]}
    if role.get("command"):
        container["command"] = role["command"]
    else:
        annotations[keys.PROMETHEUS_PORT] = str(port)
        container["command"] = [*_COMMANDS[engine], spec["model"]["name"]]
        container["args"] = list(role.get("extraArgs") or ())
    if role.get("env"):
        container["env"] = role["env"]
    seat = f"r{ordinal}-m{member}" if size > 1 else str(ordinal)
    meta = {
        "name": f"{name}-{role['name']}-{seat}",
        "namespace": owner["metadata"]["namespace"],
        "labels": labels,
        "annotations": annotations,
        "ownerReferences": [reference(owner)],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta,
        "spec": {"nodeName": NODE, "terminationGracePeriodSeconds": 1, "containers": [container]},
    }


def service(owner: JSON, name: str, selector: JSON, port: int) -> JSON:
    """A ClusterIP Service of the deployment."""
    meta = {"name": name, "namespace": owner["metadata"]["namespace"], "ownerReferences": [reference(owner)]}
    spec = {"selector": selector, "ports": [{"name": "http", "port": port, "targetPort": port}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": spec}


def router(owner: JSON) -> JSON:
    """The router's Deployment."""
    name = f"{owner['metadata']['name']}-router"
    labels = {keys.NAME: keys.NAME_VALUE, keys.INSTANCE: owner["metadata"]["name"], keys.ROUTER: owner["spec"]["router"]["name"]}
    container = {"name": "router", "image": "example.invalid/router:1", "ports": [{"containerPort": keys.ROUTER_PORT}]}
    meta = {"name": name, "namespace": owner["metadata"]["namespace"], "labels": labels, "ownerReferences": [reference(owner)]}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"replicas": owner["spec"]["router"].get("replicas", 1), "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec}


def workload(owner: JSON, role: JSON, ordinal: int, pods: list[JSON], *, api_version: str, queue: str) -> JSON:
    """Kueue's Workload of a Pod group: it refers to its Pods without controlling them."""
    template = {"spec": {"containers": [{"name": keys.MAIN_CONTAINER, "image": "example.invalid/pause:1"}], "restartPolicy": "Never"}}
    meta = {
        "name": group_name(owner, role["name"], ordinal),
        "namespace": owner["metadata"]["namespace"],
        "ownerReferences": [reference(item, controller=False) for item in pods],
    }
    pod_set = {"name": role["name"], "count": len(pods), "template": template}
    return {
        "apiVersion": api_version,
        "kind": "Workload",
        "metadata": meta,
        "spec": {"active": True, "queueName": queue or "default", "podSets": [pod_set]},
    }


def admission(role: JSON, count: int, flavor: str) -> JSON:
    """`status.admission` of an admitted Workload."""
    assignment = {"name": role["name"], "flavors": {CREDITS: flavor, "cpu": "default"}, "count": count}
    return {"clusterQueue": role["instanceType"], "podSetAssignments": [assignment]}


def condition(kind: str, *, holds: bool, at: str, reason: str, message: str = "") -> JSON:
    """A condition entry."""
    return {"type": kind, "status": "True" if holds else "False", "reason": reason, "message": message, "lastTransitionTime": at}


def merged(conditions: list[JSON] | None, *entries: JSON) -> list[JSON]:
    """The conditions with these in place of those of the same types."""
    fresh = {entry["type"]: entry for entry in entries}
    kept = [entry for entry in conditions or () if entry["type"] not in fresh]
    return [*kept, *fresh.values()]
