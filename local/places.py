"""Where a scenario's objects live, and what its players ask of a client. Shaped like `kube`, without knowing it."""

from dataclasses import dataclass
from typing import Any, Protocol

from api import keys
from local.kinds import NAMESPACES, PODS, Served


class ScenarioError(ValueError):
    """A scenario that cannot be read, or that does not go as it says."""


class Client(Protocol):
    """What of `kube.client.Client` the players use; a resource is anything with `path`."""

    async def get(self, resource: Any, name: str, namespace: str | None = None) -> bytes:
        """One object."""
        ...

    async def create(self, resource: Any, body: bytes, namespace: str | None = None) -> bytes:
        """Store a new object."""
        ...

    async def patch(
        self, resource: Any, name: str, body: bytes, namespace: str | None = None, *, kind: Any = ..., subresource: str | None = None
    ) -> bytes:
        """Change an object."""
        ...

    async def delete(self, resource: Any, name: str, namespace: str | None = None, *, grace_seconds: int | None = None) -> bytes:
        """Delete an object."""
        ...

    async def serves(self, resource: Any) -> bool:
        """Whether the API server serves the resource."""
        ...


@dataclass(frozen=True, slots=True)
class Place:
    """A resource as a client names it."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """`group/version`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def root(self) -> str:
        """The path of the group and version."""
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """The URL path of the collection, the object or its subresource."""
        parts = [self.root, f"namespaces/{namespace}" if self.namespaced and namespace else "", self.plural, name or "", subresource or ""]
        return "/".join(part for part in parts if part)


def _place(served: Served) -> Place:
    return Place(served.group, served.version, served.plural, served.kind, served.namespaced)


MODEL_DEPLOYMENTS = Place(keys.GROUP, keys.VERSION, "modeldeployments", keys.MODEL_DEPLOYMENT)
SCALERS = Place(keys.GROUP, keys.VERSION, "modeldeploymentscalers", keys.MODEL_DEPLOYMENT_SCALER)
SERVICES = Place("", "v1", "services", "Service")
DEPLOYMENTS = Place("apps", "v1", "deployments", "Deployment")
POD_PLACE = _place(PODS)
WORKLOADS = tuple(Place("kueue.x-k8s.io", version, "workloads", "Workload") for version in ("v1beta2", "v1beta1"))
INSTANCE_TYPES = Place(keys.GROUP, keys.VERSION, "instancetypes", keys.INSTANCE_TYPE, namespaced=False)
KNOWN: dict[tuple[str, str], Place] = {
    (place.api_version, place.kind): place
    for place in (
        MODEL_DEPLOYMENTS,
        SCALERS,
        Place(keys.GROUP, keys.VERSION, "kvcachepools", keys.KV_CACHE_POOL, namespaced=False),
        Place(keys.GROUP, keys.VERSION, "kvcachepoolbindings", keys.KV_CACHE_POOL_BINDING),
        Place(keys.GROUP, keys.VERSION, "modelartifacts", keys.MODEL_ARTIFACT),
        INSTANCE_TYPES,
        SERVICES,
        DEPLOYMENTS,
        POD_PLACE,
        _place(NAMESPACES),
        Place("", "v1", "configmaps", "ConfigMap"),
        Place("", "v1", "secrets", "Secret"),
        *WORKLOADS,
    )
}
