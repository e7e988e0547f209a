"""`status.endpoint`, and the addresses of the Services it is made of.

Derived from the spec, not read back from a Service, and written even while nothing is ready. The scheme is https exactly when the role's
own arguments set a certificate or a key, as the engine reads them.

Source: seed "Serving endpoints", status facts 2.4 and 3.3.
"""

from collections.abc import Mapping

from api import keys
from api.objects import ModelDeployment, Role


def entry_role(deployment: ModelDeployment) -> Role | None:
    """The role behind the deployment-wide Service: the first that is not Encode."""
    return next((role for role in deployment.spec.roles if role.effective_kind != "Encode"), None)


def router_address(deployment: ModelDeployment) -> str:
    """The router Service's address: http whatever the roles use."""
    metadata = deployment.metadata
    return f"http://{metadata.name}-router.{metadata.namespace}.svc:{keys.ROUTER_PORT}"


def role_address(deployment: ModelDeployment, role: Role, https: bool) -> str:
    """The address of the role's own Service."""
    metadata = deployment.metadata
    return f"{'https' if https else 'http'}://{metadata.name}-{role.name}.{metadata.namespace}.svc:{role.serving_port}"


def endpoint_of(deployment: ModelDeployment, https: Mapping[str, bool], router_ready: bool) -> str:
    """`status.endpoint`; empty, hence absent, while a declared router is not ready."""
    if deployment.spec.router is not None:
        return router_address(deployment) if router_ready else ""
    role = entry_role(deployment)
    if role is None:
        return ""
    metadata = deployment.metadata
    scheme = "https" if https.get(role.name) else "http"
    return f"{scheme}://{metadata.name}.{metadata.namespace}.svc:{role.serving_port}"
