"""The conformance checks' registry: a sentence that holds on a Kubernetes API, and the function that tries it."""

from collections.abc import Awaitable, Callable
from typing import Any

from clusterkit import TestCluster

JSON = dict[str, Any]
Check = Callable[[TestCluster], Awaitable[None]]

CHECKS: dict[str, Check] = {}

GROUP = "conformance.modelwarden.dev"
WIDGETS = f"/apis/{GROUP}/v1"


def check(sentence: str) -> Callable[[Check], Check]:
    """Register a check."""

    def register(function: Check) -> Check:
        assert sentence not in CHECKS
        assert len(sentence) <= 100, "pytest gives a longer one a number for a name"
        CHECKS[sentence] = function
        return function

    return register


def widget_crd(plural: str = "widgets", kind: str = "Widget") -> JSON:
    """A definition with every schema feature that the checks ask about."""
    part = {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "count": {"type": "integer", "default": 1}}}
    spec = {
        "type": "object",
        "required": ["color"],
        "properties": {
            "color": {"type": "string", "enum": ["red", "blue"]},
            "size": {"type": "integer", "minimum": 0, "maximum": 10, "default": 1},
            "parts": {"type": "array", "items": part, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
            "tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
            "note": {"type": "string", "maxLength": 20},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        },
        "x-kubernetes-validations": [{"rule": "self.size != 7", "message": "seven is right out"}],
    }
    status = {"type": "object", "properties": {"phase": {"type": "string"}, "seen": {"type": "integer"}}}
    schema = {"type": "object", "required": ["spec"], "properties": {"spec": spec, "status": status}}
    columns = [
        {"name": "Color", "type": "string", "jsonPath": ".spec.color"},
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
        {"name": "Phase", "type": "string", "jsonPath": ".status.phase"},
        {"name": "Tags", "type": "string", "jsonPath": ".spec.tags[*]", "priority": 1},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
        "additionalPrinterColumns": columns,
    }
    names = {
        "plural": plural,
        "singular": kind.lower(),
        "kind": kind,
        "shortNames": [f"{kind[0].lower()}dg"],
        "categories": ["conformance"],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {"group": GROUP, "scope": "Namespaced", "names": names, "versions": [version]},
    }


async def serve_widgets(cluster: TestCluster, plural: str = "widgets", kind: str = "Widget") -> None:
    """Make sure that the definition is there and served."""
    root = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    answer = await cluster.wire("POST", root, widget_crd(plural, kind))
    assert answer.code in {201, 409}, answer.body

    async def served() -> bool:
        found = await cluster.wire("GET", f"{root}/{plural}.{GROUP}")
        conditions = (found.body.get("status") or {}).get("conditions") or []
        established = any(entry["type"] == "Established" and entry["status"] == "True" for entry in conditions)
        return established and (await cluster.wire("GET", f"{WIDGETS}/{plural}")).code == 200

    await cluster.eventually(served, f"{plural} are never served")


async def widgets(cluster: TestCluster) -> str:
    """The collection's path in a fresh namespace."""
    await serve_widgets(cluster)
    return f"{WIDGETS}/namespaces/{await cluster.namespace()}/widgets"


async def maps(cluster: TestCluster) -> str:
    """The path of the ConfigMaps of a fresh namespace."""
    return f"/api/v1/namespaces/{await cluster.namespace()}/configmaps"


def widget(name: str, color: str = "red", **spec: Any) -> JSON:
    """A widget."""
    return {"apiVersion": f"{GROUP}/v1", "kind": "Widget", "metadata": {"name": name}, "spec": {"color": color, **spec}}


def config_map(name: str, **data: str) -> JSON:
    """A ConfigMap."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def pod(name: str, *, node: str = "", **labels: str) -> JSON:
    """A Pod of one container, on a node or on none."""
    spec: JSON = {"containers": [{"name": "main", "image": "example.invalid/engine:1", "env": [{"name": "A", "value": "1"}]}]}
    if node:
        spec["nodeName"] = node
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": spec}


def fields(body: JSON) -> set[str]:
    """The fields that a 422 names."""
    return {cause["field"] for cause in body["details"]["causes"]}
