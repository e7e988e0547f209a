"""Two ways to show a running scenario: a table that updates in place on a terminal, a line per change everywhere else."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Protocol, TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from api.clock import Clock
from app.board import HEADINGS, Line

COLOURS = {"Ready": "green", "Starting": "cyan", "Degraded": "yellow", "Deleting": "magenta"}
STEPS_SHOWN = 8
REDRAW_SECONDS = 1.0


class Display(Protocol):
    """Where a run shows itself."""

    def head(self, *lines: str) -> None:
        """What the person needs to know from the start: where the kubeconfig is, what to type."""
        ...

    def say(self, text: str) -> None:
        """Something that happened: a step of the scenario, mostly."""
        ...

    def changed(self, key: str, line: Line | None) -> None:
        """A row became another one, or is gone."""
        ...

    async def run(self) -> None:
        """Draw until cancelled."""
        ...


class LineDisplay:
    """One line per change, with the seconds since the start."""

    def __init__(self, stream: TextIO, clock: Clock) -> None:
        self._stream = stream
        self._clock = clock
        self._start = clock.monotonic()

    def head(self, *lines: str) -> None:
        """As they are."""
        for line in lines:
            print(line, file=self._stream, flush=True)

    def say(self, text: str) -> None:
        """A line of its own."""
        print(f"{self._clock.monotonic() - self._start:7.2f}s  * {text}", file=self._stream, flush=True)

    def changed(self, key: str, line: Line | None) -> None:
        """What `kubectl get md -A -w` would print."""
        text = line.sentence() if line else f"{key}  deleted"
        print(f"{self._clock.monotonic() - self._start:7.2f}s  {text}", file=self._stream, flush=True)

    async def run(self) -> None:
        """Nothing is drawn; everything was said."""
        await asyncio.Event().wait()


class TableDisplay:
    """The table of `kubectl get md -A`, redrawn where it stands; below it, the last steps of the scenario."""

    def __init__(self, console: Console, clock: Clock, lines: Callable[[], list[Line]]) -> None:
        self._console = console
        self._clock = clock
        self._lines = lines
        self._head: tuple[str, ...] = ()
        self._steps: deque[str] = deque(maxlen=STEPS_SHOWN)
        self._news = asyncio.Event()
        self._start = clock.monotonic()

    def head(self, *lines: str) -> None:
        """Above the table."""
        self._head = lines
        self._news.set()

    def say(self, text: str) -> None:
        """Below the table, the newest last."""
        self._steps.append(f"{self._clock.monotonic() - self._start:6.1f}s  {text}")
        self._news.set()

    def changed(self, key: str, line: Line | None) -> None:
        """The table itself is drawn from the rows; this is only the occasion."""
        self._news.set()

    async def run(self) -> None:
        """Redraw on news, and each second for the ages. The last picture stays on the screen."""
        with Live(self._picture(), console=self._console, auto_refresh=False, transient=False) as live:
            try:
                while True:
                    try:
                        async with asyncio.timeout(REDRAW_SECONDS):
                            await self._news.wait()
                    except TimeoutError:
                        pass
                    self._news.clear()
                    live.update(self._picture(), refresh=True)
                    await asyncio.sleep(0.05)  # a burst of changes is one picture
            finally:
                live.update(self._picture(), refresh=True)

    def _picture(self) -> Group:
        now = self._clock.now()
        table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
        for heading in HEADINGS:
            table.add_column(heading, no_wrap=heading != "MESSAGE", overflow="fold" if heading == "MESSAGE" else "ellipsis")
        for line in self._lines():
            cells: list[Text] = [Text(cell) for cell in line.cells(now)]
            cells[HEADINGS.index("PHASE")].stylize(COLOURS.get(line.phase, ""))
            if not line.observed:
                cells[HEADINGS.index("PHASE")].stylize("dim")
            table.add_row(*cells)
        head = Text("\n".join(self._head), style="dim")
        steps = Text("\n".join(self._steps), style="dim")
        return Group(head, Text(""), table, Padding(steps, (1, 0, 0, 0)))
