"""What can go wrong between us and an API server, as one tree. Retry and meaning sit on the type, never on a message.

KubeError
├── ConfigError                 no usable kubeconfig, service account or credential
├── ApiError                    the server answered, and the answer is no: code, reason, message, details, retry_after
│   ├── BadRequest        400
│   ├── Unauthorized      401
│   ├── Forbidden         403
│   ├── NotFound          404
│   ├── Conflict          409   a stale resourceVersion, a failed precondition
│   │   └── AlreadyExists 409   reason AlreadyExists
│   ├── Gone              410   the resourceVersion or the continue token is too old: list again
│   ├── Invalid           422
│   ├── TooManyRequests   429
│   └── ServerError       5xx
└── TransportError              no whole answer came
    ├── ConnectFailed           the request never left us
    └── RequestTimeout          the deadline passed; the request may have been carried out
"""

import math
from typing import Any, ClassVar

import msgspec


class KubeError(Exception):
    """Anything that keeps an answer of the API server from us."""

    # May pass by itself: a read can be asked again.
    transient: ClassVar[bool] = False
    # The request was certainly not carried out: a write can be sent again too.
    untouched: ClassVar[bool] = False
    # Seconds the server asks to wait, where it said so.
    retry_after: float | None = None


class ConfigError(KubeError):
    """There is no configuration to connect with, or it cannot be used."""


class StatusBody(msgspec.Struct, frozen=True, rename="camel"):
    """A `v1 Status`, as far as it is read."""

    code: int = 0
    reason: str = ""
    message: str = ""
    details: dict[str, Any] | None = None


class ApiError(KubeError):
    """The server's refusal."""

    def __init__(
        self, code: int, reason: str = "", message: str = "", details: dict[str, Any] | None = None, retry_after: float | None = None
    ) -> None:
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details or {}
        self.retry_after = retry_after
        super().__init__(f"{code} {reason or type(self).__name__}: {message}")


class BadRequest(ApiError):
    """400: the request made no sense to the server."""


class Unauthorized(ApiError):
    """401: the credential is not, or no longer, good."""


class Forbidden(ApiError):
    """403: a role is missing, or an admission webhook refused."""


class NotFound(ApiError):
    """404: no such object, or no such resource."""


class Conflict(ApiError):
    """409: somebody else wrote meanwhile, or a precondition does not hold. Recompute, never replay."""


class AlreadyExists(Conflict):
    """409 on create: the name is taken."""


class Gone(ApiError):
    """410: the version asked for is no longer kept."""


class Invalid(ApiError):
    """422: the object breaks its schema; `details.causes` names the fields."""


class TooManyRequests(ApiError):
    """429: not now. The request was not carried out."""

    transient = True
    untouched = True


class ServerError(ApiError):
    """5xx: the server failed; a write may or may not have been carried out."""

    transient = True


class TransportError(KubeError):
    """The connection broke before a whole answer came."""

    transient = True


class ConnectFailed(TransportError):
    """No connection, so no request."""

    untouched = True


class RequestTimeout(TransportError):
    """No answer in time."""


_BY_CODE: dict[int, type[ApiError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    422: Invalid,
    429: TooManyRequests,
}


def parse_retry_after(text: str | None) -> float | None:
    """The header's whole seconds; the date form and nonsense are None, as the API server sends neither."""
    if text is None:
        return None
    try:
        seconds = float(text)
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


def error_from(http_status: int, body: bytes, retry_after: float | None = None) -> ApiError:
    """The error for an answer of `http_status` (4xx or 5xx, or a watch's ERROR object), whatever its body is."""
    try:
        status = msgspec.json.decode(body, type=StatusBody)
    except (msgspec.MsgspecError, RecursionError):
        status = StatusBody(message=body[:256].decode("utf-8", "replace"))
    code = http_status or status.code
    kind = _BY_CODE.get(code, ServerError if code >= 500 else ApiError)
    if kind is Conflict and status.reason == "AlreadyExists":
        kind = AlreadyExists
    if retry_after is None and status.details:
        seconds = status.details.get("retryAfterSeconds")
        retry_after = float(seconds) if isinstance(seconds, int) and seconds > 0 else None
    return kind(code, status.reason, status.message, status.details, retry_after)
