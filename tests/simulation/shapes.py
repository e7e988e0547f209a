"""The deployments of a scenario, and the objects they refer to, drawn from a seed.

A world holds one deployment or several that share a namespace, an artifact, a cache and instance types. Their names are chosen to be taken
for each other: the Service of role `main` of `demo` is called as the deployment `demo-main` is.
"""

import random
from typing import Any, Final

from tests.simulation.objects import NAMESPACE
from tests.simulation.store import Object

NAMES: Final = ("demo", "demo-main", "other")
ENGINES: Final = (("vLLM", "0.25.1"), ("vLLM", "0.29.0"), ("SGLang", "0.5.21"), ("vLLM", "0.11.0"))
ROUTERS: Final = {"vLLM": ("vllm-router", "llm-d-router"), "SGLang": ("sglang-gateway", "llm-d-router")}
INSTANCE_TYPES: Final = ("h100", "a100", "cpu")
DELIVERIES: Final = ("Engine", "PVC", "Node", "Image")
NODES: Final = ("node-0", "node-1", "node-2")


def alone(rng: random.Random, *, focused: bool) -> dict[str, Object]:
    """One deployment, most often behind a router; `focused`: made for a removal."""
    engine, version = rng.choice(ENGINES)
    spec: dict[str, Any] = {"model": {"name": "qwen"}, "engine": {"name": engine, "version": version}}
    shape = rng.random()
    if shape < (0.6 if focused else 0.4):
        spec["roles"] = [_role("main", "Server", rng.randint(2 if focused else 1, 3), 2 if rng.random() < 0.25 else 1)]
    elif shape < (0.95 if focused else 0.65):
        spec["roles"] = [_role("left", "Server", rng.randint(1, 2), 1), _role("right", "Server", rng.randint(1, 2), rng.choice((1, 1, 2)))]
    else:
        spec["roles"] = [_role("prefill", "Prefill", rng.randint(1, 2), 1), _role("decode", "Decode", rng.randint(1, 2), 1)]
    if rng.random() < (0.9 if focused else 0.7):
        spec["router"] = {"name": ROUTERS[engine][rng.random() < 0.25], "replicas": rng.choice((1, 1, 2))}
    if rng.random() < 0.25:
        spec["kvCache"] = {"poolRef": {"name": "cache"}, "connector": "Mooncake"}
    if rng.random() < 0.1:
        spec["model"]["artifactRef"] = {"name": "weights"}
    return {NAMES[0]: spec}


def several(rng: random.Random) -> dict[str, Object]:
    """Two or three small deployments of different make."""
    return {name: _small(rng) for name in NAMES[: rng.choice((2, 2, 3))]}


def _small(rng: random.Random) -> Object:
    engine, version = rng.choice(ENGINES)
    spec: dict[str, Any] = {"model": {"name": "qwen"}, "engine": {"name": engine, "version": version}}
    shape = rng.random()
    if shape < 0.35:
        spec["engine"] = {"name": "vLLM", "version": "0.29.0"}
        elastic = {"width": rng.randint(2, 3), "headInstanceType": "cpu"}
        spec["roles"] = [{**_role("main", "Server", 1, 1), "elasticEp": elastic}]
    elif shape < 0.75:
        spec["roles"] = [_role("main", "Server", rng.randint(1, 2), 2 if rng.random() < 0.2 else 1, rng.choice(INSTANCE_TYPES[:2]))]
    else:
        spec["roles"] = [_role("main", "Prefill", 1, 1), _role("decode", "Decode", 1, 1, rng.choice(INSTANCE_TYPES[:2]))]
    if rng.random() < 0.75:
        spec["router"] = {"name": rng.choice(ROUTERS[spec["engine"]["name"]]), "replicas": 1}
    if rng.random() < 0.35:
        spec["model"]["artifactRef"] = {"name": "weights"}
    if rng.random() < 0.3:
        spec["kvCache"] = {"poolRef": {"name": "cache"}, "connector": "Mooncake"}
    return spec


def _role(name: str, kind: str, replicas: int, size: int, instance_type: str = "h100") -> Object:
    return {
        "name": name,
        "kind": kind,
        "replicas": replicas,
        "size": size,
        "instanceType": instance_type,
        "extraArgs": ["--max-model-len", "4096"],
    }


def deployment(name: str, spec: Object) -> Object:
    """A ModelDeployment as the user creates it."""
    metadata = {"name": name, "namespace": NAMESPACE, "finalizers": ["worker.gpustack.ai/teardown"]}
    return {"metadata": metadata, "spec": spec}


def instance_type(name: str) -> Object:
    """An instance type that roles name."""
    return {
        "metadata": {"name": name},
        "spec": {"acceleratable": name != "cpu"},
        "status": {"entrance": f"gpustack-fnv64-00000000000000{INSTANCE_TYPES.index(name):02d}", "accelerator": {"manufacturer": "nvidia"}},
    }


def binding(at: str) -> Object:
    """The Binding that a declared cache resolves by."""
    granted = {"type": "QuotaGranted", "status": "True", "reason": "Granted", "message": "", "lastTransitionTime": at}
    return {
        "metadata": {"name": "cache", "namespace": NAMESPACE},
        "spec": {"poolRef": {"name": "pool"}, "domain": {"name": "domain", "blockSize": 64, "dtype": "fp8"}},
        "status": {"phase": "Ready", "conditions": [granted]},
    }


def pool() -> Object:
    """The pool behind the Binding."""
    return {"metadata": {"name": "pool"}, "spec": {}, "status": {"clientEndpoint": "pool:1"}}


def artifact(at: str, delivery: str) -> Object:
    """The artifact that a model's weights come from, resolved."""
    return {"metadata": {"name": "weights", "namespace": NAMESPACE}, "spec": {}, "status": artifact_status(at, delivery)}


def artifact_status(at: str, delivery: str = "", reason: str = "", nodes: tuple[str, ...] = ()) -> Object:
    """Resolved with that delivery, or not, for that reason. `nodes`: the state of each node."""
    holds = "False" if reason else "True"
    entry = {"type": "Resolved", "status": holds, "reason": reason or "Resolved", "message": "", "lastTransitionTime": at}
    if reason:
        return {"conditions": [entry], "resolved": None, "delivery": None, "nodes": None}
    resolved = {"revision": "main", "manifestDigest": "sha256:1"}
    states = [{"name": name, "state": state, "digest": "sha256:1"} for name, state in zip(NODES, nodes, strict=False)]
    return {"conditions": [entry], "resolved": resolved, "delivery": delivery, "nodes": states or None}
