"""The CEL rules of a schema, walked over an object (`x-kubernetes-validations`)."""

from collections.abc import Iterator
from typing import Any

from api.schema.errors import FieldError


def check(schema: dict[str, Any], obj: Any, old: Any, path: str = "") -> Iterator[FieldError]:
    """Every rule that does not hold. Written next."""
    yield from ()
