"""`/debug/state`: only where it was asked for, only to this machine, and bounded."""

import httpx
import pytest

from app.debugstate import SHOWN, debug_state, from_here
from app.health import Health
from app.server import make_app
from app.settings import load
from controller.service import Controller
from controller.settings import ControllerSettings
from controller.store import Key

PEERS = {
    "127.0.0.1": True,
    "127.8.9.1": True,
    "::1": True,
    "::ffff:127.0.0.1": True,
    "10.0.0.7": False,
    "::ffff:10.0.0.7": False,
    "fe80::1": False,
    "localhost": False,
    "": False,
    None: False,
}


@pytest.mark.parametrize("peer", PEERS)
def test_who_is_this_machine(peer: str | None) -> None:
    """Loopback in both families, also wrapped; a name is not looked up."""
    assert from_here(peer) is PEERS[peer]


async def _asked(app: object, peer: str, path: str = "/debug/state") -> httpx.Response:
    transport = httpx.ASGITransport(app=app, client=(peer, 4711))  # type: ignore[arg-type]
    async with httpx.AsyncClient(transport=transport, base_url="http://service") as client:
        return await client.get(path)


async def test_it_is_told_to_this_machine_only() -> None:
    """To others the path does not exist, in the same words as any path that does not."""
    app = make_app(Health(), None, lambda: {"leading": True})
    assert (await _asked(app, "127.0.0.1")).json() == {"leading": True}
    other = await _asked(app, "10.0.0.7")
    nowhere = await _asked(app, "10.0.0.7", "/nowhere")
    assert (other.status_code, other.content) == (nowhere.status_code, nowhere.content)
    assert other.status_code == 404


async def test_it_has_to_be_asked_for() -> None:
    """Off by default, and then nobody is told."""
    assert load(environ={}).settings.serve_debug is False
    assert load(environ={"MODELWARDEN_SERVE_DEBUG": "true"}).settings.serve_debug is True
    assert (await _asked(make_app(Health()), "127.0.0.1")).status_code == 404


class StandingClock:
    """Time that is moved by hand."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def monotonic(self) -> float:
        return self.seconds


def test_what_it_says() -> None:
    """Every kind's size and reason, and the queue's keys with their ages; counts are whole where lists are cut."""
    clock = StandingClock()
    controller = Controller(None, ControllerSettings(), clock)  # type: ignore[arg-type]  # nothing is asked of the API server here
    for number in range(SHOWN + 5):
        controller.queue.add(Key("team", f"chat{number}"))
    controller.queue.add_after(Key("team", "later"), 30)
    clock.seconds += 2.5
    told = debug_state(controller)
    assert told["leading"] is False
    assert told["kinds"]["Pod"] == {"objects": 0, "readable": False, "reason": "not listed yet", "served": None}
    assert told["queue"]["waiting"]["count"] == SHOWN + 5
    assert len(told["queue"]["waiting"]["keys"]) == SHOWN
    assert told["queue"]["waiting"]["keys"]["team/chat0"] == 2.5
    assert told["queue"]["later"] == {"count": 1, "keys": {"team/later": 27.5}}
    assert told["queue"]["working"] == {"count": 0, "keys": {}}
