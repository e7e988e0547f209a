"""Making a projected object small: only what somebody reads, and one copy of what many objects have in common.

The Pods of a role differ in name, UID, ordinal and state; their containers, owners and annotations are alike. A hundred thousand of them
fit into memory because alike parts are one object. Parts are recognized by their JSON, before anything is decoded: most of a Pod that
comes was seen in another. What is shared is kept in bounded tables, which forget everything when they are full: that costs sharing for a
while, never correctness.
"""

from collections.abc import Hashable
from typing import Any, Final, Generic, TypeVar

import msgspec
from msgspec.structs import replace

from api import keys
from api.objects import (
    Admission,
    AdmissionCheckState,
    Condition,
    Container,
    ContainerPort,
    ContainerStatus,
    ObjectMeta,
    OwnerReference,
    Pod,
    PodSpec,
    PodStatus,
    Service,
    ServiceSpec,
    Struct,
    Workload,
    WorkloadSpec,
    WorkloadStatus,
)

T = TypeVar("T")

# Every label and annotation key that any room can name.
READ_KEYS: Final = tuple(
    sorted(value for value in vars(keys).values() if isinstance(value, str) and "/" in value and value != keys.API_VERSION)
)
_READ: Final = frozenset(READ_KEYS)
# Conditions of a Pod that some judgement looks at.
POD_CONDITIONS: Final = frozenset({"Ready", "PodReadyToStartContainers"})
BOUND: Final = 1 << 16
# And what a table's keys may hold of texts that others choose: Pods that come and go, each with a megabyte of arguments, would fill it too.
BYTES: Final = 32 << 20

# What every replica Pod of the list says, and nobody asks a replica: the list's selector says it already.
_OF_REPLICAS: Final = frozenset({keys.NAME, keys.PART_OF})
_NOTHING: Final[frozenset[str]] = frozenset()
_ROUTER: Final = READ_KEYS.index(keys.ROUTER)

# A default would be a new, empty one for each object.
_NO_TEXTS: Final[dict[str, str]] = {}
_NONE: Final = msgspec.Raw(b"[]")
_NULL: Final = msgspec.Raw(b"null")

# --------------------------------------------------------------------------------------------------------- on the wire

# Labels and annotations: only the read keys become values at all. `msgspec.defstruct`, for the keys are no identifiers.
_Keyed: Final[Any] = msgspec.defstruct(
    "_Keyed",
    [(f"key{number}", str | None, msgspec.field(name=key, default=None)) for number, key in enumerate(READ_KEYS)],
    frozen=True,
    gc=False,
)


class _Meta(Struct, frozen=True):
    """`metadata` with its shared parts as they came."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: _Keyed = _Keyed()
    annotations: _Keyed = _Keyed()
    finalizers: msgspec.Raw = _NONE
    owner_references: msgspec.Raw = _NONE


class _Container(Struct, frozen=True):
    """A container; of the variables nothing is read."""

    name: str = ""
    command: msgspec.Raw = _NONE
    args: msgspec.Raw = _NONE
    ports: msgspec.Raw = _NONE


class _Condition(Struct, frozen=True):
    """A condition without its times: nobody reads them, and they would make each one of its own."""

    type: str = ""
    status: str = "Unknown"
    reason: str = ""
    message: str = ""


class _PodSpec(Struct, frozen=True):
    containers: tuple[_Container, ...] = ()
    node_name: str | None = None


class _PodStatus(Struct, frozen=True):
    phase: str = ""
    reason: str = ""
    message: str = ""
    conditions: tuple[_Condition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    pod_ip: str = msgspec.field(name="podIP", default="")


class WirePod(Struct, frozen=True):
    """A Pod as far as its projection decodes it."""

    metadata: _Meta = _Meta()
    spec: _PodSpec = _PodSpec()
    status: _PodStatus = _PodStatus()


class _PlainMeta(Struct, frozen=True):
    """`metadata` of an object of which only identity and owners are read."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    deletion_timestamp: str | None = None
    owner_references: tuple[OwnerReference, ...] = ()

    @property
    def controller(self) -> OwnerReference | None:
        """The owner that controls the object, if it has one."""
        return next((ref for ref in self.owner_references if ref.controller), None)


class _WorkloadStatus(Struct, frozen=True):
    conditions: tuple[_Condition, ...] = ()
    admission: msgspec.Raw = _NULL
    admission_checks: msgspec.Raw = _NONE


class WireWorkload(Struct, frozen=True):
    """A Workload as far as its projection decodes it."""

    metadata: _PlainMeta = _PlainMeta()
    spec: WorkloadSpec = WorkloadSpec()
    status: _WorkloadStatus = _WorkloadStatus()


class WireService(Struct, frozen=True):
    """A Service as far as its projection decodes it: who owns it and whom it selects."""

    metadata: _PlainMeta = _PlainMeta()
    spec: ServiceSpec = ServiceSpec()


def own_metadata(meta: ObjectMeta) -> ObjectMeta:
    """A deployment's metadata without the labels and annotations of others: what `kubectl apply` leaves there is as large as the spec."""
    return replace(meta, labels=_read(meta.labels), annotations=_read(meta.annotations))


def _read(texts: dict[str, str]) -> dict[str, str]:
    return {key: text for key, text in texts.items() if key in _READ} or _NO_TEXTS


# ------------------------------------------------------------------------------------------------------------- sharing


_texts: Final = msgspec.json.Decoder(tuple[str, ...]).decode


class Table(dict[Hashable, T]):
    """Values by what they were made from, bounded in number and in size. Full, it forgets everything."""

    def __init__(self, bound: int = BOUND, most: int = BYTES) -> None:
        super().__init__()
        self._bound = bound
        self._most = most
        self.size = 0

    def keep(self, parts: Hashable, value: T, size: int) -> T:
        """Put a value in; `size` is about how many bytes `parts` has."""
        self.size += size
        if len(self) >= self._bound or self.size > self._most:
            self.clear()
            self.size = size
        self[parts] = value
        return value


class Remembered(Generic[T]):
    """A decoder that answers equal JSON with one value. Raises what msgspec raises."""

    def __init__(self, kind: Any, bound: int = BOUND) -> None:
        self._decode = msgspec.json.Decoder(kind).decode
        self._values: Table[T] = Table(bound)

    def __call__(self, raw: msgspec.Raw | bytes) -> T:
        """The value of that JSON, which must never be changed."""
        data = bytes(raw)
        found = self._values.get(data)
        if found is None:
            found = self._values.keep(data, self._decode(data), len(data))
        return found


class Commons:
    """One copy of what is alike, and the projections that are made with it."""

    def __init__(self, bound: int = BOUND) -> None:
        self._bound = bound
        self._values: dict[Any, Any] = {}
        self._annotated: Table[dict[str, str]] = Table(bound)
        self._containers: Table[tuple[Container, ...]] = Table(bound)
        self._conditioned: Table[tuple[Condition, ...]] = Table(bound)
        self._statuses: Table[WorkloadStatus] = Table(bound)
        self._owners: Remembered[tuple[OwnerReference, ...]] = Remembered(tuple[OwnerReference, ...], bound)
        self._finalizers: Remembered[tuple[str, ...]] = Remembered(tuple[str, ...], bound)
        self._ports: Remembered[tuple[ContainerPort, ...]] = Remembered(tuple[ContainerPort, ...], bound)
        self._admissions: Remembered[Admission | None] = Remembered(Admission | None, bound)
        self._checks: Remembered[tuple[AdmissionCheckState, ...]] = Remembered(tuple[AdmissionCheckState, ...], bound)

    def one(self, value: T) -> T:
        """The copy that stands for all values equal to this one, which has to be hashable and never changed."""
        found: T = self._values.setdefault(value, value)
        if len(self._values) > self._bound:
            self._values.clear()
        return found

    def pod(self, pod: WirePod) -> Pod:
        """A Pod's projection."""
        meta, spec, status, one = pod.metadata, pod.spec, pod.status, self.one
        return Pod(
            metadata=ObjectMeta(
                name=meta.name,
                namespace=one(meta.namespace),
                uid=meta.uid,
                resource_version=meta.resource_version,
                creation_timestamp=one(meta.creation_timestamp),
                deletion_timestamp=meta.deletion_timestamp,
                labels=self._labels(meta.labels),
                annotations=self._annotations(meta.annotations),
                finalizers=self._finalizers(meta.finalizers),
                owner_references=self._owners(meta.owner_references),
            ),
            spec=self._pod_spec(spec),
            status=PodStatus(
                phase=one(status.phase),
                reason=status.reason,
                message=status.message,
                conditions=self._conditions(tuple([each for each in status.conditions if each.type in POD_CONDITIONS])),
                container_statuses=one(status.container_statuses),
                pod_ip=status.pod_ip,
            ),
        )

    def workload(self, workload: WireWorkload) -> Workload:
        """A Workload's projection."""
        return Workload(
            metadata=self._plain(workload.metadata),
            spec=self.one(workload.spec),
            status=self._workload_status(workload.status),
        )

    def service(self, service: WireService) -> Service:
        """A Service's projection. The Services of a deployment have one owner."""
        meta = self._plain(service.metadata)
        return Service(metadata=replace(meta, owner_references=self.one(meta.owner_references)), spec=service.spec)

    # -------------------------------------------------------------------------------------------------------------- parts

    def _plain(self, meta: _PlainMeta) -> ObjectMeta:
        one = self.one
        return ObjectMeta(
            name=meta.name,
            namespace=one(meta.namespace),
            uid=meta.uid,
            resource_version=meta.resource_version,
            deletion_timestamp=meta.deletion_timestamp,
            labels=_NO_TEXTS,
            annotations=_NO_TEXTS,
            owner_references=tuple(
                [
                    OwnerReference(
                        api_version=one(ref.api_version), kind=one(ref.kind), name=ref.name, uid=ref.uid, controller=ref.controller
                    )
                    for ref in meta.owner_references
                ]
            ),
        )

    def _labels(self, keyed: Any) -> dict[str, str]:
        """A Pod's own: an ordinal is among them, so only the texts are shared. Five labels take two thirds of the room of six."""
        one, texts = self.one, msgspec.structs.astuple(keyed)
        unsaid = _OF_REPLICAS if texts[_ROUTER] is None else _NOTHING
        return {key: one(text) for key, text in zip(READ_KEYS, texts, strict=True) if text is not None and key not in unsaid}

    def _annotations(self, keyed: Any) -> dict[str, str]:
        texts = msgspec.structs.astuple(keyed)
        found = self._annotated.get(texts)
        if found is None:
            made = {key: text for key, text in zip(READ_KEYS, texts, strict=True) if text is not None}
            found = self._annotated.keep(texts, made, sum(map(len, made.values())))
        return found

    def _pod_spec(self, spec: _PodSpec) -> PodSpec:
        parts = tuple([(each.name, bytes(each.command), bytes(each.args), bytes(each.ports)) for each in spec.containers])
        found = self._containers.get(parts)
        if found is None:
            made = [
                Container(name=each.name, command=_texts(each.command), args=_texts(each.args), ports=self._ports(each.ports))
                for each in spec.containers
            ]
            found = self._containers.keep(parts, tuple(made), sum(len(part) for each in parts for part in each))
        return PodSpec(containers=found, node_name=self.one(spec.node_name))

    def _conditions(self, conditions: tuple[_Condition, ...]) -> tuple[Condition, ...]:
        found = self._conditioned.get(conditions)
        if found is None:
            made = [Condition(type=c.type, status=c.status, reason=c.reason, message=c.message) for c in conditions]
            found = self._conditioned.keep(conditions, tuple(made), sum(len(c.reason) + len(c.message) for c in conditions))
        return found

    def _workload_status(self, status: _WorkloadStatus) -> WorkloadStatus:
        parts = (status.conditions, bytes(status.admission), bytes(status.admission_checks))
        found = self._statuses.get(parts)
        if found is None:
            made = WorkloadStatus(
                conditions=self._conditions(status.conditions),
                admission=self._admissions(status.admission),
                admission_checks=self._checks(status.admission_checks),
            )
            size = len(parts[1]) + len(parts[2]) + sum(len(c.reason) + len(c.message) for c in status.conditions)
            found = self._statuses.keep(parts, made, size)
        return found
