"""Who writes: the holder of a Lease, by client-go's rules.

A follower takes over when the Lease has not changed for its duration, by its own clock (the times in the Lease are never compared with
ours). The holder renews every `retry_period`, with one request as long as nobody else touched the Lease; `renew_deadline` after the last
renewal was sent it writes nothing more. An attempt that is under way then is waited for a little longer, half way to the Lease's end: a
server that takes five seconds an answer would otherwise cost the leadership of everybody. After that it lost, whoever holds it: what it ran
is cancelled before anybody else can have taken over. On a clean exit the Lease is released, so that the next one need not wait. Every
request is bounded well below the renew deadline, so that one which is never answered is tried again on another connection.
"""

import asyncio
import math
import random
from collections.abc import Awaitable, Callable, Coroutine
from datetime import datetime
from typing import Any, Final

import msgspec
import structlog

from api.clock import Clock
from controller import metrics
from controller.settings import ControllerSettings
from controller.waiting import first_of, within
from kube.client import Client
from kube.errors import Conflict, KubeError, NotFound
from kube.resources import LEASES

JITTER: Final = 1.2
# Of the renew deadline: how long one request may take. Two of them fit into the time until the Lease is given up.
PATIENCE: Final = 0.65

log = structlog.get_logger("controller.election")


class LeaseSpec(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """`spec` of a Lease."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class LeaseMeta(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """`metadata` of a Lease, as far as a replacement has to carry it."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: list[dict[str, Any]] = []


class Lease(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A coordination.k8s.io/v1 Lease."""

    api_version: str = msgspec.field(default_factory=lambda: LEASES.api_version)
    kind: str = msgspec.field(default_factory=lambda: LEASES.kind)
    metadata: LeaseMeta = LeaseMeta()
    spec: LeaseSpec = LeaseSpec()


def micro_time(now: datetime) -> str:
    """The form of `metav1.MicroTime`."""
    return now.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class Election:
    """One candidate. `leading` tells readiness; `may_write` is what a writer asks before it writes."""

    def __init__(self, client: Client, settings: ControllerSettings, clock: Clock, rand: Callable[[], float] = random.random) -> None:
        self._client = client
        self._settings = settings
        self._clock = clock
        self._rand = rand
        self._observed: Lease | None = None
        self._observed_at = 0.0
        self._renewed_at: float | None = None
        self._unanswered = False
        self.leading = False

    @property
    def may_write(self) -> bool:
        """Whether the Lease is certainly still ours: it was renewed within the renew deadline, which ends before anybody may take over."""
        if not self._settings.leader_election:
            return self.leading
        return self.leading and self._renewed_at is not None and self._age(self._renewed_at) < self._settings.renew_deadline

    @property
    def holder(self) -> str:
        """Who holds the Lease as far as we saw."""
        return (self._observed.spec.holder_identity or "") if self._observed else ""

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Follow and lead in turn until cancelled; `lead` runs while we hold the Lease and is cancelled when we lost it."""
        if not self._settings.leader_election:
            self._lead(True)
            try:
                await lead()
            finally:
                self._lead(False)
            return
        while True:
            try:
                await self._acquire()
            except asyncio.CancelledError:
                await self._release()
                raise
            self._lead(True)
            log.info("leading", lease=self._settings.lease_name, identity=self._settings.identity)
            try:
                await first_of(lead(), self._renew())  # type: ignore[arg-type]  # lead is a coroutine function
            finally:
                self._lead(False)
                await self._release()

    def _lead(self, leading: bool) -> None:
        self.leading = leading
        metrics.MASTER.labels(self._settings.lease_name).set(1 if leading else 0)

    async def _acquire(self) -> None:
        while not await self._attempt():
            await self._clock.sleep(self._settings.retry_period * (1 + JITTER * self._rand()))

    async def _renew(self) -> None:
        """Return when the Lease is lost."""
        began = self._clock.monotonic() if self._renewed_at is None else self._renewed_at
        while True:
            # From the last attempt's start, not its end: where answers are slow they leave no time for a pause.
            pause = self._settings.retry_period - self._age(began)
            await self._clock.sleep(max(min(pause, self._left(self._settings.renew_deadline)), 0.0))
            began = self._clock.monotonic()
            if await self._attempt():
                continue
            if self.holder not in ("", self._settings.identity) or not self.may_write:
                log.warning("lease lost; following", lease=self._settings.lease_name, holder=self.holder)
                return
            if self._age(began) >= self._settings.retry_period:
                await self._clock.sleep(self._settings.retry_period / 4)  # a request that timed out must not be followed in a tight loop

    async def _attempt(self) -> bool:
        """Acquire or renew once. False when another holds it or the server did not do it."""
        try:
            return await self._renewed() or await self._take()
        except (KubeError, TimeoutError, msgspec.MsgspecError) as error:
            log.debug("lease not taken", error=str(error))
            return False

    async def _renewed(self) -> bool:
        """Renew what we hold by one request. False where somebody touched it meanwhile: then it has to be read."""
        lease = self._observed
        if not self.leading or lease is None or lease.spec.holder_identity != self._settings.identity:
            return False
        try:
            await self._replace(msgspec.structs.replace(lease, spec=self._renewal(lease.spec)))
        except Conflict:
            return False
        return True

    def _renewal(self, held: LeaseSpec) -> LeaseSpec:
        duration = math.ceil(self._settings.lease_duration)  # never less than what we count on ourselves
        return msgspec.structs.replace(held, lease_duration_seconds=duration, renew_time=micro_time(self._clock.now()))

    async def _take(self) -> bool:
        settings = self._settings
        now = micro_time(self._clock.now())
        spec = LeaseSpec(settings.identity, math.ceil(settings.lease_duration), now, now, 0)
        try:
            lease = self._read(await self._within(self._client.get(LEASES, settings.lease_name, settings.lease_namespace)))
        except NotFound:
            body = Lease(metadata=LeaseMeta(settings.lease_name, settings.lease_namespace), spec=spec)
            await self._write(self._client.create(LEASES, msgspec.json.encode(body), settings.lease_namespace))
            return True
        self._observe(lease)
        held = lease.spec
        ours = held.holder_identity == settings.identity
        if not ours and held.holder_identity and self._age(self._observed_at) < (held.lease_duration_seconds or settings.lease_duration):
            return False
        spec = msgspec.structs.replace(
            spec,
            acquire_time=held.acquire_time if ours else now,
            lease_transitions=(held.lease_transitions or 0) + (0 if ours else 1),
        )
        await self._replace(msgspec.structs.replace(lease, spec=spec))
        return True

    async def _replace(self, lease: Lease) -> None:
        body = msgspec.json.encode(lease)
        await self._write(self._client.replace(LEASES, self._settings.lease_name, body, self._settings.lease_namespace))

    async def _write(self, sent: Coroutine[Any, Any, bytes]) -> None:
        """From the moment it is sent the others wait, at the earliest, so from there our own time is counted."""
        started = self._clock.monotonic()
        self._unanswered = True
        self._observe(self._read(await self._within(sent)))
        self._unanswered = False
        self._renewed_at = started

    async def _within(self, request: Coroutine[Any, Any, bytes]) -> bytes:
        settings = self._settings
        patience = (settings.renew_deadline + settings.lease_duration) / 2
        return await within(self._clock, min(settings.renew_deadline * PATIENCE, self._left(patience)), request)

    async def _release(self) -> None:
        """Give the Lease up so that the next one need not wait it out. Best effort, and only while it is ours."""
        try:
            if self._unanswered:  # a write of ours was cut off, and only the server knows what became of it
                await self._look()
            lease = self._observed
            if lease is None or lease.spec.holder_identity != self._settings.identity:
                return
            now = micro_time(self._clock.now())
            freed = msgspec.structs.replace(lease.spec, holder_identity="", lease_duration_seconds=1, renew_time=now)
            await self._replace(msgspec.structs.replace(lease, spec=freed))
        except (KubeError, TimeoutError, msgspec.MsgspecError) as error:
            level = log.debug if isinstance(error, Conflict) else log.warning
            level("lease not released", error=str(error))

    async def _look(self) -> None:
        try:
            self._observe(
                self._read(await self._within(self._client.get(LEASES, self._settings.lease_name, self._settings.lease_namespace)))
            )
        except NotFound:
            self._observed = None

    @staticmethod
    def _read(data: bytes) -> Lease:
        return msgspec.json.decode(data, type=Lease)

    def _observe(self, lease: Lease) -> None:
        if self._observed is None or self._observed.spec != lease.spec:
            self._observed_at = self._clock.monotonic()
        self._observed = lease

    def _left(self, seconds: float) -> float:
        """How many of those seconds after the last renewal are left; all of them while we hold nothing."""
        if not self.leading or self._renewed_at is None:
            return seconds
        return max(seconds - self._age(self._renewed_at), 0.0)

    def _age(self, moment: float) -> float:
        return self._clock.monotonic() - moment
