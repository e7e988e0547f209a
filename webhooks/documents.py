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
    return msgspec.convert(document, kind)
