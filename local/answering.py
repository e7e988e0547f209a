"""Answers: which representation the client accepts, and how the bytes go out."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from aiohttp import web

from local import statuses
from local.statuses import StatusError
from local.wire import JSON, encode

OBJECT, TABLE, METADATA, DISCOVERY = "Object", "Table", "PartialObjectMetadata", "APIGroupDiscoveryList"
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_TYPES = {"application/json", "application/*", "*/*"}


@dataclass(frozen=True, slots=True)
class Representation:
    """What the client gets: plain objects, a Table, metadata only, or the aggregated discovery form."""

    kind: str = OBJECT
    version: str = "v1"


PLAIN = Representation()


def accepted(header: str, *, offered: tuple[str, ...] = (OBJECT, TABLE, METADATA)) -> Representation:
    """The first media type of `Accept` that is offered. Raises 406 where there is none."""
    if not header or header == "*/*":
        return PLAIN
    for entry in header.split(","):
        media, *rest = (part.strip() for part in entry.split(";"))
        if media not in _TYPES:
            continue
        parameters = dict(part.partition("=")[::2] for part in rest)
        kind = parameters.get("as", "")
        if not kind:
            return PLAIN
        kind = kind.removesuffix("List") if kind == "PartialObjectMetadataList" else kind
        if kind in offered and parameters.get("v", "v1") in {"v1", "v1beta1", "v2", "v2beta1"}:
            return Representation(kind, parameters.get("v", "v1"))
    raise statuses.not_acceptable("only the following media types are accepted: application/json, application/json;as=Table")


def json_response(
    body: bytes | JSON, code: int = 200, warnings: Iterable[str] = (), content_type: str = "application/json"
) -> web.Response:
    """A response with its warnings as headers."""
    answer = web.Response(
        body=body if isinstance(body, bytes) else encode(body),
        status=code,
        content_type=content_type,
        headers={"Cache-Control": "no-cache, private"},
    )
    for text in dict.fromkeys(warnings):
        if not _CONTROL.search(text):  # a header holds no line break: an API server drops such a warning
            answer.headers.add("Warning", warning_header(text))
    return answer


def warning_header(text: str) -> str:
    """RFC 7234's form."""
    escaped = text[:4096].replace("\\", "\\\\").replace('"', '\\"')
    return f'299 - "{escaped}"'


def status_response(fault: StatusError, warnings: Iterable[str] = ()) -> web.Response:
    """A Status answer."""
    answer = json_response(fault.body(), fault.code, warnings)
    if fault.retry_after is not None:
        answer.headers["Retry-After"] = str(fault.retry_after)
    return answer
