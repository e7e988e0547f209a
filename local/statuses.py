"""What an API server answers when it does not answer with an object: the `Status` kind as exceptions.

LocalError
  StatusError            any answer with a code, a reason and a message
    Undecodable          400, a body that is no value of its kind
    Invalid              422, with one cause per field
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from local.wire import JSON


class LocalError(Exception):
    """The root of this room's errors."""


class Cause(NamedTuple):
    """One field error: `type` is the API's word (`FieldValueRequired`, ...)."""

    field: str
    type: str
    message: str


class StatusError(LocalError):
    """An answer with a Status body."""

    def __init__(self, code: int, reason: str, message: str, *, details: JSON | None = None, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.retry_after = retry_after

    def body(self) -> JSON:
        """The Status object."""
        out: JSON = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "code": self.code,
        }
        if not self.reason:
            del out["reason"]
        details = dict(self.details or {})
        if self.retry_after is not None:
            details["retryAfterSeconds"] = self.retry_after
        if details:
            out["details"] = details
        return out


def qualified(plural: str, group: str) -> str:
    """`plural.group`, or the plural alone for the core group."""
    return f"{plural}.{group}" if group else plural


def _details(plural: str, group: str, name: str) -> JSON:
    out: JSON = {"name": name, "kind": plural}
    if group:
        out["group"] = group
    return out


def bad_request(message: str) -> StatusError:
    """400."""
    return StatusError(400, "BadRequest", message)


class UndecodableError(StatusError):
    """400: a value of another type than its field's. Of what a patch made, the patch is told to be invalid."""

    def __init__(self, message: str) -> None:
        super().__init__(400, "BadRequest", message)


def unauthorized() -> StatusError:
    """401."""
    return StatusError(401, "Unauthorized", "Unauthorized")


def forbidden(message: str, details: JSON | None = None) -> StatusError:
    """403."""
    return StatusError(403, "Forbidden", message, details=details)


def not_found(plural: str, group: str, name: str) -> StatusError:
    """404 for an object."""
    return StatusError(404, "NotFound", f'{qualified(plural, group)} "{name}" not found', details=_details(plural, group, name))


def no_such_path(message: str = "the server could not find the requested resource") -> StatusError:
    """404 for a path that nothing serves."""
    return StatusError(404, "NotFound", message, details={})


def method_not_allowed(message: str = "the server does not allow this method on the requested resource") -> StatusError:
    """405."""
    return StatusError(405, "MethodNotAllowed", message)


def not_acceptable(message: str) -> StatusError:
    """406."""
    return StatusError(406, "NotAcceptable", message)


def already_exists(plural: str, group: str, name: str) -> StatusError:
    """409 at creation."""
    return StatusError(409, "AlreadyExists", f'{qualified(plural, group)} "{name}" already exists', details=_details(plural, group, name))


STALE = "the object has been modified; please apply your changes to the latest version and try again"


def conflict(plural: str, group: str, name: str, why: str = STALE) -> StatusError:
    """409 of a write on a stale version or under a precondition that does not hold."""
    message = f'Operation cannot be fulfilled on {qualified(plural, group)} "{name}": {why}'
    return StatusError(409, "Conflict", message, details=_details(plural, group, name))


def expired(message: str) -> StatusError:
    """410: the history does not reach back that far."""
    return StatusError(410, "Expired", message)


def unsupported_media_type(message: str) -> StatusError:
    """415."""
    return StatusError(415, "UnsupportedMediaType", message)


def internal(message: str) -> StatusError:
    """500, worded as the API server words it."""
    return StatusError(500, "InternalError", f"Internal error occurred: {message}", details={"causes": [{"message": message}]})


def not_implemented(what: str) -> StatusError:
    """501: the embedded cluster's edge, said in a sentence."""
    return StatusError(501, "NotImplemented", f"the embedded cluster does not do this: {what}")


_MEANING = {
    "FieldValueRequired": "Required value",
    "FieldValueInvalid": "Invalid value",
    "FieldValueDuplicate": "Duplicate value",
    "FieldValueNotSupported": "Unsupported value",
    "FieldValueForbidden": "Forbidden",
    "FieldValueTooLong": "Too long",
    "FieldValueTooMany": "Too many",
    "FieldValueTypeInvalid": "Invalid value",
    "FieldValueNotFound": "Not found",
}


class InvalidError(StatusError):
    """422 with its causes."""

    def __init__(self, kind: str, group: str, name: str, causes: Sequence[Cause]) -> None:
        lines = [f"{cause.field}: {worded(cause)}" for cause in causes]
        text = lines[0] if len(lines) == 1 else "[" + ", ".join(lines) + "]"
        details: JSON = {"name": name, "kind": kind, "causes": list(cause_list(causes))}
        if group:
            details["group"] = group
        super().__init__(422, "Invalid", f'{qualified(kind, group)} "{name}" is invalid: {text}', details=details)


def worded(cause: Cause) -> str:
    """The message with its leading meaning, once."""
    meaning = _MEANING.get(cause.type, "Invalid value")
    return cause.message if cause.message.startswith(meaning) else f"{meaning}: {cause.message}" if cause.message else meaning


def cause_list(causes: Iterable[Cause]) -> Iterable[JSON]:
    """`details.causes[]`."""
    for cause in causes:
        yield {"reason": cause.type, "message": worded(cause), "field": cause.field}
