"""Events: their form, what is merged before it is sent, what is counted, combined and limited, and whom they give way to."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from cluster import FakeCluster, Request
from virtual import VirtualClock, settle

from api.objects import ObjectMeta
from controller.correlation import Backlog
from controller.events import EventRecorder, bounded
from controller.transitions import Notice
from kube.errors import KubeError, NotFound, ServerError


def meta(uid: str = "u1") -> ObjectMeta:
    return ObjectMeta(name=f"chat-{uid}", namespace="team", uid=uid)


@dataclass
class World:
    """A recorder, the cluster it sends to, and a sentence for each Event in the order they went."""

    api: FakeCluster = field(default_factory=FakeCluster)
    clock: VirtualClock = field(default_factory=VirtualClock)
    busy: bool = False

    def __post_init__(self) -> None:
        self.recorder = EventRecorder(self.api, self.clock, "me", busy=lambda: self.busy)  # type: ignore[arg-type]

    @asynccontextmanager
    async def sending(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.recorder.run())
        await settle()
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def tell(self, *notices: Notice, uid: str = "u1") -> None:
        for notice in notices:
            self.recorder.notice(meta(uid), notice)

    async def each(self, *notices: Notice, gap: float = 0.0) -> None:
        """Tell them one by one, each sent before the next."""
        for notice in notices:
            self.tell(notice)
            await settle()
            await self.clock.advance(gap)

    @property
    def told(self) -> list[str]:
        return [sentence(request) for request in self.api.requests if request.kind == "Event"]


def sentence(request: Request) -> str:
    """`Reason: note` of one that was made, `+` of one that was counted on; `×n` where it stands for several."""
    series = request.body.get("series")
    count = f" ×{series['count']}" if series else ""
    return f"+{count}" if request.verb == "patch" else f"{request.body['reason']}: {request.body['note']}{count}"


def notice(reason: str, note: str = "x", about: str = "") -> Notice:
    return Notice("Normal", reason, note, about)


async def test_an_event_has_the_form_of_its_api() -> None:
    """events.k8s.io/v1 with everything that the API server demands."""
    world = World()
    async with world.sending():
        await world.each(Notice("Warning", "Degraded", "1 of 2"))
    (request,) = world.api.sent("create", "Event")
    body = request.body
    assert body["apiVersion"] == "events.k8s.io/v1"
    assert body["regarding"]["uid"] == "u1"
    assert {"eventTime", "reportingController", "reportingInstance", "action", "reason", "note", "type"} <= body.keys()
    assert body["metadata"]["namespace"] == "team"


# ------------------------------------------------------------------------------------------------------- what waits is merged

MERGED: dict[str, tuple[list[Notice], list[str]]] = {
    "notices of several reasons go one by one": ([notice("Degraded"), notice("Ready")], ["Degraded: x", "Ready: x"]),
    "the same notice goes once, with its count": ([notice("Ready")] * 3, ["Ready: x ×3"]),
    "of one reason the newest goes, and says what it stands for": (
        [notice("Degraded", "1 of 4"), notice("Degraded", "2 of 4"), notice("Degraded", "3 of 4")],
        ["Degraded: 3 of 4 (before that, not told by itself: 2 of 4; 1 of 4) ×3"],
    ),
    "what came last is told last": (
        [notice("Ready"), notice("Degraded"), notice("Ready")],
        ["Degraded: x", "Ready: x ×2"],
    ),
    "one reason of two conditions is two chains": (
        [notice("Pending", "no quota", "QuotaReserved"), notice("Pending", "no weights", "WeightsReady")],
        ["Pending: no quota", "Pending: no weights"],
    ),
    "of many notes the last four are told beside the newest": (
        [notice("Degraded", str(number)) for number in range(9)],
        ["Degraded: 8 (before that, not told by itself: 7; 6; 5; 4) ×9"],
    ),
}


@pytest.mark.parametrize("name", ["a" * 253, f"{'a' * 199}-b", f"{'a' * 198}.-{'b' * 40}", "chat"])
async def test_an_event_of_a_long_name_has_a_name_that_an_api_server_takes(name: str) -> None:
    """What is cut off leaves no part that ends in a dash or a dot."""
    world = World()
    async with world.sending():
        world.recorder.notice(ObjectMeta(name=name, namespace="team", uid="u1"), Notice("Normal", "Ready", "It is."))
        await settle()
    (request,) = [request for request in world.api.requests if request.kind == "Event"]
    assert len(request.name) <= 253
    assert re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", request.name)


@pytest.mark.parametrize("case", MERGED)
async def test_what_waits_is_merged(case: str) -> None:
    """A storm costs one request for a deployment and reason, not one for each change, and hides nothing."""
    notices, told = MERGED[case]
    world = World()
    world.tell(*notices)
    async with world.sending():
        await settle()
    assert world.told == told


async def test_the_time_is_that_of_the_change() -> None:
    """An Event that had to wait does not claim that the change happened when it was sent."""
    world = World()
    world.tell(notice("Ready"))
    await world.clock.advance(30)
    async with world.sending():
        await settle()
    (request,) = world.api.sent("create", "Event")
    assert request.body["eventTime"].endswith(":00.000000Z")


def test_a_full_backlog_loses_its_oldest() -> None:
    """The newest tell how things are."""
    backlog = Backlog(2)
    at = VirtualClock().now()
    put = [backlog.put(meta(uid), notice("Ready"), at) for uid in ("a", "b", "b", "c")]
    assert put == ["added", "added", "merged", "displaced"]
    assert [telling.regarding.uid for telling in iter(backlog.take, None)] == ["b", "c"]


# ------------------------------------------------------------------------------------------------------ what was told before

NUMBERED = [notice("Degraded", f"{number} of 60") for number in range(60)]
REPEATED: dict[str, tuple[list[Notice], float, list[str]]] = {
    "the same notice within six minutes counts on the Event that told it first": (
        [notice("Ready")] * 3,
        10,
        ["Ready: x", "+ ×2", "+ ×3"],
    ),
    "after six minutes a repetition is an Event of its own": ([notice("Ready")] * 2, 400, ["Ready: x", "Ready: x"]),
    "the tenth note of one reason is told as a combination, and those that follow are counted on it": (
        NUMBERED[:12],
        10,
        [f"Degraded: {number} of 60" for number in range(9)] + ["Degraded: (combined from similar events): 9 of 60", "+ ×2", "+ ×3"],
    ),
    "ten notes over hours are no combination": (NUMBERED[:11], 700, [f"Degraded: {number} of 60" for number in range(11)]),
}


@pytest.mark.parametrize("case", REPEATED)
async def test_what_was_told_before_is_counted(case: str) -> None:
    """As client-go's recorder does."""
    notices, gap, told = REPEATED[case]
    world = World()
    async with world.sending():
        await world.each(*notices, gap=gap)
    assert world.told == told


async def test_a_count_does_not_hide_what_was_merged() -> None:
    """What was told before and comes again with something new before it is an Event of its own."""
    world = World()
    async with world.sending():
        await world.each(notice("Degraded", "1 of 2"))
    world.tell(notice("Degraded", "0 of 2"), notice("Degraded", "1 of 2"))
    async with world.sending():
        await settle()
    assert world.told[1:] == ["Degraded: 1 of 2 (before that, not told by itself: 0 of 2) ×2"]


async def test_an_event_that_is_gone_is_told_anew() -> None:
    """The API server keeps Events for an hour, or as long as it likes."""
    world = World()
    world.api.fail = lambda request: NotFound(404) if request.verb == "patch" else None
    async with world.sending():
        await world.each(notice("Ready"), notice("Ready"))
    assert [request.verb for request in world.api.requests] == ["create", "patch", "create"]


async def test_a_flapping_object_is_limited() -> None:
    """25 at once, then one in five minutes."""
    world = World()
    async with world.sending():
        await world.each(*NUMBERED)
        assert len(world.told) == 25
        await world.clock.advance(301)
        await world.each(*NUMBERED)
    assert len(world.told) == 26


async def test_a_failing_event_hurts_nobody() -> None:
    """An Event that cannot be sent is dropped, and the next one goes."""
    world = World()
    failures: list[KubeError] = [ServerError(500, "x", "x")]
    world.api.fail = lambda _: failures.pop() if failures else None
    async with world.sending():
        await world.each(notice("A"), notice("B"))
    assert world.told == ["A: x", "B: x"]


# ----------------------------------------------------------------------------------------------------- whose turn it is

FLEET = ("a", "b", "c", "d", "e", "f")
UNDER_WAY: dict[str, tuple[list[tuple[str, str]], set[str]]] = {
    "four deployments at once": ([(uid, "Ready") for uid in FLEET], {"a", "b", "c", "d"}),
    "one Event of a deployment": ([("a", "A"), ("a", "B"), ("a", "C"), ("b", "A")], {"a", "b"}),
}


@pytest.mark.parametrize("case", UNDER_WAY)
async def test_at_once(case: str) -> None:
    """A slow API server has four Events on its hands, and those of a deployment keep their order."""
    notices, uids = UNDER_WAY[case]
    world = World()
    world.api.hang = lambda _: True
    for uid, reason in notices:
        world.tell(notice(reason), uid=uid)
    async with world.sending():
        requests = world.api.sent("create", "Event")
    assert sorted(request.body["regarding"]["uid"] for request in requests) == sorted(uids)


async def test_deployments_take_turns() -> None:
    """One that has much to tell does not keep the others waiting."""
    world = World()
    world.tell(*(notice(reason) for reason in "ABC"), uid="a")
    world.tell(notice("A"), uid="b")
    backlog = world.recorder._backlog
    order = []
    while (telling := backlog.take()) is not None:
        order.append(telling.regarding.uid)
        backlog.done(telling.regarding.uid)
    assert order == ["a", "b", "a", "a"]


WAITS: dict[str, tuple[Callable[[World], None], float, int]] = {
    "while passes wait, Events do": (lambda _: None, 0.9, 0),
    "but not for ever": (lambda _: None, 1.1, 1),
    "when the passes are through, they go": (lambda world: setattr(world, "busy", False), 0.1, 1),
}


@pytest.mark.parametrize("case", WAITS)
async def test_status_comes_first(case: str) -> None:
    """Events of a storm wait for its statuses, for a second each at most."""
    then, seconds, told = WAITS[case]
    world = World(busy=True)
    world.tell(notice("Ready"))
    async with world.sending():
        then(world)
        await world.clock.advance(seconds)
        await settle()
        assert len(world.told) == told


@pytest.mark.parametrize("note", ["x" * 5000, "é" * 700, "short"])
def test_notes_are_bounded(note: str) -> None:
    """At most 1 KiB of UTF-8, never a broken character."""
    assert len(bounded(note).encode()) <= 1024
    assert bounded("short") == "short"


def test_what_is_merged_is_bounded_too() -> None:
    """Long notes of before are cut, the newest is not."""
    backlog = Backlog(10)
    for letter in "ab":
        backlog.put(meta(), notice("Degraded", letter * 700), VirtualClock().now())
    telling = backlog.take()
    assert telling is not None
    assert telling.note.startswith("b" * 700 + " (before that")
    assert len(telling.note.encode()) <= 1024
