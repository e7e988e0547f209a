"""Between what is stored and what a version shows. Custom resources convert by name only (strategy None); Events convert field by field.

An Event is stored as `v1` and also served as `events.k8s.io/v1`, where the same facts have other names.
"""

from local.kinds import Served
from local.wire import JSON, decode, encode_object, swap_version

# events.k8s.io/v1 to v1
_EVENT = {
    "regarding": "involvedObject",
    "note": "message",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
    "reportingController": "reportingComponent",
}
_EVENT_BACK = {core: new for new, core in _EVENT.items()}


def is_renamed(served: Served) -> bool:
    """Whether the version names its fields differently from the stored one."""
    return served.group == "events.k8s.io"


def to_stored(served: Served, obj: JSON) -> JSON:
    """The object as it is stored."""
    if is_renamed(served):
        obj = {_EVENT.get(key, key): value for key, value in obj.items()}
    return {**obj, "apiVersion": served.stored_api_version}


def from_stored(served: Served, obj: JSON) -> JSON:
    """A stored object as this version shows it."""
    if is_renamed(served):
        obj = {_EVENT_BACK.get(key, key): value for key, value in obj.items()}
    return {**obj, "apiVersion": served.api_version}


def show(served: Served, body: bytes) -> bytes:
    """Stored bytes as this version shows them."""
    if is_renamed(served):
        return encode_object(from_stored(served, decode(body)))
    return swap_version(body, served.api_version)
