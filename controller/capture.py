"""A deployment and all that its status reads, taken from a cluster by fresh lists: what `mdctl dump` prints (decision D8).

Everything is read uncached and in one go. Where an API server does not serve a kind, it has no objects; any other failed read fails the
capture, for half a dump would be judged as if the rest did not exist.
"""

from collections.abc import Iterable, Sequence
from contextlib import aclosing
from typing import Any

import msgspec

from api import keys
from controller.kinds import (
    ARTIFACTS,
    BINDINGS,
    INSTANCE_TYPES,
    MODEL_DEPLOYMENTS,
    POOLS,
    SCALERS,
    WORKLOADS_V1BETA1,
    WORKLOADS_V1BETA2,
)
from kube.client import Client
from kube.errors import NotFound
from kube.resources import DEPLOYMENTS, PODS, SERVICES, Resource
from kube.shallow import decoded

Object = dict[str, Any]

# Kinds in the order of a dump: what it is about, what it is made of, what that leans on.
ORDER = (
    "ModelDeployment",
    "Observations",
    "Pod",
    "Workload",
    "Deployment",
    "Service",
    "InstanceType",
    "KVCachePoolBinding",
    "KVCachePool",
    "ModelArtifact",
    "ModelDeploymentScaler",
)


async def capture(client: Client, namespace: str, name: str | None = None) -> list[Object]:
    """The objects of one deployment, or of every one of the namespace. Raises NotFound and the rest of the kube tree."""
    if name is not None:
        deployments = [_named(decoded(msgspec.json.decode, await client.get(MODEL_DEPLOYMENTS, name, namespace)), MODEL_DEPLOYMENTS)]
    else:
        deployments = await _list(client, MODEL_DEPLOYMENTS, namespace)
    names = {item["metadata"]["name"] for item in deployments}
    uids = {item["metadata"]["uid"] for item in deployments}
    # By the label by which the controller lists them: a Pod that it never sees would be judged here.
    listed = await _list(client, PODS, namespace, label_selector=f"{keys.NAME}={keys.NAME_VALUE}")
    pods = [pod for pod in listed if _labels(pod).get(keys.INSTANCE) in names]
    pod_uids = {pod["metadata"]["uid"] for pod in pods} | {
        uid for item in deployments for uid in (_at(item, "status", "retirement", "targetMemberUIDs") or ())
    }
    workloads = await _list_if_served(client, WORKLOADS_V1BETA2, namespace) or await _list_if_served(client, WORKLOADS_V1BETA1, namespace)
    found = [
        *deployments,
        *pods,
        *(workload for workload in workloads if _owners(workload) & pod_uids),
        *(item for item in await _list(client, DEPLOYMENTS, namespace) if _owners(item) & uids),
        *(item for item in await _list(client, SERVICES, namespace) if _owners(item) & uids),
        *(item for item in await _list_if_served(client, SCALERS, namespace) if _at(item, "spec", "targetRef", "name") in names),
    ]
    for kind, referred in (
        (INSTANCE_TYPES, _roles(deployments, "instanceType") | _elastic_heads(deployments)),
        (ARTIFACTS, _referred(deployments, "model", "artifactRef", "name")),
        (BINDINGS, bindings := _referred(deployments, "kvCache", "poolRef", "name")),
    ):
        found += await _get_each(client, kind, referred, namespace)
    pools = {
        _at(item, "spec", "poolRef", "name") for item in found if item["kind"] == BINDINGS.kind and item["metadata"]["name"] in bindings
    }
    found += await _get_each(client, POOLS, {pool for pool in pools if pool}, namespace)
    return ordered(found)


def ordered(objects: Iterable[Object]) -> list[Object]:
    """By kind, namespace and name; the same cluster gives the same order."""

    def rank(item: Object) -> tuple[int, str, str]:
        kind, meta = item.get("kind", ""), item.get("metadata", {})
        return (ORDER.index(kind) if kind in ORDER else len(ORDER), meta.get("namespace", ""), meta.get("name", ""))

    return sorted(objects, key=rank)


async def _list(client: Client, resource: Resource, namespace: str, *, label_selector: str | None = None) -> list[Object]:
    items: list[Object] = []
    pages = client.pages(resource, namespace, label_selector=label_selector)
    async with aclosing(pages):
        async for page in pages:
            if page.number == 0:
                items = []
            items += [_named(msgspec.json.decode(raw), resource) for raw in page.items]
    return items


async def _list_if_served(client: Client, resource: Resource, namespace: str) -> list[Object]:
    try:
        return await _list(client, resource, namespace)
    except NotFound:
        return []


async def _get_each(client: Client, resource: Resource, names: Iterable[str], namespace: str) -> list[Object]:
    found = []
    for name in sorted(names):
        try:
            data = await client.get(resource, name, namespace if resource.namespaced else None)
        except NotFound:
            continue
        found.append(_named(decoded(msgspec.json.decode, data), resource))
    return found


def _named(item: Object, resource: Resource) -> Object:
    """Items of a list carry no kind of their own."""
    return {**item, "apiVersion": resource.api_version, "kind": resource.kind}


def _owners(item: Object) -> set[str]:
    return {reference.get("uid", "") for reference in item["metadata"].get("ownerReferences") or ()}


def _labels(item: Object) -> dict[str, str]:
    return item["metadata"].get("labels") or {}


def _at(item: Object, *path: str) -> Any:
    value: Any = item
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _referred(deployments: Sequence[Object], *path: str) -> set[str]:
    return {name for item in deployments if (name := _at(item, "spec", *path))}


def _roles(deployments: Sequence[Object], field: str) -> set[str]:
    return {name for item in deployments for role in _at(item, "spec", "roles") or () if (name := role.get(field))}


def _elastic_heads(deployments: Sequence[Object]) -> set[str]:
    return {
        name for item in deployments for role in _at(item, "spec", "roles") or () if (name := _at(role, "elasticEp", "headInstanceType"))
    }
