"""Answers to reviews, as bytes: apiVersion, kind and uid mirrored, a verdict, and what explains it.

Source: decisions D4 and D5, field lesson F84.
"""

import msgspec
from msgspec import UNSET, UnsetType

API_VERSION = "admission.k8s.io/v1"
KIND = "AdmissionReview"

_encoder = msgspec.json.Encoder()


class Envelope(msgspec.Struct, frozen=True, gc=False):
    """What every answer mirrors, good or bad."""

    uid: str = ""
    api_version: str = API_VERSION
    kind: str = KIND


class Cause(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One entry of `status.details.causes`."""

    reason: str = ""
    message: str = ""
    field: str = ""


class Details(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`status.details`."""

    name: str = ""
    group: str = ""
    kind: str = ""
    causes: tuple[Cause, ...] = ()


class Status(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """`metav1.Status`, as an admission response carries it."""

    api_version: str = ""
    kind: str = ""
    status: str = ""
    message: str = ""
    reason: str = ""
    details: Details | None = None
    code: int = 0


class Response(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """`response` of a review. `patch` is the JSON patch's own bytes; the wire carries them as base64."""

    uid: str | UnsetType = UNSET
    allowed: bool | UnsetType = UNSET
    status: Status | None = None
    patch: bytes | UnsetType = UNSET
    patch_type: str | UnsetType = UNSET
    audit_annotations: dict[str, str] = {}
    warnings: tuple[str, ...] = ()


class _Answer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    api_version: str
    kind: str
    response: Response


def allow(*, patch: bytes | None = None, audit: dict[str, str] | None = None, warnings: tuple[str, ...] = ()) -> Response:
    """A review that passes."""
    return Response(
        allowed=True,
        patch=patch if patch is not None else UNSET,
        patch_type="JSONPatch" if patch is not None else UNSET,
        audit_annotations=audit or {},
        warnings=warnings,
    )


def refuse(
    code: int,
    reason: str,
    message: str,
    *,
    details: Details | None = None,
    audit: dict[str, str] | None = None,
    warnings: tuple[str, ...] = (),
) -> Response:
    """A review that does not pass."""
    return Response(
        allowed=False,
        status=Status(status="Failure", message=message, reason=reason, code=code, details=details),
        audit_annotations=audit or {},
        warnings=warnings,
    )


def write_answer(envelope: Envelope, response: Response) -> bytes:
    """The bytes of an answer: apiVersion, kind and uid as they came."""
    answer = _Answer(api_version=envelope.api_version, kind=envelope.kind, response=msgspec.structs.replace(response, uid=envelope.uid))
    return _encoder.encode(answer)
