"""The little protobuf that kubectl insists on: `kubectl create namespace` and its like send typed objects in this form and in no other.

Only what those commands can say is read. A field that the tables do not name refuses the whole body, so nothing is lost in silence; answers
are always JSON, which every client takes. Field numbers: `generated.proto` of k8s.io/api.
"""

import base64
from collections.abc import Iterator
from typing import Any

from local.wire import JSON

MAGIC = b"k8s\x00"
MEDIA_TYPE = "application/vnd.kubernetes.protobuf"

Field = tuple[str, Any]
Message = dict[int, Field]

TEXT, NUMBER, FLAG, BYTES, TEXTS = "text", "number", "flag", "bytes", "texts"
MAP, BYTES_MAP, INT_OR_TEXT, SKIP = "map", "bytes map", "either", "skip"


# Numbers that typed clients always write, and that mean nothing at zero.
_ZERO_IS_ABSENT = frozenset({"generation", "healthCheckNodePort", "nodePort", "hostPort"})


class ProtobufError(ValueError):
    """A body that is none, or that says more than is read."""


_META: Message = {
    1: ("name", TEXT),
    2: ("generateName", TEXT),
    3: ("namespace", TEXT),
    5: ("uid", TEXT),
    6: ("resourceVersion", TEXT),
    7: ("generation", NUMBER),
    8: ("creationTimestamp", SKIP),
    11: ("labels", MAP),
    12: ("annotations", MAP),
    14: ("finalizers", TEXTS),
}
_RULE: Message = {
    1: ("verbs", TEXTS),
    2: ("apiGroups", TEXTS),
    3: ("resources", TEXTS),
    4: ("resourceNames", TEXTS),
    5: ("nonResourceURLs", TEXTS),
}
_SUBJECT: Message = {1: ("kind", TEXT), 2: ("apiGroup", TEXT), 3: ("name", TEXT), 4: ("namespace", TEXT)}
_ROLE_REF: Message = {1: ("apiGroup", TEXT), 2: ("kind", TEXT), 3: ("name", TEXT)}
_CONTAINER_PORT: Message = {
    1: ("name", TEXT),
    2: ("hostPort", NUMBER),
    3: ("containerPort", NUMBER),
    4: ("protocol", TEXT),
    5: ("hostIP", TEXT),
}
_CONTAINER: Message = {
    1: ("name", TEXT),
    2: ("image", TEXT),
    3: ("command", TEXTS),
    4: ("args", TEXTS),
    5: ("workingDir", TEXT),
    6: ("ports", [_CONTAINER_PORT]),
    7: ("env", [{1: ("name", TEXT), 2: ("value", TEXT)}]),
    8: ("resources", {}),
    13: ("terminationMessagePath", TEXT),
    14: ("imagePullPolicy", TEXT),
    20: ("terminationMessagePolicy", TEXT),
}
_SELECTOR: Message = {1: ("matchLabels", MAP)}
_POD_SPEC: Message = {2: ("containers", [_CONTAINER]), 3: ("restartPolicy", TEXT), 6: ("dnsPolicy", TEXT), 8: ("serviceAccountName", TEXT)}
_TEMPLATE: Message = {1: ("metadata", _META), 2: ("spec", _POD_SPEC)}
_DEPLOYMENT: Message = {1: ("replicas", NUMBER), 2: ("selector", _SELECTOR), 3: ("template", _TEMPLATE), 4: ("strategy", {})}
_SERVICE_PORT: Message = {
    1: ("name", TEXT),
    2: ("protocol", TEXT),
    3: ("port", NUMBER),
    4: ("targetPort", INT_OR_TEXT),
    5: ("nodePort", NUMBER),
}
_SERVICE: Message = {
    1: ("ports", [_SERVICE_PORT]),
    2: ("selector", MAP),
    3: ("clusterIP", TEXT),
    4: ("type", TEXT),
    5: ("externalIPs", TEXTS),
    7: ("sessionAffinity", TEXT),
    8: ("loadBalancerIP", TEXT),
    10: ("externalName", TEXT),
    11: ("externalTrafficPolicy", TEXT),
    12: ("healthCheckNodePort", NUMBER),
    13: ("publishNotReadyAddresses", FLAG),
}
_BUDGET: Message = {1: ("minAvailable", INT_OR_TEXT), 2: ("selector", _SELECTOR), 3: ("maxUnavailable", INT_OR_TEXT)}
_BINDING: Message = {1: ("metadata", _META), 2: ("subjects", [_SUBJECT]), 3: ("roleRef", _ROLE_REF)}
_ROLE: Message = {1: ("metadata", _META), 2: ("rules", [_RULE])}

_PRECONDITIONS: Message = {1: ("uid", TEXT), 2: ("resourceVersion", TEXT)}
_TYPE: Message = {1: ("apiVersion", TEXT), 2: ("kind", TEXT)}
_ENVELOPE: Message = {1: ("type", _TYPE), 2: ("raw", BYTES), 3: ("contentEncoding", SKIP), 4: ("contentType", SKIP)}

KINDS: dict[str, Message] = {
    "Namespace": {1: ("metadata", _META), 2: ("spec", {}), 3: ("status", SKIP)},
    "ConfigMap": {1: ("metadata", _META), 2: ("data", MAP), 3: ("binaryData", BYTES_MAP), 4: ("immutable", FLAG)},
    "Secret": {1: ("metadata", _META), 2: ("data", BYTES_MAP), 3: ("type", TEXT), 4: ("stringData", MAP), 5: ("immutable", FLAG)},
    "ServiceAccount": {1: ("metadata", _META)},
    "Role": _ROLE,
    "ClusterRole": _ROLE,
    "RoleBinding": _BINDING,
    "ClusterRoleBinding": _BINDING,
    "Deployment": {1: ("metadata", _META), 2: ("spec", _DEPLOYMENT), 3: ("status", SKIP)},
    "Service": {1: ("metadata", _META), 2: ("spec", _SERVICE), 3: ("status", SKIP)},
    "PodDisruptionBudget": {1: ("metadata", _META), 2: ("spec", _BUDGET), 3: ("status", SKIP)},
    "DeleteOptions": {1: ("gracePeriodSeconds", NUMBER), 2: ("preconditions", _PRECONDITIONS), 4: ("propagationPolicy", TEXT)},
}


def decode_object(body: bytes) -> JSON:
    """The object of a body. Raises ProtobufError."""
    if not body.startswith(MAGIC):
        raise ProtobufError("no Kubernetes protobuf")
    envelope = _message(body[len(MAGIC) :], _ENVELOPE, "body")
    head = envelope.get("type") or {}
    table = KINDS.get(head.get("kind", ""))
    if table is None:
        raise ProtobufError(f"{head.get('kind', 'this kind')} is not read as protobuf; send it as JSON (kubectl apply -f does)")
    return {**head, **_message(envelope.get("raw", b""), table, head["kind"])}


def _wire(body: bytes) -> Iterator[tuple[int, Any]]:
    """Field numbers and values: integers, or bytes."""
    position = 0
    while position < len(body):
        tag, position = _varint(body, position)
        match tag & 7:
            case 0:
                value, position = _varint(body, position)
                yield tag >> 3, value
            case 2:
                length, position = _varint(body, position)
                if position + length > len(body):
                    raise ProtobufError("cut off")
                yield tag >> 3, body[position : position + length]
                position += length
            case other:
                raise ProtobufError(f"wire type {other} is not read")


def _varint(body: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while position < len(body) and shift < 70:
        byte = body[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value - (1 << 64) if value >> 63 else value, position
        shift += 7
    raise ProtobufError("cut off")


def _message(body: bytes, table: Message, path: str) -> JSON:
    out: JSON = {}
    for number, value in _wire(body):
        if number not in table:
            if value in {0, b""}:
                continue
            raise ProtobufError(f"field {number} of {path} is not read as protobuf; send the object as JSON (kubectl apply -f does)")
        name, kind = table[number]
        _put(out, name, kind, value, f"{path}.{name}")
    return out


def _put(out: JSON, name: str, kind: Any, value: Any, path: str) -> None:
    if isinstance(kind, list):
        out.setdefault(name, []).append(_message(value, kind[0], path))
    elif isinstance(kind, dict):
        inner = _message(value, kind, path)
        if inner:
            out[name] = inner
    elif kind in {MAP, BYTES_MAP}:
        pair = dict(_wire(value))
        raw = pair.get(2, b"")
        out.setdefault(name, {})[pair.get(1, b"").decode()] = raw.decode() if kind == MAP else base64.b64encode(raw).decode()
    elif kind == TEXTS:
        out.setdefault(name, []).append(value.decode())
    elif kind == INT_OR_TEXT:
        parts = dict(_wire(value))
        if parts.get(1) or parts.get(2):
            out[name] = parts.get(3, b"").decode() if parts.get(1) else parts.get(2, 0)
    elif kind == TEXT:
        if value:
            out[name] = value.decode()
    elif kind == FLAG:
        out[name] = bool(value)
    elif kind == BYTES or (kind == NUMBER and (value or name not in _ZERO_IS_ABSENT)):
        out[name] = value
