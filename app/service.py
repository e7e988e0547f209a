"""The service as one supervised task group: HTTPS, plain health, the certificate's keeper, the controller.

A part that dies takes the process down with its reason: a restart is honest, a half-alive service is not. Asked to stop, it first says that
it is not ready, gives the Lease back, goes on answering reviews while Endpoints and load balancers take notice, and only then closes.
"""

import asyncio
import os
import socket
import uuid
from collections.abc import Awaitable, Callable, Iterator
from functools import cache
from typing import Protocol

import structlog

from api.clock import Clock
from api.status import decode_status
from app.debugstate import debug_state
from app.health import Health
from app.metrics import say_build, watch_loop_lag
from app.page import Row
from app.server import HttpServer, Listener, State, make_app, with_lane
from app.settings import Settings
from app.tracing import Traces
from certs.authority import CertAuthority
from certs.context import ServingContext
from certs.keeper import CertKeeper
from certs.publisher import NoPublisher, Publisher, WebhookPublisher
from certs.store import FileStore, MemoryStore, SecretStore, Store
from controller.cache import Cache
from controller.service import Controller
from kube.client import Client
from webhooks.lane import Application
from webhooks.lookups import KubeLookup
from webhooks.metrics import AdmissionMetrics
from webhooks.server import ReviewServer

log = structlog.get_logger("service")


class PartDiedError(Exception):
    """A part of the service ended by itself. The cause is chained where there was one."""


class Runs(Protocol):
    """The controller, as far as the service knows it."""

    async def run(self) -> None:
        """Until cancelled."""
        ...

    def ready(self) -> dict[str, bool | str]:
        """One entry per check: True, or why not."""
        ...


class Service:
    """Everything one replica runs. `run` returns after a graceful stop and raises PartDiedError otherwise."""

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        *,
        reviews: ReviewServer,
        keeper: CertKeeper,
        controller: Runs,
        rows: Callable[[], Iterator[Row]],
        idle: Callable[[], bool] = lambda: True,
        state: State | None = None,
        front: Callable[[Application], Application] | None = None,
    ) -> None:
        self.health = Health()
        self.keeper = keeper
        self._settings = settings
        self._clock = clock
        self._controller = controller
        self._idle = idle
        self.health.add("certificate", self._certificate)
        for name in controller.ready():
            self.health.add(name, self._controller_check(name))
        app = make_app(self.health, rows if settings.serve_page else None, state if settings.serve_debug else None)
        drain = settings.serve_drain_seconds
        keep_alive = settings.serve_keep_alive_seconds
        bound = Listener(settings.serve_host, settings.serve_port).bind()
        lane = with_lane(app, reviews)
        self.https = HttpServer(front(lane) if front else lane, bound, tls=keeper.context.ssl, keep_alive=keep_alive, drain=drain)
        self.plain: HttpServer | None = None
        if settings.serve_health_port:
            bound = Listener(settings.serve_host, settings.serve_health_port).bind()
            self.plain = HttpServer(app, bound, tls=None, keep_alive=keep_alive, drain=drain)

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until `stop` is set, then leave cleanly. Raises PartDiedError."""
        try:
            await self._run(stop)
        except BaseExceptionGroup as group:
            died, _ = group.split(PartDiedError)
            if died is None:
                raise
            raise PartDiedError(_reason(died)) from group

    async def _run(self, stop: asyncio.Event) -> None:
        say_build()
        host, port = self.https.address
        log.info("serving", host=host, port=port)
        async with asyncio.TaskGroup() as group:
            controller = group.create_task(self._part("controller", self._controller.run), name="controller")
            others = [
                group.create_task(self._part("certificate keeper", self.keeper.run), name="certificate keeper"),
                group.create_task(self._part("event loop watch", watch_loop_lag), name="event loop watch"),
            ]
            servers = [server for server in (self.https, self.plain) if server is not None]
            serving = [group.create_task(self._part("HTTP server", server.run), name="HTTP server") for server in servers]
            await stop.wait()
            self.health.stopping = True
            log.info("stopping", drain_seconds=self._settings.serve_drain_seconds)
            controller.cancel()  # gives the Lease back while reviews are still answered
            drained = group.create_task(self._clock.sleep(self._settings.serve_drain_seconds), name="drain")
            await asyncio.wait([controller, drained])
            for server in servers:
                server.stop()
            await asyncio.wait(serving)
            for task in others:
                task.cancel()
        log.info("stopped")

    async def _part(self, name: str, run: Callable[[], Awaitable[None]]) -> None:
        try:
            await run()
        except Exception as error:
            log.exception("a part of the service died", part=name)
            raise PartDiedError(f"{name} died: {_reason(error)}") from error
        if not self.health.stopping:
            raise PartDiedError(f"{name} ended by itself")

    @property
    def idle(self) -> bool:
        """Nothing waits to be judged: what is stored is what is known."""
        return self._idle()

    def _certificate(self) -> str | None:
        return None if self.keeper.ready else (self.keeper.problem or "the certificate is not valid")

    def _controller_check(self, name: str) -> Callable[[], str | None]:
        def check() -> str | None:
            found = self._controller.ready().get(name, True)
            return None if found is True else (found or "not yet")

        return check


def assemble(
    settings: Settings,
    client: Client,
    clock: Clock,
    *,
    store: Store | None = None,
    publisher: Publisher | None = None,
    traces: Traces | None = None,
) -> Service:
    """The service of one replica against that API server. Binds its sockets. Raises OSError when it cannot."""
    controller = Controller(client, settings.controller(identity()), clock, traces)
    reviews = ReviewServer(KubeLookup(client), settings.admission(), admission_metrics())
    front: Callable[[Application], Application] | None = None
    if traces is not None:
        from app.tracedreviews import CarriedContext, TracedReviews

        reviews, front = TracedReviews(reviews, traces), CarriedContext
    return Service(
        settings,
        clock,
        reviews=reviews,
        keeper=CertKeeper(
            ServingContext(),
            store or _store(settings, client, clock),
            publisher or (WebhookPublisher(client, clock) if settings.publishes else NoPublisher()),
            clock,
            None if settings.certs_source == "files" else CertAuthority(settings.certificate()),
        ),
        controller=controller,
        rows=lambda: rows(controller.cache),
        idle=lambda: controller.idle,
        state=lambda: debug_state(controller),
        front=front,
    )


@cache
def admission_metrics() -> AdmissionMetrics:
    """One process, one set of collectors, however many services are assembled in it."""
    return AdmissionMetrics()


def identity() -> str:
    """This process's name in the Lease: readable, and unique over restarts."""
    return f"{os.environ.get('POD_NAME') or socket.gethostname()}_{uuid.uuid4()}"


def rows(cache: Cache) -> Iterator[Row]:
    """What the page shows of each deployment."""
    for key in cache.deployments():
        cached = cache.deployment(key)
        if cached is None:
            continue
        deployment = cached.deployment
        status = decode_status(deployment.status)
        observed = status is not None and (status.observed_generation or 0) >= deployment.metadata.generation
        yield Row(
            deployment.metadata.namespace,
            deployment.metadata.name,
            deployment.spec.engine.name,
            status.role_summary if status else "",
            status.phase if status and observed else "not observed yet",
            status.endpoint if status else "",
            status.phase_message if status else "",
        )


def _store(settings: Settings, client: Client, clock: Clock) -> Store:
    if settings.certs_source == "files":
        return FileStore(settings.certs_folder, clock)
    if settings.certs_source == "memory":
        return MemoryStore()
    return SecretStore(client, clock, namespace=settings.namespace, name=settings.certs_secret)


def _reason(error: BaseException) -> str:
    """The innermost reasons of a task group's error, in one line."""
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(_reason(inner) for inner in error.exceptions)
    return str(error) if isinstance(error, PartDiedError) else f"{type(error).__name__}: {error}"
