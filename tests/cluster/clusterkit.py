"""One shape for the embedded and for a real cluster, so that a scenario cannot tell on which it runs."""

import asyncio
import base64
import json
import os
import re
import ssl
import tempfile
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import yaml
from aiohttp import web

from kube.client import Client
from kube.config import connect
from local.cluster import EmbeddedCluster
from local.pki import Authority

JSON = dict[str, Any]
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # one kubeconfig a test: the loader in C where it is there
Columns = dict[str, dict[str, str]]


class NewerFeatureError(Exception):
    """A check asks for something that this server's version does not have."""


@dataclass(frozen=True)
class Answer:
    """One HTTP answer."""

    code: int
    body: Any
    headers: httpx.Headers

    @property
    def warnings(self) -> list[str]:
        """The texts of the Warning headers."""
        return [found for value in self.headers.get_list("Warning") for found in re.findall(r'299 \S+ "((?:[^"\\]|\\.)*)"', value)]

    def ok(self) -> Any:
        """The body, after making sure that it is no refusal."""
        assert self.code < 300, f"{self.code}: {self.body}"
        return self.body


class Wire:
    """Plain HTTP to an API server as one user."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    async def __call__(self, method: str, path: str, body: Any = None, *, headers: dict[str, str] | None = None, **params: Any) -> Answer:
        """Send a request; a body that is not text is sent as JSON."""
        sent = dict(headers or {})
        content = body if isinstance(body, str | bytes) or body is None else json.dumps(body)
        if content is not None:
            sent.setdefault("Content-Type", "application/json")
        answer = await self._client.request(method, path, content=content, headers=sent, params=params)
        text = answer.text
        return Answer(answer.status_code, json.loads(text) if text[:1] in {"{", "["} else text, answer.headers)

    async def patch(self, path: str, body: Any, kind: str = "merge", **params: Any) -> Answer:
        """PATCH with merge, json, strategic or apply."""
        media = (
            "application/apply-patch+yaml" if kind == "apply" else f"application/{kind}{'-merge' if kind == 'strategic' else ''}-patch+json"
        )
        return await self("PATCH", path, body, headers={"Content-Type": media}, **params)

    @asynccontextmanager
    async def watch(self, path: str, *, headers: dict[str, str] | None = None, **params: Any) -> AsyncIterator["Lines"]:
        """An open watch."""
        query = {"watch": "true", "timeoutSeconds": "30", **params}
        async with self._client.stream("GET", path, params=query, headers=headers or {}, timeout=40) as answer:
            if answer.status_code != 200:
                raise AssertionError(f"{answer.status_code}: {(await answer.aread()).decode()}")
            yield Lines(answer.aiter_lines())


class Lines:
    """The events of a watch."""

    def __init__(self, lines: AsyncIterator[str]) -> None:
        self._lines = lines

    async def next(self, seconds: float = 20) -> JSON:
        """The next event. Raises TimeoutError, and StopAsyncIteration at the end."""
        async with asyncio.timeout(seconds):
            event: JSON = json.loads(await anext(self._lines))
            return event

    async def until(self, kind: str, seconds: float = 20) -> JSON:
        """The next event of a type."""
        while True:
            event = await self.next(seconds)
            if event["type"] == kind:
                return event


Handler = Callable[[JSON], JSON]
Certificates = Callable[[str, tuple[str, ...]], Path]


class HookServer:
    """A webhook server on loopback, reached by URL and caBundle; what it was asked is kept."""

    def __init__(self) -> None:
        self.authority = Authority("modelwarden-test-webhooks")
        self.asked: list[JSON] = []
        self.probed: set[str] = set()
        self._handlers: dict[str, Callable[[web.BaseRequest], Awaitable[web.Response]]] = {}
        self._runner: web.ServerRunner | None = None
        self.url = ""

    @property
    def ca_bundle(self) -> str:
        """For clientConfig."""
        return base64.b64encode(self.authority.pem).decode()

    async def start(self) -> None:
        """Listen."""
        pair = self.authority.server()
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        with tempfile.TemporaryDirectory() as folder:
            certificate, key = Path(folder) / "crt", Path(folder) / "key"
            certificate.write_bytes(pair.certificate)
            key.write_bytes(pair.key)
            context.load_cert_chain(certificate, key)
        self._runner = web.ServerRunner(web.Server(self._answer))
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=context)
        await site.start()
        self.url = f"https://127.0.0.1:{self._runner.addresses[0][1]}"

    async def stop(self) -> None:
        """Close."""
        if self._runner is not None:
            await self._runner.cleanup()

    def raw(self, path: str, handler: Callable[[web.BaseRequest], Awaitable[web.Response]]) -> None:
        """Answer a path with whatever the handler makes."""
        self._handlers[path] = handler

    def on(self, path: str, handler: Handler) -> JSON:
        """Answer reviews of a path; `handler` gets the request and gives the response without its uid. The clientConfig."""

        async def review(request: web.BaseRequest) -> web.Response:
            asked = json.loads(await request.read())
            name = asked["request"].get("name", "")
            if name.startswith("probe"):
                self.probed.add(request.path)
                response = {"uid": asked["request"]["uid"], "allowed": True}
                return web.json_response({"apiVersion": asked["apiVersion"], "kind": "AdmissionReview", "response": response})
            self.asked.append(asked["request"])
            response = {"uid": asked["request"]["uid"], **handler(asked["request"])}
            return web.json_response({"apiVersion": asked["apiVersion"], "kind": "AdmissionReview", "response": response})

        self._handlers[path] = review
        return {"url": self.url + path, "caBundle": self.ca_bundle}

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        handler = self._handlers.get(request.path)
        return await handler(request) if handler else web.Response(status=404, text="no such webhook")


def json_patch(*operations: JSON) -> JSON:
    """An allowing response that patches."""
    return {"allowed": True, "patchType": "JSONPatch", "patch": base64.b64encode(json.dumps(operations).encode()).decode()}


class TestCluster:
    """A cluster as the scenarios see it. `kind` is embedded or real."""

    __test__ = False

    def __init__(
        self, kind: str, kubeconfig: Path, *, certificates: Callable[[str, tuple[str, ...]], Path] | None, closing: AsyncExitStack
    ) -> None:
        self.kind = kind
        self.kubeconfig = kubeconfig
        self._certificates = certificates
        self._closing = closing
        self.embedded: EmbeddedCluster | None = None
        self.version: JSON = {}
        self.wire = self._wire(kubeconfig)
        self.marks: list[str] = []

    @property
    def minor(self) -> int:
        """The server's minor version."""
        return int(re.sub(r"\D", "", self.version["minor"]))

    def needs(self, minor: int, what: str) -> None:
        """Raise NewerFeatureError where the server is older than 1.<minor>."""
        if self.minor < minor:
            raise NewerFeatureError(f"{what} came with 1.{minor}, this server is {self.version['gitVersion']}")

    def kubeconfig_for(self, user: str, groups: tuple[str, ...] = ()) -> Path:
        """A kubeconfig as this user: by certificate where the authority is ours, else by impersonation."""
        if self._certificates is not None:
            return self._certificates(user, groups)
        document = yaml.safe_load(self.kubeconfig.read_text())
        for entry in document["users"]:
            entry["user"] |= {"as": user, "as-groups": [*groups, "system:authenticated"]}
        folder = self._closing.enter_context(tempfile.TemporaryDirectory())
        path = Path(folder) / "kubeconfig"
        path.write_text(yaml.safe_dump(document))
        return path

    async def client(self, user: str | None = None, groups: tuple[str, ...] = ()) -> Client:
        """A kube client as the administrator or as a user."""
        path = self.kubeconfig if user is None else self.kubeconfig_for(user, groups)
        return await self._closing.enter_async_context(await connect(str(path)))

    def wire_as(self, user: str, groups: tuple[str, ...] = ()) -> Wire:
        """Plain HTTP as a user."""
        return self._wire(self.kubeconfig_for(user, groups))

    def _wire(self, kubeconfig: Path) -> Wire:
        document = yaml.load(kubeconfig.read_text(), LOADER)
        context = next(entry["context"] for entry in document["contexts"] if entry["name"] == document["current-context"])
        cluster = next(entry["cluster"] for entry in document["clusters"] if entry["name"] == context["cluster"])
        user = next(entry["user"] for entry in document["users"] if entry["name"] == context["user"])
        trust = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
        if "client-certificate-data" in user:
            folder = Path(self._closing.enter_context(tempfile.TemporaryDirectory()))
            for name in ("client-certificate-data", "client-key-data"):
                (folder / name).write_bytes(base64.b64decode(user[name]))
            trust.load_cert_chain(folder / "client-certificate-data", folder / "client-key-data")
        headers = {"Authorization": f"Bearer {user['token']}"} if "token" in user else {}
        if "as" in user:
            headers["Impersonate-User"] = user["as"]
        client = httpx.AsyncClient(base_url=cluster["server"], verify=trust, headers=headers, timeout=30, trust_env=False)
        self._closing.push_async_callback(client.aclose)
        return Wire(client)

    async def hooks(self) -> HookServer:
        """A webhook server that the API server can reach."""
        server = HookServer()
        await server.start()
        self._closing.push_async_callback(server.stop)
        return server

    async def namespace(self, prefix: str = "t") -> str:
        """A fresh namespace."""
        name = f"{prefix}-{uuid.uuid4().hex[:8]}"
        (await self.wire("POST", "/api/v1/namespaces", {"metadata": {"name": name, "labels": {"modelwarden.test": name}}})).ok()
        self._closing.push_async_callback(self._drop, f"/api/v1/namespaces/{name}")
        return name

    async def keep(self, path: str, obj: JSON) -> JSON:
        """Create a cluster-scoped object that goes when the test ends."""
        made: JSON = (await self.wire("POST", path, obj)).ok()
        self._closing.push_async_callback(self._drop, f"{path}/{made['metadata']['name']}")
        return made

    async def _drop(self, path: str) -> None:
        if self.kind == "real":
            await self.wire("DELETE", path)

    async def eventually(self, asked: Callable[[], Awaitable[Any]], what: str, seconds: float = 20) -> Any:
        """Ask until there is a true answer: for what a server does in its own time. Raises AssertionError(what) when there is none."""
        try:
            async with asyncio.timeout(seconds):
                while True:
                    answer = await asked()
                    if answer:
                        return answer
                    await asyncio.sleep(0.02 if self.kind == "embedded" else 0.1)
        except TimeoutError:
            raise AssertionError(what) from None


@asynccontextmanager
async def embedded(folder: Path, **options: Any) -> AsyncIterator[TestCluster]:
    """A fresh embedded cluster."""
    server = EmbeddedCluster(state_dir=folder, bookmark_seconds=0.2, **options)
    await server.start()
    try:
        async with AsyncExitStack() as closing:
            cluster = TestCluster("embedded", server.kubeconfig, certificates=server.kubeconfig_for, closing=closing)
            cluster.embedded = server
            cluster.version = (await cluster.wire("GET", "/version")).ok()
            yield cluster
    finally:
        await server.stop()


@asynccontextmanager
async def real(kubeconfig: Path, certificates: Certificates | None) -> AsyncIterator[TestCluster]:
    """A real cluster that somebody else started."""
    async with AsyncExitStack() as closing:
        cluster = TestCluster("real", kubeconfig, certificates=certificates, closing=closing)
        cluster.version = (await cluster.wire("GET", "/version")).ok()
        yield cluster


def named_kubeconfig() -> Path | None:
    """The kubeconfig of an existing cluster, when the person said that it may be used and which context they mean.

    Raises ValueError where KUBECONFIG is offered without naming the context that it stands on.
    """
    text = os.environ.get("KUBECONFIG", "")
    if not text or os.environ.get("MODELWARDEN_TEST_CLUSTER") != "1":
        return None
    path = Path(text)
    current = yaml.safe_load(path.read_text()).get("current-context", "")
    if os.environ.get("MODELWARDEN_TEST_CONTEXT") != current:
        raise ValueError(
            f"KUBECONFIG stands on the context {current!r}; the tests create and delete objects in it. "
            f"Say that you mean it: MODELWARDEN_TEST_CONTEXT={current}"
        )
    return path
