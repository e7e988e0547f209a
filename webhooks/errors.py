"""What can go wrong while a review is answered, with its HTTP meaning on the type.

    AdmissionError
    ├── MalformedReviewError   400  the bytes are no review that can be judged
    │   ├── BrokenReviewError       the review itself (webhooks.wire)
    │   └── WrongShapeError         the object in it: JSON of other types than its kind's (webhooks.wire)
    ├── UnsupportedMediaError  415  the body is not declared as JSON
    ├── ReviewTooLargeError    413  the body, or what it holds, is more than the limit
    ├── TooManyBytesError      503  other senders' bodies fill what may be held at a time
    ├── LookupFailedError      500  an object the rules need could not be read
    └── CannotJudgeError       500  an object was read, and says that it cannot be judged by yet

A refusal is no error: it is an answer. A look-up that found nothing is no error either.
"""

from typing import ClassVar


class AdmissionError(Exception):
    """The root; `code` is the HTTP status, `reason` the CamelCase word of `metav1.Status`."""

    code: ClassVar[int] = 500
    reason: ClassVar[str] = "InternalError"


class MalformedReviewError(AdmissionError):
    """The bytes are no review that can be judged."""

    code = 400
    reason = "BadRequest"


class UnsupportedMediaError(AdmissionError):
    """The body is not declared as JSON."""

    code = 415
    reason = "UnsupportedMediaType"


class ReviewTooLargeError(AdmissionError):
    """The body is longer than the limit, or holds more values."""

    code = 413
    reason = "RequestEntityTooLarge"


class TooManyBytesError(AdmissionError):
    """Other senders' bodies fill what may be held at a time."""

    code = 503
    reason = "ServiceUnavailable"


class LookupFailedError(AdmissionError):
    """An object the rules need could not be read, so nothing was judged and failurePolicy decides."""


class CannotJudgeError(AdmissionError):
    """An object that was read says that it cannot be judged by yet; the writer retries."""
