"""The fleet bench measures what it says: a tiny fleet end to end over real HTTPS, and the rules by which it counts."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from app.clock import SystemClock
from bench.fleet import figures
from bench.fleet.drive import METRICS, kubeconfig_of
from bench.fleet.feed import Feed
from bench.fleet.ledger import Ledger
from bench.fleet.standin import Standin
from bench.fleet.store import StaleError, Store, merge
from bench.fleet.templates import Template
from bench.fleet.wire import listen, port_of
from bench.fleet.world import World
from bench.trust import certificate
from controller import metrics
from controller.service import Controller
from controller.settings import ControllerSettings, ObserverSettings
from kube.config import connect


@asynccontextmanager
async def tiny_fleet(folder: Path, standin: Standin) -> AsyncIterator[None]:
    """The product's controller with its real client over that stand-in, in this process."""
    cert, key = certificate(folder)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    server = await listen(standin.routes.answer, context)
    (folder / "kubeconfig").write_text(msgspec.json.encode(kubeconfig_of(port_of(server), cert)).decode())
    async with server, await connect(str(folder / "kubeconfig")) as client:
        settings = ControllerSettings(identity="bench", observers=ObserverSettings(enabled=False))
        running = asyncio.create_task(Controller(client, settings, SystemClock()).run())
        try:
            yield
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


async def test_a_tiny_fleet_end_to_end(tmp_path: Path) -> None:
    """Every deployment gets a status, every change its write; what the product counts is what the stand-in applied."""
    standin = Standin(World(3, 5))
    sent = metrics.WRITES.labels("success")._value
    before = sent.get()
    async with tiny_fleet(tmp_path, standin):
        start = await standin.written(10)
        assert start["writes"] == {"applied": 3}
        assert list(start["marks"]) == ["first request", "first write", "all written"]
        assert start["requests"]["watch"] >= 1
        singles = await standin.singles(3, 0.0, 10)
        assert (singles["changes_written"], singles["writes"]) == (3, {"applied": 3})
        assert singles["p50_ms"] <= singles["p99_ms"]
        storm = await standin.storm(2, 0.4, True, 10)
        assert storm["changes"] == 30
        assert storm["changes_written"] + storm["changes_coalesced"] >= 30 - 3 * 5
        assert storm["requests"]["patch"] == sum(storm["writes"].values())
        assert storm["requests"]["watch"] == 1, "the watch that was cut is opened again, from where it was"
        state = await standin.state()
        assert (state["unwritten"], state["owed"]) == (0, 0)
        quiet = await standin.quiet(0.05)
        assert set(quiet["requests"]) <= {"leases", "events"}, "what is left to be told may follow, and nothing else does"
        applied = sum(phase["writes"].get("applied", 0) for phase in (start, singles, storm, quiet))
    assert sent.get() - before == applied
    assert all(name.startswith(("controller_runtime_", "modelwarden_")) for name in METRICS.values())


def status(**ready: str) -> dict[str, Any]:
    return {"roles": [{"groups": [{"members": [{"uid": uid, "ready": text} for uid, text in ready.items()]}]}]}


@pytest.mark.parametrize(
    ("steps", "written", "coalesced", "owed"),
    [
        pytest.param([("told", "False"), ("wrote", "False")], 1, 0, 0, id="a change that is written"),
        pytest.param([("told", "False"), ("wrote", "True")], 0, 0, 1, id="a write that does not show it does not count"),
        pytest.param([("told", "False"), ("told", "True")], 0, 2, 0, id="two changes that undo each other owe nothing"),
        pytest.param([("told", "False"), ("told", "Unknown"), ("wrote", "Unknown")], 1, 1, 0, id="a change that was overtaken"),
    ],
)
def test_when_a_change_counts_as_written(steps: list[tuple[str, str]], written: int, coalesced: int, owed: int) -> None:
    """By what a status shows, never by when it came."""
    ledger = Ledger()
    ledger.wrote(0, status(a="True"))
    for what, text in steps:
        if what == "told":
            ledger.told(0, "a", text)
        else:
            ledger.wrote(0, status(a=text))
    assert len(ledger.owed) == owed
    found = ledger.cut()
    assert (found["changes_written"], found["changes_coalesced"]) == (written, coalesced)


def test_a_stale_patch_is_refused_and_an_empty_one_changes_nothing() -> None:
    """As an API server does it: optimistic locking, no new version for no change, null takes away."""
    store = Store(World(1, 1), Ledger())
    body = b'{"metadata":{"resourceVersion":"1"},"status":{"phase":"Ready"}}'
    answer = msgspec.json.decode(store.patch_status(0, body))
    assert (answer["status"], answer["metadata"]["resourceVersion"]) == ({"phase": "Ready"}, "2")
    with pytest.raises(StaleError):
        store.patch_status(0, body)
    store.patch_status(0, b'{"status":{"phase":"Ready"}}')
    assert store.ledger.writes == {"applied": 1, "conflict": 1, "noop": 1}
    assert merge({"a": {"b": 1, "c": 2}}, {"a": {"b": None}}) == {"a": {"c": 2}}


def test_a_feed_forgets_what_lies_far_back() -> None:
    """A watcher that comes too late hears 410; one that is in time starts after its version."""
    feed = Feed(lambda entry: b"%d" % entry.version, kept=2)
    for version in range(1, 8):
        feed.add(version, None)
    assert feed.place_of(1) is None
    place = feed.place_of(6)
    assert place is not None
    assert feed.take(place, 9) == [b'{"type":"MODIFIED","object":7}\n']
    assert feed.take(0, 9) is None


def test_templates_fill_text_and_json() -> None:
    """Half filled or at once, the JSON is the same, and holes in keys count too."""
    template = Template({"{{key}}": "a {{text}}", "n": "{{#j_number}}"})
    values = {"key": b"k", "text": b"b", "j_number": b"[1]"}
    assert template.fill(values) == template.half({"text": b"b"}).fill({"key": b"k", "j_number": b"[1]"}) == b'{"k":"a b","n":[1]}'


def test_what_is_in_step_with_the_fleet_grows_with_exponent_one() -> None:
    """Ten times the fleet: ten times the cost is 1, the same cost 0; a goal that was not measured is not met."""
    runs = [{"size": 10, "x": 2.0}, {"size": 100, "x": 20.0}]
    assert figures.exponent(runs[0], runs[1], lambda run: run["x"]) == pytest.approx(1.0)
    assert figures.exponent(runs[0], runs[1], lambda _: 3.0) == pytest.approx(0.0)
    assert figures.exponent(runs[0], runs[1], lambda _: None) is None
    verdicts = {goal.text: goal.verdict for goal in figures.goals([], 89.0)}
    assert verdicts.pop("resident, idle, MiB") == "met"
    assert set(verdicts.values()) == {"not measured"}
