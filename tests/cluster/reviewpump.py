"""Somebody who never stops asking: reviews to each replica, each on a connection of its own that trusts the published caBundle alone.

Beside them dry-run writes go through the API server, which calls whatever stands behind the front. All is kept with its moment, so that
a window can be told apart from the time around it.
"""

import asyncio
import base64
import json
import ssl
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from cryptography import x509
from product import MODEL_DEPLOYMENTS
from replicas import CARDS, Pair, exchange

from certs.material import fingerprint
from kube.client import Client
from kube.errors import KubeError
from kube.resources import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS

JSON = dict[str, Any]

# What a webhook of ours is given by the API server.
WEBHOOK_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Review:
    """One review's fate: `outcome` is admitted, refused, cannot-judge (500, and its `why`), late, no-connection, -handshake, -answer."""

    at: float
    seconds: float
    outcome: str
    reads: bool
    why: str = ""


@dataclass(slots=True)
class Tally:
    """Reviews of a window, counted."""

    reviews: list[Review] = field(default_factory=list)

    def count(self, *outcomes: str, reads: bool | None = None) -> int:
        """How many came to one of these; of all that were sent where none is named."""
        return sum((not outcomes or r.outcome in outcomes) and reads in (None, r.reads) for r in self.reviews)

    def p99(self) -> float:
        """Milliseconds; of what was answered at all."""
        times = sorted(r.seconds for r in self.reviews if r.outcome in {"admitted", "refused", "cannot-judge"})
        return round(times[min(len(times) - 1, int(len(times) * 0.99))] * 1000, 1) if times else float("nan")

    def worst(self) -> float:
        """Seconds; of all."""
        return max((r.seconds for r in self.reviews), default=0.0)

    def unanswered(self) -> list[str]:
        """Those without a verdict, a line each: when, after how long, and why."""
        without = [r for r in self.reviews if r.outcome not in {"admitted", "refused"}]
        return [f"{r.at - self.reviews[0].at:.1f} s in: {r.outcome} after {r.seconds:.1f} s {r.why}".rstrip() for r in without]

    def __str__(self) -> str:
        outcomes = {r.outcome for r in self.reviews} - {"admitted"}
        more = "".join(f", {self.count(outcome)} {outcome}" for outcome in sorted(outcomes))
        return f"{self.count()} sent, {self.count('admitted')} admitted{more}, p99 {self.p99()} ms"


def body_of(name: str, *, reads: bool) -> JSON:
    """A deployment that is right; `reads`: whose rules need an InstanceType."""
    role: JSON = {"name": "server", "kind": "Server", "replicas": 1, "size": 1, "image": "engine:1"}
    role |= {"instanceType": CARDS, "resources": {"accelerator": "1"}} if reads else {"instanceType": ""}
    spec = {"model": {"name": "m"}, "engine": {"name": "vLLM", "version": "0.29.0"}, "roles": [role]}
    return {"apiVersion": MODEL_DEPLOYMENTS.api_version, "kind": "ModelDeployment", "metadata": {"name": name}, "spec": spec}


def review_of(obj: JSON, namespace: str, *, operation: str = "CREATE") -> tuple[str, bytes]:
    """Its uid and its bytes."""
    uid = str(uuid.uuid4())
    request = {
        "uid": uid,
        "kind": {"group": "worker.gpustack.ai", "version": "v1", "kind": "ModelDeployment"},
        "resource": {"group": "worker.gpustack.ai", "version": "v1", "resource": "modeldeployments"},
        "name": obj["metadata"]["name"],
        "namespace": namespace,
        "operation": operation,
        "userInfo": {"username": "alice"},
        "object": obj | {"metadata": obj["metadata"] | {"namespace": namespace}},
        "oldObject": None,
    }
    return uid, json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).encode()


class Pump:
    """`reviews` by replica, and `api` for the writes through the API server."""

    def __init__(self, pair: Pair, namespace: str, *, per_second: float) -> None:
        self._pair = pair
        self._namespace = namespace
        self._pause = 1 / per_second
        self._bundle = b""
        self._trust: ssl.SSLContext | None = None
        self._trusting = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self.reviews: dict[str, list[Review]] = {each.name: [] for each in pair.replicas}
        self.api: list[Review] = []
        self.bundles: list[tuple[float, bytes]] = []

    def window(self, who: str, since: float, until: float = float("inf")) -> Tally:
        """The reviews of a replica, or of "api", that were sent within."""
        found = self.api if who == "api" else self.reviews[who]
        return Tally([review for review in found if since <= review.at < until])

    def trusted(self) -> set[str]:
        """SHA-256 of every authority that the reviews trust now."""
        return {fingerprint(each) for each in x509.load_pem_x509_certificates(self._bundle)} if self._bundle else set()

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow_bundle())
            await self._trusting.wait()
            for each in self._pair.replicas:
                group.create_task(self._ask(each.name, each.port))
            group.create_task(self._write())

    async def drained(self) -> None:
        """Everything that was sent came to something."""
        await asyncio.gather(*self._tasks)

    async def _follow_bundle(self) -> None:
        """As an API server, which hears of a new caBundle a little late, and of the two configurations' apart."""
        while True:
            for resource, name in ((VALIDATING_WEBHOOKS, "modelwarden-validating"), (MUTATING_WEBHOOKS, "modelwarden-mutating")):
                try:
                    found = json.loads(await self._pair.client.get(resource, name))
                except KubeError:
                    continue
                bundle = base64.b64decode(found["webhooks"][0]["clientConfig"].get("caBundle") or "")
                if bundle and bundle != self._bundle and resource is VALIDATING_WEBHOOKS:
                    self._bundle = bundle
                    self._trust = ssl.create_default_context(cadata=bundle.decode())
                    self._trusting.set()
                    self.bundles.append((time.monotonic(), bundle))
            await asyncio.sleep(0.5)

    def _spawn(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _ask(self, name: str, port: int) -> None:
        turn = 0
        while True:
            turn += 1
            self._spawn(self._review(name, port, reads=turn % 2 == 0))
            await asyncio.sleep(self._pause)

    async def _review(self, name: str, port: int, *, reads: bool) -> None:
        began = time.monotonic()
        trust = self._trust
        assert trust is not None
        obj = body_of("reviewed", reads=reads)
        uid, body = review_of(obj, self._namespace)
        why = ""
        try:
            async with asyncio.timeout(WEBHOOK_SECONDS):
                code, text = await exchange(port, trust, "POST", "/validate-modeldeployment?timeout=10s", body)
            outcome = _outcome(code, text, uid)
            why = json.loads(text)["response"]["status"]["message"] if code == 500 else ""
        except TimeoutError:
            outcome = "late"
        except ssl.SSLError:
            outcome = "no-handshake"
        except ConnectionRefusedError:
            outcome = "no-connection"
        except (OSError, ValueError):
            outcome = "no-answer"
        self.reviews[name].append(Review(began, time.monotonic() - began, outcome, reads, why))

    async def _write(self) -> None:
        async def once(client: Client) -> None:
            began = time.monotonic()
            try:
                await client.create(MODEL_DEPLOYMENTS, json.dumps(body_of("dry", reads=True)).encode(), self._namespace, dry_run=True)
                outcome = "admitted"
            except KubeError as fault:
                outcome = "refused" if "denied the request" in str(fault) else f"failed ({' '.join(str(fault).split())[-60:]})"
            self.api.append(Review(began, time.monotonic() - began, outcome, reads=True))

        while True:
            self._spawn(once(self._pair.client))
            await asyncio.sleep(2 * self._pause)


def _outcome(code: int, text: str, uid: str) -> str:
    response = json.loads(text)["response"]
    assert response["uid"] == uid
    if code == 200:
        return "admitted" if response["allowed"] else "refused"
    return "cannot-judge" if code == 500 else f"code {code}"


@asynccontextmanager
async def pumping(pair: Pair, namespace: str, *, per_second: float = 8) -> AsyncIterator[Pump]:
    """From here to the end."""
    pump = Pump(pair, namespace, per_second=per_second)
    task = asyncio.create_task(pump.run())
    try:
        await asyncio.sleep(0.2)
        yield pump
        if task.done():
            task.result()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await pump.drained()
