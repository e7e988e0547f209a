"""`mdctl serve` as it is deployed, twice: processes to be killed and frozen, each behind a proxy of its own to the one API server."""

import asyncio
import contextlib
import hashlib
import json
import os
import re
import signal
import ssl
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assets import free_ports
from clusterkit import TestCluster
from faultproxy import FaultProxy, Front
from product import SYSTEM, put

from api.crd.variants import fitted
from deploy.manifests import Options, manifests
from kube.client import Client
from kube.errors import NotFound
from kube.resources import CRDS, LEASES, MUTATING_WEBHOOKS, NAMESPACES, SECRETS, VALIDATING_WEBHOOKS, Resource

JSON = dict[str, Any]
ROOT = Path(__file__).parents[2]
CONFIGURATIONS = {"ValidatingWebhookConfiguration": VALIDATING_WEBHOOKS, "MutatingWebhookConfiguration": MUTATING_WEBHOOKS}
INSTANCE_TYPES = Resource("worker.gpustack.ai", "v1", "instancetypes", "InstanceType", namespaced=False)
CARDS = "outage-h100"


@dataclass(frozen=True)
class Times:
    """The Lease's figures, seconds: others may take over, the holder gives up, it renews."""

    lease: float = 15
    renew: float = 10
    retry: float = 2


SHORT = Times(6, 4.5, 0.75)
DEPLOYED = Times()


class Replica:
    """One process. What it says goes to a file; `POD_NAME` makes it known by name in the Lease."""

    def __init__(self, name: str, proxy: FaultProxy, port: int, times: Times, folder: Path) -> None:
        self.name = name
        self.proxy = proxy
        self.port = port
        self._times = times
        self._log = folder / f"{name}.log"
        self._process: asyncio.subprocess.Process | None = None
        self.stopped = False
        self.settings: dict[str, str] = {}

    async def start(self) -> None:
        """The process; it is not ready yet."""
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("MODELWARDEN_", "KUBE"))}
        flags = {
            "--kubeconfig": str(self.proxy.kubeconfig),
            "--kueue": "absent",
            "--serve-host": "127.0.0.1",
            "--serve-port": str(self.port),
            "--serve-drain-seconds": "0",
            "--certs-extra-names": "127.0.0.1",
            "--leader-lease-seconds": str(self._times.lease),
            "--leader-renew-seconds": str(self._times.renew),
            "--leader-retry-seconds": str(self._times.retry),
            "--log-format": "json",
        }
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "app.cli", "serve", "--no-observers-enabled"),
                *(word for flag in flags.items() for word in flag),
                cwd=ROOT,
                env=environment | self.settings | {"POD_NAME": self.name, "POD_NAMESPACE": SYSTEM},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    @property
    def alive(self) -> bool:
        """Whether the process is there."""
        return self._process is not None and self._process.returncode is None

    @property
    def pid(self) -> int:
        """Of the process that runs now; 0 for none."""
        return self._process.pid if self._process is not None and self._process.returncode is None else 0

    @property
    def cpu_seconds(self) -> float:
        """CPU time of the process so far."""
        assert self._process is not None
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def said(self, text: str) -> list[JSON]:
        """Its log lines with that message."""
        found = []
        for line in self._log.read_text(errors="replace").splitlines():
            with contextlib.suppress(ValueError):
                entry = json.loads(line)
                if text in entry.get("msg", ""):
                    found.append(entry)
        return found

    async def has_said(self, text: str, more_than: int) -> bool:
        """Whether it said so more often than that."""
        return len(self.said(text)) > more_than

    def last_words(self) -> str:
        """The end of its log."""
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-15:])

    async def kill(self) -> None:
        """SIGKILL."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        await self._process.wait()

    def freeze(self) -> None:
        """SIGSTOP."""
        assert self._process is not None
        self.stopped = True
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """SIGCONT."""
        assert self._process is not None
        self.stopped = False
        self._process.send_signal(signal.SIGCONT)

    async def end(self) -> None:
        """SIGTERM, and its exit code 0."""
        if not self.alive:
            return
        assert self._process is not None
        if self.stopped:
            self.thaw()
        self._process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(30):
                code = await self._process.wait()
        except TimeoutError:
            await self.kill()
            raise AssertionError(f"{self.name} does not end:\n{self.last_words()}") from None
        assert code == 0, f"{self.name} ended with {code}:\n{self.last_words()}"

    async def ask(self, path: str, seconds: float = 3) -> tuple[int, str]:
        """A GET over TLS without verification, as a kubelet asks. (0, "") where there is no answer."""
        trust = ssl.create_default_context()
        trust.check_hostname = False
        trust.verify_mode = ssl.CERT_NONE
        try:
            async with asyncio.timeout(seconds):
                return await exchange(self.port, trust, "GET", path)
        except (OSError, TimeoutError, ValueError):
            return 0, ""

    async def ready(self) -> bool:
        """As a kubelet sees it."""
        return (await self.ask("/readyz"))[0] == 200

    async def metric(self, name: str) -> float:
        """One sample of /metrics."""
        _, text = await self.ask("/metrics")
        found = re.search(rf"^{re.escape(name)} (\S+)$", text, re.MULTILINE)
        return float(found[1]) if found else float("nan")


async def exchange(port: int, trust: ssl.SSLContext, method: str, path: str, body: bytes = b"") -> tuple[int, str]:
    """One request on a connection of its own. Raises OSError (ssl.SSLError among them) and ValueError for what is no answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trust, server_hostname="127.0.0.1")
    try:
        head = f"{method} {path} HTTP/1.1\r\nHost: modelwarden\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        writer.write(head.encode() + b"Connection: close\r\n\r\n" + body)
        answer = await reader.read()
    finally:
        writer.transport.abort()
    head_end = answer.find(b"\r\n\r\n")
    if head_end < 0:
        raise ValueError("no answer")
    return int(answer.split(b" ", 2)[1]), answer[head_end + 4 :].decode()


async def certificate_of(port: int) -> str:
    """SHA-256 of the certificate that is served there now."""
    trust = ssl.create_default_context()
    trust.check_hostname = False
    trust.verify_mode = ssl.CERT_NONE
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trust)
    try:
        served: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    finally:
        writer.transport.abort()
    return hashlib.sha256(served).hexdigest()


class Pair:
    """Two replicas, the front they stand behind, and the API server asked directly."""

    def __init__(self, cluster: TestCluster, client: Client, replicas: list[Replica], front: Front, kubeconfig: Path) -> None:
        self.cluster = cluster
        self.client = client
        self.replicas = replicas
        self.front = front
        self.kubeconfig = kubeconfig

    async def lease(self) -> JSON:
        """The Lease's spec, empty while there is none."""
        try:
            found: JSON = json.loads(await self.client.get(LEASES, "modelwarden", SYSTEM))["spec"]
        except NotFound:
            return {}
        return found

    async def leader(self, *, other_than: Replica | None = None, seconds: float = 60) -> Replica:
        """Whoever holds the Lease, once somebody (else) does."""

        async def holds() -> Replica | None:
            holder = (await self.lease()).get("holderIdentity") or ""
            return next((each for each in self.replicas if holder.startswith(f"{each.name}_") and each is not other_than), None)

        found: Replica = await self.cluster.eventually(holds, "nobody takes the Lease", seconds)
        return found

    def other(self, than: Replica) -> Replica:
        """The one that is not this one."""
        return next(each for each in self.replicas if each is not than)

    async def whole(self, seconds: float = 60) -> tuple[Replica, Replica]:
        """Every fault gone, both running and ready, behind the front, one of them leading: (leader, follower)."""
        for each in self.replicas:
            await each.proxy.heal()
            if each.stopped:
                each.thaw()
            if not each.alive:
                await each.start()

        async def ready() -> bool:
            return all([await each.ready() for each in self.replicas]) and len(self.front.endpoints) == len(self.replicas)

        try:
            await self.cluster.eventually(ready, "the replicas never get ready", seconds)
        except AssertionError as never:
            words = "\n".join(each.last_words() for each in self.replicas)
            raise AssertionError(f"{never}\n{words}") from None
        leader = await self.leader(seconds=seconds)
        return leader, self.other(leader)


async def install(cluster: TestCluster, client: Client, port: int) -> None:
    """Definitions, the namespace, and the webhook configurations, which call the front."""
    objects = manifests(Options(companions=True, version=(1, cluster.minor)))
    await put(client, NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM}})
    for obj in objects:
        if obj["kind"] == "CustomResourceDefinition":
            await put(client, CRDS, fitted(obj, (1, cluster.minor)))
    for plural in ("modeldeployments", "modeldeploymentscalers", "instancetypes"):
        resource = Resource("worker.gpustack.ai", "v1", plural, plural)
        await cluster.eventually(lambda resource=resource: client.serves(resource), f"{plural} are never served")
    spec = {"acceleratable": True, "acceleratorGroup": "nvidia-h100"}
    await put(
        client, INSTANCE_TYPES, {"apiVersion": "worker.gpustack.ai/v1", "kind": "InstanceType", "metadata": {"name": CARDS}, "spec": spec}
    )
    for obj in objects:
        if obj["kind"] in CONFIGURATIONS:
            for hook in obj["webhooks"]:
                hook["clientConfig"] = {"url": f"https://127.0.0.1:{port}{hook['clientConfig']['service']['path']}"}
            await put(client, CONFIGURATIONS[obj["kind"]], obj)


async def withdraw(client: Client) -> None:
    """What a next test must not find."""
    names = ((VALIDATING_WEBHOOKS, "modelwarden-validating"), (MUTATING_WEBHOOKS, "modelwarden-mutating"))
    for resource, name in names:
        with contextlib.suppress(NotFound):
            await client.delete(resource, name)
    for resource, name in ((SECRETS, "modelwarden-certs"), (LEASES, "modelwarden")):
        with contextlib.suppress(NotFound):
            await client.delete(resource, name, SYSTEM)


@asynccontextmanager
async def pair(cluster: TestCluster, folder: Path, times: Times) -> AsyncIterator[Pair]:
    """Both replicas, ready, with one of them leading."""
    client = await cluster.client()
    ports = dict(zip(("replica-a", "replica-b"), free_ports(2), strict=True))
    async with AsyncExitStack() as closing:
        replicas = []
        for name, port in ports.items():
            home = folder / name
            home.mkdir(parents=True)
            proxy = FaultProxy(cluster.kubeconfig_for(name, ("system:masters",)), home)
            await proxy.start()
            closing.push_async_callback(proxy.stop)
            replicas.append(Replica(name, proxy, port, times, folder))
        by_name = {each.name: each for each in replicas}
        front = Front(ports, lambda name: by_name[name].ready())
        await front.start()
        closing.push_async_callback(front.stop)
        await withdraw(client)
        await install(cluster, client, front.port)
        closing.push_async_callback(withdraw, client)
        for each in replicas:
            await each.start()
            closing.push_async_callback(each.end)
        found = Pair(cluster, client, replicas, front, cluster.kubeconfig)
        await found.whole()
        yield found


def now() -> float:
    """The clock of all records here."""
    return time.monotonic()
