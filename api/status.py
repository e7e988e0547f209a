"""`status` of a ModelDeployment as frozen structs, with the encoding rules of each field.

Three rules decide what the wire shows. A field that is *always encoded* has a `default_factory` (msgspec keeps such values, also zero and
the empty text); a field that is *absent when it says nothing* has a plain default and the struct omits defaults; a number that may be
unknown is `None`, never zero. Encoding is canonical: sorted keys, no blanks, so equal statuses are equal bytes.

Decoding a stored status is lenient, because it may be older than this program or edited by hand: unknown fields are dropped, a part that
does not decode is treated as never written, and the rest still counts.

Source: seed "Status" and "Group status", status facts 1.3, decisions D1 and D7.
"""

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import field


class Struct(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, gc=False):
    """A frozen value with the wire's names; members that hold their plain default are left out."""


class Condition(Struct, frozen=True):
    """One entry of `status.conditions`, ours or another writer's."""

    type: str
    status: str
    reason: str = field(default_factory=str)
    message: str = field(default_factory=str)
    last_transition_time: str | None = None
    observed_generation: int | None = None


class ParallelismSource(Struct, frozen=True):
    """`parallelism.source`: where the reading came from, and whether it is whole."""

    kind: str = field(default_factory=str)
    complete: bool = field(default_factory=bool)
    unreadable_reason: str = ""


class ParallelismStatus(Struct, frozen=True):
    """`roles[].parallelism`. A degree or mode that was not declared has no key."""

    declared: dict[str, int] = {}
    modes: dict[str, bool] = {}
    load_balance: str = field(default_factory=str)
    source: ParallelismSource = field(default_factory=ParallelismSource)


class Serving(Struct, frozen=True):
    """`endpoints.serving`: Confirmed, NotConverged, Unknown or NotConfigured; `value` only with Confirmed."""

    state: str = field(default_factory=str)
    value: int | None = None


class Endpoints(Struct, frozen=True):
    """`roles[].endpoints`: what was qualified, and what Routers were seen to select."""

    eligible: int | None = None
    serving: Serving = field(default_factory=Serving)


class GroupMember(Struct, frozen=True):
    """`groups[].members[]`; `ready` is True, False or Unknown as text."""

    name: str = field(default_factory=str)
    uid: str = field(default_factory=str)
    seat: int = field(default_factory=int)
    ready: str = field(default_factory=str)


class Group(Struct, frozen=True):
    """`roles[].groups[]` (decision D1)."""

    ordinal: int = field(default_factory=int)
    generation: str = field(default_factory=str)
    state: str = field(default_factory=str)
    reason: str = field(default_factory=str)
    message: str = field(default_factory=str)
    qualified_at: str | None = None
    members: tuple[GroupMember, ...] = ()


class RoleStatus(Struct, frozen=True):
    """`roles[]`. `quotaReserved` is None, and left out, only where no Workload is read (decision D2)."""

    name: str
    kind: str = field(default_factory=str)
    desired: int = field(default_factory=int)
    ready: int = field(default_factory=int)
    quota_reserved: int | None = None
    unmanaged: bool = field(default_factory=bool)
    assigned_flavors: tuple[str, ...] = ()
    parallelism: ParallelismStatus | None = None
    endpoints: Endpoints | None = None
    groups: tuple[Group, ...] = ()


class CacheDomain(Struct, frozen=True):
    """`kvCache.domain`."""

    name: str = field(default_factory=str)
    block_size: int | None = None
    dtype: str | None = None


class CacheStatus(Struct, frozen=True):
    """`kvCache`: absent until the Binding resolved once, kept after it is lost."""

    binding: str = field(default_factory=str)
    pool: str = field(default_factory=str)
    domain: CacheDomain = field(default_factory=CacheDomain)


class KVEvents(Struct, frozen=True):
    """`router.roles[].kvEvents`: where the role's KV events can be dialled."""

    endpoint: str = field(default_factory=str)
    replay_endpoint: str = field(default_factory=str)
    topic: str = field(default_factory=str)


class RouterRole(Struct, frozen=True):
    """`router.roles[]`."""

    name: str
    kind: str = field(default_factory=str)
    selector: dict[str, str] = {}
    endpoint: str = field(default_factory=str)
    kv_events: KVEvents | None = None


class RouterMetrics(Struct, frozen=True):
    """`router.metrics`: names of metrics sources, not samples."""

    port: int = field(default_factory=int)
    queued_requests: str = field(default_factory=str)
    running_requests: str = field(default_factory=str)
    kv_cache_utilization: str = field(default_factory=str)


class RouterStatus(Struct, frozen=True):
    """`router`: the contract used to render the router."""

    name: str = field(default_factory=str)
    endpoint: str = field(default_factory=str)
    pool_endpoint: str = ""
    metrics: RouterMetrics | None = None
    roles: tuple[RouterRole, ...] = ()


class ModelStatus(Struct, frozen=True):
    """`model`: the resolved artifact; `delivery` is PVC, Engine, Node or Image."""

    artifact: str = field(default_factory=str)
    revision: str = ""
    manifest_digest: str = ""
    delivery: str = ""


class Retirement(Struct, frozen=True):
    """`retirement`: the one operation in flight or retained. Ordinal zero and an empty Workload UID are real values."""

    role_name: str = field(default_factory=str)
    replica_ordinal: int = field(default_factory=int)
    observed_generation: int = field(default_factory=int)
    target_member_uids: tuple[str, ...] = field(name="targetMemberUIDs", default=())
    target_workload_uid: str = field(name="targetWorkloadUID", default_factory=str)
    state: str = field(default_factory=str)
    reason: str = field(default_factory=str)
    started_at: str = field(default_factory=str)
    deadline: str = field(default_factory=str)
    phase_started_at: str = field(default_factory=str)
    last_consumed_retry_token: str = ""


class Status(Struct, frozen=True):
    """`status` of a ModelDeployment."""

    observed_generation: int | None = None
    phase: str = ""
    phase_message: str = ""
    role_summary: str = field(default_factory=str)
    endpoint: str = ""
    roles: tuple[RoleStatus, ...] = ()
    router: RouterStatus | None = None
    kv_cache: CacheStatus | None = None
    model: ModelStatus | None = None
    retirement: Retirement | None = None
    conditions: tuple[Condition, ...] = ()


_ENCODER = msgspec.json.Encoder(order="sorted")
_STATUS = msgspec.json.Decoder(Status)
_PARTS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ITEMS = msgspec.json.Decoder(tuple[msgspec.Raw, ...])
T = TypeVar("T")


def encode_status(status: Status) -> bytes:
    """The canonical JSON of a status: equal statuses give equal bytes."""
    return _ENCODER.encode(status)


def status_document(status: Status) -> dict[str, Any]:
    """The status as plain JSON values, members in the order a reader wants them."""
    document: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(status))
    return document


def decode_status(raw: bytes | msgspec.Raw | Mapping[str, Any] | None) -> Status | None:
    """A stored status, or None where there is none.

    A part that does not have its shape reads as absent; it never makes the rest unreadable.
    """
    if raw is None:
        return None
    data = msgspec.json.encode(raw) if isinstance(raw, Mapping) else bytes(raw)
    if not data or data == b"null":
        return None
    try:
        return _STATUS.decode(data)
    except msgspec.MsgspecError:
        return _salvage(data)


def _salvage(data: bytes) -> Status | None:
    """What can be read of a status of which some part cannot."""
    try:
        parts = _PARTS.decode(data)
    except msgspec.MsgspecError:
        return None
    return Status(
        observed_generation=_part(parts, "observedGeneration", int),
        phase=_part(parts, "phase", str) or "",
        phase_message=_part(parts, "phaseMessage", str) or "",
        role_summary=_part(parts, "roleSummary", str) or "",
        endpoint=_part(parts, "endpoint", str) or "",
        roles=_items(parts, "roles", RoleStatus),
        router=_part(parts, "router", RouterStatus),
        kv_cache=_part(parts, "kvCache", CacheStatus),
        model=_part(parts, "model", ModelStatus),
        retirement=_part(parts, "retirement", Retirement),
        conditions=_items(parts, "conditions", Condition),
    )


def _part(parts: Mapping[str, msgspec.Raw], name: str, shape: type[T]) -> T | None:
    raw = parts.get(name)
    if raw is None or bytes(raw) == b"null":
        return None
    try:
        return msgspec.json.decode(raw, type=shape)
    except msgspec.MsgspecError:
        return None


def _items(parts: Mapping[str, msgspec.Raw], name: str, shape: type[T]) -> tuple[T, ...]:
    try:
        raws = _ITEMS.decode(parts.get(name, msgspec.Raw(b"[]")))
    except msgspec.MsgspecError:
        return ()
    read = (_part({name: raw}, name, shape) for raw in raws)
    return tuple(item for item in read if item is not None)
