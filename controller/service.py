"""The controller as one thing to run: reflectors, election, workers, Events and observers in one task group.

Every replica keeps its caches warm; only the Lease holder judges, writes, observes and acts. A task that dies takes the whole down with its
reason: a restart is honest, a half-alive controller is not.
"""

import asyncio
from collections.abc import Awaitable, Callable

import structlog
from prometheus_client import REGISTRY

from api.clock import Clock
from api.spans import Spans
from controller import metrics
from controller.acting import RetirementActs
from controller.cache import Cache, Key
from controller.definitions import DefinitionWatch
from controller.election import Election
from controller.events import EventRecorder
from controller.fleet import FleetCollector
from controller.kinds import KindName, kinds
from controller.membership import MembershipReader
from controller.observers.board import Board
from controller.observers.service import ObserverService
from controller.queue import WorkQueue
from controller.reflector import Reflector, unsynced
from controller.runner import Runner
from controller.settings import ControllerSettings
from controller.writer import Writer
from kube.client import Client

log = structlog.get_logger("controller")


class Controller:
    """`run` until cancelled; `ready` any time."""

    def __init__(self, client: Client, settings: ControllerSettings, clock: Clock, spans: Spans | None = None) -> None:
        self._settings = settings
        self._clock = clock
        table = kinds(settings.status.kueue)
        self.cache = Cache(table)
        self.queue = WorkQueue(clock)
        self.election = Election(client, settings, clock)
        self.board = Board()
        self.recorder = EventRecorder(client, clock, settings.identity)
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
            )
            for kind in table
        }
        self.definitions = DefinitionWatch(client, self.reflectors.values(), clock)
        self.runner = Runner(
            cache=self.cache,
            queue=self.queue,
            writer=Writer(client, clock),
            recorder=self.recorder,
            board=self.board,
            clock=clock,
            settings=settings,
            readable=self._readable,
            may_write=lambda: self.election.may_write,
            acting=RetirementActs(client) if settings.status.act == "retire" else None,
            proving=MembershipReader(client),
            spans=spans,
        )
        self.observers = ObserverService(client, self.cache, self.board, settings.observers, clock, on_news=self.queue.add)
        self.fleet = FleetCollector(self.cache, clock, self.leading, readable=self._readable)
        metrics.MAX_CONCURRENT.labels(metrics.CONTROLLER).set(settings.workers)

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
                group.create_task(_endless(reflector.run, f"reflector {name}"), name=f"reflector {name}")
            group.create_task(_endless(self.definitions.run, "definitions"), name="definitions")
            group.create_task(_endless(self.recorder.run, "events"), name="events")
            group.create_task(_endless(self.queue.run, "queue"), name="queue")
            group.create_task(self.election.run(self._lead), name="election")

    async def _lead(self) -> None:
        self.runner.reset()
        self.queue.clear()
        self._ask(set(self.cache.deployments()))
        try:
            async with asyncio.TaskGroup() as group:
                for number in range(self._settings.workers):
                    group.create_task(_endless(self.runner.work, f"worker {number}"), name=f"worker {number}")
                if self._settings.observers.enabled:
                    group.create_task(_endless(self.observers.run, "observers"), name="observers")
        finally:
            self.queue.clear()

    # ----------------------------------------------------------------------------------------------------------- asking

    def _ask(self, keys: set[Key]) -> None:
        if self.election.leading:
            for key in sorted(keys):
                self.queue.add(key)

    def _note(self, keys: set[Key]) -> None:
        """A change that was heard of; what merely shows our own write asks for nothing."""
        if self.election.leading:
            self._ask({key for key in keys if self.runner.concerns(key)})

    def _readable(self) -> bool:
        return all(reflector.readable for reflector in self.reflectors.values())

    def _readability_changed(self) -> None:
        if self._readable():
            log.info("every kind can be read", objects=len(self.cache.deployments()))
            self._ask(set(self.cache.deployments()))

    # ------------------------------------------------------------------------------------------------------------ health

    def ready(self) -> dict[str, bool | str]:
        """One entry per check: True once the kind was read, before that a sentence that says what is missing. Followers are ready too.

        A kind that could be read and can be no more costs statuses, which metrics and alerts tell; it must not cost admission, which reads
        no cache: all replicas would turn unready at once when the API server goes away, and it would come back to a service without any.
        """
        self.queue.measure()
        missing = unsynced(self.reflectors)
        return {f"cache-{name.lower()}": missing.get(str(name), True) for name in self.reflectors}

    def leading(self) -> bool:
        """Whether this process holds the Lease."""
        return self.election.leading


async def _endless(run: Callable[[], Awaitable[None]], name: str) -> None:
    """A part that returns has died as much as one that raises."""
    await run()
    raise RuntimeError(f"{name} ended")
