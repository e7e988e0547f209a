"""The picture of a run: ages as kubectl writes them, a line per change, and the table."""

import io
from datetime import UTC, datetime, timedelta

import pytest
from rich.console import Console

from api.objects import ModelDeployment, ObjectMeta
from app.board import HEADINGS, Line, line_of, short_age
from app.display import LineDisplay, TableDisplay

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


class Still:
    """A clock that stands at NOW."""

    def now(self) -> datetime:
        return NOW

    def monotonic(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        raise AssertionError("nothing here sleeps")


AGES = {
    "not yet born by this clock": (-5, "0s"),
    "under two minutes in seconds": (119, "119s"),
    "two minutes": (120, "2m"),
    "minutes with seconds below ten": (192, "3m12s"),
    "only minutes below three hours": (3600, "60m"),
    "hours below two days": (3 * 3600, "3h"),
    "then days": (50 * 3600, "2d"),
}


@pytest.mark.parametrize("sentence", AGES)
def test_ages(sentence):
    """The column reads as people know it."""
    seconds, text = AGES[sentence]
    assert short_age(timedelta(seconds=seconds)) == text


def deployment(status: bytes = b"null", generation: int = 2) -> ModelDeployment:
    created = "2026-01-01T11:59:00Z"
    meta = ObjectMeta(name="llm", namespace="team", generation=generation, creation_timestamp=created)
    return ModelDeployment(metadata=meta, status=status)


STATUS = b'{"observedGeneration":2,"phase":"Degraded","roleSummary":"1S","phaseMessage":"1 of 2","endpoint":"http://llm.team.svc:8000"}'


def test_a_line_of_a_status():
    """What the status says, in the columns of `kubectl get md`."""
    line = line_of(deployment(STATUS))
    assert line.cells(NOW) == ("team", "llm", "", "1S", "Degraded", "http://llm.team.svc:8000", "60s", "1 of 2")
    assert line.observed
    assert line.sentence() == "team/llm  1S  Degraded  http://llm.team.svc:8000  1 of 2"


def test_a_status_of_an_older_generation_is_not_observed_yet():
    """A stale status is not passed off as the answer to the newest spec."""
    stale = line_of(deployment(STATUS, generation=3))
    assert not stale.observed
    assert "Degraded (of an older spec)" in stale.sentence()
    assert not line_of(deployment()).observed


def test_lines_without_a_terminal():
    """One line per change, and one for what is gone."""
    stream = io.StringIO()
    display = LineDisplay(stream, Still())
    display.head("kubeconfig  /x")
    display.say("apply pods")
    display.changed("team/llm", line_of(deployment(STATUS)))
    display.changed("team/llm", None)
    assert stream.getvalue().splitlines() == [
        "kubeconfig  /x",
        "   0.00s  * apply pods",
        "   0.00s  team/llm  1S  Degraded  http://llm.team.svc:8000  1 of 2",
        "   0.00s  team/llm  deleted",
    ]


def test_the_table_shows_every_row_and_the_last_steps():
    """Headings, rows, steps; markup in a message stays text."""
    console = Console(file=io.StringIO(), width=160, record=True)
    lines = [Line("team", "llm", "vLLM", "1S", "Ready", "http://x", "[bold]odd[/bold]", NOW, True)]
    display = TableDisplay(console, Still(), lambda: lines)
    display.head("kubeconfig  /x")
    for number in range(12):
        display.say(f"step {number}")
    console.print(display._picture())
    text = console.export_text()
    for part in (*HEADINGS, "kubeconfig  /x", "llm", "Ready", "[bold]odd[/bold]", "step 11", "step 4"):
        assert part in text
    assert "step 3" not in text
