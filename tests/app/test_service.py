"""The service as a whole, over real TLS: health, metrics, reviews through the lane, a graceful stop, and a part that dies."""

import asyncio
import ssl
from collections.abc import Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import httpx
import pytest

from app.page import Row
from app.service import PartDiedError, Service
from app.settings import load
from certs.authority import CertAuthority
from certs.context import ServingContext
from certs.keeper import CertKeeper
from certs.publisher import NoPublisher
from certs.store import MemoryStore

VALIDATE = "/validate-modeldeployment"


class TestClock:
    """Real time, but sleeping is the test's: a drain lasts until `drained` is set."""

    __test__ = False

    def __init__(self) -> None:
        self.drained = asyncio.Event()

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await self.drained.wait()


class FakeReviews:
    """Answers with what was asked; can be held."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.go = asyncio.Event()
        self.go.set()

    async def review(self, path: str, body: bytes) -> tuple[int, bytes]:
        self.asked.set()
        await self.go.wait()
        return 200, b'{"path":"' + path.encode() + b'"}'

    def reject(self, path: str, error: Exception) -> tuple[int, bytes]:
        return getattr(error, "code", 400), b"{}"


class FakeController:
    """Runs until cancelled, or dies when told."""

    def __init__(self) -> None:
        self.checks: dict[str, bool | str] = {"cache-modeldeployment": True}
        self.die = asyncio.Event()
        self.left = asyncio.Event()

    def ready(self) -> dict[str, bool | str]:
        return self.checks

    async def run(self) -> None:
        try:
            await self.die.wait()
            raise RuntimeError("the watch is gone")
        except asyncio.CancelledError:
            self.left.set()
            raise


class World:
    """One service and what surrounds it."""

    def __init__(self) -> None:
        settings = load(
            environ={},
            flags={
                "serve.host": "127.0.0.1",
                "serve.port": 0,
                "serve.healthPort": 0,
                "serve.page": True,
                "certs.extraNames": ("127.0.0.1",),
            },
        ).settings
        self.clock = TestClock()
        self.reviews = FakeReviews()
        self.controller = FakeController()
        self.keeper = CertKeeper(ServingContext(), MemoryStore(), NoPublisher(), self.clock, CertAuthority(settings.certificate()))
        self.rows: list[Row] = []
        self.service = Service(
            settings, self.clock, reviews=self.reviews, keeper=self.keeper, controller=self.controller, rows=lambda: iter(self.rows)
        )
        self.stop = asyncio.Event()

    @property
    def url(self) -> str:
        host, port = self.service.https.address
        return f"https://{host}:{port}"

    def trust(self) -> ssl.SSLContext:
        return ssl.create_default_context(cadata=self.keeper.held.bundle.decode())


@asynccontextmanager
async def running(prepare: Callable[[World], None] = lambda _: None):
    """A world whose service is up, with a client that trusts it."""
    world = World()
    prepare(world)
    task = asyncio.create_task(world.service.run(world.stop))
    await world.service.https.up()
    await world.keeper.loaded.wait()
    async with httpx.AsyncClient(base_url=world.url, verify=world.trust(), timeout=5) as client:
        yield world, client, task
    world.stop.set()
    world.clock.drained.set()
    if not task.done():
        await task


async def test_health_over_https():
    """kubelet asks over HTTPS on the service's own port; `?verbose` names every check."""
    async with running() as (world, client, _):
        assert (await client.get("/livez")).text == "ok"
        assert (await client.get("/healthz")).status_code == 200
        ready = await client.get("/readyz?verbose")
        assert ready.status_code == 200
        assert ready.text == ("[+]shutdown ok\n[+]certificate ok\n[+]cache-modeldeployment ok\nreadyz check passed\n")
        world.controller.checks["cache-modeldeployment"] = "the list was refused: 403"
        failed = await client.get("/readyz")
        assert failed.status_code == 503
        assert "[-]cache-modeldeployment failed: the list was refused: 403" in failed.text
        assert (await client.get("/readyz?exclude=cache-modeldeployment")).status_code == 200
        assert (await client.get("/livez")).status_code == 200, "liveness never depends on the API server"


async def test_metrics_are_there_under_their_known_names():
    """A scraper finds the build, the certificate's end and the loop's lag."""
    async with running() as (_, client, _task):
        answer = await client.get("/metrics")
        assert answer.headers["content-type"].startswith("text/plain")
        for name in (
            "modelwarden_build_info{",
            'modelwarden_certificate_expiry_seconds{certificate="serving"}',
            "certwatcher_read_certificate_total",
        ):
            assert name in answer.text
        assert "modelwarden_event_loop_lag_seconds_bucket" in answer.text


async def test_reviews_take_the_lane_and_everything_else_the_application():
    """A review is answered before any routing; an unknown path is a 404 of the application; no schema is published."""
    async with running() as (_, client, _task):
        answer = await client.post(VALIDATE, json={})
        assert answer.json() == {"path": VALIDATE}
        assert "server" not in answer.headers
        assert (await client.get("/nothing")).status_code == 404
        assert (await client.get("/openapi.json")).status_code == 404


async def test_the_page_escapes_what_users_wrote():
    """Names and messages come from users' objects."""
    async with running() as (world, client, _):
        assert "None yet" in (await client.get("/")).text
        world.rows.append(Row("team", "<script>", "vLLM", "1S", "Ready", "http://x", "a & b"))
        page = (await client.get("/")).text
        assert "<script>" not in page
        assert "&lt;script&gt;" in page
        assert "a &amp; b" in page


async def test_a_graceful_stop_answers_what_is_under_way():
    """Not ready first, Lease given back, reviews still answered through the drain, and the last one answered whole."""
    async with running() as (world, client, task):
        await client.get("/livez")
        world.stop.set()
        await world.controller.left.wait()
        refused = await client.get("/readyz")
        assert refused.status_code == 503
        assert "[-]shutdown failed: the process is stopping" in refused.text
        assert (await client.post(VALIDATE, json={})).status_code == 200
        world.reviews.asked.clear()
        world.reviews.go.clear()
        late = asyncio.create_task(client.post(VALIDATE, json={}))
        await world.reviews.asked.wait()
        world.clock.drained.set()
        await asyncio.sleep(0.02)
        assert not task.done()
        world.reviews.go.set()
        assert (await late).status_code == 200
        await task
        with pytest.raises(httpx.ConnectError):
            await client.get("/livez")


async def test_a_part_that_dies_takes_the_service_down_with_its_reason():
    """A restart is honest, a half-alive service is not."""
    async with running() as (world, _client, task):
        world.controller.die.set()
        with pytest.raises(PartDiedError, match="controller died: RuntimeError: the watch is gone"):
            await task


async def test_no_review_fails_while_certificates_are_renewed():
    """Kept connections and new ones, thirty renewals under them: every review is answered."""
    async with running() as (world, client, _):
        authority = CertAuthority(load(environ={}, flags={"certs.extraNames": ("127.0.0.1",)}).settings.certificate())
        served = set()
        for _turn in range(30):
            world.keeper.context.load(authority.renew(world.keeper.held, world.clock.now()).serving)
            async with httpx.AsyncClient(base_url=world.url, verify=world.trust(), timeout=5) as fresh:
                answers = await asyncio.gather(client.post(VALIDATE, json={}), fresh.post(VALIDATE, json={}))
            assert [a.status_code for a in answers] == [200, 200]
            served.add(world.keeper.context.serving.certificate.serial_number)
        assert len(served) == 30


async def test_an_address_in_use_is_said_plainly():
    """Two services on one port: the second says which."""
    world = World()
    host, port = world.service.https.address
    settings = load(environ={}, flags={"serve.host": host, "serve.port": port}).settings
    with pytest.raises(OSError, match=f"cannot listen on 127.0.0.1 port {port}"):
        Service(settings, world.clock, reviews=world.reviews, keeper=world.keeper, controller=world.controller, rows=lambda: iter(()))
    world.service.https.close()
