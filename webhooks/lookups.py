"""Reads of other objects that a review needs, always uncached: a quorum read of the API server, or a given set of objects.

`None` means that the object does not exist (or that its kind is not served, D2). A read that failed raises LookupFailedError and is never a
finding. Source: admission facts 3.0, decisions D2 and D4.
"""

import asyncio
import math
import time
from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from typing import Any, Protocol, TypeVar, cast

import msgspec

from api import keys
from api.objects import InstanceType, KVCachePool, KVCachePoolBinding, ModelDeployment, ModelDeploymentScaler, Struct
from kube.client import Client
from kube.errors import KubeError, NotFound
from kube.resources import Resource
from kube.shallow import decoded
from webhooks.documents import read_document
from webhooks.errors import LookupFailedError

S = TypeVar("S", bound=Struct)

SECONDS = 6.5
"""How long one read may take: less than a whole review may (`webhooks.server`). A server that takes five seconds an answer does answer."""
READS_END: ContextVar[float] = ContextVar("reads_end", default=math.inf)
"""When the reads of the review under way have to be over, by `time.monotonic`. Set for each review and looked at by those that read:
a timer for each would cost more than most reviews do."""
AT_ONCE = 50
"""Reads under way together. While the API server does not answer they would take every connection, and the Lease would find none."""

_PLURALS: Mapping[type[Struct], tuple[str, str, bool]] = {
    InstanceType: (keys.INSTANCE_TYPE, "instancetypes", False),
    KVCachePool: (keys.KV_CACHE_POOL, "kvcachepools", False),
    KVCachePoolBinding: (keys.KV_CACHE_POOL_BINDING, "kvcachepoolbindings", True),
    ModelDeployment: (keys.MODEL_DEPLOYMENT, "modeldeployments", True),
    ModelDeploymentScaler: (keys.MODEL_DEPLOYMENT_SCALER, "modeldeploymentscalers", True),
}


class Lookup(Protocol):
    """One read of one object by kind and name."""

    async def get(self, kind: type[S], namespace: str | None, name: str) -> S | None:
        """The object, or None when there is none. Raises LookupFailedError."""
        ...

    async def scalers(self, namespace: str) -> tuple[ModelDeploymentScaler, ...]:
        """Every scaler of a namespace. Raises LookupFailedError."""
        ...


class KubeLookup:
    """Reads from the API server."""

    def __init__(self, client: Client, seconds: float = SECONDS) -> None:
        self._client = client
        self._seconds = seconds
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._decoders: dict[type[Struct], msgspec.json.Decoder[Any]] = {kind: msgspec.json.Decoder(kind) for kind in _PLURALS}

    async def get(self, kind: type[S], namespace: str | None, name: str) -> S | None:
        """The object as the API server holds it now."""
        if not _nameable(name):
            return None
        try:
            async with asyncio.timeout(self._left()), self._turns:
                raw = await self._client.get(_resource(kind), name, namespace)
            found: S = decoded(self._decoders[kind].decode, raw)
        except NotFound:
            return None
        except (KubeError, TimeoutError, msgspec.MsgspecError) as error:
            raise LookupFailedError(f"reading {_PLURALS[kind][0]} {name!r} failed: {str(error) or 'timed out'}") from error
        return found

    def _left(self) -> float:
        return min(self._seconds, max(READS_END.get() - time.monotonic(), 0.0))

    async def scalers(self, namespace: str) -> tuple[ModelDeploymentScaler, ...]:
        """Every scaler of the namespace as the API server holds them now."""
        found: list[ModelDeploymentScaler] = []
        try:
            async with asyncio.timeout(self._left()), self._turns:
                async for page in self._client.pages(_resource(ModelDeploymentScaler), namespace):
                    found.extend(self._decoders[ModelDeploymentScaler].decode(item) for item in page.items)
        except NotFound:
            return ()
        except (KubeError, TimeoutError, msgspec.MsgspecError) as error:
            raise LookupFailedError(f"listing ModelDeploymentScalers failed: {str(error) or 'timed out'}") from error
        return tuple(found)


class ObjectLookup:
    """Reads from objects that were handed over: the offline forms of D8."""

    def __init__(self, objects: Iterable[Mapping[str, Any]]) -> None:
        self._objects: dict[tuple[str, str | None, str], Mapping[str, Any]] = {}
        self._read: dict[tuple[type[Struct], str | None, str], Struct] = {}
        for obj in objects:
            meta = obj.get("metadata")
            if not isinstance(meta, Mapping):
                continue  # what has no name, nobody looks up
            self._objects[str(obj.get("kind")), meta.get("namespace"), str(meta.get("name"))] = obj

    async def get(self, kind: type[S], namespace: str | None, name: str) -> S | None:
        """The object of that kind, namespace and name, or None."""
        known = self._read.get((kind, namespace, name))
        if known is not None:
            return cast("S", known)
        word, _, namespaced = _PLURALS[kind]
        found = self._objects.get((word, namespace if namespaced else None, name))
        if found is None and not namespaced:
            found = next((obj for (k, _, n), obj in self._objects.items() if k == word and n == name), None)
        if found is None:
            return None
        read = self._convert(kind, found)
        self._read[kind, namespace, name] = read
        return read

    async def scalers(self, namespace: str) -> tuple[ModelDeploymentScaler, ...]:
        """Every scaler of the namespace among the objects."""
        return tuple(
            self._convert(ModelDeploymentScaler, obj)
            for (word, ns, _), obj in self._objects.items()
            if word == keys.MODEL_DEPLOYMENT_SCALER and ns == namespace
        )

    def _convert(self, kind: type[S], obj: Mapping[str, Any]) -> S:
        try:
            return read_document(obj, kind)
        except msgspec.ValidationError as error:
            raise LookupFailedError(f"the {_PLURALS[kind][0]} given cannot be read: {error}") from error


def _nameable(name: str) -> bool:
    """Whether an object can have that name: as part of a path, `..` and `h20/status` would be answered with something else."""
    return name not in {"", ".", ".."} and "/" not in name and "%" not in name


def _resource(kind: type[Struct]) -> Resource:
    word, plural, namespaced = _PLURALS[kind]
    return Resource(keys.GROUP, keys.VERSION, plural, word, namespaced)
