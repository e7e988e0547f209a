"""The Lease: who leads, who follows, and that two never write."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from cluster import FakeCluster
from test_runtime import ready_deployment, settings
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


async def test_a_server_that_does_not_answer_does_not_hold_us_past_the_deadline() -> None:
    """A hanging renewal is given up within the deadline; an answer in time keeps the Lease."""
    async with candidates("a") as (api, clock, (a,), _):
        await clock.advance(2)
        api.hang = lambda _: True
        await clock.advance(4)
        api.hang = lambda _: False
        await clock.advance(4)
        assert a.running
        assert a.terms == 1
        api.hang = lambda _: True
        await clock.advance(10.2)
        assert not a.running


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
