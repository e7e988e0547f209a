"""How the built-in kinds merge: which lists are keyed maps, which are sets, which maps are one value.

The shapes are written in the words of a structural schema, so that one reader serves custom resources (their CRD's schema) and built-in
kinds (this table). A list that is not named here is atomic, a map that is not named here merges key by key.
"""

from local.kinds import Served
from local.wire import JSON


def keyed(*keys: str, items: JSON | None = None, defaults: JSON | None = None) -> JSON:
    """A list of objects told apart by these keys; the first is the strategic merge key."""
    properties = {name: {"default": value} for name, value in (defaults or {}).items()}
    inner = dict(items or {})
    inner["properties"] = {**properties, **inner.get("properties", {})}
    return {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys), "items": inner}


def node(**properties: JSON) -> JSON:
    """An object with these shaped fields."""
    return {"type": "object", "properties": properties}


SET: JSON = {"type": "array", "x-kubernetes-list-type": "set", "items": {}}
ATOMIC_MAP: JSON = {"type": "object", "x-kubernetes-map-type": "atomic"}
BY_NAME = keyed("name")
PORTS_DEFAULT: JSON = {"protocol": "TCP"}

METADATA: JSON = node(finalizers=SET, ownerReferences=keyed("uid", items=ATOMIC_MAP))

_CONTAINER = node(
    ports=keyed("containerPort", "protocol", defaults=PORTS_DEFAULT),
    env=BY_NAME,
    volumeMounts=keyed("mountPath"),
    volumeDevices=keyed("devicePath"),
)
_POD_SPEC = node(
    containers=keyed("name", items=_CONTAINER),
    initContainers=keyed("name", items=_CONTAINER),
    ephemeralContainers=keyed("name", items=_CONTAINER),
    volumes=BY_NAME,
    imagePullSecrets=BY_NAME,
    hostAliases=keyed("ip"),
    schedulingGates=BY_NAME,
    topologySpreadConstraints=keyed("topologyKey", "whenUnsatisfiable"),
    nodeSelector=ATOMIC_MAP,
)
_CONDITIONS = keyed("type")
_TEMPLATE = node(metadata=METADATA, spec=_POD_SPEC)
_WORKLOAD = node(spec=node(template=_TEMPLATE, selector=ATOMIC_MAP), status=node(conditions=_CONDITIONS))
_HOOKS = node(webhooks=BY_NAME)

SHAPES: dict[str, JSON] = {
    "Pod": node(spec=_POD_SPEC, status=node(conditions=_CONDITIONS, podIPs=keyed("ip"))),
    "Service": node(
        spec=node(ports=keyed("port", "protocol", defaults=PORTS_DEFAULT), selector=ATOMIC_MAP), status=node(conditions=_CONDITIONS)
    ),
    "ServiceAccount": node(secrets=BY_NAME, imagePullSecrets=BY_NAME),
    "Namespace": node(status=node(conditions=_CONDITIONS)),
    "Node": node(spec=node(taints=keyed("key")), status=node(conditions=_CONDITIONS, addresses=keyed("type"))),
    "PersistentVolumeClaim": node(status=node(conditions=_CONDITIONS)),
    "Deployment": _WORKLOAD,
    "ReplicaSet": _WORKLOAD,
    "PodDisruptionBudget": node(status=node(conditions=_CONDITIONS)),
    "ValidatingWebhookConfiguration": _HOOKS,
    "MutatingWebhookConfiguration": _HOOKS,
    "CustomResourceDefinition": node(status=node(conditions=_CONDITIONS)),
}

# What a status keeps as one list under strategic merge although server-side apply calls it atomic.
EMPTY: JSON = {}


def shape_of(served: Served) -> JSON:
    """The merge shape of a kind, always with the shape of its metadata."""
    base = (served.schema or EMPTY) if served.custom else SHAPES.get(served.kind, EMPTY)
    properties = dict(base.get("properties") or EMPTY)
    properties["metadata"] = METADATA
    return {**base, "properties": properties}


def field(schema: JSON, name: str) -> JSON:
    """The shape of a field; an unknown one is {}."""
    properties = schema.get("properties")
    if properties:
        found = properties.get(name)
        if isinstance(found, dict):
            return found
    additional = schema.get("additionalProperties")
    return additional if isinstance(additional, dict) else EMPTY


def items(schema: JSON) -> JSON:
    """The shape of a list's items."""
    found = schema.get("items")
    return found if isinstance(found, dict) else EMPTY


def list_kind(schema: JSON) -> str:
    """`map`, `set` or `atomic`."""
    return str(schema.get("x-kubernetes-list-type") or "atomic")


def is_atomic_map(schema: JSON) -> bool:
    """Whether a map is one value."""
    return schema.get("x-kubernetes-map-type") == "atomic"


def map_keys(schema: JSON) -> list[str]:
    """The key fields of a keyed list."""
    return list(schema.get("x-kubernetes-list-map-keys") or ())


def key_default(schema: JSON, key: str) -> object:
    """What an absent key field means."""
    return field(items(schema), key).get("default")
