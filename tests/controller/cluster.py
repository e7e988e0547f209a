"""A Kubernetes API in the test's own process: the client's surface with the server's behaviour, and a log of every request.

Versions, conflicts, preconditions, merge patches, status kept apart, watches that follow, 410 and failures on demand.
"""

import asyncio
import copy
import json
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from kube.client import Event, Page, _listing
from kube.errors import AlreadyExists, Conflict, Gone, KubeError, NotFound
from kube.resources import Resource

Object = dict[str, Any]


@dataclass
class Request:
    """One call as it came."""

    verb: str
    kind: str
    name: str = ""
    subresource: str = ""
    body: Any = None
    options: dict[str, Any] = field(default_factory=dict)


def merge(target: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merge(result.get(name), value)
    return result


class FakeCluster:
    """Stands in for `kube.client.Client`."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str, str], Object] = {}
        self.requests: list[Request] = []
        self.version = 100
        self.oldest = 0
        self.history: list[tuple[int, str, str, Object]] = []
        self.changed = asyncio.Condition()
        self.unserved: set[str] = set()
        self.fail: Callable[[Request], KubeError | None] = lambda _: None
        self.deaf: set[str] = set()
        self.hang: Callable[[Request], bool] = lambda _: False
        self.interrupt: set[str] = set()
        self.drops_status_field = ""
        self.default_namespace = "default"

    # -------------------------------------------------------------------------------------------------- the test's side

    def put(self, item: Object) -> Object:
        """Create or replace an object as somebody else would."""
        meta = item["metadata"]
        key = (item["kind"], meta.get("namespace", ""), meta["name"])
        known = self.objects.get(key)
        self.version += 1
        stored = copy.deepcopy(item)
        stored["metadata"].setdefault("uid", f"uid-{meta['name']}")
        stored["metadata"]["resourceVersion"] = str(self.version)
        self.objects[key] = stored
        self._record("ADDED" if known is None else "MODIFIED", stored)
        return stored

    def touch(self, kind: str, name: str, change: Callable[[Object], None], namespace: str = "team") -> None:
        """Change an object in place."""
        item = copy.deepcopy(self.objects[kind, namespace, name])
        change(item)
        self.put(item)

    def remove(self, kind: str, name: str, namespace: str = "team", *, quietly: bool = False) -> None:
        """Delete an object; quietly leaves no event behind, as a lost watch would."""
        item = self.objects.pop((kind, namespace, name))
        self.version += 1
        gone = copy.deepcopy(item)
        gone["metadata"]["resourceVersion"] = str(self.version)
        if not quietly:
            self._record("DELETED", gone)

    def compact(self) -> None:
        """Forget history: watches from before are told 410."""
        self.oldest = self.version + 1
        self.history.clear()
        self._wake()

    def get_object(self, kind: str, name: str, namespace: str = "team") -> Object:
        return self.objects[kind, namespace, name]

    def status(self, name: str, namespace: str = "team") -> Object:
        return self.objects["ModelDeployment", namespace, name].get("status") or {}

    def sent(self, verb: str, kind: str = "") -> list[Request]:
        return [request for request in self.requests if request.verb == verb and (not kind or request.kind == kind)]

    def _record(self, type_: str, item: Object) -> None:
        self.history.append((self.version, type_, item["kind"], copy.deepcopy(item)))
        self._wake()

    def _wake(self) -> None:
        async def notify() -> None:
            async with self.changed:
                self.changed.notify_all()

        try:
            asyncio.get_running_loop().create_task(notify())
        except RuntimeError:
            return

    async def _enter(self, request: Request) -> None:
        self.requests.append(request)
        error = self.fail(request)
        if error is not None:
            raise error
        if self.hang(request):
            await asyncio.Event().wait()
        await asyncio.sleep(0)

    # ------------------------------------------------------------------------------------------------ the client's side

    def _find(self, resource: Resource, name: str, namespace: str | None) -> Object:
        found = self.objects.get((resource.kind, namespace or "", name))
        if found is None or resource.plural in self.unserved:
            raise NotFound(404, "NotFound", f"{resource.plural} {name} not found")
        return found

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> bytes:
        await self._enter(Request("get", resource.kind, name))
        return json.dumps(self._find(resource, name, namespace)).encode()

    async def pages(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        label_selector: str | None = None,
        limit: int = 500,
        shape: type[Any] | None = None,
        **_: Any,
    ) -> AsyncGenerator[Page, None]:
        await self._enter(Request("list", resource.kind, options={"selector": label_selector}))
        if resource.plural in self.unserved:
            raise NotFound(404, "NotFound", "the server could not find the requested resource")
        version = str(self.version)
        wanted = dict(part.split("=") for part in (label_selector or "").split(",") if part)
        items = [
            json.dumps(item).encode()
            for (kind, ns, _), item in sorted(self.objects.items())
            if kind == resource.kind
            and (namespace is None or ns == namespace)
            and wanted.items() <= item["metadata"].get("labels", {}).items()
        ]
        chunks = [items[at : at + limit] for at in range(0, len(items), limit)] or [[]]
        for number, chunk in enumerate(chunks):
            data = b'{"items":[' + b",".join(chunk) + b"]}"
            listing, shaped = _listing(data, shape)
            yield Page(listing.items or [], version, number, number == len(chunks) - 1, len(data), shaped, data)

    async def watch(
        self, resource: Resource, namespace: str | None = None, *, resource_version: str, label_selector: str | None = None, **options: Any
    ) -> AsyncGenerator[Event, None]:
        await self._enter(Request("watch", resource.kind, options={"from": resource_version, **options}))
        if resource.plural in self.unserved:
            raise NotFound(404, "NotFound", "gone")
        at = int(resource_version)
        wanted = dict(part.split("=") for part in (label_selector or "").split(",") if part)
        while True:
            if at + 1 < self.oldest:
                raise Gone(410, "Expired", "too old")
            if resource.kind in self.interrupt:
                self.interrupt.discard(resource.kind)
                return
            for version, type_, kind, item in list(self.history):
                matches = wanted.items() <= item["metadata"].get("labels", {}).items()
                if version > at and kind == resource.kind and matches and kind not in self.deaf:
                    at = version
                    yield Event(type_, msgspec.Raw(json.dumps(item).encode()))
            async with self.changed:
                await self.changed.wait()

    async def serves(self, resource: Resource) -> bool:
        await self._enter(Request("discover", resource.kind, options={"version": resource.version}))
        return resource.plural not in self.unserved and f"{resource.plural}/{resource.version}" not in self.unserved

    async def create(self, resource: Resource, body: bytes, namespace: str | None = None, **options: Any) -> bytes:
        item = json.loads(body)
        await self._enter(Request("create", resource.kind, item["metadata"]["name"], body=item, options=options))
        if (resource.kind, namespace or "", item["metadata"]["name"]) in self.objects:
            raise AlreadyExists(409, "AlreadyExists", "exists")
        return json.dumps(self.put({**item, "kind": resource.kind})).encode()

    async def replace(self, resource: Resource, name: str, body: bytes, namespace: str | None = None, **options: Any) -> bytes:
        item = json.loads(body)
        await self._enter(Request("replace", resource.kind, name, body=item, options=options))
        known = self._find(resource, name, namespace)
        if item["metadata"].get("resourceVersion") not in (None, "", known["metadata"]["resourceVersion"]):
            raise Conflict(409, "Conflict", "stale")
        return json.dumps(self.put({**item, "kind": resource.kind})).encode()

    async def patch(
        self, resource: Resource, name: str, body: bytes, namespace: str | None = None, *, subresource: str | None = None, **options: Any
    ) -> bytes:
        patch = json.loads(body)
        await self._enter(Request("patch", resource.kind, name, subresource or "", patch, options))
        known = self._find(resource, name, namespace)
        sent = patch.get("metadata", {})
        for field_name in ("resourceVersion", "uid"):
            if field_name in sent and sent[field_name] != known["metadata"][field_name]:
                raise Conflict(409, "Conflict", f"{field_name} differs")
        if subresource == "status":
            merged = {**known, "status": merge(known.get("status"), patch.get("status"))}
            merged["status"].pop(self.drops_status_field, None)
        else:
            merged = {**merge(known, patch), "status": known.get("status")}
        if merged == known:
            return json.dumps(known).encode()
        return json.dumps(self.put(merged)).encode()

    async def delete(self, resource: Resource, name: str, namespace: str | None = None, **options: Any) -> bytes:
        await self._enter(Request("delete", resource.kind, name, options=options))
        known = self._find(resource, name, namespace)
        if options.get("uid") not in (None, known["metadata"]["uid"]):
            raise Conflict(409, "Conflict", "uid differs")
        self.remove(resource.kind, name, namespace or "")
        return b"{}"
