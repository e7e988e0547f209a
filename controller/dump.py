"""Dumps (decision D8): a YAML or JSON stream of Kubernetes objects, made into snapshots.

A dump is what a cluster would have answered to fresh reads: its Pods are themselves the uncached membership. Kinds that a pass need not
know are ignored, and an object that is there twice counts once.

An object that does not have its kind's shape is an error that names it. A caller who hands in a list for the faults gets the rest: a label
or annotation that is no text is left out, of an object amiss elsewhere the metadata still counts, as in a cluster (it exists, and nothing
else is known of it), and a deployment whose spec cannot be read has no snapshot, for a status judged from half a spec would be a lie.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, TypeVar

import msgspec

from api import keys
from api.clock import parse_time
from api.documents import DocumentError, documents
from api.objects import (
    Deployment,
    InstanceType,
    KVCachePool,
    KVCachePoolBinding,
    ModelArtifact,
    ModelDeployment,
    ModelDeploymentScaler,
    ObjectMeta,
    Pod,
    Service,
    Workload,
)
from api.status import decode_status
from controller.snapshot import Observations, Snapshot, StatusSettings

T = TypeVar("T")

KINDS: Mapping[tuple[str, str], type[Any]] = {
    ("", "Pod"): Pod,
    ("", "Service"): Service,
    ("apps", "Deployment"): Deployment,
    ("kueue.x-k8s.io", "Workload"): Workload,
    (keys.GROUP, keys.MODEL_DEPLOYMENT): ModelDeployment,
    (keys.GROUP, keys.MODEL_DEPLOYMENT_SCALER): ModelDeploymentScaler,
    (keys.GROUP, keys.INSTANCE_TYPE): InstanceType,
    (keys.GROUP, keys.KV_CACHE_POOL): KVCachePool,
    (keys.GROUP, keys.KV_CACHE_POOL_BINDING): KVCachePoolBinding,
    (keys.GROUP, keys.MODEL_ARTIFACT): ModelArtifact,
    ("modeldeployment.gpustack.ai", keys.OBSERVATIONS): Observations,
}


_TEXTS = frozenset({"labels", "annotations"})


class DumpError(ValueError):
    """A dump that cannot be read; the message names the object and the field."""


def parse(text: str) -> list[dict[str, Any]]:
    """The objects of a YAML or JSON stream, Lists unpacked. Raises DumpError."""
    try:
        return list(_objects(documents(text)))
    except DocumentError as error:
        raise DumpError(str(error)) from error


def snapshots(
    objects: Sequence[Mapping[str, Any]],
    now: str | datetime | None = None,
    settings: StatusSettings | None = None,
    *,
    fallback: datetime | None = None,
    faults: list[str] | None = None,
) -> list[Snapshot]:
    """One snapshot per ModelDeployment, in the dump's order.

    `now` overrides the clock of the Observations documents, `fallback` stands in where there is neither. `faults` collects what could not
    be read; DumpError is raised at the first fault without it, and where the faults leave no deployment.
    """
    found: dict[tuple[str, str], Snapshot] = {}
    index = _Index(objects, faults)
    for raw in index.deployments:
        try:
            snapshot = index.snapshot(raw, _Clock(now, fallback), settings or StatusSettings())
        except DumpError as error:
            if faults is None:
                raise
            faults += [str(error)] if str(error) not in faults else []
        else:
            metadata = snapshot.deployment.metadata
            found.setdefault((metadata.namespace, metadata.name), snapshot)
    if faults and not found:
        raise DumpError(faults[0])
    return list(found.values())


class _Clock(NamedTuple):
    """Where a dump's clock comes from."""

    override: str | datetime | None
    fallback: datetime | None

    def read(self, observations: Observations | None, where: str) -> datetime:
        """The pass's instant. Raises DumpError."""
        if isinstance(self.override, datetime):
            return self.override
        text = self.override or (observations.now if observations else None)
        if not text:
            if self.fallback is None:
                raise DumpError(f"{where}: the dump has no clock; give one in an Observations document or with --now")
            return self.fallback
        try:
            return parse_time(text)
        except ValueError as error:
            raise DumpError(f"{where}: {text!r} is no RFC 3339 time") from error


class _Index:
    """A dump's objects by kind, namespace and name."""

    def __init__(self, objects: Iterable[Any], faults: list[str] | None = None) -> None:
        self.deployments: list[Mapping[str, Any]] = []
        self._faults = faults
        self._by_name: dict[tuple[type[Any], str, str], Any] = {}
        self._pods: dict[tuple[str, str], list[Pod]] = defaultdict(list)
        self._listed: dict[tuple[type[Any], str], list[Any]] = defaultdict(list)
        self._seen: set[tuple[type[Any], str, str, str]] = set()
        for raw in _objects(objects, faults):
            shape = KINDS.get((_group(raw), str(raw.get("kind", ""))))
            if shape is ModelDeployment:
                self.deployments.append(raw)
            elif shape is not None:
                self._add(shape, _decode(raw, shape) if faults is None else _salvaged(raw, shape, faults))

    def _add(self, shape: type[Any], item: Any) -> None:
        namespace, name = item.metadata.namespace, item.metadata.name
        identity = (shape, namespace, name, item.metadata.uid)
        if identity in self._seen:
            return
        self._seen.add(identity)
        self._by_name.setdefault((shape, namespace, name), item)
        if shape is Pod:
            instance = item.metadata.labels.get(keys.INSTANCE)
            if instance:
                self._pods[namespace, instance].append(item)
        else:
            self._listed[shape, namespace].append(item)

    def _get(self, shape: type[T], namespace: str, name: str) -> T | None:
        found: T | None = self._by_name.get((shape, namespace, name))
        return found

    def snapshot(self, raw: Mapping[str, Any], clock: _Clock, settings: StatusSettings) -> Snapshot:
        """Everything of one deployment."""
        deployment = _decode(raw, ModelDeployment) if self._faults is None else _salvaged(raw, ModelDeployment, self._faults)
        namespace, name, spec = deployment.metadata.namespace, deployment.metadata.name, deployment.spec
        binding = self._get(KVCachePoolBinding, namespace, spec.kv_cache.pool_ref.name) if spec.kv_cache else None
        observations = self._get(Observations, namespace, name)
        pods = self._pods.get((namespace, name), [])
        return Snapshot(
            deployment=deployment,
            spec_json=msgspec.json.encode(raw.get("spec") or {}),
            now=clock.read(observations, f"{namespace}/{name}"),
            pods=tuple(pod for pod in pods if keys.ROUTER not in pod.metadata.labels),
            workloads=tuple(self._listed.get((Workload, namespace), ())),
            router_deployment=self._get(Deployment, namespace, f"{name}-router"),
            router_pods=tuple(pod for pod in pods if keys.ROUTER in pod.metadata.labels),
            services=tuple(self._listed.get((Service, namespace), ())),
            binding=binding,
            pool=self._get(KVCachePool, "", binding.spec.pool_ref.name) if binding else None,
            artifact=self._get(ModelArtifact, namespace, spec.model.artifact_ref.name) if spec.model.artifact_ref else None,
            observations=observations,
            previous=decode_status(deployment.status),
            settings=settings,
        )


def _group(raw: Mapping[str, Any]) -> str:
    group, slash, _ = str(raw.get("apiVersion", "")).partition("/")
    return group if slash else ""


def _decode(raw: Mapping[str, Any], shape: type[T]) -> T:
    try:
        return msgspec.json.decode(msgspec.json.encode(_present(raw)), type=shape)
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError) as error:
        metadata = raw.get("metadata")
        names = metadata if isinstance(metadata, Mapping) else {}
        raise DumpError(f"{raw.get('kind')} {names.get('namespace', '')}/{names.get('name', '')}: {error}") from error


def _salvaged(raw: Mapping[str, Any], shape: type[T], faults: list[str]) -> T:
    """The object, else the object without what is amiss in its metadata, else that metadata alone.

    Raises DumpError for a deployment whose spec cannot be read.
    """
    try:
        return _decode(raw, shape)
    except DumpError as error:
        fault = error
    faults.append(str(fault))
    metadata = raw.get("metadata")
    known = {"metadata": _readable(metadata) if isinstance(metadata, Mapping) else {}}
    try:
        return _decode({**raw, **known}, shape)
    except DumpError:
        if shape is ModelDeployment:
            raise fault from None
        return _decode(known, shape)


def _readable(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The members of a metadata that have their shape, each by itself; of labels and annotations those that are texts."""
    found: dict[str, Any] = {}
    for key, value in metadata.items():
        kept = {k: v for k, v in value.items() if isinstance(v, str)} if key in _TEXTS and isinstance(value, Mapping) else value
        try:
            _decode({key: kept}, ObjectMeta)
        except DumpError:
            continue
        found[key] = kept
    return found


def _present(value: Any) -> Any:
    """The value without null members: a file written by hand may spell absence so, the API server never does."""
    if isinstance(value, Mapping):
        return {key: _present(item) for key, item in value.items() if item is not None}
    return [_present(item) for item in value] if isinstance(value, list) else value


def _objects(found: Iterable[Any], faults: list[str] | None = None) -> Iterator[dict[str, Any]]:
    """The objects of a stream; a List stands for its items. Raises DumpError at what is no object, unless faults are collected."""
    for document in found:
        if document is None:
            continue
        if not isinstance(document, Mapping):
            fault = f"a document of the dump is no object but {type(document).__name__}"
            if faults is None:
                raise DumpError(fault)
            faults.append(fault)
            continue
        items = document.get("items")
        if str(document.get("kind", "")).endswith("List") and isinstance(items, list):
            yield from _objects(items, faults)
        else:
            yield dict(document)
