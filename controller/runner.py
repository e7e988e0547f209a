"""One pass over one deployment: snapshot, judgement, write, Events, acts, and when to look again.

A pass is held, not failed, while a kind cannot be read, while the cache does not show our last write, or when the Lease may no longer be
ours; whatever ends the hold asks for the pass again. A conflict means that somebody wrote meanwhile: the pass is run anew from what the
cache then has, never replayed. A defect in the judgement concerns one deployment and is retried slowly; the others go on.
"""

import asyncio
import secrets
from collections.abc import Callable, Sequence
from itertools import count
from typing import Final, Protocol

import msgspec
import structlog

from api.clock import Clock
from api.spans import Spans
from api.status import Status
from controller import metrics
from controller.cache import Cache
from controller.events import EventRecorder
from controller.kinds import CachedDeployment
from controller.observers.board import Board
from controller.passes import next_pass, take_snapshot
from controller.queue import WorkQueue
from controller.settings import ControllerSettings
from controller.snapshot import Membership, Snapshot
from controller.status.acts import Act, acts_of
from controller.status.judge import Assessment, assess
from controller.store import Key
from controller.transitions import Sighting, kept, pod_notices, sight, status_notices
from controller.writer import FORGET_AFTER, Writer
from kube.errors import Conflict, KubeError, NotFound

# A pass that ended in a defect is not repeated sooner: it will most likely end so again.
AFTER_DEFECT: Final = 30.0
# How soon a pass is tried again that met a Lease which may no longer be ours.
LOOK_AGAIN: Final = 1.0

log = structlog.get_logger("controller.runner")

# A pass is told by a number, and by a text that no other start of a process has.
_PROCESS: Final = secrets.token_hex(4)
_PASSES: Final = count(1)

# Children of labelled metrics, looked up once: a look-up costs as much as judging a Pod.
_ACTIVE = metrics.ACTIVE_WORKERS.labels(metrics.CONTROLLER)
_SECONDS = metrics.RECONCILE_SECONDS.labels(metrics.CONTROLLER)
_RESULTS = {result: metrics.RECONCILES.labels(metrics.CONTROLLER, result) for result in ("success", "requeue", "error")}
_ERRORS = metrics.RECONCILE_ERRORS.labels(metrics.CONTROLLER)
_PANICS = metrics.RECONCILE_PANICS.labels(metrics.CONTROLLER)


class Passed(msgspec.Struct, frozen=True):
    """What a pass came to, and the phase that it judged where it judged one."""

    outcome: str
    phase: str = ""


_GONE = Passed("gone")
_HELD = Passed("held")


class Acting(Protocol):
    """Performs what a stored status asks for."""

    async def perform(self, key: Key, snapshot: Snapshot, acts: Sequence[Act], permitted: Callable[[], bool]) -> None:
        """Do the acts in their order, asking before each whether they are still permitted. Raises the kube error tree."""
        ...


class Proving(Protocol):
    """Reads a deployment's Pods past the cache."""

    async def membership(self, key: Key) -> Membership:
        """An uncached list. Raises the kube error tree."""
        ...


class Runner:
    """`readable` tells whether every kind can be relied on, `may_write` whether the Lease is ours, `owns` whether a UID is its affair."""

    def __init__(
        self,
        *,
        cache: Cache,
        queue: WorkQueue,
        writer: Writer,
        recorder: EventRecorder,
        board: Board,
        clock: Clock,
        settings: ControllerSettings,
        readable: Callable[[], bool],
        may_write: Callable[[], bool],
        acting: Acting | None = None,
        proving: Proving,
        owns: Callable[[str], bool] = lambda _: True,
        spans: Spans | None = None,
    ) -> None:
        self._cache = cache
        self._queue = queue
        self._writer = writer
        self._recorder = recorder
        self._board = board
        self._clock = clock
        self._settings = settings
        self._readable = readable
        self._may_write = may_write
        self._acting = acting
        self._proving = proving
        self._owns = owns
        self._spans = spans
        self._sightings: dict[Key, dict[str, Sighting]] = {}

    async def work(self) -> None:
        """Take keys and pass over them until cancelled."""
        while True:
            key = await self._queue.get()
            try:
                await self.run(key)
            finally:
                self._queue.done(key)
            await asyncio.sleep(0)  # a long queue must not keep watches and admission from their turn

    def concerns(self, key: Key) -> bool:
        """Whether a change of that key is worth a pass. What merely shows our own last write is not."""
        cached = self._cache.deployment(key)
        return cached is None or not self._writer.settled_by(key, cached)

    def reset(self) -> None:
        """Forget what only the leader knows: another one may have led since."""
        self._writer.clear()
        self._board.clear(self._owns)
        self._sightings.clear()

    async def run(self, key: Key) -> None:
        """One pass, with its outcome counted and its repetition arranged; in a span where somebody traces.

        Whatever is logged meanwhile, by whomever, says of which pass it is.
        """
        # `bound_contextvars` would cost as much as judging some Pods.
        told = structlog.contextvars.bind_contextvars(controller=metrics.CONTROLLER, reconcileID=f"{_PROCESS}-{next(_PASSES)}")
        try:
            await self._traced(key)
        finally:
            structlog.contextvars.reset_contextvars(**told)

    async def _traced(self, key: Key) -> None:
        if self._spans is None:
            await self._run(key)
            return
        with self._spans.work("reconcile", k8s__namespace__name=key.namespace, modelwarden__deployment=key.name) as span:
            result, came_to = await self._run(key)
            span.say(modelwarden__result=result, modelwarden__outcome=came_to.outcome, modelwarden__phase=came_to.phase)
            if result == "error":
                span.failed(came_to.outcome)

    async def _run(self, key: Key) -> tuple[str, Passed]:
        """How the pass is counted, and what it came to; of an error, its type's name."""
        started = self._clock.monotonic()
        _ACTIVE.inc()
        result = "success"
        came_to = _GONE
        try:
            came_to = await self._pass(key)
            self._queue.forget(key)
        except Conflict as error:
            result, came_to = "requeue", Passed("conflict")
            log.debug("the object is newer than the cache", namespace=key.namespace, name=key.name, error=str(error))
            self._queue.retry(key)
        except NotFound:
            self._queue.forget(key)  # deleted meanwhile; the watch will say so
        except KubeError as error:
            result, came_to = "error", Passed(type(error).__name__)
            _ERRORS.inc()
            log.warning("pass failed", namespace=key.namespace, name=key.name, error=str(error))
            self._queue.retry(key, error.retry_after or 0.0)
        except Exception as error:  # one deployment's defect must not stop the others
            result, came_to = "error", Passed(type(error).__name__)
            _ERRORS.inc()
            _PANICS.inc()
            log.exception("pass ended in a defect", namespace=key.namespace, name=key.name)
            self._queue.retry(key, AFTER_DEFECT)
        finally:
            if self._writer.overtaken(key):
                self._queue.add(key)
            _ACTIVE.dec()
            _RESULTS[result].inc()
            _SECONDS.observe(self._clock.monotonic() - started)
        return result, came_to

    async def _pass(self, key: Key) -> Passed:
        cached = self._cache.deployment(key)
        if cached is None:
            self._forget(key)
            return _GONE
        if not self._owns(cached.metadata.uid):  # made anew under its name, in a shard of another term
            self._writer.forget(key)
            self._sightings.pop(key, None)
            return _GONE
        if not self._readable():
            metrics.HELD.labels("unreadable").inc()
            return _HELD  # all keys come again when reading succeeds
        if self._writer.pending(key, cached):
            self._writer.interrupted(key)
            metrics.HELD.labels("own-write").inc()
            self._queue.add_after(key, FORGET_AFTER)  # the watch brings it sooner
            return _HELD
        assessment = await self._assess(key, cached)
        snapshot, status = assessment.ground.snapshot, assessment.status
        if not self._may_write():
            metrics.HELD.labels("not-leading").inc()
            self._queue.add_after(key, LOOK_AGAIN)  # a renewal on its way may yet arrive; with a lost Lease the queue is dropped
            return _HELD
        # Where nothing but the write itself can change the next verdict, its own event need not be judged.
        # Where an operation stands or has just ended, the next step follows from what is written: its event has to bring a pass.
        ended = snapshot.previous is not None and snapshot.previous.retirement is not None
        final = self._acting is None and status.retirement is None and not ended
        wrote = await self._writer.write(key, cached, status, final=final)
        self._tell(key, snapshot, status, wrote=wrote)
        if self._acting is not None and not wrote:
            await self._acting.perform(key, snapshot, acts_of(assessment), self._may_write)
        again = next_pass(status, snapshot.now)
        if again is not None:
            self._queue.add_after(key, again)
        return Passed("written" if wrote else "unchanged", status.phase)

    async def _assess(self, key: Key, cached: CachedDeployment) -> Assessment:
        """The verdict over the cache; where a lost observation would end a qualification, over an uncached membership too.

        Only a fresh read can prove that the members are unchanged, and only then is it worth a request.
        """
        facts = self._board.read(key, cached.metadata.uid)

        def take(membership: Membership) -> Snapshot:
            return take_snapshot(
                self._cache,
                key,
                cached,
                now=self._clock.now(),
                settings=self._settings.status,
                observations=facts.observations() if facts else None,
                membership=membership,
            )

        assessment = assess(take(Membership(complete=False)))
        if retention_in_question(assessment.ground.snapshot.previous, assessment.status):
            assessment = assess(take(await self._proving.membership(key)))
        return assessment

    def _tell(self, key: Key, snapshot: Snapshot, status: Status, *, wrote: bool) -> None:
        seen = sight(pod for pod in snapshot.pods if _owned(pod.metadata.controller, snapshot.deployment.metadata.uid))
        notices = pod_notices(self._sightings.get(key), seen)
        self._sightings[key] = kept(seen)
        if wrote:
            notices += status_notices(snapshot.previous, status)
        for notice in notices:
            self._recorder.notice(snapshot.deployment.metadata, notice)

    def _forget(self, key: Key) -> None:
        self._writer.forget(key)
        self._board.forget(key)
        self._sightings.pop(key, None)


def retention_in_question(old: Status | None, new: Status) -> bool:
    """Whether a group that was Eligible is held by something that cannot be told, with its members unchanged."""
    if old is None:
        return False
    eligible = {(r.name, g.ordinal, g.generation) for r in old.roles for g in r.groups if g.state == "Eligible"}
    return any(
        (r.name, g.ordinal, g.generation) in eligible and g.state in ("Unknown", "AwaitingObservation") for r in new.roles for g in r.groups
    )


def _owned(controller: object, uid: str) -> bool:
    return getattr(controller, "uid", None) == uid
