"""Admission reviews as bytes, read in one pass.

A review is decoded once into structs whose leaves are raw JSON, so that what no rule reads (managedFields, status, options) is stepped over
and never becomes an object. The same leaves prove that no key occurs twice: encoded again they are as long as what came in, unless the
sender used blanks, escapes that are not needed, a member we do not name, or a duplicate; only then the slow, exact look is taken.

Refuses to do: judging, and anything that needs a loop or a socket.
Source: decisions D4 and D5, field lessons F83, F84, F86, `70-performance`.
"""

import json
import re
from functools import lru_cache
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET, Raw, UnsetType

from api.members import repeated
from api.objects import ModelDeployment, ModelDeploymentScaler, ModelDeploymentSpec, ObjectMeta, OwnerReference, ScalerSpec
from webhooks.errors import MalformedReviewError, ReviewTooLargeError
from webhooks.response import API_VERSION, KIND, Envelope

T = TypeVar("T")
D = TypeVar("D")


Text = str | UnsetType | None
"""A text that may be absent or null, which are one answer, as the API has it."""


class _Wire(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """Leaves of a review; an absent member stays absent when encoded again."""


class Metadata(_Wire, frozen=True):
    """Every member of ObjectMeta: what is small and read is read, the rest waits."""

    name: Text = UNSET
    generate_name: Text = UNSET
    namespace: Text = UNSET
    self_link: Raw | UnsetType = UNSET
    uid: Text = UNSET
    resource_version: Raw | UnsetType = UNSET
    generation: int | UnsetType | None = UNSET
    creation_timestamp: Raw | UnsetType = UNSET
    deletion_timestamp: Text = UNSET
    deletion_grace_period_seconds: Raw | UnsetType = UNSET
    labels: Raw | UnsetType = UNSET
    annotations: Raw | UnsetType = UNSET
    owner_references: Raw | UnsetType = UNSET
    finalizers: Raw | UnsetType = UNSET
    managed_fields: Raw | UnsetType = UNSET


class Object(_Wire, frozen=True):
    """An object under review, its parts unread."""

    api_version: Raw | UnsetType = UNSET
    kind: Raw | UnsetType = UNSET
    metadata: Metadata | UnsetType | None = UNSET
    spec: Raw | UnsetType = UNSET
    status: Raw | UnsetType = UNSET


class Resource(_Wire, frozen=True):
    """`request.resource`."""

    group: Text = UNSET
    version: Text = UNSET
    resource: Text = UNSET


class _UserInfo(_Wire, frozen=True):
    username: Text = UNSET
    uid: Raw | UnsetType = UNSET
    groups: Raw | UnsetType = UNSET
    extra: Raw | UnsetType = UNSET


class _Request(_Wire, frozen=True):
    uid: Text = UNSET
    kind: Raw | UnsetType = UNSET
    resource: Resource | UnsetType | None = UNSET
    sub_resource: Text = UNSET
    request_kind: Raw | UnsetType = UNSET
    request_resource: Raw | UnsetType = UNSET
    request_sub_resource: Raw | UnsetType = UNSET
    name: Text = UNSET
    namespace: Text = UNSET
    operation: Text = UNSET
    user_info: _UserInfo | UnsetType | None = UNSET
    object: Object | UnsetType | None = UNSET
    old_object: Object | UnsetType | None = UNSET
    dry_run: bool | UnsetType | None = UNSET
    options: Raw | UnsetType = UNSET


class _Review(_Wire, frozen=True):
    api_version: Text = UNSET
    kind: Text = UNSET
    request: _Request | UnsetType | None = UNSET


class Request(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """`request` of a review, as far as rules read it; the two objects still wait in their leaves."""

    uid: str
    operation: str = ""
    sub_resource: str = ""
    name: str = ""
    namespace: str = ""
    username: str = ""
    dry_run: bool = False
    object: Object | None = None
    old_object: Object | None = None


class WrongShapeError(MalformedReviewError):
    """Well-formed JSON that is not of its kind's types. Raised by the readers of the object under review."""


_review = msgspec.json.Decoder(_Review)
_encoder = msgspec.json.Encoder()
_leaves = msgspec.json.Decoder(dict[str, Raw])
_texts = msgspec.json.Decoder(dict[str, str])
_references = msgspec.json.Decoder(tuple[OwnerReference, ...])
# A number keeps its digits: 1e9 encoded again as 1000000000.0 would be longer, and hide a key that occurs twice behind it.
_anything = msgspec.json.Decoder(float_hook=lambda digits: Raw(digits.encode()))
_deployment_spec = msgspec.json.Decoder(ModelDeploymentSpec)
_scaler_spec = msgspec.json.Decoder(ScalerSpec)


class BrokenReviewError(MalformedReviewError):
    """A review that cannot be judged, with what of its envelope could be read."""

    def __init__(self, message: str, envelope: Envelope | None = None) -> None:
        super().__init__(message)
        self.envelope = envelope or Envelope()


def read_review(body: bytes) -> tuple[Envelope, Request]:
    """Decode a review. Raises BrokenReviewError (400) for anything that is no review with a request."""
    try:
        review = _review.decode(body)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise BrokenReviewError(f"the body is no AdmissionReview: {_why(error)}", _rescue(body)) from error
    request = review.request
    if review.kind and review.kind != KIND:
        uid = request.uid if isinstance(request, _Request) else UNSET
        raise BrokenReviewError(f"the body is a {review.kind[:64]}, not an AdmissionReview", Envelope(uid or ""))
    api_version, kind = review.api_version or API_VERSION, review.kind or KIND
    if request is UNSET or request is None:
        raise BrokenReviewError("the review has no request", Envelope("", api_version, kind))
    envelope = Envelope(request.uid or "", api_version, kind)
    if not request.uid:
        raise BrokenReviewError("the request has no uid", envelope)
    if len(_encoder.encode(review)) != len(body) - body.endswith(b"\n"):
        _refuse_duplicates(body, envelope)
    operation = request.operation or ""
    if not (request.object and (operation == "CREATE" or (operation == "UPDATE" and request.old_object))):
        _refuse_incomplete(request, operation, envelope)
    user = request.user_info
    return envelope, Request(
        uid=request.uid,
        operation=operation,
        sub_resource=request.sub_resource or "",
        name=request.name or "",
        namespace=request.namespace or "",
        username=(user.username or "") if user else "",
        dry_run=bool(request.dry_run),
        object=request.object or None,
        old_object=request.old_object or None,
    )


OPERATIONS = frozenset({"CREATE", "UPDATE", "DELETE", "CONNECT"})


def _refuse_incomplete(request: _Request, operation: str, envelope: Envelope) -> None:
    """What cannot be judged is not let through: an unknown operation, a write without its object, an update without the stored one."""
    if operation not in OPERATIONS:
        raise BrokenReviewError(f"the operation {operation[:64]!r} is none of {', '.join(sorted(OPERATIONS))}", envelope)
    if operation in {"CREATE", "UPDATE"} and not request.object:
        raise BrokenReviewError(f"the {operation} has no object", envelope)
    if operation == "UPDATE" and not request.old_object:
        raise BrokenReviewError("the UPDATE has no oldObject", envelope)


def given(leaf: Raw | UnsetType) -> Raw | None:
    """A member, or None when it is not there or null: one answer, as the API has it."""
    if leaf is UNSET or (len(leaf) == 4 and bytes(leaf) == b"null"):
        return None
    return leaf


def read_metadata(obj: Object, *, owners: bool = False, labels: bool = False) -> ObjectMeta:
    """`metadata` as the rules read it; annotations always, labels and owners where asked."""
    meta = obj.metadata
    if not meta:
        return ObjectMeta()
    annotations: dict[str, str] = {}
    written = given(meta.annotations)
    if written is not None:
        if len(_encoder.encode(_decode(_leaves, written))) != len(written):
            _scan(bytes(written))
        annotations = _decode(_texts, written)
    return ObjectMeta(
        name=meta.name or "",
        generate_name=meta.generate_name or "",
        namespace=meta.namespace or "",
        uid=meta.uid or "",
        generation=meta.generation or 0,
        deletion_timestamp=meta.deletion_timestamp or None,
        annotations=annotations,
        labels=_leaf(meta.labels, _texts, {}) if labels else {},
        owner_references=_leaf(meta.owner_references, _references, ()) if owners else (),
    )


def read_deployment(obj: Object) -> ModelDeployment:
    """The ModelDeployment in its leaves. Raises WrongShapeError when its types are not those of the kind."""
    return ModelDeployment(metadata=read_metadata(obj), spec=read_deployment_spec(spec_text(obj)))


def spec_text(obj: Object) -> bytes:
    """`spec` as it came; empty where it is absent or null."""
    spec = given(obj.spec)
    return b"" if spec is None else bytes(spec)


def read_deployment_spec(text: bytes) -> ModelDeploymentSpec:
    """A ModelDeployment's `spec`, remembered by its very bytes where it is of a usual size.

    The old object of a write is the new one of the write before, and most writes are sent again: dry runs, re-applied manifests. Raises
    MalformedReviewError when a key occurs twice in it, WrongShapeError when its types are not those of the kind.
    """
    return _remembered_spec(text) if len(text) <= REMEMBERED_BYTES else _read_deployment_spec(text)


def _read_deployment_spec(text: bytes) -> ModelDeploymentSpec:
    if not text:
        return ModelDeploymentSpec()
    _refuse_repeats(text)
    return _decode(_deployment_spec, text)


REMEMBERED_SPECS, REMEMBERED_BYTES = 256, 8192

_remembered_spec = lru_cache(maxsize=REMEMBERED_SPECS)(_read_deployment_spec)


def read_scaler(obj: Object) -> ModelDeploymentScaler:
    """The ModelDeploymentScaler in its leaves."""
    return ModelDeploymentScaler(metadata=read_metadata(obj), spec=read_spec(obj, _scaler_spec, ScalerSpec()))


MOST_VALUES = 50_000
"""A spec with more members and items than that is none that an API server could store; each would cost a hundred times its bytes here."""


def _refuse_repeats(leaf: Raw | bytes) -> None:
    """A leaf that becomes an object has no key twice: decoded and encoded again it is as long as before, or looked at exactly.

    Raises ReviewTooLargeError before that where it holds masses of small values.
    """
    if len(leaf) > MOST_VALUES and bytes(leaf).count(b",") > MOST_VALUES:
        raise ReviewTooLargeError(f"a part of the object holds more than {MOST_VALUES} values")
    if len(_encoder.encode(_decode(_anything, leaf))) != len(leaf):
        _scan(bytes(leaf))


def read_spec(obj: Object, decoder: "msgspec.json.Decoder[T]", default: T) -> T:
    """`spec` by a decoder of its kind, or the default where it is absent.

    Raises MalformedReviewError when a key occurs twice in it, WrongShapeError when its types are not those of the kind.
    """
    spec = given(obj.spec)
    if spec is None:
        return default
    _refuse_repeats(spec)
    return _decode(decoder, spec)


def _leaf(leaf: Raw | UnsetType, decoder: "msgspec.json.Decoder[T]", default: D) -> T | D:
    found = given(leaf)
    if found is None:
        return default
    _refuse_repeats(found)
    return _decode(decoder, found)


def _decode(decoder: "msgspec.json.Decoder[T]", leaf: Raw | bytes) -> T:
    """A leaf of the object under review. What goes wrong here is the sender's; a decode fault anywhere else is ours."""
    try:
        return decoder.decode(leaf)
    except msgspec.ValidationError as error:
        raise WrongShapeError(str(error)) from error
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedReviewError(_why(error)) from error


# ------------------------------------------------------------------------------------------------------ duplicates


def _refuse_duplicates(body: bytes, envelope: Envelope) -> None:
    try:
        _scan(body)
    except MalformedReviewError as error:
        raise BrokenReviewError(str(error), envelope) from error


def _scan(text: bytes) -> None:
    """The exact look at every member of a document. Raises MalformedReviewError when a key occurs twice in one object."""
    try:
        json.loads(text.decode("utf-8", "surrogateescape"), object_pairs_hook=_once)  # bytes nobody reads may be anything
    except MalformedReviewError:
        raise
    except (ValueError, RecursionError) as error:
        raise MalformedReviewError(f"the body is no JSON: {_why(error)}") from error


def _once(pairs: list[tuple[str, Any]]) -> None:
    """An object's members, each once; the values are not kept."""
    key = repeated(pairs)
    if key is not None:
        raise MalformedReviewError(f"the key {key[:64]!r} occurs twice in one object")


class _RescuedRequest(msgspec.Struct, frozen=True):
    uid: str = ""


class _Rescued(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str = API_VERSION
    kind: str = KIND
    request: _RescuedRequest | None = None


# The API server writes the uid as the first member of the request: enough when nothing behind it can be read.
_UID_FIRST = re.compile(rb'"request"\s*:\s*\{\s*"uid"\s*:\s*"([-0-9A-Za-z]{1,64})"')

_rescued = msgspec.json.Decoder(_Rescued)


def _rescue(body: bytes) -> Envelope:
    """The envelope of a review whose rest is broken, as far as it can be read."""
    try:
        review = _rescued.decode(body)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        found = _UID_FIRST.search(body[:1024])
        return Envelope(found[1].decode("ascii") if found else "")
    return Envelope(review.request.uid if review.request else "", review.api_version, review.kind)


def _why(error: BaseException) -> str:
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)
