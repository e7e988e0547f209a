"""Dumps (decision D8): a YAML or JSON stream of Kubernetes objects, made into snapshots.

A dump is what a cluster would have answered to fresh reads: its Pods are themselves the uncached membership. Kinds that a pass need not
know are ignored. An object that does not have its kind's shape is an error that names it: a dump is never half read.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any, NamedTuple, TypeVar

import msgspec
import yaml

from api import keys
from api.clock import parse_time
from api.objects import (
    Deployment,
    InstanceType,
    KVCachePool,
    KVCachePoolBinding,
    ModelArtifact,
    ModelDeployment,
    ModelDeploymentScaler,
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


class DumpError(ValueError):
    """A dump that cannot be read; the message names the object and the field."""


def parse(text: str) -> list[dict[str, Any]]:
    """The objects of a YAML or JSON stream, Lists unpacked. Raises DumpError."""
    try:
        documents = [json.loads(text)] if text.lstrip().startswith("{") else list(yaml.load_all(text, Loader=_loader()))
    except ValueError:
        documents = _json_stream(text)
    except yaml.YAMLError as error:
        raise DumpError(f"the dump is no YAML: {error}") from error
    return list(_objects(documents))


def snapshots(
    objects: Sequence[Mapping[str, Any]],
    now: str | datetime | None = None,
    settings: StatusSettings | None = None,
    *,
    fallback: datetime | None = None,
) -> list[Snapshot]:
    """One snapshot per ModelDeployment, in the dump's order.

    `now` overrides the clock of the Observations documents, `fallback` stands in where there is neither. Raises DumpError.
    """
    index = _Index(objects)
    return [index.snapshot(raw, _Clock(now, fallback), settings or StatusSettings()) for raw in index.deployments]


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

    def __init__(self, objects: Iterable[Mapping[str, Any]]) -> None:
        self.deployments: list[Mapping[str, Any]] = []
        self._by_name: dict[tuple[type[Any], str, str], Any] = {}
        self._pods: dict[tuple[str, str], list[Pod]] = defaultdict(list)
        self._listed: dict[tuple[type[Any], str], list[Any]] = defaultdict(list)
        for raw in _objects(objects):
            shape = KINDS.get((_group(raw), str(raw.get("kind", ""))))
            if shape is ModelDeployment:
                self.deployments.append(raw)
            elif shape is not None:
                self._add(shape, _decode(raw, shape))

    def _add(self, shape: type[Any], item: Any) -> None:
        namespace, name = item.metadata.namespace, item.metadata.name
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
        deployment = _decode(raw, ModelDeployment)
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
            instance_types={item.metadata.name: item for item in self._listed.get((InstanceType, ""), ())},
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
    except (msgspec.MsgspecError, TypeError, ValueError) as error:
        metadata = raw.get("metadata")
        names = metadata if isinstance(metadata, Mapping) else {}
        raise DumpError(f"{raw.get('kind')} {names.get('namespace', '')}/{names.get('name', '')}: {error}") from error


def _present(value: Any) -> Any:
    """The value without null members: a file written by hand may spell absence so, the API server never does."""
    if isinstance(value, Mapping):
        return {key: _present(item) for key, item in value.items() if item is not None}
    return [_present(item) for item in value] if isinstance(value, list) else value


def _objects(documents: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """The objects of a stream; a List stands for its items."""
    for document in documents:
        if document is None:
            continue
        if not isinstance(document, Mapping):
            raise DumpError(f"a document of the dump is no object but {type(document).__name__}")
        items = document.get("items")
        if str(document.get("kind", "")).endswith("List") and isinstance(items, list):
            yield from _objects(items)
        else:
            yield dict(document)


def _json_stream(text: str) -> list[Any]:
    """Several JSON documents one after another."""
    decoder, documents, position = json.JSONDecoder(), [], 0
    try:
        while rest := text[position:].lstrip():
            document, used = decoder.raw_decode(rest)
            documents.append(document)
            position = len(text) - len(rest) + used
    except ValueError as error:
        raise DumpError(f"the dump is no JSON: {error}") from error
    return documents


@cache
def _loader() -> type[yaml.SafeLoader]:
    """A safe YAML loader that leaves times as the texts they are on the wire."""
    base: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    resolvers = {
        first: [(tag, pattern) for tag, pattern in found if tag != "tag:yaml.org,2002:timestamp"]
        for first, found in base.yaml_implicit_resolvers.items()
    }
    return type("DumpLoader", (base,), {"yaml_implicit_resolvers": resolvers})
