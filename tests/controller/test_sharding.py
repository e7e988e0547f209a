"""A fleet that is split: who writes which deployment, and what happens when a replica comes, goes or is cut off."""

import asyncio
from dataclasses import replace

import pytest
from cluster import FakeCluster, Request
from sharded import NAMES, SHARDS, SYSTEM, fleet
from things import deployment
from virtual import VirtualClock, settle

from api.objects import ObjectMeta
from controller.events import EventRecorder
from controller.kinds import KindName
from controller.service import Controller
from controller.settings import ControllerSettings
from controller.shards import Layout, shard_of
from controller.store import Key
from controller.transitions import Notice
from kube.errors import Forbidden


async def test_each_deployment_is_written_by_the_holder_of_its_shard_and_by_nobody_else() -> None:
    """Two replicas share four shards evenly; each writes, keeps and shows its own half, and both are ready."""
    async with fleet() as at:
        for _ in range(2):
            await at.birth()
        await at.pass_seconds(7)
        assert at.held() == [2, 2]
        assert at.phases() == {"Ready"}
        for line in at.lines:
            line.written.clear()
        for name in NAMES:
            at.flip(name, ready=False)
        await at.pass_seconds(1)
        assert at.phases() == {"Starting"}
        for controller, line in zip(at.controllers, at.lines, strict=True):
            own = {name for name in NAMES if shard_of(f"uid-{name}", SHARDS) in controller.election.held}  # type: ignore[union-attr]
            assert set(line.written) == own
            assert {key.name for key in controller.cache.deployments()} == own
            assert {key.name for key in controller.cache.stores[KindName.POD].objects} == {f"{name}-0" for name in own}
            assert {key.name for key in controller.cache.stores[KindName.WORKLOAD].objects} == {f"w-{name}" for name in own}
            assert set(controller.ready().values()) == {True}


async def test_the_shards_of_a_dead_replica_are_taken_and_their_statuses_go_on() -> None:
    """Cut off, a replica writes nothing more; within the bound the other has its shards, lists what it lacked, and judges it."""
    async with fleet() as at:
        first, second = await at.birth(), await at.birth()
        await at.pass_seconds(7)
        at.lines[0].cut = True
        await at.pass_seconds(1.5)
        for name in NAMES:
            at.flip(name, ready=False)
        written = len(at.lines[0].written)
        await at.pass_seconds(11)
        assert (len(first.election.held), len(second.election.held)) == (0, SHARDS)  # type: ignore[union-attr]
        assert len(at.lines[0].written) == written
        assert at.phases() == {"Starting"}
        assert len(second.cache.deployments()) == len(NAMES)
        assert len(second.cache.stores[KindName.WORKLOAD].objects) == len(NAMES)


async def test_a_shard_whose_lease_names_another_is_left_at_once() -> None:
    """Whatever the clocks say: somebody forced it."""
    async with fleet() as at:
        only = await at.birth()
        await at.pass_seconds(2)
        at.api.touch("Lease", Layout("modelwarden", SHARDS).lease(2), lambda item: item["spec"].update(holderIdentity="z"), SYSTEM)
        await at.pass_seconds(2.5)
        assert only.election.held == {0, 1, 3}  # type: ignore[union-attr]


async def test_a_clean_exit_gives_all_shards_back_at_once() -> None:
    """The next round of another takes them."""
    async with fleet() as at:
        for _ in range(2):
            await at.birth()
        await at.pass_seconds(7)
        at.tasks[0].cancel()
        await settle(300)
        await at.pass_seconds(4)
        assert at.held()[1] == SHARDS


async def test_a_newcomer_knows_a_shard_before_it_asks_for_it() -> None:
    """Between two writers of a deployment lies a moment, not a list: the claim is written when everything was listed."""
    async with fleet() as at:
        await at.birth()
        await at.pass_seconds(2)
        lists: list[int] = []

        def claimed(request: Request) -> None:
            notes = (request.body or {}).get("metadata", {}).get("annotations") or {}
            if request.kind == "Lease" and request.verb == "replace" and notes:
                lists.append(len(at.controllers[1].cache.deployments()))

        at.api.fail = claimed  # type: ignore[assignment]
        await at.birth()
        await at.pass_seconds(6)
        assert lists
        assert min(lists) > 0
        assert at.held() == [2, 2]


async def test_a_replica_of_another_number_of_shards_waits() -> None:
    """Ready all the same, or an update could never be rolled out; when the old ones are gone for good it takes everything."""
    async with fleet() as at:
        await at.birth()
        await at.pass_seconds(2)
        other = await at.birth(shards=3)
        await at.pass_seconds(12)
        assert other.election.held == frozenset()  # type: ignore[union-attr]
        assert at.lines[1].written == []
        assert set(other.ready().values()) == {True}
        at.tasks[0].cancel()
        await settle(300)
        await at.pass_seconds(11)
        assert other.election.held == frozenset(range(3))  # type: ignore[union-attr]


@pytest.mark.parametrize(("old", "new"), [(1, SHARDS), (SHARDS, 1)])
async def test_from_one_lease_to_many_and_back(old: int, new: int) -> None:
    """The plain Lease keeps a replica without shards and replicas with them apart, in both directions."""
    async with fleet() as at:
        first = await at.birth(old)
        await at.pass_seconds(2)
        second = await at.birth(new)
        await at.pass_seconds(10)
        assert (first.leading(), second.leading()) == (True, False)
        at.tasks[0].cancel()
        await settle(300)
        await at.pass_seconds(11)
        assert second.leading()
        at.flip(NAMES[0], ready=False)
        await at.pass_seconds(1)
        assert at.lines[1].written == [NAMES[0]] or NAMES[0] in at.lines[1].written


async def test_a_preferred_shard_comes_to_whoever_prefers_it() -> None:
    """From a holder that does not, however few it has."""
    async with fleet() as at:
        await at.birth()
        await at.pass_seconds(2)
        second = await at.birth(preferred_shard=3)
        await at.pass_seconds(10)
        assert 3 in second.election.held  # type: ignore[union-attr]
        assert at.held() == [2, 2]


async def test_leases_that_may_not_be_read_are_said_at_readyz() -> None:
    """A permission that is missing must stop the update, not leave it without a writer."""
    async with fleet() as at:
        at.api.fail = lambda request: Forbidden(403, "Forbidden", "may not list leases") if request.kind == "Lease" else None
        only = await at.birth()
        await at.pass_seconds(2)
        assert "may not list leases" in str(only.ready()["shard-leases"])
        at.api.fail = lambda _: None
        await at.pass_seconds(5)
        assert only.ready()["shard-leases"] is True


async def test_a_shard_that_is_lost_leaves_nothing_behind() -> None:
    """Neither objects nor what was remembered of its writes."""
    async with fleet() as at:
        first = await at.birth()
        await at.pass_seconds(2)
        assert len(first.cache.deployments()) == len(NAMES)
        await at.birth()
        await at.pass_seconds(7)
        kept = {name for name in NAMES if shard_of(f"uid-{name}", SHARDS) in first.election.held}  # type: ignore[union-attr]
        assert {key.name for key in first.cache.deployments()} == kept < set(NAMES)
        assert len(first.cache.stores[KindName.POD].objects) == len(first.cache._children[KindName.POD]) == len(kept)
        assert len(first.cache.stores[KindName.WORKLOAD].objects) == len(kept)
        for shard, term in enumerate(first.terms):
            if shard not in first.election.held:  # type: ignore[union-attr]
                assert term.runner._sightings == {}


async def test_what_is_made_anew_under_its_name_is_the_affair_of_its_new_shard() -> None:
    """Told of the end and the new beginning at once, all that a replica holds ask for a pass; the one whose UID it is writes, once."""
    async with fleet() as at:
        only = await at.birth()
        await at.pass_seconds(2)
        assert at.held() == [SHARDS]
        at.lines[0].written.clear()
        anew = next(uid for uid in ("uid-a", "uid-b", "uid-c") if shard_of(uid, SHARDS) != shard_of("uid-chat0", SHARDS))
        at.api.remove("ModelDeployment", "chat0")
        made = deployment("chat0", replicas=1)
        made["metadata"]["uid"] = anew
        at.api.put(made)
        await at.pass_seconds(2)
        key = Key("team", "chat0")
        assert at.lines[0].written == ["chat0"]
        assert [shard for shard, term in enumerate(only.terms) if key in term.runner._sightings] == [shard_of(anew, SHARDS)]


async def test_a_shard_is_given_away_when_its_passes_have_ended() -> None:
    """What waits is dropped, for it is another's now; what is under way is waited for."""
    controller = Controller(FakeCluster(), ControllerSettings(shards=SHARDS), VirtualClock())  # type: ignore[arg-type]
    queue = controller.terms[2].queue
    queue.add(Key("team", "under-way"))
    key = await queue.get()
    queue.add(Key("team", "waiting"))
    drained = asyncio.create_task(controller._drain(2))
    await settle()
    assert (len(queue), drained.done()) == (0, False)
    queue.done(key)
    await settle()
    assert drained.done()


async def test_an_event_about_another_s_shard_is_not_sent() -> None:
    """What was told before the shard went, and not sent yet, stands in the status."""
    api, clock = FakeCluster(), VirtualClock()
    assert not Controller(api, ControllerSettings(shards=SHARDS), clock).recorder._may_send("uid-chat")  # type: ignore[arg-type]
    recorder = EventRecorder(api, clock, "a", may_send=lambda uid: uid == "ours")  # type: ignore[arg-type]
    for uid in ("theirs", "ours"):
        recorder.notice(ObjectMeta(name=uid, namespace="team", uid=uid), Notice("Normal", "Ready", "all is well"))
    task = asyncio.create_task(recorder.run())
    await settle()
    assert [request.body["regarding"]["uid"] for request in api.sent("create", "Event")] == ["ours"]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def test_settings_are_those_of_one_process_without_sharding() -> None:
    """One shard is the Lease and the caches of before."""
    assert replace(ControllerSettings(), shards=1) == ControllerSettings()
    controller = Controller(FakeCluster(), ControllerSettings(), VirtualClock())  # type: ignore[arg-type]
    assert len(controller.terms) == 1
    assert "shard-leases" not in controller.ready()
