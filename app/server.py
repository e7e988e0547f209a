"""The HTTP face: health, metrics and a small page by FastAPI, with the review lane as raw ASGI in front of it; served by uvicorn over TLS.

The lane answers reviews before any routing happens; middleware is not used at all, because each would be paid by every review
(`70-performance`). Idle connections outlive the API server's 90 s. No access log.
"""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from typing import Any

import uvicorn
from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse

from app.debugstate import from_here
from app.health import Health
from app.metrics import exposition
from app.page import Row, render
from app.protocol import BoundedProtocol
from webhooks.lane import Application, ReviewLane
from webhooks.server import ReviewServer

BACKLOG = 2048

# A handshake is two round trips, and an API server is near. Until it is done nothing but the connection itself is held.
HANDSHAKE_SECONDS = 10.0
FAREWELL_SECONDS = 2.0

Rows = Callable[[], Iterable[Row]]
State = Callable[[], dict[str, Any]]


def make_app(health: Health, rows: Rows | None = None, state: State | None = None) -> FastAPI:
    """Health, metrics and, where they are given, the page and the state. No schema and no documentation pages: this is no public API."""
    app = FastAPI(title="modelwarden", openapi_url=None, docs_url=None, redoc_url=None)

    @app.get("/livez")
    @app.get("/healthz")
    async def livez() -> PlainTextResponse:
        return PlainTextResponse("ok")

    @app.get("/readyz")
    async def readyz(request: Request) -> PlainTextResponse:
        good, text = health.ready(frozenset(request.query_params.getlist("exclude")))
        verbose = "verbose" in request.query_params or not good
        return PlainTextResponse(text if verbose else "ok", status_code=200 if good else 503)

    @app.get("/metrics")
    async def metrics(request: Request) -> Response:
        body, content_type = await exposition(request.headers.get("accept"))
        return Response(body, headers={"content-type": content_type})

    if rows is not None:

        @app.get("/")
        async def page() -> HTMLResponse:
            return HTMLResponse(render(rows()))

    if state is not None:

        @app.get("/debug/state")
        async def debug(request: Request) -> Response:
            # To everybody else the path does not exist.
            if not from_here(request.client.host if request.client else None):
                return JSONResponse({"detail": "Not Found"}, status_code=404)
            return JSONResponse(state())

    return app


def with_lane(app: FastAPI, reviews: ReviewServer) -> ReviewLane:
    """The same application with reviews answered in front of it."""
    return ReviewLane(app, reviews)


@dataclass(frozen=True, slots=True)
class Listener:
    """Where to listen. Port 0 takes a free one."""

    host: str
    port: int

    def bind(self) -> socket.socket:
        """A bound socket. Raises OSError naming the address."""
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        bound = socket.socket(family, socket.SOCK_STREAM)
        try:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                # `::` serves IPv4 as well: one setting for both kinds of cluster.
                bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            bound.bind((self.host, self.port))
            bound.listen(BACKLOG)  # at once: two services on one port are told apart here, not at their first connection
            bound.setblocking(False)
        except OSError as error:
            bound.close()
            raise OSError(error.errno, f"cannot listen on {self.host} port {self.port}: {error.strerror}") from error
        return bound


class _Uvicorn(uvicorn.Server):
    """uvicorn without its own signal handlers: stopping is the service's affair."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.up = asyncio.Event()
        self.asked_to_stop = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        # As uvicorn's own for given sockets and without lifespan, but with bounds on TLS for which it has no setting.
        config, loop = self.config, asyncio.get_running_loop()
        handshake, farewell = (HANDSHAKE_SECONDS, FAREWELL_SECONDS) if config.ssl else (None, None)

        def protocol() -> asyncio.Protocol:
            made: asyncio.Protocol = BoundedProtocol(config=config, server_state=self.server_state, app_state=self.lifespan.state)
            return made

        self.servers = [
            await loop.create_server(
                protocol,
                sock=bound,
                ssl=config.ssl,
                backlog=config.backlog,
                ssl_handshake_timeout=handshake,
                ssl_shutdown_timeout=farewell,
            )
            for bound in sockets or ()
        ]
        self.started = True
        self.up.set()

    async def main_loop(self) -> None:
        # uvicorn's own loop wakes ten times a second to look at a flag and the date; we send no date, and an Event needs no looking at.
        await self.on_tick(0)
        await self.asked_to_stop.wait()


class HttpServer:
    """One listening socket and the application behind it."""

    def __init__(self, app: Application, bound: socket.socket, *, tls: ssl.SSLContext | None, keep_alive: int, drain: float) -> None:
        config = uvicorn.Config(
            app=_typed(app),
            http=BoundedProtocol,
            loop="none",
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            backlog=BACKLOG,
            timeout_keep_alive=keep_alive,
            timeout_graceful_shutdown=max(1, round(drain)),
            ssl_context_factory=(lambda _config, _default: tls) if tls is not None else None,
        )
        self._socket = bound
        self._server = _Uvicorn(config)

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens."""
        host, port, *_ = self._socket.getsockname()
        return host, port

    async def up(self) -> None:
        """Wait until connections are taken."""
        await self._server.up.wait()

    def stop(self) -> None:
        """Take no more connections, answer what is under way, then end `run`."""
        self._server.asked_to_stop.set()

    async def run(self) -> None:
        """Serve until stopped."""
        take_file_limit()
        try:
            await self._server.serve(sockets=[self._socket])
        finally:
            self._socket.close()

    def close(self) -> None:
        """Give the address back without having served."""
        self._socket.close()


def take_file_limit() -> int:
    """Take as many open files as the system lets this process have, and return that number.

    Login shells and some container runtimes hand out a soft limit of 1,024, which as many idle connections would use up; the hard limit is
    what was meant for a server.
    """
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return 0
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft in (hard, resource.RLIM_INFINITY):
        return soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError):  # a system whose own limit is below the hard one
        return soft
    return hard


def _typed(app: Application) -> Any:
    """uvicorn's own ASGI types are narrower than what ASGI says; the lane is plain ASGI 3."""
    return app
