"""What a validation finds: one value per fault, in the words of `metav1.StatusCause`."""

import json
from typing import Any, Final

import msgspec

REQUIRED: Final = "FieldValueRequired"
INVALID: Final = "FieldValueInvalid"
TYPE_INVALID: Final = "FieldValueTypeInvalid"
NOT_SUPPORTED: Final = "FieldValueNotSupported"
DUPLICATE: Final = "FieldValueDuplicate"
FORBIDDEN: Final = "FieldValueForbidden"
TOO_LONG: Final = "FieldValueTooLong"
TOO_MANY: Final = "FieldValueTooMany"


class FieldError(msgspec.Struct, frozen=True):
    """One fault: `field` is a path as the API server writes it (`spec.roles[0].name`), `type` is the cause's reason, `message` its text."""

    field: str
    type: str
    message: str


def required(field: str, detail: str = "") -> FieldError:
    """A member that has to be there is not."""
    return FieldError(field, REQUIRED, f"Required value: {detail}" if detail else "Required value")


def invalid(field: str, value: Any, detail: str, kind: str = INVALID) -> FieldError:
    """A value that breaks a bound, a pattern or a rule."""
    return FieldError(field, kind, f"Invalid value: {shown(value)}: {detail}")


def not_supported(field: str, value: Any, allowed: list[Any]) -> FieldError:
    """A value outside its enumeration."""
    return FieldError(field, NOT_SUPPORTED, f"Unsupported value: {shown(value)}: supported values: {', '.join(map(shown, allowed))}")


def duplicate(field: str, value: Any) -> FieldError:
    """A list entry whose key an earlier entry carries already."""
    return FieldError(field, DUPLICATE, f"Duplicate value: {shown(value)}")


def forbidden(field: str, detail: str) -> FieldError:
    """A value that may not be set here."""
    return FieldError(field, FORBIDDEN, f"Forbidden: {detail}")


def shown(value: Any) -> str:
    """The value as an error shows it: scalars as JSON, everything larger by its type."""
    if isinstance(value, dict):
        return (
            json.dumps(value, ensure_ascii=False, separators=(",", ":"))
            if len(value) <= 2 and not any(map(_large, value.values()))
            else '"object"'
        )
    if isinstance(value, list):
        return '"array"'
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 256 else text[:253] + '..."'


def _large(value: Any) -> bool:
    return isinstance(value, dict | list)


def child(path: str, name: str) -> str:
    """The path of a member, quoted in brackets where a dot would read wrong."""
    if not path:
        return name
    return f"{path}.{name}"


def key(path: str, name: str) -> str:
    """The path of an entry of a map whose keys are data (`additionalProperties`)."""
    return f"{path}.{name}" if name.replace("_", "a").replace("-", "a").isalnum() else f"{path}[{name}]"
