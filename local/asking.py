"""A request taken apart: which resource, which verb, which options. Paths that nothing serves end here with a sentence."""

from dataclasses import dataclass
from typing import Any

from aiohttp import web

from local import statuses
from local.kinds import Registry, Served
from local.protobuf import MEDIA_TYPE, ProtobufError, decode_object
from local.wire import DocumentError, read_document

BODY_LIMIT = 3 << 20
_VERBS = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
# Paths of the real API that people may try here, and what to say about them.
_NOT_HERE = {
    "log": "no container runs here, so there are no logs",
    "exec": "no container runs here, so nothing can be executed",
    "attach": "no container runs here, so nothing can be attached to",
    "portforward": "no container runs here, so no port can be forwarded",
    "proxy": "nothing is proxied",
    "eviction": "Pods are not evicted; delete them",
    "scale": "there is no scale subresource; patch spec.replicas",
    "binding": "nothing is scheduled; set spec.nodeName at creation or by a patch",
    "ephemeralcontainers": "no container runs here",
    "finalize": "namespaces are finalised by deleting what they hold",
}


@dataclass(frozen=True, slots=True)
class Asked:
    """What a path and a method ask for."""

    served: Served
    verb: str
    namespace: str
    name: str
    subresource: str

    @property
    def resource(self) -> str:
        """Plural, with its subresource."""
        return f"{self.served.plural}/{self.subresource}" if self.subresource else self.served.plural


def read_path(registry: Registry, method: str, path: str, *, watching: bool) -> Asked:
    """The resource and verb. Raises 404, 405 and 501."""
    parts = [part for part in path.split("/") if part]
    if parts[0] == "api":
        group, version, rest = "", parts[1] if len(parts) > 1 else "", parts[2:]
    else:
        group, version, rest = (parts[1], parts[2], parts[3:]) if len(parts) > 2 else ("", "", [])
    if rest and rest[0] == "watch":
        raise statuses.not_implemented("watches by path; use ?watch=true")
    namespace = ""
    if rest[:1] == ["namespaces"] and len(rest) > 2 and not (len(rest) == 3 and rest[2] in {"status", "finalize"}):
        namespace, rest = rest[1], rest[2:]
    served = registry.get(group, version, rest[0]) if rest else None
    if served is None or len(rest) > 3:
        raise statuses.no_such_path()
    name = rest[1] if len(rest) > 1 else ""
    subresource = rest[2] if len(rest) > 2 else ""
    if subresource and subresource not in served.subresources:
        if subresource in _NOT_HERE and not served.custom:
            raise statuses.not_implemented(_NOT_HERE[subresource])
        raise statuses.no_such_path()
    if namespace and not served.namespaced:
        raise statuses.no_such_path()
    return Asked(served, _verb(method, name, subresource, namespace, served, watching=watching), namespace, name, subresource)


def _verb(method: str, name: str, subresource: str, namespace: str, served: Served, *, watching: bool) -> str:
    verb = _VERBS.get(method)
    if verb is None:
        raise statuses.method_not_allowed()
    if verb == "get":
        return "watch" if watching else "get" if name else "list"
    if subresource == "token":
        if verb != "create":
            raise statuses.method_not_allowed()
        return verb
    if (verb == "create") is bool(name) and verb != "delete":
        raise statuses.method_not_allowed()
    if subresource and verb == "delete":
        raise statuses.method_not_allowed()
    if served.namespaced and not namespace:
        raise statuses.method_not_allowed()
    if verb == "delete" and not name:
        if "deletecollection" not in served.verbs:
            raise statuses.method_not_allowed()
        return "deletecollection"
    return verb


async def read_body(request: web.BaseRequest) -> bytes:
    """The body. Raises 413."""
    length = request.content_length
    if length is not None and length > BODY_LIMIT:
        raise _too_large(length)
    body = bytearray()
    async for chunk in request.content.iter_any():  # aiohttp's own `read` stops at one MiB
        body += chunk
        if len(body) > BODY_LIMIT:
            raise _too_large(len(body))
    return bytes(body)


def _too_large(length: int) -> statuses.StatusError:
    message = f"Request entity too large: limit is {BODY_LIMIT}, got {length}"
    return statuses.StatusError(413, "RequestEntityTooLarge", message)


async def read_object(request: web.BaseRequest) -> Any:
    """The body as a document. Raises 400, 413, 415."""
    kind = request.content_type
    if kind == MEDIA_TYPE:
        try:
            return decode_object(await read_body(request))
        except (ProtobufError, AttributeError, TypeError, UnicodeDecodeError) as fault:  # a number where a message should be, and its like
            raise statuses.unsupported_media_type(f"application/vnd.kubernetes.protobuf: {fault}") from fault
    if kind not in {"application/json", "application/yaml", "application/octet-stream", "text/yaml"}:
        accepted = "application/json, application/yaml"
        text = f"the body of the request was in an unknown format - accepted media types include: {accepted} (got {kind})"
        raise statuses.unsupported_media_type(text)
    body = await read_body(request)
    if not body and request.method != "DELETE":
        raise statuses.bad_request("the object provided is unrecognized (must be of type JSON or YAML): the body is empty")
    return parse(body) if body else {}


def parse(body: bytes) -> Any:
    """A document. Raises 400."""
    try:
        return read_document(body)
    except DocumentError as fault:
        raise statuses.bad_request(f"the object provided is unrecognized (must be of type JSON or YAML): {fault}") from fault
