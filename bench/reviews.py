"""Admission reviews of a wanted size: an UPDATE with old and new object and managedFields, and a Pod's CREATE."""

import json
from typing import Any, Final

# The load puts a number here: always another one, so that no argument line is ever seen twice, or one of a few in turn.
FRESH: Final = "@@@@@@"


def deployment(padding: int, decode: str = "0.9") -> dict[str, Any]:
    """A prefill/decode deployment behind a router, managedFields padded by `padding` bytes; `decode` is an argument of one role."""
    fields = {f"f:annotation-{number:05d}": {} for number in range(padding // 24)}
    return {
        "apiVersion": "worker.gpustack.ai/v1",
        "kind": "ModelDeployment",
        "metadata": {
            "name": "qwen",
            "namespace": "team-a",
            "uid": "384c8788-0215-5782-9af2-b62a77ac3cc0",
            "generation": 3,
            "resourceVersion": "1000",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "managedFields": [
                {"manager": "kubectl", "operation": "Update", "apiVersion": "worker.gpustack.ai/v1", "fieldsV1": {"f:metadata": fields}}
            ],
        },
        "spec": {
            "model": {"name": "Qwen/Qwen3-8B"},
            "engine": {"name": "vLLM", "version": "0.29.0"},
            "roles": [
                {
                    "name": name,
                    "kind": name.capitalize(),
                    "replicas": 2,
                    "size": 1,
                    "instanceType": "h20-8x",
                    "resources": {"accelerator": "2"},
                    "extraArgs": ["--tensor-parallel-size", "2", "--max-model-len", "32k", "--gpu-memory-utilization", value],
                    "env": [{"name": "OMP_NUM_THREADS", "value": "8"}],
                }
                for name, value in (("prefill", "0.9"), ("decode", decode))
            ],
            "router": {"name": "vllm-router", "replicas": 1},
        },
    }


def update_review(size: int, value: str = f"0.{FRESH}") -> bytes:
    """An UPDATE review of about `size` bytes; one role's engine argument differs, so that the rules have something to judge."""
    shell = len(_update(deployment(0), deployment(0, value)))
    padding = max(0, (size - shell) // 2)
    return _update(deployment(padding), deployment(padding, value))


def _update(old: dict[str, Any], new: dict[str, Any]) -> bytes:
    kind = {"group": "worker.gpustack.ai", "version": "v1", "kind": "ModelDeployment"}
    resource = {"group": "worker.gpustack.ai", "version": "v1", "resource": "modeldeployments"}
    return json.dumps(
        {
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "request": {
                "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
                "kind": kind,
                "resource": resource,
                "requestKind": kind,
                "requestResource": resource,
                "name": "qwen",
                "namespace": "team-a",
                "operation": "UPDATE",
                "userInfo": {"username": "alice", "groups": ["system:authenticated"]},
                "object": new,
                "oldObject": old,
                "dryRun": False,
                "options": {"kind": "UpdateOptions", "apiVersion": "meta.k8s.io/v1"},
            },
        },
        separators=(",", ":"),
    ).encode()


def pod_review(size: int) -> bytes:
    """A CREATE review of a replica Pod that has neither listen flags nor probes, padded to about `size` bytes."""
    pod: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": "qwen-decode-",
            "namespace": "team-a",
            "labels": {
                "app.kubernetes.io/name": "model-deployment",
                "app.kubernetes.io/instance": "qwen",
                "app.kubernetes.io/component": "decode",
            },
            "ownerReferences": [
                {
                    "apiVersion": "worker.gpustack.ai/v1",
                    "kind": "ModelDeployment",
                    "name": "qwen",
                    "uid": "384c8788-0215-5782-9af2-b62a77ac3cc0",
                    "controller": True,
                }
            ],
        },
        "spec": {
            "containers": [
                {
                    "name": "main",
                    "image": "gpustack/runner:cuda12.8-vllm",
                    "command": ["vllm", "serve", "Qwen/Qwen3-8B"],
                    "args": ["--tensor-parallel-size", "2", "--max-model-len", "32k"],
                    "ports": [{"name": "http", "containerPort": 8000}],
                }
            ]
        },
    }
    kind = {"group": "", "version": "v1", "kind": "Pod"}
    resource = {"group": "", "version": "v1", "resource": "pods"}
    review: dict[str, Any] = {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
            "kind": kind,
            "resource": resource,
            "namespace": "team-a",
            "operation": "CREATE",
            "userInfo": {"username": "system:serviceaccount:gpustack-system:worker"},
            "object": pod,
            "oldObject": None,
            "dryRun": False,
        },
    }
    shell = len(json.dumps(review, separators=(",", ":")))
    fields = {f"f:annotation-{number:05d}": {} for number in range(max(0, size - shell) // 24)}
    pod["metadata"]["managedFields"] = [{"manager": "worker", "operation": "Update", "fieldsV1": {"f:metadata": fields}}]
    return json.dumps(review, separators=(",", ":")).encode()
