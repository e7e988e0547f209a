"""One status patch a change: the difference to what is stored, with the resourceVersion it was computed from.

A merge patch carries only fields of ours that differ; a field that is to go is an explicit null, `retirement` above all. Nothing differs:
nothing is sent. A write is remembered until the cache shows it, so that no pass judges a status that it has already replaced. A stale
resourceVersion is a Conflict: the caller judges anew. A server that does not keep what it was sent is not sent the same again.
"""

from dataclasses import dataclass
from typing import Any, Final

import msgspec
import structlog

from api.clock import Clock
from api.status import Status, encode_status
from controller import metrics
from controller.kinds import MODEL_DEPLOYMENTS, CachedDeployment
from controller.store import Key, is_older
from kube.client import Client
from kube.errors import Conflict, KubeError, NotFound
from kube.shallow import decoded

# The fields of `status` that are ours; others in it belong to somebody else and are left alone.
OWNED: Final = tuple(field.encode_name for field in msgspec.structs.fields(Status))
# A write that the cache does not show for so long is no longer waited for: its event may have been lost with the object.
FORGET_AFTER: Final = 60.0

_NO_STATUS: Final = (b"null", b"{}")

log = structlog.get_logger("controller.writer")


def difference(stored: Any, wanted: dict[str, Any]) -> dict[str, Any]:
    """The merge patch (RFC 7386) that turns the stored status into the wanted one, as far as the fields are ours."""
    known = stored if isinstance(stored, dict) else {}
    return _merge({name: known[name] for name in OWNED if name in known}, wanted)


def _merge(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    patch: dict[str, Any] = {}
    for name in sorted(old.keys() | new.keys()):
        if name not in new:
            patch[name] = None
        elif name not in old or type(old[name]) is not type(new[name]):
            patch[name] = new[name]
        elif isinstance(new[name], dict):
            inner = _merge(old[name], new[name])
            if inner:
                patch[name] = inner
        elif old[name] != new[name]:
            patch[name] = new[name]
    return patch


def patch_to(stored: bytes, wanted: bytes) -> bytes:
    """The same as JSON; empty where nothing differs. An API server writes statuses as we do: equal ones are most often equal bytes."""
    if stored == wanted:
        return b""
    if stored in _NO_STATUS:
        return wanted
    patch = difference(msgspec.json.decode(stored), msgspec.json.decode(wanted))
    return msgspec.json.encode(patch) if patch else b""


class _Written(msgspec.Struct, frozen=True):
    uid: str
    version: str
    at: float
    final: bool
    interrupted: bool = False


class _AnswerMeta(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str = ""


class _Answer(msgspec.Struct, frozen=True):
    """What is read of a patched object; the rest of it is what was sent."""

    metadata: _AnswerMeta | None = None
    status: msgspec.Raw = msgspec.Raw(b"null")


_decode_answer: Final = msgspec.json.Decoder(_Answer).decode


@dataclass(slots=True)
class _Sending:
    """A patch under way: which version the cache last showed meanwhile, and whether that is another one than was judged."""

    seen: str
    overtaken: bool = False


class Writer:
    """Writes statuses, one object at a time."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._written: dict[Key, _Written] = {}
        self._not_kept: dict[Key, bytes] = {}
        self._sending: dict[Key, _Sending] = {}
        self._overtaken: set[Key] = set()

    def pending(self, key: Key, cached: CachedDeployment) -> bool:
        """Whether the cache does not yet show our last write to the object."""
        own = self._written.get(key)
        if own is None:
            return False
        meta = cached.metadata
        seen = meta.uid != own.uid or meta.resource_version == own.version or is_older(own.version, meta.resource_version)
        if seen or self._clock.monotonic() - own.at > FORGET_AFTER:
            del self._written[key]
            return False
        return True

    def interrupted(self, key: Key) -> None:
        """A pass was asked for meanwhile: the event that shows our write has to bring it."""
        own = self._written.get(key)
        if own is not None:
            self._written[key] = msgspec.structs.replace(own, interrupted=True)

    def settled_by(self, key: Key, cached: CachedDeployment) -> bool:
        """Whether the cached object is exactly what our last write made of the one we judged, and nothing was asked for since.

        While a patch is under way nobody can tell whose doing a new version is: it is kept in mind until the answer is there.
        """
        sending = self._sending.get(key)
        if sending is not None and sending.seen != cached.metadata.resource_version:
            sending.seen, sending.overtaken = cached.metadata.resource_version, True
            return True
        own = self._written.get(key)
        if own is None or not own.final or own.interrupted:
            return False
        if (cached.metadata.uid, cached.metadata.resource_version) != (own.uid, own.version):
            return False
        del self._written[key]
        return True

    def overtaken(self, key: Key) -> bool:
        """Whether, while the last patch was under way, the cache came to show something else than what that patch made. Told once."""
        if key not in self._overtaken:
            return False
        self._overtaken.discard(key)
        return True

    def forget(self, key: Key) -> None:
        """The object is gone."""
        self._overtaken.discard(key)
        self._written.pop(key, None)
        self._not_kept.pop(key, None)

    def clear(self) -> None:
        """Forget all: another process may have written since."""
        self._overtaken.clear()
        self._written.clear()
        self._not_kept.clear()

    async def write(self, key: Key, cached: CachedDeployment, status: Status, *, final: bool = False) -> bool:
        """Send what differs. False when nothing does. Raises Conflict when the object is newer than the cache, and the rest of the tree.

        `final`: the write itself gives no reason to judge again, so the event that shows it need not be followed by a pass.
        """
        wanted = encode_status(status)
        patch = patch_to(cached.status_json, wanted)
        if not patch:
            self._not_kept.pop(key, None)
            metrics.ELIDED.inc()
            return False
        if self._not_kept.get(key) == patch:
            metrics.WRITES.labels("not-kept").inc()
            return False
        version = cached.metadata.resource_version
        body = msgspec.json.encode({"metadata": {"resourceVersion": version}, "status": msgspec.Raw(patch)})
        sending = self._sending[key] = _Sending(version)
        try:
            answer = await self._client.patch(
                MODEL_DEPLOYMENTS, key.name, body, key.namespace or None, subresource="status", field_manager="modelwarden"
            )
        except Conflict:
            metrics.CONFLICTS.inc()
            metrics.WRITES.labels("conflict").inc()
            raise
        except NotFound:
            metrics.WRITES.labels("gone").inc()
            raise
        except KubeError:
            metrics.WRITES.labels("error").inc()
            raise
        finally:
            self._sending.pop(key, None)
            if sending.overtaken:
                self._overtaken.add(key)
        metrics.WRITES.labels("success").inc()
        self._remember(key, cached, answer, wanted, final=final)
        own = self._written.get(key)
        if sending.overtaken and own is not None and own.final and own.version == sending.seen:
            del self._written[key]
            self._overtaken.discard(key)  # what came meanwhile is what we made
        return True

    def _remember(self, key: Key, cached: CachedDeployment, answer: bytes, wanted: bytes, *, final: bool) -> None:
        stored = decoded(_decode_answer, answer)
        version = stored.metadata.resource_version if stored.metadata is not None else ""
        if version and version != cached.metadata.resource_version:
            self._written[key] = _Written(cached.metadata.uid, version, self._clock.monotonic(), final)
        left = patch_to(bytes(stored.status), wanted)
        if left:
            self._not_kept[key] = left
            fields = sorted(msgspec.json.decode(left))
            log.warning("the API server does not keep part of the status", namespace=key.namespace, name=key.name, fields=fields)
        else:
            self._not_kept.pop(key, None)
