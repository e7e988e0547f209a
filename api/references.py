"""What a deployment refers to and others keep: instance types, the KV cache pool and its bindings, model artifacts.

Source: status facts 2, admission facts 3.1.
"""

from typing import Any

import msgspec

from api.meta import Condition, LocalRef, ObjectMeta, Struct


class BindingDomain(Struct, frozen=True):
    """`spec.domain` of a KVCachePoolBinding."""

    name: str = ""
    block_size: int | None = None
    dtype: str | None = None


class BindingSpec(Struct, frozen=True):
    """`spec` of a KVCachePoolBinding."""

    pool_ref: LocalRef = LocalRef()
    domain: BindingDomain = BindingDomain()


class BindingStatus(Struct, frozen=True):
    """`status` of a KVCachePoolBinding; an absent figure is not a zero."""

    phase: str = ""
    phase_message: str = ""
    conditions: tuple[Condition, ...] = ()
    blocks: int | None = None
    usage: str | int | float | None = None


class KVCachePoolBinding(Struct, frozen=True):
    """A KVCachePoolBinding."""

    metadata: ObjectMeta = ObjectMeta()
    spec: BindingSpec = BindingSpec()
    status: BindingStatus = BindingStatus()


class KVCachePoolStatus(Struct, frozen=True):
    """`status` of a KVCachePool."""

    phase: str = ""
    client_endpoint: str = ""


class KVCachePool(Struct, frozen=True):
    """A KVCachePool."""

    metadata: ObjectMeta = ObjectMeta()
    spec: dict[str, Any] = msgspec.field(default_factory=dict)
    status: KVCachePoolStatus = KVCachePoolStatus()


class InstanceTypeSpec(Struct, frozen=True):
    """`spec` of an InstanceType."""

    acceleratable: bool = False
    accelerator_group: str = ""


class InstanceTypeStatus(Struct, frozen=True):
    """`status` of an InstanceType; `detail` absent means not observed yet."""

    entrance: str = ""
    accelerator: dict[str, Any] | None = None
    detail: dict[str, Any] | None = None


class InstanceType(Struct, frozen=True):
    """An InstanceType."""

    metadata: ObjectMeta = ObjectMeta()
    spec: InstanceTypeSpec = InstanceTypeSpec()
    status: InstanceTypeStatus = InstanceTypeStatus()


class ModelArtifact(Struct, frozen=True):
    """A ModelArtifact; read as raw parts by the weights judgement."""

    metadata: ObjectMeta = ObjectMeta()
    spec: dict[str, Any] = msgspec.field(default_factory=dict)
    status: dict[str, Any] = msgspec.field(default_factory=dict)
