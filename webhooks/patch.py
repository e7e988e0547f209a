"""JSON patches: minimal, and empty where nothing is to be changed, so that a second call of the webhook changes nothing (RFC 6902)."""

from typing import Any

import msgspec

from api.objects import Struct


class Operation(Struct, frozen=True):
    """One operation of a JSON patch; only additions are ever made."""

    op: str
    path: str
    value: Any


def add(path: str, value: Any) -> Operation:
    """Add a member, or append where the path ends in `/-`."""
    return Operation(op="add", path=path, value=value)


def encode_patch(operations: list[Operation]) -> bytes | None:
    """The patch's bytes, or None when there is nothing to do."""
    return msgspec.json.encode(operations) if operations else None


def apply_patch(document: Any, operations: list[Operation]) -> Any:
    """The document with the additions made: what the API server will hold. The document given is not touched."""
    patched = msgspec.json.decode(msgspec.json.encode(document))
    for operation in operations:
        *parents, last = [part.replace("~1", "/").replace("~0", "~") for part in operation.path.split("/")[1:]]
        place = patched
        for part in parents:
            place = place[int(part)] if isinstance(place, list) else place[part]
        if isinstance(place, list):
            place.insert(len(place) if last == "-" else int(last), operation.value)
        else:
            place[last] = operation.value
    return patched
