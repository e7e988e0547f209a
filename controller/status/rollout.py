"""Up to date or not: the explicit spec hash, and the rollout figures of a pass.

Where observations carry a rollout (a converging pass accounted for it), that is what counts. Otherwise the figures are derived from the
Pods' own annotations.

Source: seed "ReplicasUpToDate", decisions D8 and D9, status facts 4.4.
"""

import hashlib
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec

from api import keys
from api.objects import KVCachePoolBinding
from controller.snapshot import Rollout, Slot, Snapshot
from controller.status.replicas import Fleet, Replica

_UNHASHED = frozenset({"name", "kind", "replicas"})

# The schema's bound of `replicas`: a spec beyond it, which only a file can hold, is not walked to its end.
POSITIONS_BOUND: Final = 1024

# A version may be a date and a time, which an int32 does not hold; a text without end is no version.
DIGITS_BOUND: Final = 32


def bare(value: Any) -> Any:
    """The value without null members: absent and null are one."""
    if isinstance(value, dict):
        return {key: bare(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [bare(item) for item in value]
    return value


def spec_hash(spec: Mapping[str, Any], role: Mapping[str, Any], cache: Mapping[str, Any] | None) -> str:
    """The first 16 hex digits of the SHA-256 over the canonical JSON of what a replica is rendered from (D9).

    `spec` and `role` are plain JSON; `cache` is `{binding, pool, domain}` of a resolved Binding, or None.
    """
    basis = {name: bare(spec[name]) for name in ("model", "engine", "kvTransfer") if spec.get(name) is not None}
    basis["role"] = bare({name: value for name, value in role.items() if name not in _UNHASHED})
    basis["kvCache"] = None if cache is None else bare(dict(cache))
    return hashlib.sha256(msgspec.json.encode(basis, order="sorted")).hexdigest()[:16]


def cache_basis(binding: KVCachePoolBinding) -> dict[str, Any]:
    """What of a resolved Binding enters the hash."""
    domain = binding.spec.domain
    fields = {"name": domain.name or None, "blockSize": domain.block_size, "dtype": domain.dtype}
    return {"binding": binding.metadata.name, "pool": binding.spec.pool_ref.name, "domain": bare(fields)}


def hashes_of(snapshot: Snapshot, resolved: KVCachePoolBinding | None) -> Mapping[str, str]:
    """The desired hash of every role, by name; `resolved` is the Binding where the declared cache resolves."""
    return _hashes(snapshot.spec_json, None if resolved is None else msgspec.json.encode(cache_basis(resolved), order="sorted"))


@lru_cache(maxsize=4096)
def _hashes(spec_json: bytes, cache_json: bytes | None) -> Mapping[str, str]:
    spec: dict[str, Any] = msgspec.json.decode(spec_json)
    cache = None if cache_json is None else msgspec.json.decode(cache_json)
    return {str(role.get("name", "")): spec_hash(spec, role, cache) for role in spec.get("roles") or ()}


def render_version(annotations: Mapping[str, str]) -> int:
    """The `render-version` annotation, a decimal integer of any size up to `DIGITS_BOUND`; absent or unreadable reads 0."""
    text = annotations.get(keys.RENDER_VERSION, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= DIGITS_BOUND else 0


def outdated(replica: Replica, wanted: str, minimum: int) -> bool | None:
    """Whether a replica is outdated; None where it cannot be accounted for."""
    behind = unaccounted = False
    for member in replica.members:
        annotations = member.pod.metadata.annotations
        carried = annotations.get(keys.EXPLICIT_SPEC_HASH)
        if carried is None:
            unaccounted = True
        elif carried != wanted or render_version(annotations) < minimum:
            behind = True
    return True if behind else None if unaccounted else False


def missing_of(fleet: Fleet, workloads_read: bool) -> tuple[Slot, ...]:
    """Declared positions without a live replica, of roles that some Pod, departing ones included, still holds through a Workload."""
    holding = {pod.metadata.labels.get(keys.COMPONENT) for pod in fleet.owned if not workloads_read or pod.metadata.uid in fleet.claims}
    found = []
    for name, role in fleet.roles.items():
        if name in holding:
            taken = {replica.ordinal for replica in fleet.role(name)}
            found += [Slot(role=name, ordinal=ordinal) for ordinal in range(min(role.replicas, POSITIONS_BOUND)) if ordinal not in taken]
    return tuple(found)


def rollout_of(snapshot: Snapshot, fleet: Fleet, wanted: Mapping[str, str], held_by: str | None) -> Rollout:
    """The pass's rollout figures.

    `wanted` are the desired hashes by role, `held_by` is Cache or Weights while something holds outdated replicas. A teardown renders
    nothing, so it observes nothing.
    """
    metadata = snapshot.deployment.metadata
    if metadata.deleting:
        return Rollout(observed=False, accounted=0)
    given = snapshot.observations.rollout if snapshot.observations else None
    if given is not None and given.held_by is None:
        given = msgspec.structs.replace(given, held_by=held_by)  # what holds is a fact of this pass, whoever counted
    if given is not None and given.accounted is not None:
        return given
    minimum = render_version(metadata.annotations)
    verdicts = [outdated(replica, wanted.get(replica.role, ""), minimum) for replica in fleet.supervised()]
    behind, accounted = verdicts.count(True), len(verdicts) - verdicts.count(None)
    if given is not None:
        return msgspec.structs.replace(given, accounted=accounted)
    return Rollout(
        outdated=behind,
        held=behind if held_by else 0,
        held_by=held_by if behind else None,
        missing=missing_of(fleet, snapshot.settings.kueue == "required"),
        accounted=accounted,
    )
