"""Whether a Pod really is of the managed router: Pod, ReplicaSet, Deployment, each owned by the next, read past the cache.

Labels and names can be borrowed; a chain of controller references with their UIDs cannot, as the API server keeps them. A chain is read
once in a Pod's life, for none of its links can change while the Pod lives. A chain that cannot be read now is asked for again.
"""

from typing import Final

import msgspec
import structlog

from api.objects import Deployment, ObjectMeta, Pod
from controller.kinds import read_metadata
from controller.observers.net import ObservationError
from controller.store import Key
from kube.client import Client
from kube.errors import KubeError, NotFound
from kube.resources import REPLICA_SETS
from kube.shallow import decoded

REMEMBERED: Final = 4096

log = structlog.get_logger("controller.observers")


class RouterChain:
    """Remembers what it proved, by the Pod's and the Deployment's UID."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._proved: dict[tuple[str, str], bool] = {}

    async def verify(self, key: Key, pod: Pod, router: Deployment | None) -> None:
        """Return when the chain holds. Raises ObservationError where it does not, or where it cannot be read now."""
        if router is None:
            raise ObservationError("the router's Deployment does not exist")
        slot = (pod.metadata.uid, router.metadata.uid)
        holds = self._proved.get(slot)
        if holds is None:
            holds = await self._read(key, pod, router)
            while len(self._proved) >= REMEMBERED:
                del self._proved[next(iter(self._proved))]
            self._proved[slot] = holds
        if not holds:
            raise ObservationError(f"{pod.metadata.name} is no Pod of the managed router")

    async def _read(self, key: Key, pod: Pod, router: Deployment) -> bool:
        owner = pod.metadata.controller
        if owner is None or owner.kind != "ReplicaSet" or not owner.name:
            return False
        try:
            found: ObjectMeta = decoded(read_metadata, await self._client.get(REPLICA_SETS, owner.name, key.namespace)).metadata
        except NotFound:
            return False
        except (KubeError, msgspec.MsgspecError) as error:
            raise ObservationError(f"the owner of {pod.metadata.name} cannot be read: {error}") from error
        above = found.controller
        return found.uid == owner.uid and above is not None and above.kind == "Deployment" and above.uid == router.metadata.uid
