"""The controller as one thing to run: reflectors, election, workers, Events and observers in one task group.

Every replica keeps its caches warm; only the holder of a shard's Lease judges, writes, observes and acts for that shard. Without sharding
there is one shard and one Lease. With it each replica keeps the objects of its own shards only. A task that dies takes the whole down with
its reason: a restart is honest, a half-alive controller is not.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import NamedTuple

import structlog
from prometheus_client import REGISTRY

from api.clock import Clock
from api.spans import Spans
from controller import metrics
from controller.acting import RetirementActs
from controller.cache import Cache
from controller.definitions import DefinitionWatch
from controller.election import Election
from controller.events import EventRecorder
from controller.fleet import FleetCollector
from controller.keeping import NARROWED, Keeping
from controller.kinds import KindName, kinds
from controller.membership import MembershipReader
from controller.observers.board import Board
from controller.observers.service import ObserverService
from controller.queue import WorkQueue
from controller.reflector import Reflector, unsynced
from controller.runner import Runner
from controller.settings import ControllerSettings
from controller.sharding import ShardElection
from controller.shards import shard_of
from controller.store import Key
from controller.writer import Writer
from kube.client import Client

log = structlog.get_logger("controller")


class Term(NamedTuple):
    """What judges one shard."""

    queue: WorkQueue
    runner: Runner


class Controller:
    """`run` until cancelled; `ready` any time."""

    def __init__(self, client: Client, settings: ControllerSettings, clock: Clock, spans: Spans | None = None) -> None:
        self._client = client
        self._spans = spans
        self._settings = settings
        self._clock = clock
        self._sharded = settings.shards > 1
        self.keeping = Keeping(settings.shards)
        table = kinds(settings.status.kueue)
        if self._sharded:
            table = tuple(self.keeping.narrowed(kind) for kind in table)
        self.cache = Cache(table)
        self.board = Board()
        self.recorder = EventRecorder(client, clock, settings.identity, may_send=self._may_send, busy=self._waiting)
        self.reflectors: dict[KindName, Reflector] = {
            kind.name: Reflector(
                client,
                kind,
                self.cache,
                clock,
                namespace=settings.namespace,
                page_size=settings.page_size,
                on_keys=self._note,
                on_readable=self._readability_changed,
                keeping=self.keeping if self._sharded and kind.name in NARROWED else None,
                on_listed=self._listed,
            )
            for kind in table
        }
        self.definitions = DefinitionWatch(client, self.reflectors.values(), clock)
        self.election: Election | ShardElection = (
            ShardElection(client, settings, clock, covers=self._covers, drain=self._drain, on_change=self._kept_changed)
            if self._sharded
            else Election(client, settings, clock)
        )
        self.terms = tuple(self._term(shard) for shard in range(settings.shards))
        self.queue, self.runner = self.terms[0].queue, self.terms[0].runner
        self.observers = ObserverService(
            client, self.cache, self.board, settings.observers, clock, on_news=lambda key: self._ask({key}), owns=self._owns
        )
        self.fleet = FleetCollector(self.cache, clock, self.leading, readable=self._readable, owns=self._owns)
        self._shown: frozenset[int] = frozenset()
        self._loose = asyncio.Event()
        metrics.MAX_CONCURRENT.labels(metrics.CONTROLLER).set(settings.workers)

    def _term(self, shard: int) -> Term:
        settings = self._settings
        queue = WorkQueue(self._clock, f"{metrics.QUEUE}-shard-{shard}" if self._sharded else metrics.QUEUE)
        runner = Runner(
            cache=self.cache,
            queue=queue,
            writer=Writer(self._client, self._clock),
            recorder=self.recorder,
            board=self.board,
            clock=self._clock,
            settings=settings,
            readable=lambda: self._readable() and (not self._sharded or self._covers(frozenset({shard}))),
            may_write=lambda: self._may_write(shard),
            acting=RetirementActs(self._client) if settings.status.act == "retire" else None,
            proving=MembershipReader(self._client),
            owns=lambda uid: shard_of(uid, settings.shards) == shard,
            spans=self._spans,
        )
        return Term(queue, runner)

    # --------------------------------------------------------------------------------------------------------- running

    async def run(self) -> None:
        """Run everything until cancelled, or until a part dies; then raise what it died of."""
        REGISTRY.register(self.fleet)
        try:
            await self._run()
        finally:
            REGISTRY.unregister(self.fleet)

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for name, reflector in self.reflectors.items():
                group.create_task(_endless(partial(self._reflect, reflector), f"reflector {name}"), name=f"reflector {name}")
            group.create_task(_endless(self.definitions.run, "definitions"), name="definitions")
            group.create_task(_endless(self.recorder.run, "events"), name="events")
            if isinstance(self.election, ShardElection):
                if self._settings.observers.enabled:
                    group.create_task(_endless(self.observers.run, "observers"), name="observers")
                group.create_task(_endless(self._let_go, "letting go"), name="letting go")
                group.create_task(self.election.run(self._lead), name="election")
            else:
                group.create_task(_endless(self.queue.run, "queue"), name="queue")
                group.create_task(self.election.run(lambda: self._lead(0)), name="election")

    async def _reflect(self, reflector: Reflector) -> None:
        if isinstance(self.election, ShardElection):
            await self.election.settled.wait()  # one list less: by then it is known whose objects to keep
        await reflector.run()

    async def _lead(self, shard: int) -> None:
        queue, runner = self.terms[shard]
        runner.reset()
        queue.clear()
        self._ask({key for key in self.cache.deployments() if self._shard(key) == shard})
        try:
            async with asyncio.TaskGroup() as group:
                for number in range(self._settings.workers):
                    group.create_task(_endless(runner.work, f"worker {number}"), name=f"worker {number}")
                if self._sharded:
                    group.create_task(_endless(queue.run, "queue"), name=f"queue of shard {shard}")
                elif self._settings.observers.enabled:
                    group.create_task(_endless(self.observers.run, "observers"), name="observers")
        finally:
            queue.clear()
            if self._sharded:
                runner.reset()

    # ----------------------------------------------------------------------------------------------------------- asking

    def _ask(self, keys: set[Key]) -> None:
        if self.election.leading:
            for key in sorted(keys):
                for term in self._leading(key):
                    term.queue.add(key)

    def _note(self, keys: set[Key]) -> None:
        """A change that was heard of; what merely shows our own write asks for nothing."""
        if self.election.leading:
            for key in sorted(keys):
                for term in self._leading(key):
                    if term.runner.concerns(key):
                        term.queue.add(key)

    def _leading(self, key: Key) -> Sequence[Term]:
        """The terms that a deployment is the affair of: one, or all that we hold when it is gone and its UID with it."""
        if not isinstance(self.election, ShardElection):
            return self.terms
        shard, held = self._shard(key), self.election.held
        return [self.terms[each] for each in (held if shard is None else held & {shard})]

    def _shard(self, key: Key) -> int | None:
        cached = self.cache.deployment(key)
        return shard_of(cached.metadata.uid, self._settings.shards) if cached is not None else None

    def _readable(self) -> bool:
        return all(reflector.readable for reflector in self.reflectors.values())

    def _readability_changed(self) -> None:
        if self._readable():
            log.info("every kind can be read", objects=len(self.cache.deployments()))
            self._ask(set(self.cache.deployments()))

    # ------------------------------------------------------------------------------------------------------------ shards

    def _may_write(self, shard: int) -> bool:
        return self.election.may_write(shard) if isinstance(self.election, ShardElection) else self.election.may_write

    def _owns(self, uid: str) -> bool:
        return not isinstance(self.election, ShardElection) or shard_of(uid, self._settings.shards) in self.election.held

    def _may_send(self, uid: str) -> bool:
        return not self._sharded or self._may_write(shard_of(uid, self._settings.shards))

    def _waiting(self) -> bool:
        """Whether passes wait for a worker."""
        return any(map(len, (term.queue for term in self.terms)))

    def _covered(self) -> frozenset[int]:
        """The shards that every list shows."""
        return self.keeping.covered(min(each.listed for name, each in self.reflectors.items() if name in NARROWED))

    def _covers(self, shards: frozenset[int]) -> bool:
        return self._readable() and shards <= self._covered()

    def _kept_changed(self) -> None:
        self.keeping.keep(self.election.kept if isinstance(self.election, ShardElection) else frozenset())
        self._shown &= self.keeping.kept
        self._loose.set()

    def _listed(self) -> None:
        """A list came to its end. What it shows at last is judged."""
        if not self._sharded:
            return
        new = self._covered() - self._shown
        self._shown |= new
        self._ask({key for key in self.cache.deployments() if self._shard(key) in new} if new else set())
        self._loose.set()

    async def _let_go(self) -> None:
        """Drop what belongs to shards that are no longer kept, some hundred objects at a time."""
        while True:
            await self._loose.wait()
            self._loose.clear()
            for name in NARROWED:
                store = self.cache.stores.get(name)
                for number, item in enumerate(list(store.objects.values()) if store is not None else ()):
                    if store is not None and not self.keeping.keeps(name, item) and (change := store.drop(item.metadata)) is not None:
                        self.cache.note(name, change)
                    if number % 256 == 255:
                        await asyncio.sleep(0)
                if store is not None:
                    metrics.CACHED.labels(name).set(len(store.objects))

    async def _drain(self, shard: int) -> None:
        """Let the passes under way end; no other begins."""
        queue = self.terms[shard].queue
        queue.clear()
        await queue.rested()

    # ------------------------------------------------------------------------------------------------------------ health

    @property
    def idle(self) -> bool:
        """Nothing waits to be judged, and nothing is being judged."""
        return all(term.queue.idle for term in self.terms)

    def ready(self) -> dict[str, bool | str]:
        """One entry per check: True once the kind was read, before that a sentence that says what is missing. Followers are ready too.

        A kind that could be read and can be no more costs statuses, which metrics and alerts tell; it must not cost admission, which reads
        no cache: all replicas would turn unready at once when the API server goes away, and it would come back to a service without any.
        """
        for term in self.terms:
            term.queue.measure()
        missing = unsynced(self.reflectors)
        checks: dict[str, bool | str] = {f"cache-{name.lower()}": missing.get(str(name), True) for name in self.reflectors}
        if isinstance(self.election, ShardElection):
            checks["shard-leases"] = self.election.problem or True
        return checks

    def leading(self) -> bool:
        """Whether this process holds the Lease, or one of them."""
        return self.election.leading


async def _endless(run: Callable[[], Awaitable[None]], name: str) -> None:
    """A part that returns has died as much as one that raises."""
    await run()
    raise RuntimeError(f"{name} ended")
