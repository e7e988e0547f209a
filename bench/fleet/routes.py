"""What the stand-in answers: discovery, lists in pages, watches, Leases, Events, and patches of a ModelDeployment's status.

Only what controllers of this fleet ask for; the rest is a 404 in the API server's own form. Answers are not compressed, whatever the client
would accept: that would be the zlib of two processes, and no controller.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Any, Final

import msgspec

from bench.fleet.store import DEPLOYMENTS, PODS, WORKLOADS, StaleError, Store
from bench.fleet.wire import Connection, Request

BOOKMARK_SECONDS: Final = 60.0
LINES: Final = 16  # entries put into one chunk: some 100 KiB of Pods
SERVED: Final[dict[str, tuple[tuple[str, str, bool], ...]]] = {
    "/api/v1": (("pods", "Pod", True), ("services", "Service", True), ("namespaces", "Namespace", False), ("events", "Event", True)),
    "/apis/apps/v1": (("deployments", "Deployment", True), ("replicasets", "ReplicaSet", True)),
    "/apis/coordination.k8s.io/v1": (("leases", "Lease", True),),
    "/apis/events.k8s.io/v1": (("events", "Event", True),),
    "/apis/apiextensions.k8s.io/v1": (("customresourcedefinitions", "CustomResourceDefinition", False),),
    "/apis/kueue.x-k8s.io/v1beta2": (("workloads", "Workload", True),),
    "/apis/worker.gpustack.ai/v1": (
        ("modeldeployments", "ModelDeployment", True),
        ("modeldeploymentscalers", "ModelDeploymentScaler", True),
        ("kvcachepoolbindings", "KVCachePoolBinding", True),
        ("kvcachepools", "KVCachePool", False),
        ("modelartifacts", "ModelArtifact", True),
        ("instancetypes", "InstanceType", False),
    ),
}
KINDS: Final = {f"{root}/{plural}": kind for root, rows in SERVED.items() for plural, kind, _ in rows}


class Routes:
    """`on_request` hears of every request that is no discovery."""

    def __init__(self, store: Store, on_request: Callable[[], None] = lambda: None) -> None:
        self._store = store
        self._on_request = on_request
        self._leases: dict[str, dict[str, Any]] = {}
        self.watches: dict[str, dict[Connection, int]] = {}  # by collection: how far each has read

    def caught_up(self, collection: str) -> bool:
        """Whether somebody watches, and everybody who does was told everything."""
        places = self.watches.get(collection, {}).values()
        return bool(places) and all(place == self._store.feed(collection).end for place in places)

    async def answer(self, connection: Connection, request: Request) -> None:
        """Serve one request."""
        path, root, collection, rest = _parts(request.path)
        watching = request.params.get("watch") in ("true", "1", "True")
        self._store.ledger.requests[_verb(request.method, watching, collection, rest)] += 1
        if collection:
            self._on_request()
        if request.method == "GET" and not collection:
            connection.send(*_discovery(path))
        elif collection not in KINDS:
            connection.send(404, _failure(404, "NotFound", f"nothing is served at {root}"))
        elif watching:
            await self._watch(connection, collection, request.params)
        elif request.method == "GET" and not rest:
            connection.send(200, self._list(collection, request))
        elif collection.endswith("/leases"):
            connection.send(*self._lease(request, rest))
        elif collection == DEPLOYMENTS and rest:
            connection.send(*self._deployment(request, rest))
        elif collection.endswith("/events") and request.method in ("POST", "PATCH"):
            connection.send(201, request.body)
        else:
            connection.send(404, _failure(404, "NotFound", f"{request.method} {request.path}"))

    # ------------------------------------------------------------------------------------------------------------ reading

    def _list(self, collection: str, request: Request) -> bytes:
        store, params = self._store, request.params
        version, _, at = params.get("continue", "").partition(".")
        start, limit = int(at or 0), int(params.get("limit") or 0)
        numbers = range(start, store.count(collection))
        instance = _instance(params.get("labelSelector", ""))
        if collection == PODS and instance:
            namespace = request.path.split("/namespaces/")[1].split("/")[0] if "/namespaces/" in request.path else ""
            number = store.numbers.get((namespace, instance))
            numbers = store.world.owners[number].pods if number is not None else range(0)
        items = store.page(collection, numbers[: limit or len(numbers)])
        version = version or str(store.version)
        meta: dict[str, Any] = {"resourceVersion": version}
        if limit and len(numbers) > limit:
            meta |= {"continue": f"{version}.{start + limit}", "remainingItemCount": len(numbers) - limit}
        api = collection.rpartition("/")[0].removeprefix("/apis/").removeprefix("/api/")
        head = b'{"kind":"%bList","apiVersion":"%b","metadata":' % (KINDS[collection].encode(), api.encode())
        return b"".join((head, msgspec.json.encode(meta), b',"items":[', b",".join(items), b"]}"))

    async def _watch(self, connection: Connection, collection: str, params: dict[str, str]) -> None:
        store = self._store
        feed = store.feed(collection)
        place = feed.place_of(int(params.get("resourceVersion") or store.version))
        if place is None:
            connection.send(410, _failure(410, "Expired", "too old resource version"))
            return
        places = self.watches.setdefault(collection, {})
        places[connection] = place
        end = time.monotonic() + float(params.get("timeoutSeconds") or 1800)
        bookmark = time.monotonic() + BOOKMARK_SECONDS
        connection.begin()
        try:
            while connection.open:
                lines = feed.take(place, LINES)
                if lines is None:
                    gone = b'{"type":"ERROR","object":' + _failure(410, "Expired", "too old resource version") + b"}\n"
                    await connection.chunk(gone)
                    break
                if lines:
                    place += len(lines)
                    places[connection] = place
                    await connection.chunk(b"".join(lines))
                    await asyncio.sleep(0)
                    continue
                now = time.monotonic()
                if now >= end:
                    break
                if now >= bookmark:
                    bookmark = now + BOOKMARK_SECONDS
                    if params.get("allowWatchBookmarks"):
                        await connection.chunk(_bookmark(collection, store.version))
                await feed.news(min(end, bookmark) - now)
            connection.end()
        finally:
            places.pop(connection, None)

    # ------------------------------------------------------------------------------------------------------------ writing

    def _deployment(self, request: Request, rest: list[str]) -> tuple[int, bytes]:
        namespace = request.path.split("/namespaces/")[1].split("/")[0]
        number = self._store.numbers.get((namespace, rest[0]))
        if number is None:
            return 404, _failure(404, "NotFound", "no such ModelDeployment")
        if request.method == "GET":
            return 200, self._store.deployment(number)
        if request.method != "PATCH" or rest[1:] != ["status"]:
            return 405, _failure(405, "MethodNotAllowed", "only the status is taken")
        try:
            return 200, self._store.patch_status(number, request.body)
        except StaleError:
            return 409, _failure(409, "Conflict", "the object has been modified")

    def _lease(self, request: Request, rest: list[str]) -> tuple[int, bytes]:
        name = rest[0] if rest else ""
        if request.method == "GET":
            found = self._leases.get(name)
            return (200, msgspec.json.encode(found)) if found else (404, _failure(404, "NotFound", f"no Lease {name}"))
        lease = msgspec.json.decode(request.body)
        stored = self._leases.get(lease["metadata"]["name"])
        if stored is not None and lease["metadata"].get("resourceVersion", "") not in ("", stored["metadata"]["resourceVersion"]):
            return 409, _failure(409, "Conflict", "the object has been modified")
        revision = int(stored["metadata"]["resourceVersion"]) + 1 if stored else 1
        lease["metadata"]["resourceVersion"] = str(revision)
        self._leases[lease["metadata"]["name"]] = lease
        return 200, msgspec.json.encode(lease)


def _parts(path: str) -> tuple[str, str, str, list[str]]:
    """The path, its group and version, the collection it lies in ("" for discovery), and what follows: name, subresource."""
    steps = path.strip("/").split("/")
    depth = 2 if steps[0] == "api" else 3
    root, rest = "/" + "/".join(steps[:depth]), steps[depth:]
    if steps[0] not in ("api", "apis") or not rest:
        return path, root, "", []
    if rest[0] == "namespaces" and len(rest) > 2:
        rest = rest[2:]
    return path, root, f"{root}/{rest[0]}", rest[1:]


def _verb(method: str, watching: bool, collection: str, rest: list[str]) -> str:
    """As `kubectl auth` names them. What keeps the Lease is apart, for it goes on in any fleet; so are Events, which nobody waits for."""
    if collection.endswith(("/leases", "/events")):
        return collection.rpartition("/")[2]
    if method == "GET":
        return "watch" if watching else "get" if rest else "list" if collection else "discovery"
    return {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}.get(method, method)


def _instance(selector: str) -> str:
    found = [term.partition("=")[2] for term in selector.split(",") if term.startswith("app.kubernetes.io/instance=")]
    return found[0] if found else ""


def _bookmark(collection: str, version: int) -> bytes:
    kind = KINDS[collection]
    return b'{"type":"BOOKMARK","object":{"kind":"%b","metadata":{"resourceVersion":"%d"}}}\n' % (kind.encode(), version)


def _failure(code: int, reason: str, message: str) -> bytes:
    body = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message, "reason": reason, "code": code}
    return msgspec.json.encode(body)


def _discovery(path: str) -> tuple[int, bytes]:
    """`/version`, `/api`, `/apis`, and the resources of a group's version."""
    if path == "/version":
        return 200, b'{"major":"1","minor":"34","gitVersion":"v1.34.0"}'
    if path == "/api":
        return 200, b'{"kind":"APIVersions","versions":["v1"]}'
    if path == "/apis":
        entries = []
        for name, version in (root.split("/")[2:] for root in SERVED if root.startswith("/apis/")):
            served = {"groupVersion": f"{name}/{version}", "version": version}
            entries.append({"name": name, "versions": [served], "preferredVersion": served})
        return 200, msgspec.json.encode({"kind": "APIGroupList", "apiVersion": "v1", "groups": entries})
    rows = SERVED.get(path)
    if rows is None:
        return 404, _failure(404, "NotFound", f"nothing is served at {path}")
    verbs = ["get", "list", "watch", "create", "update", "patch", "delete"]
    resources = [
        {"name": plural, "singularName": kind.lower(), "namespaced": spaced, "kind": kind, "verbs": verbs} for plural, kind, spaced in rows
    ]
    if path == DEPLOYMENTS.rpartition("/")[0]:
        resources.append({**resources[0], "name": "modeldeployments/status", "verbs": ["get", "patch", "update"]})
    version = path.removeprefix("/apis/").removeprefix("/api/")
    return 200, msgspec.json.encode({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": resources})


assert {DEPLOYMENTS, PODS, WORKLOADS} <= set(KINDS)
