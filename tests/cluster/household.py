"""One deployment on a cluster with everything around it: its Pods, Workloads and router, engines on loopback, and controllers in processes.

The operator, Kueue and the kubelet are played by `local.acting`; a Pod that is deleted stays until somebody plays the kubelet.
"""

import asyncio
import contextlib
import json
import os
import random
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from aiohttp import web
from clusterkit import TestCluster
from product import MODEL_DEPLOYMENTS, WORKLOADS
from test_retirements import gone, install, made

from api import keys
from api.clock import format_time
from app.clock import SystemClock
from controller.service import Controller
from controller.settings import ControllerSettings, ObserverSettings
from controller.snapshot import StatusSettings
from kube.client import Client
from kube.errors import Conflict, NotFound
from kube.resources import DEPLOYMENTS, PODS, REPLICA_SETS
from local import rendering
from local.acting import Cast

JSON = dict[str, Any]
FINALIZER = "kueue.x-k8s.io/managed"
OBSERVING = ObserverSettings(allow_local_addresses=True, router_period=0.5, drain_period=0.5, forward_period=0.5)
_HOSTS = random.Random(os.getpid())


def fresh_host() -> str:
    """A loopback address that nobody else listens on."""
    return f"127.{_HOSTS.randrange(2, 250)}.{_HOSTS.randrange(256)}.{_HOSTS.randrange(2, 250)}"


class House:
    """The deployment `chat` of a namespace."""

    def __init__(self, cluster: TestCluster, client: Client, namespace: str) -> None:
        self.cluster = cluster
        self.client = client
        self.namespace = namespace
        self.cast = Cast(client, SystemClock(), namespace)
        self.busy: set[str] = set()
        self.stubborn = False
        self._engines: dict[str, str] = {}
        self._closing = AsyncExitStack()

    # -------------------------------------------------------------------------------------------------------- the objects

    async def declare(self, *roles: JSON, router: str = "", engine: str = "vLLM", version: str = "0.29.0", **spec: Any) -> JSON:
        """Create it. Roles lack only what is usual."""
        body = {"model": {"name": "m"}, "engine": {"name": engine, "version": version}, **spec}
        body["roles"] = [{"instanceType": "h100", **role} for role in roles]
        if router:
            body["router"] = {"name": router}
        return await made(self.client, MODEL_DEPLOYMENTS, {"metadata": {"name": "chat"}, "spec": body}, self.namespace)

    async def whole(self, *roles: JSON, router: str = "vllm-router") -> None:
        """Declared, seated, with quota, ready, its engines and its router listening."""
        await self.declare(*roles, router=router)
        await self.cast.converge("chat")
        await self.keep()
        await self.cast.quota("chat")
        await self.cast.ready("chat")
        for pod in await self.pods():
            await self.listen(pod)
        if router:
            await self.cast.router("chat", ready=1)
            await self.route(router)

    async def found(self) -> JSON:
        """The deployment as it is stored."""
        found: JSON = json.loads(await self.client.get(MODEL_DEPLOYMENTS, "chat", self.namespace))
        return found

    async def status(self) -> JSON:
        """Its status, empty while there is none."""
        return (await self.found()).get("status") or {}

    async def operation(self) -> JSON:
        """`status.retirement`, empty while there is none."""
        return (await self.status()).get("retirement") or {}

    async def scale(self, **counts: int) -> None:
        """A person edits replica counts."""
        for role, replicas in counts.items():
            await self.cast.scale("chat", role=role, replicas=replicas)

    async def annotate(self, **annotations: str) -> None:
        """By the short names of our own annotations."""
        named = {f"modeldeployment.gpustack.ai/{key.replace('_', '-')}": value for key, value in annotations.items()}
        body = json.dumps({"metadata": {"annotations": named}}).encode()
        await self.client.patch(MODEL_DEPLOYMENTS, "chat", body, self.namespace)

    async def store(self, **operation: Any) -> None:
        """Change the stored operation, as time would have."""
        body = json.dumps({"status": {"retirement": operation}}).encode()
        await self.client.patch(MODEL_DEPLOYMENTS, "chat", body, self.namespace, subresource="status")

    async def pods(self) -> list[JSON]:
        """Every Pod of the namespace, by name."""
        found: list[JSON] = []
        async for page in self.client.pages(PODS, self.namespace):
            found += [json.loads(bytes(item)) for item in page.items]
        return sorted(found, key=lambda pod: pod["metadata"]["name"])

    async def pod(self, name: str) -> JSON:
        """One Pod."""
        found: JSON = json.loads(await self.client.get(PODS, name, self.namespace))
        return found

    async def labelled(self) -> set[str]:
        """Names of the Pods that carry the eligibility label."""
        return {pod["metadata"]["name"] for pod in await self.pods() if pod["metadata"]["labels"].get(keys.ENDPOINT_ELIGIBLE) == "true"}

    async def workloads(self) -> dict[str, str]:
        """UIDs of the Workloads by the UID of their first Pod."""
        found = {}
        async for page in self.client.pages(WORKLOADS, self.namespace):
            for item in page.items:
                meta = json.loads(bytes(item))["metadata"]
                found[meta["ownerReferences"][0]["uid"]] = meta["uid"]
        return found

    async def seat(self, name: str, *, ordinal: int, role: int = 0) -> JSON:
        """A Pod of that ordinal beyond what `converge` makes, or again under a name that was free."""
        owner = await self.found()
        pod = rendering.pod(owner, owner["spec"]["roles"][role], ordinal, 0)
        pod["metadata"]["name"] = name
        return await made(self.client, PODS, pod, self.namespace)

    async def keep(self) -> None:
        """Kueue's finalizer on every Pod: one that is deleted stays until it is buried."""
        for pod in await self.pods():
            await self._finalize(pod, [FINALIZER])

    async def bury(self) -> None:
        """Kueue's and the kubelet's part: what is on its way out is gone."""
        for pod in await self.pods():
            if "deletionTimestamp" in pod["metadata"]:
                await self._finalize(pod, None)
                with contextlib.suppress(NotFound, Conflict):
                    await self.client.delete(PODS, pod["metadata"]["name"], self.namespace, uid=pod["metadata"]["uid"], grace_seconds=0)

    async def _finalize(self, pod: JSON, finalizers: list[str] | None) -> None:
        body = json.dumps({"metadata": {"finalizers": finalizers, "uid": pod["metadata"]["uid"]}}).encode()
        with contextlib.suppress(NotFound, Conflict):
            await self.client.patch(PODS, pod["metadata"]["name"], body, self.namespace)

    # ------------------------------------------------------------------------------------------------------- the waiting

    async def until(self, told: Callable[[JSON], Any], what: str, seconds: float = 30) -> JSON:
        """The status, once it is so."""

        async def asked() -> JSON | None:
            status = await self.status()
            return status if status and told(status) else None

        found: JSON = await self.cluster.eventually(asked, what, seconds)
        return found

    async def until_step(self, *states: str, seconds: float = 30) -> JSON:
        """The operation, once it is at one of these steps."""
        status = await self.until(lambda s: (s.get("retirement") or {}).get("state") in states, f"never {states}", seconds)
        operation: JSON = status["retirement"]
        return operation

    async def until_over(self, seconds: float = 30) -> None:
        """The operation is cleared; deleted Pods are buried meanwhile."""

        async def over() -> bool:
            await self.bury()
            return not await self.operation()

        await self.cluster.eventually(over, "the operation never ends", seconds)

    # --------------------------------------------------------------------------------------------------- engines, router

    async def listen(self, pod: JSON) -> None:
        """The Pod gets an address of its own, where its engine shows its gauges and answers one-token requests."""
        host = fresh_host()
        await self._address(pod["metadata"]["name"], host)
        self._engines[host] = pod["metadata"]["name"]
        await self._serve(host, keys.DEFAULT_SERVING_PORT, self._engine)

    async def route(self, router: str) -> None:
        """The router's ReplicaSet and Pod, which selects what is labelled (or, when stubborn, everything)."""
        owner = json.loads(await self.client.get(DEPLOYMENTS, "chat-router", self.namespace))
        template = owner["spec"]["template"]
        labels = template["metadata"]["labels"]
        meta = {
            "name": "chat-router-1",
            "labels": labels,
            "ownerReferences": [rendering.reference({**owner, "apiVersion": "apps/v1", "kind": "Deployment"})],
        }
        spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
        await made(self.client, REPLICA_SETS, {"metadata": meta, "spec": spec}, self.namespace)
        above = json.loads(await self.client.get(REPLICA_SETS, "chat-router-1", self.namespace)) | {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
        }
        meta = {"name": "chat-router-1-a", "labels": labels, "ownerReferences": [rendering.reference(above)]}
        running = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        await made(self.client, PODS, {"metadata": meta, "spec": template["spec"], "status": running}, self.namespace)
        host = fresh_host()
        await self._address("chat-router-1-a", host)
        port = keys.ROUTER_OBSERVER_PORT_LLMD if router == "llm-d-router" else keys.ROUTER_PORT
        await self._serve(host, port, self._view)

    async def _address(self, name: str, host: str) -> None:
        body = json.dumps({"status": {"podIP": host, "podIPs": [{"ip": host}]}}).encode()
        await self.client.patch(PODS, name, body, self.namespace, subresource="status")

    async def _serve(self, host: str, port: int, handler: Any) -> None:
        runner = web.ServerRunner(web.Server(handler))
        await runner.setup()
        self._closing.push_async_callback(runner.cleanup)
        await web.TCPSite(runner, host, port).start()

    async def _engine(self, request: web.BaseRequest) -> web.Response:
        assert request.transport is not None
        if request.path == "/v1/completions":
            asked = (await request.json())["request_id"]
            return web.json_response({"id": f"cmpl-{asked}", "choices": [{"finish_reason": "length"}]})
        assert request.path == "/metrics", request.path
        name = self._engines[request.transport.get_extra_info("sockname")[0]]
        running = 2 if name in self.busy else 0
        lines = (f'vllm:num_requests_running{{model_name="m"}} {running}', 'vllm:num_requests_waiting{model_name="m"} 0')
        return web.Response(text="\n".join(lines) + "\n")

    async def _view(self, request: web.BaseRequest) -> web.Response:
        assert request.path == "/observer/endpoints", request.path
        labelled = await self.labelled()
        workers = []
        for host, name in self._engines.items():
            chosen = self.stubborn or name in labelled
            selection = {"registered": True, "healthy": True, "circuit_open": False, "in_selection": chosen}
            port = keys.DEFAULT_SERVING_PORT
            workers.append({"url": f"http://{host}:{port}", "port": port, "role": "server", "worker_id": name, "selection": selection})
        alive = {pod["metadata"]["name"] for pod in await self.pods()}
        document = {"router": {"boot_generation": 1, "now_ms": 1}, "registry_revision": 1}
        return web.json_response(document | {"workers": [worker for worker in workers if worker["worker_id"] in alive]})

    async def close(self) -> None:
        """Stop listening, and hold nothing back from its end."""
        for pod in await self.pods():
            await self._finalize(pod, None)
        await self._closing.aclose()


@asynccontextmanager
async def house(cluster: TestCluster) -> AsyncIterator[House]:
    """The definitions, a fresh namespace, and nobody who writes."""
    client = await cluster.client()
    await install(cluster, client)
    found = House(cluster, client, await cluster.namespace("house"))
    try:
        yield found
    finally:
        await found.close()


@asynccontextmanager
async def controller(at: House, client: Any = None, **changes: Any) -> AsyncIterator[Controller]:
    """A controller of the namespace in this process, cancelled at the end; it retires unless told otherwise."""
    given = {"status": StatusSettings(act="retire"), "observers": OBSERVING, "leader_election": False, **changes}
    running = Controller(client or at.client, ControllerSettings(namespace=at.namespace, **given), SystemClock())
    task = asyncio.create_task(running.run())
    try:
        yield running
        if task.done():
            task.result()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


class Children:
    """Controllers as processes; `told` is all that they said, in words."""

    def __init__(self, process: asyncio.subprocess.Process, at: House) -> None:
        self._process = process
        self._at = at
        self._heard = asyncio.Condition()
        self.told: list[list[str]] = []
        self._pids: set[int] = set()

    async def hear(self) -> None:
        """Take down what they say, until the end."""
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            async with self._heard:
                self.told.append(line.decode().split())
                self._heard.notify_all()

    async def born(self, **order: Any) -> int:
        """Start one. Its pid."""
        known = len(self.told)
        order = {"kubeconfig": str(self._at.cluster.kubeconfig), "namespace": self._at.namespace, **order}
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        await self._process.stdin.drain()
        pid = int((await self.heard(lambda words: words[0] == "born", since=known))[1])
        self._pids.add(pid)
        return pid

    async def heard(self, wanted: Callable[[list[str]], bool], *, since: int = 0, seconds: float = 30) -> list[str]:
        """The first line that is so."""
        try:
            async with asyncio.timeout(seconds), self._heard:
                while True:
                    for words in self.told[since:]:
                        if wanted(words):
                            return words
                    await self._heard.wait()
        except TimeoutError:
            raise AssertionError(f"never heard; the last words: {self.told[-8:]}; stored: {await self._at.operation()}") from None

    async def held(self, pid: int) -> None:
        """It holds still."""
        await self.heard(lambda words: words[:2] == ["held", str(pid)])

    def kill(self, pid: int) -> None:
        """No last word."""
        self._pids.discard(pid)
        os.kill(pid, signal.SIGKILL)

    def signal(self, pid: int, number: signal.Signals) -> None:
        """SIGSTOP and SIGCONT."""
        os.kill(pid, number)

    def did(self, point: str, pid: int | None = None) -> list[str]:
        """UIDs of the writes that the server carried out."""
        return [words[3] for words in self.told if words[0] == "did" and words[2] == point and pid in (None, int(words[1]))]

    def kill_all(self) -> None:
        """Every child that was born here and not killed yet."""
        for pid in list(self._pids):
            self.kill(pid)


@asynccontextmanager
async def children(at: House) -> AsyncIterator[Children]:
    """Somebody who starts controllers."""
    script = Path(__file__).with_name("nursery.py")
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(script), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    found = Children(process, at)
    hearing = asyncio.create_task(found.hear())
    try:
        yield found
    finally:
        found.kill_all()
        assert process.stdin is not None
        process.stdin.close()
        await process.wait()
        await hearing


def ago(seconds: float) -> str:
    """A moment in the past, or with a negative number in the future."""
    return format_time(datetime.now(UTC) - timedelta(seconds=seconds))


__all__ = ["Children", "House", "ago", "children", "controller", "fresh_host", "gone", "house"]
