"""Objects that came from files instead of a server, as structs.

A ModelDeployment's status stays raw JSON in its struct, and no rule of admission reads it. An object that was exported from a cluster
has one, and a document that was read from YAML cannot be turned into raw JSON, so the status is left out here.
"""

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from api.objects import ModelDeployment

T = TypeVar("T")


def read_document(document: Mapping[str, Any], kind: type[T]) -> T:
    """The document as that struct. Raises msgspec.ValidationError where its types are not those of the kind."""
    if kind is ModelDeployment:
        document = {name: value for name, value in document.items() if name != "status"}
    try:
        return msgspec.convert(document, kind)
    except msgspec.ValidationError:
        return msgspec.convert(_whole(document), kind)


def _whole(value: Any) -> Any:
    """The value with `2.0` as 2 throughout: a server takes the one for the other, and stores 2."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        return {name: _whole(item) for name, item in value.items()}
    return [_whole(item) for item in value] if isinstance(value, list) else value
