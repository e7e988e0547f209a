"""`status.router`: the contract used to render the router, and why a spec cannot be rendered.

Source: seed "Serving endpoints", status facts 2.4, 2.5 and 3.9.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from api import keys
from api.objects import Deployment, KVCachePool, ModelDeployment, Role, Service
from api.status import RouterMetrics, RouterRole, RouterStatus
from controller.status.endpoint import role_address, router_address
from controller.status.publisher import events_of
from controller.status.text import bounded

# The one engine that a router serves; a router that is not listed serves both.
ONLY_ENGINE: Final[Mapping[str, str]] = {"vllm-router": "vLLM", "sglang-gateway": "SGLang"}
METRICS: Final[Mapping[str, tuple[str, str, str]]] = {
    "vLLM": ("vllm:num_requests_waiting", "vllm:num_requests_running", "vllm:kv_cache_usage_perc"),
    "SGLang": ("sglang:num_queue_reqs", "sglang:num_running_reqs", "sglang:token_usage"),
}


def object_name(deployment: ModelDeployment) -> str:
    """The name of every router object."""
    return f"{deployment.metadata.name}-router"


def owned(deployment: ModelDeployment, found: Deployment | None) -> Deployment | None:
    """The router's Deployment where this deployment controls it."""
    owner = found.metadata.controller if found is not None else None
    return found if owner is not None and owner.uid == deployment.metadata.uid else None


def refusal(deployment: ModelDeployment) -> str:
    """Why the router cannot be rendered; empty where it can."""
    spec = deployment.spec
    if spec.router is None:
        return ""
    ports = sorted({role.serving_port for role in spec.roles})
    if len(ports) > 1:
        return f"All roles behind a router must share one serving port; this spec declares {', '.join(map(str, ports))}."
    only = ONLY_ENGINE.get(spec.router.name)
    if only is not None and only != spec.engine.name:
        return f"Router {spec.router.name} serves {only} only; the engine is {spec.engine.name}."
    return ""


def contract(
    deployment: ModelDeployment,
    pool: KVCachePool | None,
    services: Iterable[Service],
    https: Mapping[str, bool],
    publishing: Mapping[str, bool],
) -> RouterStatus | None:
    """The contract, or None without a router and where it cannot be rendered.

    `pool` is the pool behind the resolved Binding; `https` and `publishing` are per role name.
    """
    spec = deployment.spec
    if spec.router is None or refusal(deployment):
        return None
    narrowed = {service.metadata.name for service in services if _is_narrowed(service, deployment.metadata.uid)}
    return RouterStatus(
        name=spec.router.name,
        endpoint=router_address(deployment),
        pool_endpoint=bounded(pool.status.client_endpoint, 512) if pool is not None else "",
        metrics=_metrics(deployment) if spec.router.name == "llm-d-router" else None,
        roles=tuple(_role(deployment, role, narrowed, https[role.name], publishing[role.name]) for role in spec.roles),
    )


def _role(deployment: ModelDeployment, role: Role, narrowed: set[str], https: bool, publishing: bool) -> RouterRole:
    name, namespace = deployment.metadata.name, deployment.metadata.namespace
    selector = {
        keys.NAME: keys.NAME_VALUE,
        keys.INSTANCE: name,
        keys.COMPONENT: role.name,
        keys.ROLE_KIND: role.effective_kind.lower(),
        keys.MEMBER_INDEX: "0",
    }
    if f"{name}-{role.name}" in narrowed:
        selector[keys.ENDPOINT_ELIGIBLE] = "true"
    return RouterRole(
        name=role.name,
        kind=role.effective_kind,
        selector=selector,
        endpoint=role_address(deployment, role, https),
        kv_events=events_of(name, namespace, role.name) if publishing else None,
    )


def _is_narrowed(service: Service, owner_uid: str) -> bool:
    """A Service once narrowed stays so through quiet passes; its selector says whether it is.

    One of that name that another deployment controls, perhaps an earlier one of the same name, says nothing about this one.
    """
    owner = service.metadata.controller
    selector = service.spec.selector
    ours = owner is not None and owner.uid == owner_uid
    return ours and isinstance(selector, dict) and selector.get(keys.ENDPOINT_ELIGIBLE) == "true"


def _metrics(deployment: ModelDeployment) -> RouterMetrics | None:
    names = METRICS.get(deployment.spec.engine.name)
    if names is None or not deployment.spec.roles:
        return None
    return RouterMetrics(deployment.spec.roles[0].serving_port, *names)
