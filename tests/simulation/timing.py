"""Virtual time: an event loop whose clock jumps to the next timer, so that hours pass in milliseconds and always in the same order.

Nothing waits for a socket here, so a loop that has no callback ready may as well be at its next timer. A loop with neither a callback nor
a timer can never go on, and one that never rests is a hot loop; both are told as errors instead of hanging the test.

Order is part of determinism: asyncio keeps tasks in sets, whose order follows the hash, which for a task is its address. The tasks made
here hash by their number.
"""

import asyncio
import itertools
import selectors
from collections.abc import Callable, Coroutine, Mapping
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Protocol, TypeVar

T = TypeVar("T")

EPOCH: Final = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
# What a round of the loop takes; without it a wait shorter than a float can tell would never be over.
ROUND_SECONDS: Final = 1e-6
# A wait that counts as rest, and the rounds without one after which the loop is called hot. A busy moment takes some hundreds.
IDLE_SECONDS: Final = 1e-4
HOT: Final = 20_000


class DeadlockError(RuntimeError):
    """Nothing is ready and no timer is set: nothing can ever happen again."""


class HotLoopError(RuntimeError):
    """Callbacks keep coming and nobody waits."""


class _Selector(selectors.BaseSelector):
    """Waits for no file: to wait is to be there."""

    def __init__(self) -> None:
        self.now = 0.0
        self.rounds = 0
        self._keys: dict[int, selectors.SelectorKey] = {}

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        fd = fileobj if isinstance(fileobj, int) else fileobj.fileno()
        self._keys[fd] = selectors.SelectorKey(fileobj, fd, events, data)
        return self._keys[fd]

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._keys.pop(fileobj if isinstance(fileobj, int) else fileobj.fileno())

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise DeadlockError("nothing is ready and no timer is set")
        self.now += max(timeout, 0.0) + ROUND_SECONDS
        self.rounds = 0 if timeout > IDLE_SECONDS else self.rounds + 1
        if self.rounds > HOT:
            raise HotLoopError(f"{HOT} rounds of the loop without a rest at second {self.now:.3f}")
        return []

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._keys


class Stepper(Protocol):
    """Who is told each time one of its tasks is resumed."""

    def stepped(self) -> None:
        """A task is about to run from one await to the next."""
        ...


# The process, in the simulation's sense, that the running task belongs to.
PROCESS: ContextVar[Stepper | None] = ContextVar("PROCESS", default=None)


class _Counted(Coroutine[Any, Any, Any]):
    """A coroutine that tells its process of every resumption."""

    def __init__(self, inner: Coroutine[Any, Any, Any], process: Stepper) -> None:
        self._inner = inner
        self._process = process

    def send(self, value: Any) -> Any:
        self._process.stepped()
        return self._inner.send(value)

    def throw(self, *error: Any) -> Any:
        return self._inner.throw(*error)

    def close(self) -> None:
        self._inner.close()

    def __await__(self) -> Any:
        return self._inner.__await__()


class _Task(asyncio.Task[Any]):
    """A task that hashes by its number, so that sets of tasks have one order."""

    _numbers = itertools.count()

    def __init__(self, coro: Coroutine[Any, Any, Any], **more: Any) -> None:
        self._number = next(_Task._numbers)
        super().__init__(coro, **more)

    def __hash__(self) -> int:
        return self._number

    def __eq__(self, other: object) -> bool:
        return self is other


def _make_task(loop: asyncio.AbstractEventLoop, coro: Any, **more: Any) -> asyncio.Task[Any]:
    process = PROCESS.get()
    return _Task(_Counted(coro, process) if process is not None else coro, loop=loop, **more)


class VirtualLoop(asyncio.SelectorEventLoop):
    """asyncio's own loop over a selector that never waits."""

    def __init__(self) -> None:
        self._virtual = _Selector()
        super().__init__(self._virtual)
        self.set_task_factory(_make_task)
        self.set_exception_handler(self._on_error)
        self.failure: BaseException | None = None

    def time(self) -> float:
        return self._virtual.now

    def cool(self) -> None:
        """Begin to count rounds anew."""
        self._virtual.rounds = 0

    def _on_error(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """A callback that fails is a defect of the world, and must not be lost in a log."""
        self.failure = self.failure or context.get("exception") or RuntimeError(str(context.get("message")))


def run(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run to the end on a loop of its own that begins at second 0."""
    _Task._numbers = itertools.count()
    loop = VirtualLoop()
    try:
        asyncio.set_event_loop(loop)
        result = loop.run_until_complete(main())
        if loop.failure is not None:
            raise loop.failure
        return result
    finally:
        try:
            _cancel_rest(loop)
        finally:
            asyncio.set_event_loop(None)
            loop.close()


def _cancel_rest(loop: VirtualLoop) -> None:
    loop.cool()
    rest = sorted(asyncio.all_tasks(loop), key=hash)
    for task in rest:
        task.cancel()
    if rest:
        loop.run_until_complete(asyncio.gather(*rest, return_exceptions=True))
    loop.run_until_complete(loop.shutdown_asyncgens())


class VirtualClock:
    """The Clock of one machine: its monotonic half is the loop's, its wall may be set forwards and back."""

    def __init__(self) -> None:
        self.skew = timedelta()

    def now(self) -> datetime:
        return EPOCH + timedelta(seconds=self.monotonic()) + self.skew

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
