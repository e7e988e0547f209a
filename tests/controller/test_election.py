"""The Lease: who leads, who follows, and that two never write."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from atwork import ready_deployment, settings
from cluster import FakeCluster, Request
from virtual import VirtualClock, settle

from controller.election import Election
from controller.service import Controller
from kube.errors import ServerError

SYSTEM = "modelwarden-system"


class Candidate:
    """An election and whether what it leads runs."""

    def __init__(self, api: FakeCluster, clock: VirtualClock, identity: str) -> None:
        self.election = Election(api, settings(elect=True, identity=identity), clock, rand=lambda: 0.0)  # type: ignore[arg-type]
        self.running = False
        self.terms = 0

    async def lead(self) -> None:
        self.running = True
        self.terms += 1
        try:
            await asyncio.Event().wait()
        finally:
            self.running = False


@asynccontextmanager
async def candidates(*names: str) -> AsyncIterator[tuple[FakeCluster, VirtualClock, list[Candidate], list[asyncio.Task[None]]]]:
    api, clock = FakeCluster(), VirtualClock()
    made = [Candidate(api, clock, name) for name in names]
    tasks = []
    for candidate in made:
        tasks.append(asyncio.create_task(candidate.election.run(candidate.lead)))
        await settle()
    try:
        yield api, clock, made, tasks
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def holder(api: FakeCluster) -> str:
    return str(api.get_object("Lease", "modelwarden", SYSTEM)["spec"].get("holderIdentity", ""))


async def test_the_first_leads_and_the_second_follows() -> None:
    """One holder, for as long as it renews."""
    async with candidates("a", "b") as (api, clock, (a, b), _):
        await clock.advance(120)
        assert (a.running, b.running, holder(api)) == (True, False, "a")
        assert a.terms == 1


async def test_the_lease_has_the_figures_of_client_go() -> None:
    """15 s in the object, renewed every 2 s, its acquire time kept."""
    async with candidates("a") as (api, clock, _, _):
        acquired = api.get_object("Lease", "modelwarden", SYSTEM)["spec"]["acquireTime"]
        api.requests.clear()
        await clock.advance(60)
        spec = api.get_object("Lease", "modelwarden", SYSTEM)["spec"]
        assert (spec["leaseDurationSeconds"], spec["acquireTime"], spec.get("leaseTransitions", 0)) == (15, acquired, 0)
        assert len(api.sent("replace", "Lease")) == 30


async def test_a_clean_exit_releases_the_lease() -> None:
    """The next one need not wait the duration out."""
    async with candidates("a", "b") as (api, clock, (a, b), tasks):
        tasks[0].cancel()
        await settle()
        assert holder(api) == ""
        await clock.advance(3)
        assert (a.running, b.running, holder(api)) == (False, True, "b")
        assert api.get_object("Lease", "modelwarden", SYSTEM)["spec"]["leaseTransitions"] == 1


@pytest.mark.parametrize(("verb", "seconds"), [("create", 0.0), ("replace", 4.1)])
async def test_a_clean_exit_in_the_middle_of_a_write_releases_the_lease_too(verb: str, seconds: float) -> None:
    """The server took what we were stopped from hearing of: a first Lease, a renewal. It has to be read before it can be given back."""
    api, clock = FakeCluster(), VirtualClock()
    taken: list[str] = []
    does = getattr(api, verb)

    async def unheard(*args: Any, **options: Any) -> bytes:
        answer: bytes = await does(*args, **options)
        if not taken and clock.monotonic() >= start + seconds:
            taken.append(holder(api))
            await asyncio.Event().wait()
        return answer

    setattr(api, verb, unheard)
    start = clock.monotonic()
    candidate = Candidate(api, clock, "a")
    task = asyncio.create_task(candidate.election.run(candidate.lead))
    await settle()
    await clock.advance(seconds + 2)
    assert taken == ["a"]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert holder(api) == ""


async def test_who_stops_while_following_asks_nothing_more() -> None:
    """Nothing of his was under way."""
    async with candidates("a", "b") as (api, _, _, tasks):
        api.requests.clear()
        tasks[1].cancel()
        await settle()
        assert (api.requests, holder(api)) == ([], "a")


async def test_a_silent_holder_is_followed_after_the_duration_and_not_before() -> None:
    """Fifteen seconds without a change by the follower's own clock."""
    async with candidates("a", "b") as (api, clock, (_, b), tasks):
        api.fail = lambda request: (
            ServerError(500, "x", "x") if request.body and request.body["spec"]["holderIdentity"] in ("a", "") else None
        )
        await clock.advance(12)
        assert not b.running
        await clock.advance(8)
        assert b.running
        assert tasks[0] is not None


async def test_a_lease_that_cannot_be_renewed_is_lost_before_another_may_take_it() -> None:
    """Ten seconds after the last renewal nothing of ours runs, and nothing may be written."""
    async with candidates("a") as (api, clock, (a,), _):
        await clock.advance(2)
        api.fail = lambda _: ServerError(500, "x", "x")
        await clock.advance(9)
        assert a.running
        assert a.election.may_write
        await clock.advance(1.1)
        assert not a.running
        assert not a.election.may_write


async def test_a_server_that_stops_answering_costs_the_lease_in_time() -> None:
    """Nothing is written past the renew deadline; a renewal under way is waited for half way to the Lease's end, and no longer."""
    async with candidates("a") as (api, clock, (a,), _):
        await clock.advance(10)
        api.hang = lambda _: True
        await clock.advance(9.9)
        assert a.election.may_write
        await clock.advance(0.2)
        assert (a.running, a.election.may_write) == (True, False)
        await clock.advance(2.6)
        assert not a.running


async def test_one_request_that_is_never_answered_is_tried_again_on_another_connection() -> None:
    """The first hangs for ever, the server is fine: the Lease stays."""
    async with candidates("a") as (api, clock, (a,), _):
        await clock.advance(10)
        hung: list[str] = []

        def once(request: Request) -> bool:
            hung.append(request.verb)
            return len(hung) == 1

        api.hang = once
        await clock.advance(60)
        assert hung[0] == "replace"
        assert a.running
        assert a.terms == 1


class Slow:
    """The same server, half of that time late to hear and half of it late to answer."""

    def __init__(self, api: FakeCluster, clock: VirtualClock) -> None:
        self._api = api
        self._clock = clock
        self.seconds = 0.0

    def __getattr__(self, name: str) -> Any:
        called = getattr(self._api, name)

        async def late(*args: Any, **options: Any) -> Any:
            await self._clock.sleep(self.seconds / 2)
            answer = await called(*args, **options)
            await self._clock.sleep(self.seconds / 2)
            return answer

        return late


@pytest.mark.parametrize("seconds", [1.0, 3.0, 5.0, 6.0])
async def test_a_slow_server_costs_nobody_the_lease(seconds: float) -> None:
    """Answers of five seconds under a deadline of ten: one holder throughout, who may write nearly all the time."""
    api, clock = FakeCluster(), VirtualClock()
    slow = Slow(api, clock)
    a, b = (Candidate(slow, clock, name) for name in "ab")  # type: ignore[arg-type]
    tasks = [asyncio.create_task(candidate.election.run(candidate.lead)) for candidate in (a, b)]
    try:
        await clock.advance(10)
        assert a.running
        slow.seconds = seconds
        writable = 0
        for _ in range(600):
            await clock.advance(0.2)
            assert not b.running
            writable += a.election.may_write
        assert a.terms == 1
        assert writable >= (590 if seconds <= 5 else 350)
    finally:
        for task in tasks:
            task.cancel()
        slow.seconds = 0.0
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_lease_is_taken_from_a_slow_server_too() -> None:
    """The time that counts begins when the write is sent, not when the look before it was."""
    api, clock = FakeCluster(), VirtualClock()
    slow = Slow(api, clock)
    slow.seconds = 5.0
    a = Candidate(slow, clock, "a")  # type: ignore[arg-type]
    task = asyncio.create_task(a.election.run(a.lead))
    try:
        await clock.advance(10.1)
        assert a.running
        await clock.advance(120)
        assert a.terms == 1
    finally:
        task.cancel()
        slow.seconds = 0.0
        await asyncio.gather(task, return_exceptions=True)


async def test_a_lease_that_somebody_touched_is_read_and_renewed_within_the_same_attempt() -> None:
    """A label of a person's: it stays, and so does the Lease."""
    async with candidates("a") as (api, clock, (a,), _):
        await clock.advance(10)
        api.touch("Lease", "modelwarden", lambda item: item["metadata"].update(labels={"team": "x"}), SYSTEM)
        api.requests.clear()
        await clock.advance(4.1)
        assert [request.verb for request in api.requests] == ["replace", "get", "replace", "replace"]
        assert api.get_object("Lease", "modelwarden", SYSTEM)["metadata"]["labels"] == {"team": "x"}
        assert a.terms == 1


async def test_a_duration_with_a_fraction_is_never_told_shorter_than_it_is_meant() -> None:
    """A Lease holds whole seconds: others must not take over before the holder has given up."""
    api, clock = FakeCluster(), VirtualClock()
    candidate = Candidate(api, clock, "a")
    figures = replace(settings(elect=True, identity="a"), lease_duration=4.9, renew_deadline=4.5)
    candidate.election = Election(api, figures, clock)  # type: ignore[arg-type]
    task = asyncio.create_task(candidate.election.run(candidate.lead))
    await settle()
    assert api.get_object("Lease", "modelwarden", SYSTEM)["spec"]["leaseDurationSeconds"] == 5
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_lease_taken_by_another_ends_the_term_at_once() -> None:
    """Seeing another holder is enough."""
    async with candidates("a") as (api, clock, (a,), _):
        api.put(
            {
                "kind": "Lease",
                "metadata": {"name": "modelwarden", "namespace": SYSTEM},
                "spec": {"holderIdentity": "z", "leaseDurationSeconds": 15, "renewTime": "x"},
            }
        )
        await clock.advance(2.1)
        assert not a.running
        assert holder(api) == "z"


async def test_only_the_leader_writes_and_the_follower_is_warm() -> None:
    """The follower's caches are synced, it writes nothing, and it takes over without a list."""
    api, clock = FakeCluster(), VirtualClock()
    ready_deployment(api)
    first, second = (Controller(api, settings(elect=True, identity=name), clock) for name in "ab")  # type: ignore[arg-type]
    tasks = [asyncio.create_task(first.run())]
    await settle(200)
    tasks.append(asyncio.create_task(second.run()))
    await settle(200)
    try:
        assert (first.leading(), second.leading()) == (True, False)
        assert set(second.ready().values()) == {True}
        assert second.queue.idle
        tasks[0].cancel()
        await settle(200)
        lists = len(api.sent("list"))
        await clock.advance(6)
        assert second.leading()
        api.touch("Pod", "chat-0", lambda item: item["status"].update(conditions=[{"type": "Ready", "status": "False"}]))
        await settle(200)
        assert api.status("chat")["phase"] == "Starting"
        assert len(api.sent("list")) == lists
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_lost_lease_stops_the_writers() -> None:
    """After the renew deadline no status is written, whatever changes."""
    api, clock = FakeCluster(), VirtualClock()
    ready_deployment(api)
    controller = Controller(api, settings(elect=True), clock)  # type: ignore[arg-type]
    task = asyncio.create_task(controller.run())
    try:
        await settle(200)
        await clock.advance(1)
        sent = [request for request in api.sent("patch") if request.subresource == "status"]
        assert len(sent) == 1
        api.fail = lambda request: ServerError(500, "x", "x") if request.kind == "Lease" else None
        await clock.advance(11)
        api.touch("Pod", "chat-0", lambda item: item["status"].update(conditions=[{"type": "Ready", "status": "False"}]))
        await settle(200)
        assert [request for request in api.sent("patch") if request.subresource == "status"] == sent
        api.fail = lambda _: None
        await clock.advance(20)
        assert api.status("chat")["phase"] == "Starting"
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
