"""Virtual time: an event loop whose clock jumps to the next timer, so that hours pass in milliseconds and always in the same order.

Nothing waits for a socket here, so a loop that has no callback ready may as well be at its next timer. A loop with neither a callback nor
a timer can never go on, and one that never rests is a hot loop; both are told as errors instead of hanging the test.

Order is part of determinism: asyncio keeps tasks in sets, whose order follows the hash, which for a task is its address. The tasks made
here hash by their number.
"""

import asyncio
import heapq
import itertools
import selectors
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from contextvars import Context, ContextVar
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
    """Waits for no file; only here because asyncio's loop wants one for its wake-up socket."""

    def __init__(self) -> None:
        self._keys: dict[int, selectors.SelectorKey] = {}

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        fd = fileobj if isinstance(fileobj, int) else fileobj.fileno()
        self._keys[fd] = selectors.SelectorKey(fileobj, fd, events, data)
        return self._keys[fd]

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._keys.pop(fileobj if isinstance(fileobj, int) else fileobj.fileno())

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        raise NotImplementedError

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._keys


class Stepper(Protocol):
    """Whose tasks are counted: `steps` goes up with each resumption, and `stepped` is told of it while `dies_at` is set."""

    steps: int
    dies_at: int | None

    def stepped(self) -> None:
        """A task is about to run from one await to the next."""
        ...


# The process, in the simulation's sense, that the running task belongs to.
PROCESS: ContextVar[Stepper | None] = ContextVar("PROCESS", default=None)


class _Counted(Coroutine[Any, Any, Any]):
    """A coroutine that counts its resumptions with its process."""

    def __init__(self, inner: Coroutine[Any, Any, Any], process: Stepper) -> None:
        self._inner = inner
        self._send = inner.send
        self._process = process

    def send(self, value: Any) -> Any:
        process = self._process
        process.steps += 1
        if process.dies_at is not None:
            process.stepped()
        return self._send(value)

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
    """asyncio's own loop, with a round that looks at no file and never waits."""

    _ready: deque[asyncio.Handle]
    _scheduled: list[asyncio.TimerHandle]

    def __init__(self) -> None:
        self._now = 0.0
        self._rounds = 0
        super().__init__(_Selector())
        self.set_task_factory(_make_task)
        self.set_exception_handler(self._on_error)
        self.failure: BaseException | None = None
        self._frozen: set[Stepper] = set()
        self._aside: list[asyncio.Handle] = []

    def freeze(self, process: Stepper) -> None:
        """Nothing of that process runs any more; what is due for it waits."""
        self._frozen.add(process)

    def thaw(self, process: Stepper) -> None:
        """It goes on with whatever has become due meanwhile, in that order."""
        self._frozen.discard(process)
        mine = [handle for handle in self._aside if _process_of(handle) is process]
        self._aside = [handle for handle in self._aside if _process_of(handle) is not process]
        self._ready.extendleft(reversed(mine))

    def is_frozen(self, process: Stepper) -> bool:
        """Whether it stands still."""
        return process in self._frozen

    def time(self) -> float:
        return self._now

    def cool(self) -> None:
        """Begin to count rounds anew."""
        self._rounds = 0

    def _run_once(self) -> None:
        """One round: at the next timer if nothing is ready, then all that is due. The order is asyncio's."""
        ready, scheduled = self._ready, self._scheduled
        self._rounds += 1
        if not ready and not self._stopping:  # type: ignore[attr-defined]  # set by asyncio's stop()
            while scheduled and scheduled[0]._cancelled:
                heapq.heappop(scheduled)._scheduled = False
            if not scheduled:
                raise DeadlockError("nothing is ready and no timer is set")
            wait = scheduled[0]._when - self._now
            if wait > IDLE_SECONDS:
                self._rounds = 0
            if wait > 0.0:
                self._now += wait
        self._now += ROUND_SECONDS
        if self._rounds > HOT:
            raise HotLoopError(f"{HOT} rounds of the loop without a rest at second {self._now:.3f}")
        while scheduled and scheduled[0]._when <= self._now:
            handle = heapq.heappop(scheduled)
            handle._scheduled = False
            ready.append(handle)
        for _ in range(len(ready)):
            due = ready.popleft()
            if due._cancelled:
                continue
            if self._frozen and _process_of(due) in self._frozen:
                self._aside.append(due)
            else:
                due._run()

    def _timer_handle_cancelled(self, _handle: asyncio.TimerHandle) -> None:
        """A cancelled timer leaves the heap when its time comes."""

    def call_soon(self, callback: Callable[..., Any], *args: Any, context: Context | None = None) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_at(self, when: float, callback: Callable[..., Any], *args: Any, context: Context | None = None) -> asyncio.TimerHandle:
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        heapq.heappush(self._scheduled, timer)
        timer._scheduled = True
        return timer

    def call_later(self, delay: float, callback: Callable[..., Any], *args: Any, context: Context | None = None) -> asyncio.TimerHandle:
        return self.call_at(self._now + delay, callback, *args, context=context)

    def _on_error(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """A callback that fails is a defect of the world, and must not be lost in a log."""
        self.failure = self.failure or context.get("exception") or RuntimeError(str(context.get("message")))


def _process_of(handle: asyncio.Handle) -> Stepper | None:
    found: Stepper | None = handle._context.get(PROCESS)  # type: ignore[attr-defined]  # asyncio's own, and not in its stub
    return found


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

    @staticmethod
    def monotonic() -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
