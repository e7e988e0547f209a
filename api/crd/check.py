"""One object judged as an API server with our definitions judges it: pruned, defaulted, validated, CEL rules included."""

from typing import Any

from api.crd import schema_of
from api.keys import API_VERSION
from api.schema import FieldError, default, prune, validate
from api.schema.errors import NOT_SUPPORTED


def admit(obj: dict[str, Any], old: dict[str, Any] | None = None) -> tuple[dict[str, Any], list[FieldError]]:
    """The object as it would be stored, and every fault it has. `old` is the stored object where this is an update."""
    kind = obj.get("kind", "")
    try:
        schema = schema_of(kind)
    except (KeyError, TypeError):  # a kind that is no text has no definition either
        return obj, [FieldError("kind", NOT_SUPPORTED, f'Unsupported value: "{kind}": no definition here has this kind')]
    if obj.get("apiVersion") != API_VERSION:
        message = f'Unsupported value: "{obj.get("apiVersion", "")}": supported values: "{API_VERSION}"'
        return obj, [FieldError("apiVersion", NOT_SUPPORTED, message)]
    stored = default(schema, prune(schema, obj))
    before = None if old is None else default(schema, prune(schema, old))
    return stored, validate(schema, stored, before)
