"""A controller process inside the world: the real client and the real controller, started, stopped cleanly, or killed between two awaits.

Killed means: from that moment nothing it does reaches the world. What was on its way to the API server may have been carried out; what it
remembers is gone. Its successor has another name and an empty cache.
"""

import asyncio
import contextvars
import random
from collections.abc import Callable
from types import TracebackType

from controller.observers.net import Dialer
from controller.service import Controller
from controller.settings import ControllerSettings
from kube.access import Access
from kube.client import Client
from kube.retry import RetryPolicy
from kube.session import Session
from tests.simulation.network import Dial, Network
from tests.simulation.timing import PROCESS, VirtualClock, VirtualLoop
from tests.simulation.world import World

HOST = "https://world.test"


class _NoSource:
    """The credential is never read again."""

    async def load(self) -> Access:
        """Never asked."""
        raise AssertionError("there is nothing to load")


class _Dialer(Dialer):
    """A dialer that the controller may open and close as often as it leads."""

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Holds nothing."""


class Process:
    """`who` is its name in the Lease and the author of what it writes."""

    def __init__(self, world: World, network: Network, who: str, settings: ControllerSettings) -> None:
        self.who = who
        self.settings = settings
        self.clock = VirtualClock()
        self.steps = 0
        self.dies_at: int | None = None
        self.freezes = 0.0  # seconds for which it freezes then, instead of dying
        self.killed = False
        self.failure: BaseException | None = None
        self.on_death: Callable[[], None] = lambda: None
        self.wire = world.wire(who)
        rng = random.Random(f"{world.seed}/{who}")
        access = Access(HOST, None, None, None, None, "modelwarden-system", None)
        session = Session(_NoSource(), access, monotonic=self.clock.monotonic, http=self.wire)  # type: ignore[arg-type]
        self.client = Client(session, RetryPolicy(sleep=self.clock.sleep, rand=rng.random))
        self.controller = Controller(self.client, settings, self.clock)
        self.controller.observers._dialer = _Dialer(self.clock, transport=Dial(network, rng))
        self._task: asyncio.Task[None] | None = None

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self._task is not None and not self._task.done() and not self.killed

    def start(self) -> None:
        """Begin to run. Its tasks are counted as its own."""
        context = contextvars.copy_context()
        context.run(PROCESS.set, self)
        self._task = context.run(asyncio.get_running_loop().create_task, self._run())

    async def _run(self) -> None:
        try:
            await self.controller.run()
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001 - a process that dies of itself is a finding, whatever it died of
            self.failure = error

    def stepped(self) -> None:
        """One of its tasks goes on; at the step at which it is to die, it dies, or freezes where it is to do that."""
        if self.dies_at is not None and self.steps >= self.dies_at:
            self.dies_at = None
            if self.freezes:
                self.freeze(self.freezes)
            else:
                self.kill()

    def kill(self) -> None:
        """The power goes: nothing leaves or reaches it any more."""
        if not self.killed:
            self.killed = self.wire.dead = True
            if self.frozen:
                self._thaw()
            asyncio.get_running_loop().call_soon(self._end)
            self.on_death()

    def freeze(self, seconds: float) -> None:
        """Its machine stands still for so long, as one that is paused or swaps does; then it goes on as if nothing had been."""
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        if self.alive and not loop.is_frozen(self):
            loop.freeze(self)
            loop.call_later(seconds, loop.thaw, self, context=contextvars.Context())

    def _thaw(self) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        loop.thaw(self)

    @property
    def frozen(self) -> bool:
        """Whether its machine stands still."""
        loop = asyncio.get_running_loop()
        return isinstance(loop, VirtualLoop) and loop.is_frozen(self)

    def stop(self) -> None:
        """A clean end: it may still give the Lease up."""
        self._end()

    def _end(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def ended(self) -> None:
        """Wait for its tasks to be gone."""
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)
