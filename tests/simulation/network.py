"""What the Pods answer when they are dialled: engines their metrics and forward probes, routers their view of the endpoints.

A router looks at the world every few seconds and selects the ready Pods, only the labelled ones once any is labelled; between two looks it
serves what it saw. An engine is busy while requests that a router or a caller sent it last are under way.
"""

import asyncio
import random
from dataclasses import dataclass, field
from typing import Any

import httpx
import msgspec

from api import keys
from kube.resources import DEPLOYMENTS, PODS, REPLICA_SETS
from tests.simulation.actors import is_router
from tests.simulation.objects import HEAD_SUFFIX, controller_uid, is_leaving, reported
from tests.simulation.store import Object, labels, meta
from tests.simulation.world import World

LOOK_SECONDS = 3.0


@dataclass
class Network:
    """The engines' and routers' state. Times are seconds of the loop."""

    world: World
    busy: dict[str, float] = field(default_factory=dict)  # Pod UID -> busy until
    busy_since: dict[str, float] = field(default_factory=dict)
    down: dict[str, float] = field(default_factory=dict)  # Pod UID -> silent until
    operations: dict[str, tuple[int, int]] = field(default_factory=dict)  # Pod UID -> store operations succeeded, failed
    boots: dict[str, int] = field(default_factory=dict)  # router Pod UID -> boots
    nonsense: float = 0.0  # until when answers are garbage
    dissent: float = 0.0  # until when every second router selects nothing
    _seen: dict[str, tuple[float, list[Object]]] = field(default_factory=dict)

    def occupy(self, uid: str, seconds: float) -> None:
        """Let the engine be busy for so long."""
        self.busy[uid], self.busy_since[uid] = self.world.now + seconds, self.world.now

    def occupied_for(self, uid: str) -> float:
        """For how long the engine has been busy by now; 0 when it is idle."""
        return self.world.now - self.busy_since[uid] if self.busy.get(uid, 0.0) > self.world.now else 0.0

    def calm(self) -> None:
        """Everybody answers, and sensibly, from now on."""
        self.nonsense = self.dissent = 0.0
        self.down.clear()

    def views(self, pod: Object, owner: Object) -> bool:
        """Whether the Pod is a running router of that deployment."""
        above = next((item for item in self.world.store.list(REPLICA_SETS) if meta(item)["uid"] == controller_uid(pod)), None)
        deployment = above and next((d for d in self.world.store.list(DEPLOYMENTS) if meta(d)["uid"] == controller_uid(above)), None)
        ours = deployment is not None and controller_uid(deployment) == meta(owner)["uid"]
        named = is_router(pod) and labels(pod)[keys.ROUTER] == owner["spec"]["router"]["name"]
        return bool(ours and named and pod["status"].get("phase") == "Running")

    def selected(self, router: Object) -> set[str]:
        """UIDs of the Pods that it selects."""
        return {row["worker_id"] for row in self._selection(router) if row["selection"]["in_selection"]}

    def pod_at(self, host: str) -> Object | None:
        """The Pod of an address."""
        return next((pod for pod in self.world.store.list(PODS) if pod["status"].get("podIP") == host), None)

    def answer(self, pod: Object, port: int, path: str, body: bytes) -> Any:
        """The document or the text of a 200; None for 404."""
        uid = meta(pod)["uid"]
        if path == "/observer/endpoints" and port == observer_port(pod):
            return self._view(pod)
        if is_router(pod):
            return None
        if path == "/metrics":
            return self._metrics(uid)
        if path in ("/v1/completions", "/generate"):
            asked = msgspec.json.decode(body)
            if path == "/generate":
                return {"meta_info": {"id": asked["rid"], "finish_reason": {"type": "length"}}}
            return {"id": f"cmpl-{asked['request_id']}", "choices": [{"finish_reason": "length"}]}
        return None

    def _metrics(self, uid: str) -> str:
        running = 1 if self.busy.get(uid, 0.0) > self.world.now else 0
        succeeded, failed = self.operations.get(uid, (0, 0))
        lines = [
            f"vllm:num_requests_running {running}",
            "vllm:num_requests_waiting 0",
            *(
                f"sglang:{name} {running if name == 'num_running_reqs' else 0}"
                for name in (
                    "num_running_reqs",
                    "num_queue_reqs",
                    "num_prefill_bootstrap_queue_reqs",
                    "num_prefill_inflight_queue_reqs",
                    "num_decode_prealloc_queue_reqs",
                    "num_decode_transfer_queue_reqs",
                )
            ),
        ]
        if succeeded or failed:
            lines.append(f'vllm:mooncake_store_operation_total{{status="ok"}} {succeeded}')
            lines.append(f'vllm:mooncake_store_operation_total{{status="error"}} {failed}')
            lines.append(f"sglang:backuped_tokens_total {64 * succeeded}")
        return "\n".join(lines) + "\n"

    def _view(self, router: Object) -> Any:
        uid = meta(router)["uid"]
        looked, found = self._seen.get(uid, (-LOOK_SECONDS, []))
        if self.world.now - looked >= LOOK_SECONDS * (0.5 + self.world.chance(uid, "look")):
            found = self._selection(router)
            self._seen[uid] = (self.world.now, found)
        if self.dissent > self.world.now and self.world.chance(uid, "dissent") < 0.5:
            found = [{**row, "selection": {**row["selection"], "in_selection": False}} for row in found]
        return {
            "router": {"boot_generation": 7 + self.boots.get(uid, 0), "now_ms": int(self.world.now * 1000)},
            "registry_revision": 1,
            "workers": found,
        }

    def _selection(self, router: Object) -> list[Object]:
        mine = [
            pod
            for pod in self.world.pods(**{keys.INSTANCE: labels(router).get(keys.INSTANCE, "")})
            if not is_router(pod)
            and not labels(pod).get(keys.COMPONENT, "").endswith(HEAD_SUFFIX)
            and pod["status"].get("podIP")
            and not is_leaving(pod)
            and reported(pod, "Ready") == "True"
        ]
        narrowed = any(labels(pod).get(keys.ENDPOINT_ELIGIBLE) == "true" for pod in mine)
        rows = []
        for pod in mine:
            chosen = not narrowed or labels(pod).get(keys.ENDPOINT_ELIGIBLE) == "true"
            rows.append(
                {
                    "url": f"http://{pod['status']['podIP']}:8000",
                    "port": 8000,
                    "role": labels(pod).get(keys.ROLE_KIND, ""),
                    "pod_hint": meta(pod)["name"],
                    "worker_id": meta(pod)["uid"],
                    "selection": {"registered": True, "healthy": True, "circuit_open": False, "in_selection": chosen},
                }
            )
        return rows


def observer_port(pod: Object) -> int:
    """Where a router tells what it selects; 0 for what is no router."""
    name = labels(pod).get(keys.ROUTER)
    return 0 if name is None else keys.ROUTER_OBSERVER_PORT_LLMD if name == "llm-d-router" else keys.ROUTER_PORT


class Dial(httpx.AsyncBaseTransport):
    """httpx's transport of one process into the network."""

    def __init__(self, network: Network, rng: random.Random) -> None:
        self._network = network
        self._rng = rng

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """One exchange. Raises what httpx raises."""
        network = self._network
        await asyncio.sleep(self._rng.uniform(0.001, 0.02))
        pod = network.pod_at(request.url.host)
        if pod is None or pod["status"].get("phase") != "Running":
            raise httpx.ConnectError("no route to host")
        if network.down.get(meta(pod)["uid"], 0.0) > network.world.now:
            await asyncio.sleep(60.0)
            raise httpx.ReadTimeout("silence")
        if network.nonsense > network.world.now:
            return httpx.Response(200, stream=httpx.ByteStream(b"<html>proxy error</html>"))
        answer = network.answer(pod, request.url.port or 80, request.url.path, await request.aread())
        await asyncio.sleep(self._rng.uniform(0.001, 0.02))
        if answer is None:
            return httpx.Response(404)
        return httpx.Response(200, stream=httpx.ByteStream(answer.encode() if isinstance(answer, str) else msgspec.json.encode(answer)))
