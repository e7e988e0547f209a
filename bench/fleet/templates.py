"""JSON with holes: what a cluster's objects look like on the wire, `managedFields` and defaults included.

A template is encoded once and cut at its holes, so that filling one is a single join: the stand-in must never be what is measured. The
shapes are those of a GPU cluster that runs vLLM under Kueue; a Pod comes to some 6 KiB, as Pods do.
"""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

HOLE = re.compile(rb'"\{\{#(\w+)\}\}"|\{\{(\w+)\}\}')


class Template:
    """`{{name}}` inside a text is a hole for text, a whole text `{{#name}}` one for any JSON."""

    def __init__(self, source: Any) -> None:
        raw = msgspec.json.encode(source)
        self._parts: list[bytes] = []  # what stands before each hole, and what stands after the last
        self._names: list[str] = []
        end = 0
        for found in HOLE.finditer(raw):
            self._parts.append(raw[end : found.start()])
            self._names.append((found[1] or found[2]).decode())
            end = found.end()
        self._parts.append(raw[end:])

    def fill(self, values: Mapping[str, bytes]) -> bytes:
        """The JSON with every hole filled. Raises KeyError for a hole without a value."""
        woven = [b""] * (2 * len(self._names) + 1)
        woven[::2] = self._parts
        woven[1::2] = [values[name] for name in self._names]
        return b"".join(woven)

    def half(self, values: Mapping[str, bytes]) -> "Template":
        """The template with those holes filled and the others left open."""
        made = Template.__new__(Template)
        made._parts, made._names = [], []
        pending = [self._parts[0]]
        for name, part in zip(self._names, self._parts[1:], strict=True):
            if name in values:
                pending += (values[name], part)
            else:
                made._parts.append(b"".join(pending))
                made._names.append(name)
                pending = [part]
        made._parts.append(b"".join(pending))
        return made


def owned_fields(*paths: str) -> dict[str, Any]:
    """`fieldsV1` of a field manager that owns those dotted paths."""
    root: dict[str, Any] = {}
    for path in paths:
        at = root
        for step in path.split("/"):
            at = at.setdefault(step, {})
    return root


def managed(manager: str, operation: str, fields: Mapping[str, Any], api: str = "v1", subresource: str = "") -> dict[str, Any]:
    """One entry of `metadata.managedFields`."""
    entry = {"manager": manager, "operation": operation, "apiVersion": api, "time": "2026-11-01T08:00:00Z", "fieldsType": "FieldsV1"}
    return {**entry, "fieldsV1": dict(fields), **({"subresource": subresource} if subresource else {})}


_LABELS = (
    "app.kubernetes.io/name",
    "app.kubernetes.io/instance",
    "app.kubernetes.io/component",
    "app.kubernetes.io/part-of",
    "modeldeployment.gpustack.ai/role-kind",
    "modeldeployment.gpustack.ai/pod-ordinal",
    "modeldeployment.gpustack.ai/member-index",
    "kueue.x-k8s.io/managed",
)
_PROBED = ("livenessProbe", "readinessProbe")

MAIN_CONTAINER = {
    "name": "main",
    "image": "registry.example.com/serving/vllm-openai:v0.25.1",
    "imagePullPolicy": "IfNotPresent",
    "args": "{{#j_args}}",
    "ports": [{"name": "http", "containerPort": 8000, "protocol": "TCP"}],
    "env": [
        {"name": "POD_NAME", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}},
        {"name": "POD_IP", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "status.podIP"}}},
        {"name": "VLLM_LOGGING_LEVEL", "value": "INFO"},
        {"name": "NCCL_DEBUG", "value": "WARN"},
        {"name": "HF_HOME", "value": "/var/cache/huggingface"},
    ],
    "resources": {
        "limits": {"cpu": "32", "memory": "256Gi", "nvidia.com/gpu": "8", "rdma/ib": "1"},
        "requests": {"cpu": "16", "memory": "128Gi", "nvidia.com/gpu": "8", "rdma/ib": "1"},
    },
    **{
        name: {
            "httpGet": {"path": "/health", "port": 8000, "scheme": "HTTP"},
            "periodSeconds": 10,
            "timeoutSeconds": 5,
            "failureThreshold": 3,
        }
        for name in _PROBED
    },
    "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"], "add": ["IPC_LOCK"]}, "runAsNonRoot": False},
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
    "volumeMounts": [
        {"name": "shm", "mountPath": "/dev/shm"},
        {"name": "weights", "mountPath": "/models", "readOnly": True},
        {"name": "kube-api-access-{{suffix}}", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "readOnly": True},
    ],
}


def _condition(kind: str, status: str = "True", at: str = "2026-11-01T08:03:11Z") -> dict[str, Any]:
    return {"type": kind, "status": status, "lastProbeTime": None, "lastTransitionTime": at, "observedGeneration": 1}


POD = Template(
    {
        "metadata": {
            "name": "{{name}}",
            "generateName": "{{deployment}}-{{role}}-",
            "namespace": "{{namespace}}",
            "uid": "{{uid}}",
            "resourceVersion": "{{version}}",
            "generation": 1,
            "creationTimestamp": "2026-11-01T08:00:00Z",
            "labels": {
                "app.kubernetes.io/name": "model-deployment",
                "app.kubernetes.io/instance": "{{deployment}}",
                "app.kubernetes.io/component": "{{role}}",
                "app.kubernetes.io/part-of": "gpustack-operator-worker",
                "modeldeployment.gpustack.ai/role-kind": "{{kind}}",
                "modeldeployment.gpustack.ai/pod-ordinal": "{{ordinal}}",
                "modeldeployment.gpustack.ai/member-index": "0",
                "kueue.x-k8s.io/managed": "true",
            },
            "annotations": {
                "kueue.x-k8s.io/pod-group-total-count": "1",
                "kueue.x-k8s.io/queue-name": "h100-8x",
                "kueue.x-k8s.io/retriable-in-group": "false",
                "modeldeployment.gpustack.ai/explicit-spec-hash": "{{hash}}",
                "modeldeployment.gpustack.ai/render-version": "3",
                "prometheus.io/scrape": "true",
                "prometheus.io/port": "8000",
                "prometheus.io/path": "/metrics",
                "cni.example.com/addresses": "{{address}}",
            },
            "finalizers": ["kueue.x-k8s.io/managed"],
            "ownerReferences": [
                {
                    "apiVersion": "worker.gpustack.ai/v1",
                    "kind": "ModelDeployment",
                    "name": "{{deployment}}",
                    "uid": "{{owner}}",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
            "managedFields": [
                managed(
                    "gpustack-operator",
                    "Update",
                    owned_fields(
                        *(f"f:metadata/f:labels/f:{label}" for label in _LABELS),
                        "f:metadata/f:annotations/f:modeldeployment.gpustack.ai/explicit-spec-hash",
                        "f:metadata/f:annotations/f:modeldeployment.gpustack.ai/render-version",
                        'f:metadata/f:ownerReferences/k:{"uid":"{{owner}}"}',
                        *(f'f:spec/f:containers/k:{{"name":"main"}}/f:{field}' for field in MAIN_CONTAINER),
                        "f:spec/f:affinity/f:nodeAffinity/f:requiredDuringSchedulingIgnoredDuringExecution",
                        'f:spec/f:volumes/k:{"name":"weights"}/f:persistentVolumeClaim/f:claimName',
                    ),
                ),
                managed("kueue", "Update", owned_fields("f:metadata/f:finalizers/v:kueue.x-k8s.io~1managed", "f:spec/f:schedulingGates")),
                managed(
                    "kubelet",
                    "Update",
                    owned_fields(
                        *(
                            f'f:status/f:conditions/k:{{"type":"{kind}"}}/f:{field}'
                            for kind in ("Ready", "ContainersReady", "PodReadyToStartContainers")
                            for field in ("status", "lastTransitionTime")
                        ),
                        "f:status/f:containerStatuses",
                        'f:status/f:podIPs/k:{"ip":"{{address}}"}/f:ip',
                        "f:status/f:startTime",
                    ),
                    subresource="status",
                ),
            ],
        },
        "spec": {
            "containers": [MAIN_CONTAINER],
            "nodeName": "{{node}}",
            "nodeSelector": {"node.example.com/accelerator": "h100-8x"},
            "priority": 1000,
            "priorityClassName": "serving",
            "restartPolicy": "Always",
            "schedulerName": "default-scheduler",
            "serviceAccount": "default",
            "serviceAccountName": "default",
            "dnsPolicy": "ClusterFirst",
            "enableServiceLinks": False,
            "preemptionPolicy": "PreemptLowerPriority",
            "terminationGracePeriodSeconds": 120,
            "securityContext": {},
            "tolerations": [
                {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
                {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
                {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
            ],
            "volumes": [
                {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "64Gi"}},
                {"name": "weights", "persistentVolumeClaim": {"claimName": "{{deployment}}-weights", "readOnly": True}},
                {
                    "name": "kube-api-access-{{suffix}}",
                    "projected": {"defaultMode": 420, "sources": [{"serviceAccountToken": {"path": "token"}}]},
                },
            ],
        },
        "status": {
            "phase": "Running",
            "observedGeneration": 1,
            "conditions": [
                _condition("PodReadyToStartContainers"),
                _condition("Initialized"),
                _condition("Ready", "{{ready}}", "{{turned}}"),
                _condition("ContainersReady", "{{ready}}", "{{turned}}"),
                _condition("PodScheduled"),
            ],
            "hostIP": "{{host}}",
            "hostIPs": [{"ip": "{{host}}"}],
            "podIP": "{{address}}",
            "podIPs": [{"ip": "{{address}}"}],
            "startTime": "2026-11-01T08:02:00Z",
            "qosClass": "Burstable",
            "containerStatuses": [
                {
                    "name": "main",
                    "image": "registry.example.com/serving/vllm-openai:v0.25.1",
                    "imageID": "registry.example.com/serving/vllm-openai@sha256:" + "7d0a3c9c" * 8,
                    "containerID": "containerd://{{digest}}",
                    "ready": "{{#j_ready}}",
                    "started": True,
                    "restartCount": 0,
                    "state": {"running": {"startedAt": "2026-11-01T08:02:09Z"}},
                    "lastState": {},
                    "user": {"linux": {"uid": 0, "gid": 0, "supplementalGroups": [0]}},
                }
            ],
        },
    }
)

_SET = {
    "name": "main",
    "count": 1,
    "flavors": {"nvidia.com/gpu": "h100", "cpu": "h100"},
    "resourceUsage": {"nvidia.com/gpu": "8", "cpu": "16"},
}

WORKLOAD = Template(
    {
        "metadata": {
            "name": "pod-{{name}}",
            "namespace": "{{namespace}}",
            "uid": "{{uid}}",
            "resourceVersion": "{{version}}",
            "generation": 1,
            "creationTimestamp": "2026-11-01T08:00:01Z",
            "labels": {"kueue.x-k8s.io/job-uid": "{{pod}}"},
            "finalizers": ["kueue.x-k8s.io/resource-in-use"],
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Pod", "name": "{{name}}", "uid": "{{pod}}", "controller": True, "blockOwnerDeletion": True}
            ],
            "managedFields": [
                managed(
                    "kueue-admission",
                    "Apply",
                    owned_fields("f:status/f:admission", 'f:status/f:conditions/k:{"type":"QuotaReserved"}'),
                    "kueue.x-k8s.io/v1beta2",
                    "status",
                ),
                managed(
                    "kueue",
                    "Update",
                    owned_fields("f:metadata/f:ownerReferences", "f:spec/f:podSets", "f:spec/f:priority", "f:spec/f:queueName"),
                    "kueue.x-k8s.io/v1beta2",
                ),
            ],
        },
        "spec": {
            "active": True,
            "queueName": "h100-8x",
            "priority": 1000,
            "priorityClassRef": {"group": "scheduling.k8s.io", "kind": "PriorityClass", "name": "serving"},
            "podSets": [
                {
                    "name": "main",
                    "count": 1,
                    "template": {
                        "metadata": {"labels": {"app.kubernetes.io/instance": "{{deployment}}"}},
                        "spec": {
                            "containers": [
                                {
                                    "name": "main",
                                    "image": MAIN_CONTAINER["image"],
                                    "args": "{{#j_args}}",
                                    "resources": MAIN_CONTAINER["resources"],
                                }
                            ],
                            "restartPolicy": "Always",
                        },
                    },
                }
            ],
        },
        "status": {
            "conditions": [
                {
                    "type": kind,
                    "status": "True",
                    "reason": reason,
                    "message": message,
                    "lastTransitionTime": "2026-11-01T08:00:02Z",
                    "observedGeneration": 1,
                }
                for kind, reason, message in (
                    ("QuotaReserved", "QuotaReserved", "Quota reserved in ClusterQueue serving"),
                    ("Admitted", "Admitted", "The workload is admitted"),
                    ("PodsReady", "Started", "All pods reached readiness and the workload is running"),
                )
            ],
            "admission": {"clusterQueue": "serving", "podSetAssignments": [_SET]},
        },
    }
)

DEPLOYMENT = Template(
    {
        "apiVersion": "worker.gpustack.ai/v1",
        "kind": "ModelDeployment",
        "metadata": {
            "name": "{{name}}",
            "namespace": "{{namespace}}",
            "uid": "{{uid}}",
            "resourceVersion": "{{version}}",
            "generation": "{{#j_generation}}",
            "creationTimestamp": "2026-11-01T08:00:00Z",
            "annotations": {"modeldeployment.gpustack.ai/render-version": "3"},
            "finalizers": ["worker.gpustack.ai/modeldeployment"],
            "managedFields": [
                managed(
                    "kubectl",
                    "Apply",
                    owned_fields("f:spec/f:model/f:name", "f:spec/f:engine/f:name", "f:spec/f:engine/f:version", "f:spec/f:roles"),
                    "worker.gpustack.ai/v1",
                )
            ],
        },
        "spec": "{{#j_spec}}",
        "status": "{{#j_status}}",
    }
)

SERVICE = Template(
    {
        "metadata": {
            "name": "{{name}}",
            "namespace": "{{namespace}}",
            "uid": "{{uid}}",
            "resourceVersion": "1",
            "creationTimestamp": "2026-11-01T08:00:00Z",
            "labels": {"app.kubernetes.io/name": "model-deployment", "app.kubernetes.io/instance": "{{deployment}}"},
            "ownerReferences": [
                {
                    "apiVersion": "worker.gpustack.ai/v1",
                    "kind": "ModelDeployment",
                    "name": "{{deployment}}",
                    "uid": "{{owner}}",
                    "controller": True,
                }
            ],
        },
        "spec": {
            "selector": {"app.kubernetes.io/instance": "{{deployment}}", "app.kubernetes.io/component": "{{role}}"},
            "ports": [{"name": "http", "port": 8000, "targetPort": 8000, "protocol": "TCP"}],
            "type": "ClusterIP",
            "clusterIP": "{{address}}",
            "ipFamilies": ["IPv4"],
        },
        "status": {"loadBalancer": {}},
    }
)
