"""The loop that keeps the certificate true: load, step, publish, swap, in that order and no other.

* A trusted set reaches the API server before a certificate that depends on it is served; half a minute before, where another is served.
* Who signed what is served stays trusted: a set put into the Secret by somebody who knew nothing of it is completed, not taken as it is.
* What is in memory outlives the store: a deleted or damaged Secret is put back as it was, and nobody's handshake fails.
* Time is looked at every minute, never slept through: a laptop that wakes up, or a clock that jumps, is noticed within one.
* A replica takes a step of its own at most once a minute: two whose clocks disagree by months would otherwise renew over each other
  without end. Only what is gone, or would break trust, is put right at once.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

import structlog
from cryptography import x509

from api.clock import Clock
from certs.authority import CertAuthority, Step
from certs.context import ServingContext
from certs.errors import MaterialError, NotYetError, ReadOnlyStoreError
from certs.material import Material, Pair, fingerprint, issued
from certs.metrics import EXPIRY, READ, READ_ERRORS, STEPS
from certs.publisher import Publisher
from certs.store import Store
from kube.errors import KubeError

log = structlog.get_logger("certs")

# How long one look at the clock is good for, the least time between two writes, and the time that a new set is given to reach every API
# server before a certificate depends on it.
PACE = timedelta(seconds=60)
# How long an authority has been told before a replica changes over to it. Less than the pace: replicas hear of it one after the other.
TOLD = PACE / 2
# Without a certificate a replica answers nobody: an API server that is back is not kept waiting for one cheap read.
RETRY_SECONDS = (1.0, 2.0, 5.0)


class CertKeeper:
    """Keeps one `ServingContext` supplied. `authority` is None where the set is another's (files)."""

    def __init__(self, context: ServingContext, store: Store, publisher: Publisher, clock: Clock, authority: CertAuthority | None) -> None:
        self.context = context
        self.problem: str | None = "no certificate is loaded yet"
        self._store = store
        self._publisher = publisher
        self._clock = clock
        self._authority = authority
        self._held: Material | None = None
        self._published: tuple[bytes, datetime] | None = None
        self._told: dict[x509.Certificate, datetime] = {}
        self._wrote_at: float | None = None
        self._wake = asyncio.Event()
        self.loaded = asyncio.Event()
        EXPIRY.labels("serving").set_function(self._serving_expiry)
        EXPIRY.labels("authority").set_function(self._authority_expiry)

    @property
    def held(self) -> Material | None:
        """The set in memory."""
        return self._held

    @property
    def ready(self) -> bool:
        """Whether a handshake made now would succeed in a client's eyes."""
        serving = self.context.serving
        return serving is not None and serving.usable(self._clock.now())

    async def run(self) -> None:
        """Never returns. Failures of the API server are retried; a set that cannot be used keeps the one that is served."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._store.watch(self._wake.set), name="certs: store")
            tasks.create_task(self._publisher.watch(self._wake.set), name="certs: publisher")
            tasks.create_task(self._loop(), name="certs: keeper")

    async def _loop(self) -> None:
        failures = 0
        while True:
            self._wake.clear()
            try:
                await self.step()
            except (KubeError, MaterialError, ReadOnlyStoreError, NotYetError) as error:
                READ_ERRORS.inc()
                self.problem = str(error)
                log.warning("the certificate could not be looked after", error=str(error))
                pause = RETRY_SECONDS[min(failures, len(RETRY_SECONDS) - 1)]
                failures += 1
                await self._pause(pause, None)
            else:
                failures = 0
                await self._pause(PACE.total_seconds(), self._due)

    async def step(self) -> None:
        """One pass. Raises KubeError, MaterialError or NotYetError; whatever was reached until then stands."""
        now = self._clock.now()
        current = await self._current(now)
        await self._adopt(current, now)
        if self._authority is None:
            return
        step = self._authority.step(current, now)
        if step is Step.NOTHING or not self._may_write(step, current, now):
            return
        current = await self._write(self._take(step, current, now), step.value)
        await self._adopt(current, now)
        if step is Step.ROTATE and not current.serving.usable(now) and self._authority.step(current, now) is Step.RENEW:
            # What is served is dead anyway: nobody gains from waiting until the new authority is known everywhere.
            await self._adopt(await self._write(self._authority.renew(current, now), Step.RENEW.value), now)

    async def _current(self, now: datetime) -> Material:
        """What stands in the store, made or put back where nothing usable does."""
        try:
            stored = await self._store.load()
        except MaterialError as error:
            READ_ERRORS.inc()
            log.warning("what is stored is no usable set", error=str(error))
            if self._authority is None:
                raise
            stored = None
        if stored is not None:
            return await self._completed(stored, now)
        if self._authority is None:
            raise NotYetError("the certificate's files are not there yet")
        if self._held is not None:
            log.warning("the stored set is gone; putting back the one in use")
            return await self._write(self._held, "restore")
        return await self._write(self._authority.bootstrap(now), Step.BOOTSTRAP.value)

    async def _completed(self, stored: Material, now: datetime) -> Material:
        """The stored set, with the trust that what is served still lives on.

        Another replica's set has it. One that a person or a tool put there has not: taken as it is, handshakes would fail until the API
        servers and all replicas had heard of it.
        """
        serving = self.context.serving
        if self._authority is None or self._held is None or serving is None or not serving.usable(now):
            return stored
        if any(issued(serving.certificate, authority) for authority in stored.authorities):
            return stored
        log.warning("the stored set was replaced by one that does not know what is served; trusting both for a while")
        retired = tuple(dict.fromkeys(stored.retired + self._held.authorities))
        return await self._write(replace(stored, retired=retired), "overlap")

    async def _write(self, material: Material, step: str) -> Material:
        standing = await self._store.save(material)
        self._wrote_at = self._clock.monotonic()
        if standing is material:
            STEPS.labels(step).inc()
            log.info("certificate step taken", step=step, serving=fingerprint(material.serving.certificate)[:16])
        else:
            STEPS.labels("adopt").inc()
            log.info("another replica was first; adopting its set", serving=fingerprint(standing.serving.certificate)[:16])
        return standing

    async def _adopt(self, material: Material, now: datetime) -> None:
        """Publish the set, then serve from it."""
        failure: KubeError | None = None
        try:
            if material.authorities:
                await self._publisher.publish(material.bundle)
        except KubeError as error:
            failure = error
        else:
            if self._published is None or self._published[0] != material.bundle:
                self._published = (material.bundle, now)
            first = self._held is None  # what a process finds when it starts has been told by others
            self._told = {each: self._told.get(each, now - TOLD if first else now) for each in material.authorities}
        if self._may_serve(material.serving, now, published=failure is None):
            self.context.load(material.serving)
            READ.inc()
            self.loaded.set()
            log.info("serving certificate loaded", serving=fingerprint(material.serving.certificate)[:16])
        self._held = material
        if failure is not None:
            raise failure
        self.problem = None if self.ready else "the serving certificate is not valid at this time"

    def _may_serve(self, pair: Pair, now: datetime, *, published: bool) -> bool:
        """Whether to change over to this certificate. Unpublished trust is better than none, and worse than a certificate that is known."""
        serving = self.context.serving
        if serving is None or not serving.usable(now):
            return True
        if serving.certificate == pair.certificate:
            return False
        if self._authority is None and published:
            return True  # another's files, whose trust another publishes: waiting would only make us later than it
        return any(now - since >= TOLD and issued(pair.certificate, authority) for authority, since in self._told.items())

    def _take(self, step: Step, material: Material, now: datetime) -> Material:
        assert self._authority is not None  # noqa: S101  # only called where the set is ours
        if step is Step.ROTATE:
            return self._authority.rotate(material, now)
        if step is Step.RENEW:
            return self._authority.renew(material, now)
        if step is Step.FORGET:
            return self._authority.forget(material, now)
        return self._authority.bootstrap(now)

    def _may_write(self, step: Step, material: Material, now: datetime) -> bool:
        if step is Step.RENEW and not material.signed_by_current() and material.serving.usable(now) and material.trusted():
            # The middle of a rotation: the new authority has to be known everywhere first.
            return self._published is not None and self._published[0] == material.bundle and now - self._published[1] >= PACE
        return self._paced()

    def _paced(self) -> bool:
        return self._wrote_at is None or self._clock.monotonic() - self._wrote_at >= PACE.total_seconds()

    def _due(self) -> bool:
        """Whether time alone asks for a step. Costs no API call."""
        if self._authority is None or self._held is None:
            return False
        now = self._clock.now()
        if self._may_serve(self._held.serving, now, published=True):
            return True
        step = self._authority.step(self._held, now)
        return step is not Step.NOTHING and self._may_write(step, self._held, now)

    async def _pause(self, seconds: float, due: Callable[[], bool] | None) -> None:
        """Until something changed or, look by look at the clock, a step is due. Without a question to ask: for that long at most."""
        while not self._wake.is_set():
            slept = asyncio.ensure_future(self._clock.sleep(seconds))
            woken = asyncio.ensure_future(self._wake.wait())
            try:
                await asyncio.wait((slept, woken), return_when=asyncio.FIRST_COMPLETED)
            finally:
                slept.cancel()
                woken.cancel()
            if due is None or due():
                return
            self.problem = None if self.ready else "the serving certificate is not valid at this time"

    def _serving_expiry(self) -> float:
        serving = self.context.serving
        return (serving.not_after - self._clock.now()).total_seconds() if serving else float("nan")

    def _authority_expiry(self) -> float:
        authority = self._held.authority if self._held else None
        return (authority.not_after - self._clock.now()).total_seconds() if authority else float("nan")
