"""Tells the API server whom to trust: every `caBundle` of our webhook configurations is kept *equal* to the current set.

Equal, not filled when empty: a bundle edited by hand, left by an earlier installation or shortened by a GitOps agent makes every write of
the kind fail, and a restart would not mend it (field lesson F94). An absent configuration is no error: who is not called needs no trust.
"""

import asyncio
import base64
from collections.abc import Callable
from typing import Protocol

import msgspec
import structlog

from api.clock import Clock
from certs.cluster import Cluster, Meta, watch_object
from certs.metrics import PUBLISHED
from kube.errors import Conflict, Invalid, KubeError, NotFound
from kube.resources import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS, Resource

log = structlog.get_logger("certs")

VALIDATING_NAME = "modelwarden-validating"
MUTATING_NAME = "modelwarden-mutating"

CONFIGURATIONS: tuple[tuple[Resource, str], ...] = ((VALIDATING_WEBHOOKS, VALIDATING_NAME), (MUTATING_WEBHOOKS, MUTATING_NAME))

# A patch tests each webhook's name at its place: another writer's insertion makes it fail, and we look again.
ATTEMPTS = 4


class Publisher(Protocol):
    """Somewhere clients read their trust from."""

    async def publish(self, bundle: bytes) -> None:
        """Make every bundle equal this one. Raises KubeError when that could not be done."""
        ...

    async def watch(self, wake: Callable[[], None]) -> None:
        """Call `wake` whenever a bundle may have changed, for ever."""
        ...


class NoPublisher:
    """Where somebody else publishes: cert-manager's injector, or whoever wrote the configuration."""

    async def publish(self, bundle: bytes) -> None:
        """Nothing."""

    async def watch(self, wake: Callable[[], None]) -> None:
        """Nothing."""


class _ClientConfig(msgspec.Struct, frozen=True, rename="camel"):
    ca_bundle: str | None = None


class _Webhook(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    client_config: _ClientConfig = _ClientConfig()


class _Configuration(msgspec.Struct, frozen=True):
    metadata: Meta = Meta()
    webhooks: list[_Webhook] | None = None


_CONFIGURATION = msgspec.json.Decoder(_Configuration)


class WebhookPublisher:
    """The two webhook configurations of an API server."""

    def __init__(self, cluster: Cluster, clock: Clock, configurations: tuple[tuple[Resource, str], ...] = CONFIGURATIONS) -> None:
        self._cluster = cluster
        self._clock = clock
        self._configurations = configurations

    async def publish(self, bundle: bytes) -> None:
        """Read both configurations and patch what differs; nothing is written where all is equal. One that fails keeps no other from it."""
        wanted = base64.b64encode(bundle).decode()
        failure: KubeError | None = None
        for resource, name in self._configurations:
            try:
                await self._equalise(resource, name, wanted)
            except KubeError as error:
                PUBLISHED.labels(name, "failed").inc()
                failure = failure or error
        if failure is not None:
            raise failure

    async def watch(self, wake: Callable[[], None]) -> None:
        """Created, edited by hand, restored by an agent: each is an event of the configuration."""
        async with asyncio.TaskGroup() as tasks:
            for resource, name in self._configurations:
                tasks.create_task(watch_object(self._cluster, self._clock, resource, name, None, wake=wake))

    async def _equalise(self, resource: Resource, name: str, wanted: str) -> None:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                found = _CONFIGURATION.decode(await self._cluster.get(resource, name))
            except NotFound:
                PUBLISHED.labels(name, "absent").inc()
                return
            change = [
                operation
                for index, webhook in enumerate(found.webhooks or ())
                if webhook.client_config.ca_bundle != wanted
                for operation in (
                    {"op": "test", "path": f"/webhooks/{index}/name", "value": webhook.name},
                    {"op": "add", "path": f"/webhooks/{index}/clientConfig/caBundle", "value": wanted},
                )
            ]
            if not change:
                return
            try:
                await self._cluster.patch(resource, name, msgspec.json.encode(change), kind="json")
            except NotFound:
                continue
            except (Conflict, Invalid):
                if attempt == ATTEMPTS:
                    raise
                continue
            PUBLISHED.labels(name, "written").inc()
            log.info("published the trusted authorities", name=name, webhooks=len(change) // 2)
            return
