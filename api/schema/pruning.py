"""Pruning: members that the schema does not name are dropped, as the API server drops them before anything else sees the object.

`x-kubernetes-preserve-unknown-fields` keeps the unknown at its level and still prunes inside the members that are named. `apiVersion`,
`kind` and `metadata` of the object, and of every `x-kubernetes-embedded-resource`, always stay; inside metadata only what ObjectMeta
knows does.
"""

from typing import Any, Final

OBJECT_META: Final = frozenset(
    {
        "annotations",
        "creationTimestamp",
        "deletionGracePeriodSeconds",
        "deletionTimestamp",
        "finalizers",
        "generateName",
        "generation",
        "labels",
        "managedFields",
        "name",
        "namespace",
        "ownerReferences",
        "resourceVersion",
        "selfLink",
        "uid",
    }
)
_RESOURCE: Final = frozenset({"apiVersion", "kind", "metadata"})


def prune(schema: dict[str, Any], obj: Any, *, resource_root: bool = True) -> Any:
    """The object without what the schema does not name; unchanged parts are shared. `resource_root` keeps apiVersion, kind and metadata."""
    if isinstance(obj, dict):
        return _object(schema, obj, resource_root or bool(schema.get("x-kubernetes-embedded-resource")))
    if isinstance(obj, list):
        items = schema.get("items")
        if not isinstance(items, dict):
            return obj
        pruned = [prune(items, item, resource_root=False) for item in obj]
        return pruned if any(new is not old for new, old in zip(pruned, obj, strict=True)) else obj
    return obj


def _object(schema: dict[str, Any], obj: dict[str, Any], resource: bool) -> dict[str, Any]:
    properties: dict[str, Any] = schema.get("properties") or {}
    additional = schema.get("additionalProperties")
    keep_unknown = bool(schema.get("x-kubernetes-preserve-unknown-fields")) or additional is True
    out: dict[str, Any] = {}
    for name, value in obj.items():
        if resource and name in _RESOURCE:
            out[name] = _metadata(value) if name == "metadata" else value
        elif name in properties:
            out[name] = prune(properties[name], value, resource_root=False)
        elif isinstance(additional, dict):
            out[name] = prune(additional, value, resource_root=False)
        elif keep_unknown:
            out[name] = value
    if len(out) == len(obj) and all(out[name] is value for name, value in obj.items()):
        return obj
    return out


def _metadata(value: Any) -> Any:
    if not isinstance(value, dict) or value.keys() <= OBJECT_META:
        return value
    return {name: item for name, item in value.items() if name in OBJECT_META}
