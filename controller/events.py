"""Events of events.k8s.io/v1: best effort, aggregated, bounded.

A repeated notice becomes a `series` on the Event that told it first. An object that keeps changing is limited as client-go limits it: 25 at
once, then one every five minutes. Sending has its own task and its own bounded queue, so that no pass waits for an Event or fails with it.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import structlog

from api import keys
from api.clock import Clock
from api.objects import ObjectMeta
from controller import metrics
from controller.election import micro_time
from controller.transitions import Notice
from kube.client import Client
from kube.errors import KubeError, NotFound
from kube.resources import EVENTS

NOTE_BYTES: Final = 1024
SERIES_SECONDS: Final = 360.0
BURST: Final = 25.0
REFILL_SECONDS: Final = 300.0
REMEMBERED: Final = 2048
WAITING: Final = 1000
REPORTER: Final = "worker.gpustack.ai/modelwarden"

log = structlog.get_logger("controller.events")


def bounded(note: str) -> str:
    """At most 1 KiB of UTF-8, cut between characters."""
    raw = note.encode()
    return note if len(raw) <= NOTE_BYTES else raw[: NOTE_BYTES - 3].decode("utf-8", "ignore") + "…"


@dataclass(slots=True)
class _Told:
    name: str
    count: int
    at: float


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at: float


class EventRecorder:
    """`notice` is immediate and never fails; `run` sends, about those UIDs that it still may."""

    def __init__(self, client: Client, clock: Clock, identity: str, may_send: Callable[[str], bool] = lambda _: True) -> None:
        self._client = client
        self._may_send = may_send
        self._clock = clock
        self._identity = identity[:128]
        self._queue: deque[tuple[ObjectMeta, Notice]] = deque(maxlen=WAITING)
        self._filled = asyncio.Event()
        self._told: OrderedDict[tuple[str, Notice], _Told] = OrderedDict()
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()
        self._serial = 0

    def notice(self, regarding: ObjectMeta, notice: Notice) -> None:
        """Put an Event about a ModelDeployment on its way."""
        self._queue.append((regarding, notice._replace(note=bounded(notice.note))))
        self._filled.set()

    async def run(self) -> None:
        """Send until cancelled."""
        while True:
            while self._queue:
                regarding, notice = self._queue.popleft()
                await self._send(regarding, notice)
            self._filled.clear()
            await self._filled.wait()

    async def _send(self, regarding: ObjectMeta, notice: Notice) -> None:
        if not self._may_send(regarding.uid):
            metrics.EVENTS.labels("not-held").inc()
            return
        if not self._allowed(regarding.uid):
            metrics.EVENTS.labels("limited").inc()
            return
        now = self._clock.monotonic()
        told = self._told.get((regarding.uid, notice))
        try:
            if told is not None and now - told.at < SERIES_SECONDS and await self._repeat(regarding, told):
                told.at = now
                metrics.EVENTS.labels("repeated").inc()
                return
            name = await self._create(regarding, notice)
        except KubeError as error:
            metrics.EVENTS.labels("failed").inc()
            log.debug("event not sent", reason=notice.reason, error=str(error))
            return
        metrics.EVENTS.labels("sent").inc()
        self._told[regarding.uid, notice] = _Told(name, 1, now)
        while len(self._told) > REMEMBERED:
            self._told.popitem(last=False)

    async def _create(self, regarding: ObjectMeta, notice: Notice) -> str:
        self._serial += 1
        now = self._clock.now()
        name = f"{regarding.name[:200]}.{int(now.timestamp() * 1e6):x}{self._serial:x}"
        body: dict[str, Any] = {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.kind,
            "metadata": {"name": name, "namespace": regarding.namespace},
            "eventTime": micro_time(now),
            "reportingController": REPORTER,
            "reportingInstance": self._identity,
            "action": "Reconcile",
            "type": notice.type,
            "reason": notice.reason[:128],
            "note": notice.note,
            "regarding": {
                "apiVersion": keys.API_VERSION,
                "kind": keys.MODEL_DEPLOYMENT,
                "namespace": regarding.namespace,
                "name": regarding.name,
                "uid": regarding.uid,
                "resourceVersion": regarding.resource_version,
            },
        }
        await self._client.create(EVENTS, msgspec.json.encode(body), regarding.namespace)
        return name

    async def _repeat(self, regarding: ObjectMeta, told: _Told) -> bool:
        """Count one more on the Event that exists. False when it is gone by now."""
        told.count += 1
        series = {"count": told.count, "lastObservedTime": micro_time(self._clock.now())}
        try:
            await self._client.patch(EVENTS, told.name, msgspec.json.encode({"series": series}), regarding.namespace)
        except NotFound:
            return False
        return True

    def _allowed(self, uid: str) -> bool:
        now = self._clock.monotonic()
        bucket = self._buckets.setdefault(uid, _Bucket(BURST, now))
        self._buckets.move_to_end(uid)
        while len(self._buckets) > REMEMBERED:
            self._buckets.popitem(last=False)
        bucket.tokens = min(BURST, bucket.tokens + (now - bucket.at) / REFILL_SECONDS)
        bucket.at = now
        if bucket.tokens < 1:
            return False
        bucket.tokens -= 1
        return True
