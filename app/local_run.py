"""`mdctl run`, the whole product on a laptop: embedded cluster, our manifests in it, the service against it, and a scenario to watch.

Everything lives in one process and one event loop, and nothing is faked between the parts: the cluster calls the webhooks over HTTPS with
the caBundle that the service published, and the service reads and writes through the cluster's HTTPS API.
"""

import asyncio
import contextlib
import functools
import os
import sys
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Protocol

import msgspec
import structlog
import yaml

from api.clock import Clock
from app.board import Board, Line
from app.clock import ScaledClock, SystemClock
from app.display import Display, LineDisplay, TableDisplay
from app.planting import plant
from app.service import PartDiedError, Service, assemble
from app.settings import Settings
from kube.client import Client
from kube.config import connect
from kube.errors import KubeError
from local.cluster import EmbeddedCluster
from local.scenario import Scenario, Step, load, play

log = structlog.get_logger("run")

Become = Callable[[str], Awaitable[Client]]


class Settled(Protocol):
    """Waits until nothing changed for that long; False where it did not come to that within the patience."""

    async def __call__(self, *, seconds: float, patience: float) -> bool:
        """Seconds of real time."""
        ...


# How long nothing may have changed until statuses count as final (after a step: as judged), and how long to wait for that.
QUIET_SECONDS = 0.6
PATIENCE_SECONDS = 20.0
STEP_SECONDS = 0.1
STEP_PATIENCE_SECONDS = 2.0
LOOK_SECONDS = 0.02
START_SECONDS = 30.0


class RunError(Exception):
    """The run cannot go on, for a reason that a person can read."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What one run shall do."""

    scenario: Scenario | None
    state_dir: Path
    keep_state: bool = False
    once: bool = False
    speed: float = 1.0
    port: int = 0


class LocalRun:
    """One run. `run` returns the exit code."""

    def __init__(self, plan: Plan, settings: Settings) -> None:
        self._plan = plan
        self._settings = settings
        self._clock: Clock = SystemClock()
        self._scenario_clock: Clock = ScaledClock(plan.speed)

    async def run(self, stop: asyncio.Event) -> int:
        """Until `stop` (exit code 0), or, once only, until the statuses are final (0) or did not become so (1).

        What went well leaves nothing behind, unless asked to; what did not leaves its log.
        """
        code = await self._run(stop)
        if code == 0 and not self._plan.keep_state:
            _clear(self._plan.state_dir)
        elif code == 1:
            print(f"the log is {self._plan.state_dir / 'service.log'}", file=sys.stderr)
        return code

    async def _run(self, stop: asyncio.Event) -> int:
        plan = self._plan
        cluster = EmbeddedCluster(state_dir=plan.state_dir, port=plan.port, kueue=self._settings.kueue == "required")
        async with AsyncExitStack() as stack:
            try:
                await cluster.start()
            except OSError as fault:
                log.critical("cannot listen", error=str(fault))
                print(f"the run ends: --port {plan.port}: {os.strerror(fault.errno or 0)}; 0 takes a free one", file=sys.stderr)
                return 1
            stack.push_async_callback(cluster.stop)
            client = await stack.enter_async_context(await connect(str(cluster.kubeconfig)))
            await plant(client, self._settings.namespace)
            service = assemble(self._settings, client, self._clock)
            cluster.webhook_services[self._settings.namespace, self._settings.certs_service] = service.https.address

            async def become(user: str) -> Client:
                return await stack.enter_async_context(await connect(str(cluster.kubeconfig_for(user))))

            try:
                return await self._supervise(cluster, client, service, stop, become)
            except BaseExceptionGroup as group:
                told, rest = group.split((PartDiedError, RunError))
                if told is None or rest is not None:
                    raise
                for error in told.exceptions:
                    log.critical("the run ends", error=str(error))
                    print(f"the run ends: {error}", file=sys.stderr)
                return 1

    async def _supervise(self, cluster: EmbeddedCluster, client: Client, service: Service, stop: asyncio.Event, become: Become) -> int:
        quit_service = asyncio.Event()
        shown: list[Display] = []
        board = Board(client, self._clock, lambda key, line: _tell(shown, key, line))
        display = self._display(board.lines)
        shown.append(display)
        async with asyncio.TaskGroup() as group:
            serving = group.create_task(service.run(quit_service), name="service")
            drawing = [group.create_task(board.run(), name="table"), group.create_task(display.run(), name="display")]
            try:
                await self._up(service)
                display.head(*self._greeting(cluster, service))
                settled = functools.partial(self._quiet, board, service)
                playing = group.create_task(self._play(client, display, become, settled), name="scenario")
                code = await self._until_done(settled, playing, stop)
            finally:
                for task in drawing:
                    task.cancel()
                await asyncio.gather(*drawing, return_exceptions=True)
                quit_service.set()
            playing.cancel()
            if self._plan.once and not stop.is_set():
                print(final_statuses(board), end="", flush=True)
            await asyncio.wait([serving])
        return code

    async def _until_done(self, settled: Settled, playing: "asyncio.Task[None]", stop: asyncio.Event) -> int:
        asked = asyncio.create_task(stop.wait())
        try:
            if not self._plan.once:
                await asked
                return 0
            await asyncio.wait([asked, playing], return_when=asyncio.FIRST_COMPLETED)
            if stop.is_set():
                return 130
            playing.result()
            if await settled(seconds=QUIET_SECONDS, patience=PATIENCE_SECONDS):
                return 0
            print(f"the statuses did not come to rest within {PATIENCE_SECONDS:.0f} s", file=sys.stderr)
            return 1
        finally:
            asked.cancel()

    async def _quiet(self, board: Board, service: Service, *, seconds: float, patience: float) -> bool:
        """Wait until every status is of its newest generation and nothing changed for that long; False where it did not come to that."""
        deadline = self._clock.monotonic() + patience
        seen, since = board.changes, self._clock.monotonic()
        while self._clock.monotonic() < deadline:
            await self._clock.sleep(LOOK_SECONDS)
            now = self._clock.monotonic()
            if board.changes != seen or not service.idle:
                seen, since = board.changes, now
            elif now - since >= seconds and all(line.observed for line in board.lines()):
                return True
        return False

    async def _up(self, service: Service) -> None:
        """Wait until reviews can be answered: caches may come later, as they may on any cluster."""
        try:
            async with asyncio.timeout(START_SECONDS):
                await service.https.up()
                await service.keeper.loaded.wait()
                while service.keeper.problem:
                    await self._clock.sleep(LOOK_SECONDS)
        except TimeoutError as error:
            raise RunError(f"the service did not become ready:\n{service.health.ready()[1]}") from error

    async def _play(self, client: Client, display: Display, become: Become, settled: Settled) -> None:
        if self._plan.scenario is None:
            return

        async def told(step: Step) -> None:
            if self._plan.once:
                # However fast it is played, and however slow the machine: each step is judged before the next one is told and taken.
                await settled(seconds=STEP_SECONDS, patience=STEP_PATIENCE_SECONDS)
            display.say(str(step))

        try:
            await play(self._plan.scenario, client, self._scenario_clock, told, become=become)
        except (KubeError, ValueError) as error:
            raise RunError(f"the scenario failed: {error}") from error
        if self._plan.once:
            await settled(seconds=STEP_SECONDS, patience=STEP_PATIENCE_SECONDS)
        display.say("the scenario is over" + ("" if self._plan.once else "; the cluster goes on until Ctrl-C"))

    def _display(self, lines: Callable[[], list[Line]]) -> Display:
        from rich.console import Console

        if self._plan.once:
            return LineDisplay(sys.stderr, self._clock)
        if sys.stdout.isatty():
            return TableDisplay(Console(), self._clock, lines)
        return LineDisplay(sys.stdout, self._clock)

    def _greeting(self, cluster: EmbeddedCluster, service: Service) -> tuple[str, ...]:
        host, port = service.https.address
        return (
            f"cluster     {cluster.url}",
            f"kubeconfig  {cluster.kubeconfig}",
            f"webhooks    https://{host}:{port}   (/readyz?verbose, /metrics, / as a page)",
            f"try         kubectl --kubeconfig {cluster.kubeconfig} get md -A -w",
        )


def _clear(folder: Path) -> None:
    """Remove the files of a run, and the folder where nothing else is in it: another run, or a tool, may live below it."""
    for file in folder.iterdir():
        if not file.is_dir():
            file.unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        folder.rmdir()


def scenario_names() -> list[str]:
    """The scenarios that come with the package."""
    return sorted(
        entry.name.removesuffix(".yaml") for entry in files("local").joinpath("scenarios").iterdir() if entry.name.endswith(".yaml")
    )


def find_scenario(name: str) -> Scenario | None:
    """The scenario of that name or file, None for `none`. Raises LookupError, and ValueError for what is no scenario."""
    if name == "none":
        return None
    if name in scenario_names():
        return load(name)
    path = Path(name)
    if not path.is_file():
        raise LookupError(f"no scenario {name!r}; there are {', '.join(scenario_names())}, none, or a file")
    return load(path)


def _tell(shown: list[Display], key: str, line: Line | None) -> None:
    for display in shown:
        display.changed(key, line)


def final_statuses(board: Board) -> str:
    """Every deployment's status as a YAML stream."""
    out: list[dict[str, Any]] = []
    for raw in board.documents():
        found = msgspec.json.decode(raw)
        metadata = {key: found["metadata"][key] for key in ("namespace", "name", "generation")}
        out.append({"apiVersion": found["apiVersion"], "kind": found["kind"], "metadata": metadata, "status": found.get("status", {})})
    return yaml.safe_dump_all(out, sort_keys=False, allow_unicode=True, width=140) if out else ""
