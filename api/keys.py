"""Label, annotation and name keys, in one place so that no two rooms can spell one differently.

Source: status facts 2.1-2.7, admission facts 1.1, decisions D3, D4 and D9.
"""

from typing import Final

GROUP: Final = "worker.gpustack.ai"
VERSION: Final = "v1"
API_VERSION: Final = f"{GROUP}/{VERSION}"

# Kinds of the group, as `kind` spells them.
MODEL_DEPLOYMENT: Final = "ModelDeployment"
MODEL_DEPLOYMENT_SCALER: Final = "ModelDeploymentScaler"
INSTANCE_TYPE: Final = "InstanceType"
KV_CACHE_POOL: Final = "KVCachePool"
KV_CACHE_POOL_BINDING: Final = "KVCachePoolBinding"
MODEL_ARTIFACT: Final = "ModelArtifact"

# The file-only document of a dump (D8). It never reaches a cluster.
OBSERVATIONS: Final = "Observations"
OBSERVATIONS_API_VERSION: Final = "modeldeployment.gpustack.ai/v1alpha1"

# Labels of a replica Pod.
NAME: Final = "app.kubernetes.io/name"
NAME_VALUE: Final = "model-deployment"
INSTANCE: Final = "app.kubernetes.io/instance"
COMPONENT: Final = "app.kubernetes.io/component"
PART_OF: Final = "app.kubernetes.io/part-of"
PART_OF_VALUE: Final = "gpustack-operator-worker"

_MD: Final = "modeldeployment.gpustack.ai"
ROLE_KIND: Final = f"{_MD}/role-kind"
POD_ORDINAL: Final = f"{_MD}/pod-ordinal"
MEMBER_INDEX: Final = f"{_MD}/member-index"
ENDPOINT_ELIGIBLE: Final = f"{_MD}/endpoint-eligible"
ROUTER: Final = f"{_MD}/router"

# Annotations of a replica Pod.
EXPLICIT_SPEC_HASH: Final = f"{_MD}/explicit-spec-hash"
RENDER_VERSION: Final = f"{_MD}/render-version"
POD_GROUP_TOTAL_COUNT: Final = "kueue.x-k8s.io/pod-group-total-count"
POD_GROUP_NAME: Final = "kueue.x-k8s.io/pod-group-name"
QUEUE_NAME: Final = "kueue.x-k8s.io/queue-name"
PROMETHEUS_PORT: Final = "prometheus.io/port"
PROMETHEUS_SCHEME: Final = "prometheus.io/scheme"

# Annotations of a ModelDeployment.
SCALER_BINDING: Final = f"{_MD}/scaler-binding"
SCALER_DECISION: Final = f"{_MD}/scaler-decision"
RETIREMENT_RETRY: Final = f"{_MD}/retirement-retry"

# The engine's container of a replica Pod, and the port it serves on when the role declares none.
MAIN_CONTAINER: Final = "main"
DEFAULT_SERVING_PORT: Final = 8000

# Router figures (status facts 2.5).
ROUTER_PORT: Final = 8081
ROUTER_OBSERVER_PORT_LLMD: Final = 9090
KV_EVENTS_PORT: Final = 5557
KV_REPLAY_PORT: Final = 5558
BOOTSTRAP_PORT: Final = 8998
