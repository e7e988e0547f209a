"""OpenAPI, as far as kubectl reads it: explain, the choice of patch, and whether the server checks fields.

Custom resources carry their whole schema. Built-in kinds carry their top-level fields only: the embedded cluster keeps no schema of theirs.
"""

import hashlib
from typing import Any

from local.kinds import Registry, Served
from local.wire import JSON, encode

_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_OBJECT_META: JSON = {
    "description": "ObjectMeta is metadata that all persisted resources must have.",
    "type": "object",
    "properties": {
        "name": {"type": "string", "description": "Name, unique within a namespace."},
        "namespace": {"type": "string", "description": "The space within which each name must be unique."},
        "generateName": {"type": "string", "description": "A prefix from which the server makes a unique name."},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}, "description": "Map of keys and values to select by."},
        "annotations": {"type": "object", "additionalProperties": {"type": "string"}, "description": "Map of keys and values to keep."},
        "finalizers": {"type": "array", "items": {"type": "string"}, "description": "Must be empty before the object is removed."},
        "ownerReferences": {"type": "array", "items": {"type": "object"}, "description": "Objects that this object depends on."},
        "uid": {"type": "string", "description": "Unique in time and space."},
        "resourceVersion": {"type": "string", "description": "The version of this object."},
        "generation": {"type": "integer", "format": "int64", "description": "Steps when the desired state changes."},
        "creationTimestamp": {"type": "string", "format": "date-time", "description": "When the server made the object."},
        "deletionTimestamp": {"type": "string", "format": "date-time", "description": "When the object is to go."},
        "managedFields": {"type": "array", "items": {"type": "object"}, "description": "Who set which field."},
    },
}
_TOP: dict[str, tuple[str, ...]] = {
    "Secret": ("data", "stringData", "type", "immutable"),
    "ConfigMap": ("data", "binaryData", "immutable"),
    "Event": ("involvedObject", "reason", "message", "type", "count", "firstTimestamp", "lastTimestamp", "source"),
    "ServiceAccount": ("secrets", "imagePullSecrets", "automountServiceAccountToken"),
    "Endpoints": ("subsets",),
    "Role": ("rules",),
    "ClusterRole": ("rules", "aggregationRule"),
    "RoleBinding": ("subjects", "roleRef"),
    "ClusterRoleBinding": ("subjects", "roleRef"),
    "ValidatingWebhookConfiguration": ("webhooks",),
    "MutatingWebhookConfiguration": ("webhooks",),
}
_LISTS = frozenset({"rules", "subjects", "webhooks", "subsets", "secrets", "imagePullSecrets"})


def component_name(served: Served) -> str:
    """`<reversed group>.<version>.<kind>`."""
    group = ".".join(reversed(served.group.split("."))) if served.group else "io.k8s.api.core"
    return f"{group}.{served.version}.{served.kind}"


def _gvk(served: Served) -> JSON:
    return {"group": served.group, "version": served.version, "kind": served.kind}


def schema_of(served: Served, prefix: str) -> JSON:
    """The kind's schema, with the three fields that every kind has."""
    schema: JSON = dict(served.schema or {"type": "object", "x-kubernetes-preserve-unknown-fields": True})
    properties: JSON = {
        "apiVersion": {"type": "string", "description": "The versioned schema of this representation."},
        "kind": {"type": "string", "description": "The REST resource that this object represents."},
        "metadata": {"allOf": [{"$ref": prefix + _META}], "default": {}, "description": "Standard object's metadata."},
    }
    if served.schema is None:
        for name in _TOP.get(served.kind, ("spec", "status")):
            properties[name] = {"type": "array" if name in _LISTS else "object", "x-kubernetes-preserve-unknown-fields": True}
            if name in _LISTS:
                properties[name]["items"] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    else:
        inner = dict(schema.get("properties") or {})
        for name in ("apiVersion", "kind", "metadata"):
            inner.pop(name, None)
        properties |= inner
    schema["properties"] = properties
    schema["x-kubernetes-group-version-kind"] = [_gvk(served)]
    return schema


_QUERY = ("dryRun", "fieldManager", "fieldValidation")


def _operation(served: Served, action: str, patch_types: tuple[str, ...] = ()) -> JSON:
    out: JSON = {
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": _gvk(served),
        "responses": {"200": {"description": "OK"}},
    }
    if action in {"post", "put", "patch"}:
        out["parameters"] = [{"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}} for name in _QUERY]
    if patch_types:
        out["requestBody"] = {"content": {kind: {"schema": {"type": "object"}} for kind in patch_types}}
    return out


def document_v3(registry: Registry, group: str, version: str) -> JSON | None:
    """One group and version, or None for what is not served."""
    rows = [row for row in registry if (row.group, row.version) == (group, version)]
    if not rows:
        return None
    prefix = "#/components/schemas/"
    paths: JSON = {}
    schemas: JSON = {_META: _OBJECT_META}
    for row in rows:
        schemas[component_name(row)] = schema_of(row, prefix)
        base = f"{row.root}/namespaces/{{namespace}}/{row.plural}" if row.namespaced else f"{row.root}/{row.plural}"
        kinds = ("application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json")
        paths[base] = {"get": _operation(row, "list"), "post": _operation(row, "post"), "delete": _operation(row, "deletecollection")}
        paths[f"{base}/{{name}}"] = {
            "get": _operation(row, "get"),
            "put": _operation(row, "put"),
            "patch": _operation(row, "patch", kinds),
            "delete": _operation(row, "delete"),
        }
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes, the embedded cluster of Modelwarden", "version": "v1.32.0"},
        "paths": paths,
        "components": {"schemas": schemas},
    }


def index_v3(registry: Registry) -> JSON:
    """`/openapi/v3`."""
    out = {}
    for group, versions in registry.groups().items():
        for version in versions:
            path = f"apis/{group}/{version}" if group else f"api/{version}"
            digest = hashlib.sha256(f"{registry.serial}/{path}".encode()).hexdigest()[:32].upper()
            out[path] = {"serverRelativeURL": f"/openapi/v3/{path}?hash={digest}"}
    return {"paths": out}


def document_v2(registry: Registry) -> JSON:
    """`/openapi/v2` as JSON."""
    definitions: JSON = {_META: _OBJECT_META}
    for row in registry:
        schema = schema_of(row, "#/definitions/")
        schema["properties"] = {**schema["properties"], "metadata": {"$ref": f"#/definitions/{_META}"}}
        definitions[component_name(row)] = schema
    return {
        "swagger": "2.0",
        "info": {"title": "Kubernetes, the embedded cluster of Modelwarden", "version": "v1.32.0"},
        "paths": {},
        "definitions": definitions,
    }


def document_v2_protobuf() -> bytes:
    """`/openapi/v2` as the protobuf that kubectl asks for: a document that names no kind.

    kubectl asks for it when it applies a built-in kind, finds no kind in it, and merges by its own types.
    """

    def text(number: int, value: str) -> bytes:
        raw = value.encode()
        return bytes([number << 3 | 2, len(raw)]) + raw

    info = text(1, "Kubernetes") + text(2, "v1.32.0")
    return text(1, "2.0") + bytes([2 << 3 | 2, len(info)]) + info + bytes([8 << 3 | 2, 0])


def encoded(document: Any) -> bytes:
    """A document's bytes."""
    return encode(document)
