"""One object judged as an API server with our definitions judges it: pruned, defaulted, validated, CEL rules included."""

from typing import Any

import msgspec

from api.crd import schema_of
from api.keys import API_VERSION
from api.meta import ObjectMeta
from api.schema import FieldError, default, prune, validate
from api.schema.errors import NOT_SUPPORTED, TYPE_INVALID


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
    faults, metadata = _metadata(stored)
    return stored, [*faults, *validate(schema, stored | {"metadata": metadata} if faults else stored, before)]


def _metadata(obj: dict[str, Any]) -> tuple[list[FieldError], dict[str, Any]]:
    """What no definition says and every server demands: the types of ObjectMeta. The faults, and the metadata without what has them."""
    faults: list[FieldError] = []
    kept: dict[str, Any] = {}
    written = obj.get("metadata")
    for member, value in written.items() if isinstance(written, dict) else ():
        try:
            msgspec.convert({member: value}, ObjectMeta)
        except msgspec.ValidationError as error:
            said = str(error).partition(" - at ")[0]
            unquoted = said.startswith("Expected `str") and said.endswith(("`int`", "`float`", "`bool`"))
            fix = ": quote what YAML would read as a number or a switch" if unquoted else ""
            faults.append(FieldError(f"metadata.{member}", TYPE_INVALID, f"Invalid value: {said}{fix}"))
        else:
            kept[member] = value
    return faults, kept
