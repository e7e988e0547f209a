"""Small constructors for structural schemas. Each takes the field's description first, so that no field can be without one."""

from typing import Any, Final

from api.quantity import PATTERN as QUANTITY

Schema = dict[str, Any]

DNS_LABEL: Final = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
DNS_SUBDOMAIN: Final = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"

INVALID: Final = "FieldValueInvalid"
FORBIDDEN: Final = "FieldValueForbidden"
REQUIRED: Final = "FieldValueRequired"
DUPLICATE: Final = "FieldValueDuplicate"


def text(description: str, *, low: int | None = None, high: int | None = None, **more: Any) -> Schema:
    """A string; `low` and `high` bound its length."""
    return _with({"description": description, "type": "string"}, minLength=low, maxLength=high, **more)


def enum(description: str, *values: str, **more: Any) -> Schema:
    """A string that is one of the values."""
    return {"description": description, "type": "string", "enum": list(values), **more}


def time(description: str) -> Schema:
    """An RFC 3339 instant."""
    return text(description, format="date-time")


def integer(description: str, *, low: int | None = None, high: int | None = None, wide: bool = False, **more: Any) -> Schema:
    """An int32, or an int64 when `wide`."""
    return _with({"description": description, "type": "integer", "format": "int64" if wide else "int32"}, minimum=low, maximum=high, **more)


def boolean(description: str, **more: Any) -> Schema:
    """A bool."""
    return {"description": description, "type": "boolean", **more}


def quantity(description: str, *, pattern: str = QUANTITY, low: int | None = None, high: int | None = None, **more: Any) -> Schema:
    """A Kubernetes quantity as number or text; the bounds are those of the number form."""
    return _with(
        {
            "description": description,
            "x-kubernetes-int-or-string": True,
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "pattern": pattern,
            "maxLength": 64,
        },
        minimum=low,
        maximum=high,
        **more,
    )


def obj(description: str, properties: dict[str, Schema], *, required: tuple[str, ...] = (), **more: Any) -> Schema:
    """An object with those members. Without any there is no `properties`: a server drops an empty one, and agents see a difference."""
    out: Schema = {"description": description, "type": "object"} | ({"properties": properties} if properties else {})
    if required:
        out["required"] = list(required)
    return out | more


def mapping(description: str, values: Schema) -> Schema:
    """A map from free keys to values."""
    return {"description": description, "type": "object", "additionalProperties": values}


def atomic(description: str, items: Schema, *, high: int | None = None, **more: Any) -> Schema:
    """A list that is replaced as a whole."""
    return _with({"description": description, "type": "array", "items": items, "x-kubernetes-list-type": "atomic"}, maxItems=high, **more)


def keyed(
    description: str, keys: tuple[str, ...], items: Schema, *, low: int | None = None, high: int | None = None, **more: Any
) -> Schema:
    """A list of named things: no two entries share their keys, and server-side apply merges by them."""
    return _with(
        {
            "description": description,
            "type": "array",
            "items": items,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": list(keys),
        },
        minItems=low,
        maxItems=high,
        **more,
    )


def rule(expression: str, message: str, *, at: str = "", reason: str = INVALID) -> Schema:
    """A CEL rule; `at` is the field it is about, relative to where the rule stands."""
    return _with({"rule": expression, "message": message, "reason": reason}, fieldPath=at or None)


def rules(*entries: Schema) -> Schema:
    """The keyword that carries the rules of a schema."""
    return {"x-kubernetes-validations": list(entries)}


def local_ref(description: str, what: str, **more: Any) -> Schema:
    """A reference by name within the namespace."""
    return obj(description, {"name": text(f"Name of the {what}.", low=1, high=253, pattern=DNS_SUBDOMAIN)}, required=("name",), **more)


def conditions(description: str) -> Schema:
    """`status.conditions`, as `metav1.Condition`."""
    return keyed(
        description,
        ("type",),
        obj(
            "One observation about the object.",
            {
                "type": text("What the condition is about, in CamelCase.", high=316),
                "status": enum("Whether it holds: True, False, or Unknown where nothing is known.", "True", "False", "Unknown"),
                "reason": text(
                    "Why, as one CamelCase word for programs.", low=1, high=1024, pattern="^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"
                ),
                "message": text("Why, for people.", high=32768),
                "lastTransitionTime": time("When the status last changed."),
                "observedGeneration": integer("The metadata.generation that was judged.", low=0, wide=True),
            },
            required=("type", "status", "reason", "message", "lastTransitionTime"),
        ),
        high=64,
    )


def observed_generation() -> Schema:
    """`status.observedGeneration`."""
    return integer("The metadata.generation that this status describes.", low=0, wide=True)


def column(name: str, path: str, *, kind: str = "string", priority: int = 0, description: str = "") -> Schema:
    """A printer column of `kubectl get`."""
    return _with({"name": name, "type": kind, "jsonPath": path}, description=description or None, priority=priority or None)


def definition(
    *,
    kind: str,
    plural: str,
    description: str,
    spec: Schema,
    status: Schema,
    columns: list[Schema],
    short: tuple[str, ...] = (),
    cluster: bool = False,
    validations: Schema | None = None,
    required: tuple[str, ...] = ("spec",),
) -> Schema:
    """A CustomResourceDefinition with one version, served and stored, and the status subresource only."""
    schema = obj(
        description,
        {
            "apiVersion": text("The versioned schema of this representation of an object."),
            "kind": text("The REST resource that this object represents."),
            "metadata": {"type": "object"},
            "spec": spec,
            "status": status,
        },
        required=required,
    ) | (validations or {})
    names = _with(
        {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower(), "categories": ["gpustack"]},
        shortNames=list(short) or None,
    )
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.worker.gpustack.ai", "labels": {"app.kubernetes.io/part-of": "modelwarden"}},
        "spec": {
            "group": "worker.gpustack.ai",
            "names": names,
            "scope": "Cluster" if cluster else "Namespaced",
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": columns,
                }
            ],
        },
    }


def _with(base: Schema, **more: Any) -> Schema:
    return base | {name: value for name, value in more.items() if value is not None}
