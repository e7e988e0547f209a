"""JSON as it crosses the wire of the embedded cluster: one encoder, and objects that always begin with apiVersion and kind.

The order matters: a stored object is kept as bytes, and another served version of it is the same bytes with another beginning.
"""

from typing import Any

import msgspec
import yaml

JSON = dict[str, Any]

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder()

encode = _encoder.encode
decode = _decoder.decode


def encode_object(obj: JSON) -> bytes:
    """An object's bytes, apiVersion and kind first."""
    head = {"apiVersion": obj.get("apiVersion", ""), "kind": obj.get("kind", "")}
    head.update({key: value for key, value in obj.items() if key not in head})
    return encode(head)


_HEAD = b'{"apiVersion":"'


def swap_version(body: bytes, wanted: str) -> bytes:
    """Stored bytes under another apiVersion (conversion strategy None), whatever version they were stored in."""
    start = _HEAD + wanted.encode() + b'"'
    return body if body.startswith(start) else start + body[body.index(b'"', len(_HEAD)) + 1 :]


def copy(value: Any) -> Any:
    """A deep copy of a JSON value."""
    return decode(encode(value))


class DocumentError(ValueError):
    """A body that is neither JSON nor YAML."""


def read_document(body: bytes) -> Any:
    """A body as JSON, or as YAML where it is not JSON. Raises DocumentError."""
    try:
        return decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as first:
        if body.lstrip()[:1] in {b"{", b"["}:
            raise DocumentError(str(first)) from first
    try:
        # timestamps stay texts: Kubernetes' own YAML reader knows no dates
        return yaml.load(body, Loader=PlainLoader)  # noqa: S506  a safe loader, narrowed
    except (yaml.YAMLError, RecursionError, UnicodeDecodeError) as fault:
        raise DocumentError(str(fault)) from fault


class PlainLoader(yaml.SafeLoader):
    """The safe loader without dates."""


PlainLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in pairs if tag != "tag:yaml.org,2002:timestamp"]
    for first, pairs in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
