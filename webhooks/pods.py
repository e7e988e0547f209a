"""Reviews of Pods on CREATE: the listen flags and the readiness gates of a replica. Source: decisions D3."""

from api import keys
from api.objects import ModelDeployment, ObjectMeta, Role
from engines.table import ENGINES
from webhooks import response, wire
from webhooks.gates import gate_patch
from webhooks.gates.pod import PodShape, pod_decoder
from webhooks.lookups import Lookup
from webhooks.response import Response
from webhooks.wire import Request


class PodReviews:
    """Completes the Pods of ModelDeployment roles."""

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup

    async def mutate(self, request: Request) -> Response:
        """A Pod of no role we know is left alone, whatever its labels say; an unreadable deployment is a failure."""
        if request.operation != "CREATE" or request.sub_resource or request.object is None:
            return response.allow()
        metadata = wire.read_metadata(request.object, owners=True, labels=True)
        if metadata.labels.get(keys.NAME) != keys.NAME_VALUE:
            return response.allow()
        found = await self._role(metadata, request.namespace or metadata.namespace)
        if found is None:
            return response.allow()
        deployment, role = found
        pod = wire.read_spec(request.object, pod_decoder, PodShape())
        return response.allow(patch=gate_patch(deployment.spec.engine, role, pod))

    async def _role(self, metadata: ObjectMeta, namespace: str) -> tuple[ModelDeployment, Role] | None:
        owner = metadata.controller
        if owner is not None and owner.kind != keys.MODEL_DEPLOYMENT:
            owner = None
        name = owner.name if owner is not None else metadata.labels.get(keys.INSTANCE, "")
        if not name:
            return None
        deployment = await self._lookup.get(ModelDeployment, namespace, name)
        if deployment is None or (owner is not None and owner.uid and deployment.metadata.uid and owner.uid != deployment.metadata.uid):
            return None
        if deployment.spec.engine.name not in ENGINES:
            return None
        component = metadata.labels.get(keys.COMPONENT)
        role = next((role for role in deployment.spec.roles if role.name == component), None)
        return None if role is None or role.command else (deployment, role)
