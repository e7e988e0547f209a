"""One pass over one deployment: snapshot, judgement, write, Events, acts, and when to look again.

A pass is held, not failed, while a kind cannot be read, while the cache does not show our last write, or when the Lease may no longer be
ours; whatever ends the hold asks for the pass again. A conflict means that somebody wrote meanwhile: the pass is run anew from what the
cache then has, never replayed. A defect in the judgement concerns one deployment and is retried slowly; the others go on.
"""

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

import structlog

from api.clock import Clock
from api.status import Status
from controller import metrics
from controller.cache import Cache, Key
from controller.events import EventRecorder
from controller.kinds import CachedDeployment
from controller.observers.board import Board
from controller.passes import next_pass, take_snapshot
from controller.queue import WorkQueue
from controller.settings import ControllerSettings
from controller.snapshot import Snapshot
from controller.status.judge import judge
from controller.transitions import Sighting, pod_notices, sight, status_notices
from controller.writer import FORGET_AFTER, Writer
from kube.errors import Conflict, KubeError, NotFound

# A pass that ended in a defect is not repeated sooner: it will most likely end so again.
AFTER_DEFECT: Final = 30.0

log = structlog.get_logger("controller.runner")


class Acting(Protocol):
    """Performs what a persisted retirement asks for."""

    async def act(self, key: Key, snapshot: Snapshot, status: Status) -> None:
        """Do what is due. Raises the kube error tree."""
        ...


class Runner:
    """`readable` tells whether every kind can be relied on, `may_write` whether the Lease is ours."""

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

    def reset(self) -> None:
        """Forget what only the leader knows: another one may have led since."""
        self._writer.clear()
        self._board.clear()
        self._sightings.clear()

    async def run(self, key: Key) -> None:
        """One pass, with its outcome counted and its repetition arranged."""
        name = metrics.CONTROLLER
        started = self._clock.monotonic()
        metrics.ACTIVE_WORKERS.labels(name).inc()
        result = "success"
        try:
            await self._pass(key)
            self._queue.forget(key)
        except Conflict as error:
            result = "requeue"
            log.debug("the object is newer than the cache", namespace=key.namespace, name=key.name, error=str(error))
            self._queue.retry(key)
        except NotFound:
            self._queue.forget(key)  # deleted meanwhile; the watch will say so
        except KubeError as error:
            result = "error"
            metrics.RECONCILE_ERRORS.labels(name).inc()
            log.warning("pass failed", namespace=key.namespace, name=key.name, error=str(error))
            self._queue.retry(key, error.retry_after or 0.0)
        except Exception:  # one deployment's defect must not stop the others
            result = "error"
            metrics.RECONCILE_ERRORS.labels(name).inc()
            metrics.RECONCILE_PANICS.labels(name).inc()
            log.exception("pass ended in a defect", namespace=key.namespace, name=key.name)
            self._queue.retry(key, AFTER_DEFECT)
        finally:
            metrics.ACTIVE_WORKERS.labels(name).dec()
            metrics.RECONCILES.labels(name, result).inc()
            metrics.RECONCILE_SECONDS.labels(name).observe(self._clock.monotonic() - started)

    async def _pass(self, key: Key) -> None:
        cached = self._cache.deployment(key)
        if cached is None:
            self._forget(key)
            return
        if not self._readable():
            metrics.HELD.labels("unreadable").inc()
            return  # all keys come again when reading succeeds
        if self._writer.pending(key, cached):
            metrics.HELD.labels("own-write").inc()
            self._queue.add_after(key, FORGET_AFTER)  # the watch brings it sooner
            return
        snapshot = self._snapshot(key, cached)
        status = judge(snapshot)
        if not self._may_write():
            metrics.HELD.labels("not-leading").inc()
            return
        wrote = await self._writer.write(key, cached, status)
        self._tell(key, snapshot, status, wrote=wrote)
        if self._acting is not None and not wrote:
            await self._acting.act(key, snapshot, status)
        again = next_pass(status, snapshot.now)
        if again is not None:
            self._queue.add_after(key, again)

    def _snapshot(self, key: Key, cached: CachedDeployment) -> Snapshot:
        facts = self._board.read(key, cached.metadata.uid)
        return take_snapshot(
            self._cache,
            key,
            cached,
            now=self._clock.now(),
            settings=self._settings.status,
            observations=facts.observations() if facts else None,
            membership=facts.membership if facts else None,
        )

    def _tell(self, key: Key, snapshot: Snapshot, status: Status, *, wrote: bool) -> None:
        seen = sight(pod for pod in snapshot.pods if _owned(pod.metadata.controller, snapshot.deployment.metadata.uid))
        notices = pod_notices(self._sightings.get(key), seen)
        self._sightings[key] = seen
        if wrote:
            notices += status_notices(snapshot.previous, status)
        for notice in notices:
            self._recorder.notice(snapshot.deployment.metadata, notice)

    def _forget(self, key: Key) -> None:
        self._writer.forget(key)
        self._board.forget(key)
        self._sightings.pop(key, None)


def _owned(controller: object, uid: str) -> bool:
    return getattr(controller, "uid", None) == uid
