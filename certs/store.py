"""Where the set is kept: a Secret that all replicas share, files that somebody else writes, or memory.

A store answers with what *stands* in it. `save` may therefore return another set than the one handed in: of two replicas that create the
Secret at once one wins, and the other adopts. Nothing is ever overwritten that was not seen before.
"""

import base64
import binascii
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import msgspec

from api.clock import Clock
from certs.cluster import Cluster, Meta, watch_object
from certs.errors import MaterialError, ReadOnlyStoreError
from certs.material import CA_CERT, CA_KEY, TLS_CERT, TLS_KEY, Material, read_material
from kube.errors import Conflict, NotFound
from kube.resources import SECRETS


class Store(Protocol):
    """A place for one set."""

    async def load(self) -> Material | None:
        """What stands there, None where nothing does. Raises MaterialError for what is no set, KubeError when it cannot be read."""
        ...

    async def save(self, material: Material) -> Material:
        """Replace what was last loaded, and return what stands afterwards: another's set when it changed meanwhile."""
        ...

    async def watch(self, wake: Callable[[], None]) -> None:
        """Call `wake` whenever what stands may have changed, for ever."""
        ...


class MemoryStore:
    """For a service that lives and dies with its cluster (`mdctl run`)."""

    def __init__(self) -> None:
        self._material: Material | None = None

    async def load(self) -> Material | None:
        """What was saved last."""
        return self._material

    async def save(self, material: Material) -> Material:
        """Nobody else writes here."""
        self._material = material
        return material

    async def watch(self, wake: Callable[[], None]) -> None:
        """Nobody else writes here, so nothing is to be told."""


class _Secret(msgspec.Struct, frozen=True):
    metadata: Meta = Meta()
    data: dict[str, str] | None = None


_SECRET = msgspec.json.Decoder(_Secret)


class SecretStore:
    """The Secret, created or adopted. Its labels, and keys that are not ours, stay as they are."""

    def __init__(self, cluster: Cluster, clock: Clock, *, namespace: str, name: str) -> None:
        self._cluster = cluster
        self._clock = clock
        self._namespace = namespace
        self._name = name
        self._seen: str | None = None  # the resourceVersion that a save may replace; None where a save has to create

    async def load(self) -> Material | None:
        """The Secret's set. One that holds none of our keys (prepared by an installer) is no set yet."""
        self._seen = None
        try:
            body = await self._cluster.get(SECRETS, self._name, self._namespace)
        except NotFound:
            return None
        try:
            secret = _SECRET.decode(body)
        except msgspec.MsgspecError as error:
            raise MaterialError("the Secret is no Secret") from error
        self._seen = secret.metadata.resource_version
        data = {key: value for key, value in (secret.data or {}).items() if key in {CA_CERT, CA_KEY, TLS_CERT, TLS_KEY} and value}
        if not data:
            return None
        try:
            files = {key: base64.b64decode(value, validate=True) for key, value in data.items()}
        except (binascii.Error, ValueError) as error:
            raise MaterialError("the Secret's data is not base64") from error
        return read_material(files, own=True)

    async def save(self, material: Material) -> Material:
        """Create the Secret, or change the one that was loaded; adopt what another replica wrote meanwhile."""
        data = {key: base64.b64encode(value).decode() for key, value in material.to_files().items()}
        try:
            body = await self._write(data)
        except Conflict:
            # Somebody created or changed it since we looked, so what stands now decides.
            standing = await self.load()
            if standing is None:
                raise
            return standing
        self._seen = _SECRET.decode(body).metadata.resource_version
        return material

    async def _write(self, data: dict[str, str]) -> bytes:
        """Raises Conflict when another was first, NotFound when the namespace is not there."""
        if self._seen is not None:
            change = {"metadata": {"resourceVersion": self._seen}, "data": data}
            try:
                return await self._cluster.patch(SECRETS, self._name, msgspec.json.encode(change), self._namespace, kind="merge")
            except NotFound:
                self._seen = None  # deleted since we looked
        return await self._cluster.create(SECRETS, msgspec.json.encode(self._new(data)), self._namespace)

    async def watch(self, wake: Callable[[], None]) -> None:
        """Deleted, edited or replaced: each is an event of the Secret."""
        await watch_object(self._cluster, self._clock, SECRETS, self._name, self._namespace, wake=wake)

    def _new(self, data: dict[str, str]) -> dict[str, object]:
        labels = {"app.kubernetes.io/name": "modelwarden", "app.kubernetes.io/component": "certificate"}
        metadata = {"name": self._name, "namespace": self._namespace, "labels": labels}
        return {"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls", "metadata": metadata, "data": data}


class FileStore:
    """A folder that cert-manager, or anybody, writes: `tls.crt`, `tls.key` and, where clients need it, `ca.crt`.

    A mounted Secret changes by swapping the symlink `..data`. All files are read below the folder it points to at that moment, so that a
    certificate never meets the key of its successor.
    """

    def __init__(self, folder: Path, clock: Clock, *, poll_seconds: float = 10.0) -> None:
        self._folder = folder
        self._clock = clock
        self._poll_seconds = poll_seconds

    async def load(self) -> Material | None:
        """The files' set, None while the certificate is not there yet."""
        folder = self._revision()
        files: dict[str, bytes] = {}
        for name in (TLS_CERT, TLS_KEY, CA_CERT):
            try:
                files[name] = (folder / name).read_bytes()
            except FileNotFoundError:
                continue
            except OSError as error:
                raise MaterialError(f"{name} cannot be read: {error.strerror}") from error
        if TLS_CERT not in files:
            return None
        return read_material(files, own=False)

    async def save(self, material: Material) -> Material:
        """Refused: the files are another's."""
        raise ReadOnlyStoreError(f"the files in {self._folder} are written by somebody else")

    async def watch(self, wake: Callable[[], None]) -> None:
        """Look every few seconds; a look is three stat calls. (inotify loses a swapped symlink's new target.)"""
        seen = self._signature()
        while True:
            await self._clock.sleep(self._poll_seconds)
            found = self._signature()
            if found != seen:
                seen = found
                wake()

    def _revision(self) -> Path:
        return (self._folder / "..data").resolve() if (self._folder / "..data").is_symlink() else self._folder

    def _signature(self) -> tuple[object, ...]:
        folder = self._revision()
        parts: list[object] = [folder]
        for name in (TLS_CERT, TLS_KEY, CA_CERT):
            try:
                stat = (folder / name).stat()
            except OSError:
                parts.append(None)
            else:
                parts.append((stat.st_ino, stat.st_mtime_ns, stat.st_size))
        return tuple(parts)
