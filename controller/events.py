"""Events of events.k8s.io/v1: best effort, aggregated, bounded.

A repeated notice becomes a `series` on the Event that told it first; what else becomes of notices is told in `controller.correlation`.
Sending has its own tasks and its own bounded backlog, so that no pass waits for an Event or fails with it. While passes wait for their turn
Events hold back, as long as that lasts but for one second each: status comes first, and what waits is merged meanwhile.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import structlog

from api import keys
from api.clock import Clock
from api.objects import ObjectMeta
from controller import metrics
from controller.correlation import REMEMBERED, Allowance, Backlog, Likeness, Telling, bounded, combination
from controller.election import micro_time
from controller.transitions import Notice
from kube.client import Client
from kube.errors import KubeError, NotFound
from kube.resources import EVENTS

SERIES_SECONDS: Final = 360.0
# client-go keeps a thousand; ours also wait for the statuses of a storm. A note has 1 KiB at most, so this is 5 MiB at worst.
WAITING: Final = 5000
AT_ONCE: Final = 4
# How often, and how many times, an Event that holds back looks whether passes still wait.
LOOK_SECONDS: Final = 0.1
LOOKS: Final = 10
REPORTER: Final = "worker.gpustack.ai/modelwarden"

log = structlog.get_logger("controller.events")


@dataclass(slots=True)
class _Told:
    name: str
    count: int
    at: float


class EventRecorder:
    """`notice` is immediate and never fails; `run` sends, about those UIDs that it still may, and after whoever is `busy`."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        identity: str,
        *,
        may_send: Callable[[str], bool] = lambda _: True,
        busy: Callable[[], bool] = lambda: False,
    ) -> None:
        self._client = client
        self._clock = clock
        self._identity = identity[:128]
        self._may_send = may_send
        self._busy = busy
        self._backlog = Backlog(WAITING)
        self._movement = asyncio.Event()
        self._allowance = Allowance()
        self._likeness = Likeness()
        self._told: OrderedDict[tuple[str, Notice], _Told] = OrderedDict()
        self._serial = 0

    def notice(self, regarding: ObjectMeta, notice: Notice) -> None:
        """Put an Event about a ModelDeployment on its way."""
        put = self._backlog.put(regarding, notice._replace(note=bounded(notice.note)), self._clock.now())
        if put != "added":
            metrics.EVENTS.labels(put).inc()
        self._movement.set()

    async def run(self) -> None:
        """Send until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(AT_ONCE):
                group.create_task(self._serve())

    async def _serve(self) -> None:
        while True:
            if self._backlog:
                await self._give_way()
            telling = self._backlog.take()
            if telling is None:
                self._movement.clear()
                await self._movement.wait()
                continue
            try:
                await self._send(telling)
            finally:
                self._backlog.done(telling.regarding.uid)
                self._movement.set()

    async def _give_way(self) -> None:
        for _ in range(LOOKS):
            if not self._busy():
                return
            await self._clock.sleep(LOOK_SECONDS)

    async def _send(self, telling: Telling) -> None:
        uid = telling.regarding.uid
        if not self._may_send(uid):
            metrics.EVENTS.labels("not-held").inc()
            return
        now = self._clock.monotonic()
        if not self._allowance.spend(uid, now):
            metrics.EVENTS.labels("limited").inc()
            return
        key = (uid, telling.notice)
        told = self._fresh(key, now)
        # A count alone would not tell what was merged.
        counted = not telling.earlier
        if told is None and self._likeness.combined(uid, telling.notice, now):
            key = (uid, telling.notice._replace(note=""))
            told, counted = self._fresh(key, now), True
            telling = combination(telling)
        try:
            if told is not None and counted and await self._repeat(telling, told):
                told.at = now
                metrics.EVENTS.labels("repeated").inc()
                return
            name = await self._create(telling)
        except KubeError as error:
            metrics.EVENTS.labels("failed").inc()
            log.debug("event not sent", reason=telling.notice.reason, error=str(error))
            return
        metrics.EVENTS.labels("sent").inc()
        self._told[key] = _Told(name, telling.count, now)
        while len(self._told) > REMEMBERED:
            self._told.popitem(last=False)

    def _fresh(self, key: tuple[str, Notice], now: float) -> _Told | None:
        told = self._told.get(key)
        return told if told is not None and now - told.at < SERIES_SECONDS else None

    async def _create(self, telling: Telling) -> str:
        self._serial += 1
        regarding, notice = telling.regarding, telling.notice
        name = f"{regarding.name[:200].rstrip('-.')}.{int(self._clock.now().timestamp() * 1e6):x}{self._serial:x}"
        body: dict[str, Any] = {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.kind,
            "metadata": {"name": name, "namespace": regarding.namespace},
            "eventTime": micro_time(telling.at),
            "reportingController": REPORTER,
            "reportingInstance": self._identity,
            "action": "Reconcile",
            "type": notice.type,
            "reason": notice.reason[:128],
            "note": telling.note,
            "regarding": {
                "apiVersion": keys.API_VERSION,
                "kind": keys.MODEL_DEPLOYMENT,
                "namespace": regarding.namespace,
                "name": regarding.name,
                "uid": regarding.uid,
                "resourceVersion": regarding.resource_version,
            },
        }
        if telling.count > 1:
            body["series"] = {"count": telling.count, "lastObservedTime": micro_time(telling.at)}
        await self._client.create(EVENTS, msgspec.json.encode(body), regarding.namespace)
        return name

    async def _repeat(self, telling: Telling, told: _Told) -> bool:
        """Count on the Event that exists. False when it is gone by now."""
        told.count += telling.count
        series = {"count": told.count, "lastObservedTime": micro_time(telling.at)}
        try:
            await self._client.patch(EVENTS, told.name, msgspec.json.encode({"series": series}), telling.regarding.namespace)
        except NotFound:
            return False
        return True
