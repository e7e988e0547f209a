"""The HTTP face: authentication, the paths that are no resource, and each verb handed to the part that knows it."""

import logging
from typing import Any

from aiohttp import web

from api.clock import Clock
from local import answering, discovery, openapi, reads, reviews, statuses
from local.answering import DISCOVERY, METADATA, OBJECT, TABLE, Representation, json_response, status_response
from local.asking import Asked, parse, read_body, read_object, read_path
from local.callers import Caller, Doors
from local.faults import Faults
from local.kinds import Registry, Served
from local.operation import Operation
from local.options import check_list, delete_options, whole_number, write_options
from local.patches import PatchError, json_patch, merge_patch
from local.removal import Remover
from local.shapes import shape_of
from local.statuses import Cause, InvalidError, StatusError, UndecodableError
from local.store import Store
from local.strategic import strategic_merge
from local.streams import Streams
from local.tables import Rendering
from local.wire import JSON, decode
from local.writes import Transform, Writer

log = logging.getLogger(__name__)

_OPEN = frozenset({"/healthz", "/livez", "/readyz", "/version"})
_PATCHES = {
    "application/json-patch+json": "json",
    "application/merge-patch+json": "merge",
    "application/strategic-merge-patch+json": "strategic",
    "application/apply-patch+yaml": "apply",
}
_PROTOBUF_V2 = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"


class Api:
    """Answers every request of the embedded cluster."""

    def __init__(
        self,
        *,
        store: Store,
        registry: Registry,
        doors: Doors,
        writer: Writer,
        remover: Remover,
        streams: Streams,
        faults: Faults,
        clock: Clock,
    ) -> None:
        self._store = store
        self._registry = registry
        self._doors = doors
        self._writer = writer
        self._remover = remover
        self._streams = streams
        self._faults = faults
        self._clock = clock
        self._renderings: dict[tuple[str, str, str], tuple[Served, Rendering]] = {}

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """One request, whatever becomes of it."""
        warnings: list[str] = []
        try:
            certificate = request.transport.get_extra_info("peercert") if request.transport is not None else None
            caller = self._doors.authenticate(request.headers, certificate)
            path = request.path
            if caller.anonymous and path not in _OPEN:
                raise statuses.forbidden(f'forbidden: User "system:anonymous" cannot {request.method.lower()} path "{path}"')
            if path.startswith(("/api/", "/apis/")) and len(path.strip("/").split("/")) > (2 if path.startswith("/api/") else 3):
                return await self._resource(request, caller, warnings)
            return self._other(request, path)
        except StatusError as fault:
            return status_response(fault, warnings)
        except Exception as fault:
            log.exception("%s %s", request.method, request.path)
            return status_response(statuses.internal(f"{type(fault).__name__}: {fault}"), warnings)

    # --------------------------------------------------------------------------------------------- what is no resource

    def _other(self, request: web.BaseRequest, path: str) -> web.Response:
        accept = request.headers.get("Accept", "")
        if request.method not in {"GET", "HEAD"}:
            raise statuses.method_not_allowed()
        if path in {"/healthz", "/livez", "/readyz"}:
            return web.Response(text="ok")
        if path == "/version":
            return json_response(discovery.VERSION)
        path = path.rstrip("/") or "/"
        parts = path.strip("/").split("/")
        if path in {"/api", "/apis"}:
            wanted = answering.accepted(accept, offered=(OBJECT, DISCOVERY))
            if wanted.kind == DISCOVERY:
                body = discovery.aggregated(self._registry, core=path == "/api", version=wanted.version)
                kind = f"application/json;g=apidiscovery.k8s.io;v={wanted.version};as=APIGroupDiscoveryList"
                return web.Response(body=openapi.encoded(body), headers={"Content-Type": kind})
            return json_response(discovery.core_versions() if path == "/api" else discovery.groups(self._registry))
        found: JSON | None = None
        if parts[0] == "api" and len(parts) == 2:
            found = discovery.resources(self._registry, "", parts[1])
        elif parts[0] == "apis" and len(parts) == 2:
            found = discovery.group(self._registry, parts[1])
        elif parts[0] == "apis" and len(parts) == 3:
            found = discovery.resources(self._registry, parts[1], parts[2])
        elif path == "/openapi/v2":
            if "proto-openapi" in accept and "application/json" not in accept:
                return web.Response(body=openapi.document_v2_protobuf(), headers={"Content-Type": _PROTOBUF_V2})
            found = openapi.document_v2(self._registry)
        elif path == "/openapi/v3":
            found = openapi.index_v3(self._registry)
        elif parts[:2] == ["openapi", "v3"]:
            group, version = ("", parts[-1]) if parts[2:3] == ["api"] else (parts[3] if len(parts) > 3 else "", parts[-1])
            found = openapi.document_v3(self._registry, group, version)
        elif path == "/":
            found = {"paths": ["/api", "/apis", "/healthz", "/livez", "/openapi/v2", "/openapi/v3", "/readyz", "/version"]}
        if found is None:
            raise statuses.no_such_path()
        return json_response(found)

    # --------------------------------------------------------------------------------------------------------- resources

    async def _resource(self, request: web.BaseRequest, caller: Caller, warnings: list[str]) -> web.StreamResponse:
        if request.method == "POST":
            review = reviews.answer(self._doors, caller, request.path, {})
            if review is not None:
                body = await self._question(request)
                return json_response(reviews.answer(self._doors, caller, request.path, body) or review, 201)
        watching = request.query.get("watch", "") in {"true", "1"}
        asked = read_path(self._registry, request.method, request.path, watching=watching)
        if asked.served.deprecation:
            warnings.append(asked.served.deprecation)
        await self._faults.before(asked.verb, asked.resource)
        match asked.verb:
            case "get":
                return self._get(request, asked)
            case "list":
                return self._list(request, asked, warnings)
            case "watch":
                return await self._watch(request, asked)
            case "create":
                return await self._create(request, asked, caller, warnings)
            case "update":
                return await self._update(request, asked, caller, warnings)
            case "patch":
                return await self._patch(request, asked, caller, warnings)
            case "delete":
                return await self._delete(request, asked, caller, warnings)
        return await self._delete_many(request, asked, caller, warnings)

    @staticmethod
    async def _question(request: web.BaseRequest) -> Any:
        """The body of a review. kubectl sends these as protobuf, whose content no answer here depends on."""
        if request.content_type == "application/vnd.kubernetes.protobuf" and not request.path.endswith("/tokenreviews"):
            await read_body(request)
            return {}
        return await read_object(request)

    def _rendering(self, served: Served) -> Rendering:
        key = (served.group, served.version, served.plural)
        held = self._renderings.get(key)
        if held is None or held[0] is not served:
            held = self._renderings[key] = (served, Rendering(served))
        return held[1]

    def _shown(self, request: web.BaseRequest, served: Served, obj: JSON, wanted: Representation, *, heads: bool = True) -> JSON:
        """One object as the client wants to see it."""
        if wanted.kind == TABLE:
            meta = {"resourceVersion": obj["metadata"].get("resourceVersion", "")}
            include = request.query.get("includeObject", "Metadata")
            return self._rendering(served).table([obj], self._clock.now(), include, meta, heads=heads, version=wanted.version)
        if wanted.kind == METADATA:
            return {"kind": METADATA, "apiVersion": "meta.k8s.io/v1", "metadata": obj["metadata"]}
        return obj

    def _get(self, request: web.BaseRequest, asked: Asked) -> web.Response:
        wanted = answering.accepted(request.headers.get("Accept", ""))
        body = reads.get(self._store, asked.served, asked.namespace, asked.name)
        return json_response(body if wanted.kind == OBJECT else self._shown(request, asked.served, decode(body), wanted))

    def _list(self, request: web.BaseRequest, asked: Asked, warnings: list[str]) -> web.Response:
        wanted = answering.accepted(request.headers.get("Accept", ""))
        query = request.query
        version, match, token = (query.get(key, "") for key in ("resourceVersion", "resourceVersionMatch", "continue"))
        check_list(resource_version=version, match=match, token=token)
        listing = reads.select(
            self._store,
            asked.served,
            reads.ListQuery(
                asked.namespace,
                query.get("labelSelector", ""),
                query.get("fieldSelector", ""),
                whole_number(request, "limit"),
                token,
                version,
                match,
            ),
        )
        if wanted.kind == OBJECT:
            return json_response(listing.encode(asked.served), warnings=warnings)
        if wanted.kind == METADATA:
            rows = [self._shown(request, asked.served, obj, wanted) for obj in listing.objects()]
            return json_response(
                {"kind": f"{METADATA}List", "apiVersion": "meta.k8s.io/v1", "metadata": listing.metadata, "items": rows}, warnings=warnings
            )
        include = query.get("includeObject", "Metadata")
        rendering = self._rendering(asked.served)
        table = rendering.table(listing.objects(), self._clock.now(), include, listing.metadata, version=wanted.version)
        return json_response(table, warnings=warnings)

    async def _watch(self, request: web.BaseRequest, asked: Asked) -> web.StreamResponse:
        wanted = answering.accepted(request.headers.get("Accept", ""))

        def row(obj: JSON, heads: bool) -> JSON:
            return self._shown(request, asked.served, obj, wanted, heads=heads)

        return await self._streams.watch(request, asked, wanted, row)

    # ------------------------------------------------------------------------------------------------------------ writes

    def _operation(
        self, request: web.BaseRequest, asked: Asked, caller: Caller, warnings: list[str], kind: str, *, applying: bool = False
    ) -> tuple[Operation, bool]:
        options = write_options(request, kind, applying=applying)
        op = Operation(
            asked.served,
            namespace=asked.namespace,
            name=asked.name,
            subresource=asked.subresource,
            caller=caller,
            dry_run=options["dry_run"],
            manager=options["manager"],
            validation=options["validation"],
            warnings=warnings,
        )
        if options["dry_run"]:
            op.options["dryRun"] = ["All"]
        if options["named_manager"]:
            op.options["fieldManager"] = options["manager"]
        return op, options["named_manager"]

    async def _create(self, request: web.BaseRequest, asked: Asked, caller: Caller, warnings: list[str]) -> web.Response:
        body = await (self._question(request) if asked.subresource == "token" else read_object(request))
        if asked.subresource == "token":
            return json_response(
                reviews.token_request(self._store, self._doors, self._clock, namespace=asked.namespace, name=asked.name, body=body), 201
            )
        op, _ = self._operation(request, asked, caller, warnings, "CreateOptions")
        return self._written(request, asked, await self._writer.create(op, body), 201, warnings)

    async def _update(self, request: web.BaseRequest, asked: Asked, caller: Caller, warnings: list[str]) -> web.Response:
        body = await read_object(request)
        op, _ = self._operation(request, asked, caller, warnings, "UpdateOptions")
        if asked.served.creates_on_update and not asked.subresource and not self._writer.holds(op):
            return self._written(request, asked, await self._writer.create(op, body), 201, warnings)
        obj = await self._writer.update(op, lambda live: dict(body) if isinstance(body, dict) else body, replacing=True)
        return self._written(request, asked, obj, 200, warnings)

    async def _patch(self, request: web.BaseRequest, asked: Asked, caller: Caller, warnings: list[str]) -> web.Response:
        kind = _PATCHES.get(request.content_type)
        if kind is None or (kind == "strategic" and asked.served.custom):
            offered = ", ".join(name for name in _PATCHES if "strategic" not in name or not asked.served.custom)
            raise statuses.unsupported_media_type(
                f"the body of the request was in an unknown format - accepted media types include: {offered}"
            )
        document = parse(await read_body(request))
        op, named = self._operation(request, asked, caller, warnings, "PatchOptions", applying=kind == "apply")
        if kind == "apply":
            if not named:
                text = 'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch'
                raise StatusError(422, "Invalid", text)
            force = request.query.get("force") in {"true", "1"}
            obj, created = await self._writer.apply(op, document, force=force)
            return self._written(request, asked, obj, 201 if created else 200, warnings)
        try:
            obj = await self._writer.update(op, _transform(kind, document, asked.served))
        except UndecodableError as fault:
            raise InvalidError("", "", "", [Cause("patch", "FieldValueInvalid", f"Invalid value: {fault.message}")]) from fault
        return self._written(request, asked, obj, 200, warnings)

    def _written(self, request: web.BaseRequest, asked: Asked, obj: JSON, code: int, warnings: list[str]) -> web.Response:
        wanted = answering.accepted(request.headers.get("Accept", ""))
        return json_response(self._shown(request, asked.served, obj, wanted), code, warnings)

    async def _delete(self, request: web.BaseRequest, asked: Asked, caller: Caller, warnings: list[str]) -> web.Response:
        op, options = await self._delete_options(request, asked, caller, warnings)
        obj, gone = await self._remover.delete(op, options)
        if not gone or asked.served.tells_deleted:
            return json_response(obj, 200, warnings)
        details = {"name": op.name, "group": asked.served.group, "kind": asked.served.plural, "uid": obj["metadata"]["uid"]}
        details = {key: value for key, value in details.items() if value}
        return json_response({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}, 200, warnings)

    async def _delete_options(self, request: web.BaseRequest, asked: Asked, caller: Caller, warnings: list[str]) -> tuple[Operation, JSON]:
        options = delete_options(request, await read_object(request) if request.can_read_body else {})
        op, _ = self._operation(request, asked, caller, warnings, "DeleteOptions")
        op.dry_run = op.dry_run or bool(options.get("dryRun"))
        return op, options

    async def _delete_many(self, request: web.BaseRequest, asked: Asked, caller: Caller, warnings: list[str]) -> web.Response:
        op, options = await self._delete_options(request, asked, caller, warnings)
        query = reads.ListQuery(asked.namespace, request.query.get("labelSelector", ""), request.query.get("fieldSelector", ""))
        listing = reads.select(self._store, asked.served, query)
        for obj in listing.objects():
            op.name, op.namespace = obj["metadata"]["name"], obj["metadata"].get("namespace", "")
            try:
                await self._remover.delete(op, options)
            except StatusError as fault:
                if fault.code != 404:
                    raise
        return json_response(listing.encode(asked.served), 200, warnings)


def _transform(kind: str, document: Any, served: Served) -> Transform:
    """A patch as a function of the live object. The functions raise 400 and 422 as the API server does."""

    def transform(live: JSON) -> Any:
        try:
            if kind == "json":
                return json_patch(live, document)
            if not isinstance(document, dict):
                raise statuses.bad_request("the patch is not an object")
            return merge_patch(live, document) if kind == "merge" else strategic_merge(live, document, shape_of(served))
        except PatchError as fault:
            code = 422 if kind == "json" else 400
            raise StatusError(
                code, "Invalid" if code == 422 else "BadRequest", f"the server rejected our request due to an error in our request: {fault}"
            ) from fault

    return transform
