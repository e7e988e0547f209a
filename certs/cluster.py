"""What this room asks of an API server, and how it waits for an object to change without asking again and again."""

import random
from collections.abc import AsyncIterator, Callable
from typing import Literal, Protocol

import msgspec
import structlog

from api.clock import Clock
from kube.errors import Gone, KubeError
from kube.resources import Resource

log = structlog.get_logger("certs")

# Two starts of a watch are at least this far apart.
LEAST_SECONDS = 1.0


class WatchEvent(Protocol):
    """`kube.client.Event`, as far as it is read here."""

    @property
    def type(self) -> str:
        """ADDED, MODIFIED, DELETED or BOOKMARK."""
        ...

    @property
    def object(self) -> msgspec.Raw:
        """The object's JSON."""
        ...


class ListPage(Protocol):
    """`kube.client.Page`, as far as it is read here."""

    @property
    def resource_version(self) -> str:
        """The version that the list shows."""
        ...


class Cluster(Protocol):
    """The part of `kube.client.Client` that certificates need."""

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> bytes:
        """The object's JSON."""
        ...

    async def create(self, resource: Resource, body: bytes, namespace: str | None = None) -> bytes:
        """The created object's JSON."""
        ...

    async def patch(
        self,
        resource: Resource,
        name: str,
        body: bytes,
        namespace: str | None = None,
        *,
        kind: Literal["merge", "json", "strategic", "apply"] = "merge",
    ) -> bytes:
        """The patched object's JSON."""
        ...

    def pages(self, resource: Resource, namespace: str | None = None, *, field_selector: str | None = None) -> AsyncIterator[ListPage]:
        """The list, page by page."""
        ...

    def watch(
        self, resource: Resource, namespace: str | None = None, *, resource_version: str, field_selector: str | None = None
    ) -> AsyncIterator[WatchEvent]:
        """Events from that version on; ends when the server ends it."""
        ...


class Meta(msgspec.Struct, frozen=True, rename="camel"):
    """`metadata`, as far as it is read here."""

    name: str = ""
    resource_version: str = ""


class Named(msgspec.Struct, frozen=True):
    """Any object."""

    metadata: Meta = Meta()


_NAMED = msgspec.json.Decoder(Named)


async def watch_object(
    cluster: Cluster, clock: Clock, resource: Resource, name: str, namespace: str | None, *, wake: Callable[[], None]
) -> None:
    """Call `wake` whenever that object may have changed. Never returns; a broken watch is started again after a jittered pause.

    Each start lists first, for a version to watch from: what happened between the caller's last look and the watch is one `wake` too many,
    never one too few.
    """
    selector = f"metadata.name={name}"
    version, pause = "", 1.0
    while True:
        started = clock.monotonic()
        try:
            if not version:
                async for page in cluster.pages(resource, namespace, field_selector=selector):
                    version = page.resource_version
                wake()
            async for event in cluster.watch(resource, namespace, resource_version=version, field_selector=selector):
                seen = _NAMED.decode(event.object).metadata
                version, pause = seen.resource_version or version, 1.0
                if event.type != "BOOKMARK" and seen.name == name:
                    wake()
        except Gone:
            version = ""
        except (KubeError, msgspec.MsgspecError) as error:
            version = ""
            log.warning("watch of a certificate's object broke", kind=resource.kind, name=name, error=str(error))
            await clock.sleep(pause * (0.5 + random.random()))  # noqa: S311  # jitter, not a secret
            pause = min(pause * 2, 60.0)
        # A server, or a proxy before it, that ends every watch at once must not be asked without a breath.
        if (early := LEAST_SECONDS - (clock.monotonic() - started)) > 0:
            await clock.sleep(early)
