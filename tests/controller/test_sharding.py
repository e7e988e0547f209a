"""A fleet that is split: who writes which deployment, what each replica keeps of it, and what happens when one is gone."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from cluster import FakeCluster, Request
from things import deployment, pod, workload
from virtual import VirtualClock, settle

from api.objects import ObjectMeta
from controller.balance import Claim, Seat, to_claim, to_grant, to_take
from controller.events import EventRecorder
from controller.keeping import Keeping
from controller.kinds import KindName, kinds
from controller.service import Controller
from controller.settings import ControllerSettings, ObserverSettings
from controller.shards import Layout, parse_shard, shard_of
from controller.store import Key
from controller.transitions import Notice
from kube.errors import Forbidden, TransportError

SYSTEM = "modelwarden-system"
NAMES = tuple(f"chat{number}" for number in range(8))
SHARDS = 4
SHORT: dict[str, float] = {"lease_duration": 6.0, "renew_deadline": 4.0, "retry_period": 1.0}


# ------------------------------------------------------------------------------------------------------------------ the rules


def test_the_hash_is_what_every_release_computes() -> None:
    """Replicas of two releases have to agree, so the figures stand here."""
    uids = ("", "0f6c2e1a-7b0d-4c55-9d3e-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff")
    assert [[shard_of(uid, shards) for uid in uids] for shards in (1, 2, 8, 128)] == [[0, 0, 0], [0, 1, 1], [4, 7, 1], [52, 39, 105]]


def test_shards_are_of_like_size() -> None:
    """Of ten thousand UIDs each of eight shards gets an eighth, give or take a tenth of it."""
    counts = [0] * 8
    for number in range(10_000):
        counts[shard_of(f"0f6c2e1a-7b0d-4c55-9d3e-{number:012x}", 8)] += 1
    assert all(1125 <= count <= 1375 for count in counts), counts


def test_the_names_of_leases_tell_shard_and_number() -> None:
    """Two numbers of shards never share a shard's Lease, and share the common one."""
    four, eight = Layout("modelwarden", 4), Layout("modelwarden", 8)
    assert four.lease(0) == "modelwarden-shard-0-of-4"
    assert {four.lease(n) for n in range(4)}.isdisjoint(eight.lease(n) for n in range(8))
    assert (four.base, four.holder, eight.holder) == ("modelwarden", "modelwarden-shards-of-4", "modelwarden-shards-of-8")


@pytest.mark.parametrize(("text", "found"), [("0/4", (0, 4)), ("3/4", (3, 4)), ("0/1", (0, 1))])
def test_a_shard_is_named_by_i_of_n(text: str, found: tuple[int, int]) -> None:
    """i counts from 0."""
    assert parse_shard(text) == found


@pytest.mark.parametrize("text", ["4/4", "x", "1", "1/", "/4", "-1/4", "1/0", "1/129", "1/4/2", "¹/4"])
def test_what_is_not_i_of_n_is_refused(text: str) -> None:
    """With a sentence."""
    with pytest.raises(ValueError, match=r"shard|i/n"):
        parse_shard(text)


def seats(*told: str) -> list[Seat]:
    """`a` is held by a, `a>b` is claimed by b, `a!` is preferred by a, `.` is free, `.9` has been for 9 s, `.>b` waits for b."""
    found = []
    for shard, text in enumerate(told):
        held, _, claimant = text.partition(">")
        free = held.startswith(".")
        claim = Claim(claimant.removesuffix("!"), claimant.endswith("!")) if claimant else None
        found.append(Seat(shard, "" if free else held.removesuffix("!"), claim, held.endswith("!"), float(held[1:] or 0) if free else 0.0))
    return found


TAKEN: dict[str, tuple[list[Seat], int | None, list[int]]] = {
    "a lone replica takes all": (seats(".", ".", "."), None, [0, 1, 2]),
    "of what is free an even share is taken": (seats(".", ".", "a", "b"), None, [0, 1]),
    "at its share a replica leaves the rest to others": (seats(".", "me", "a"), None, [0]),
    "over its share nothing is taken at once": (seats(".", "me", "me", "a"), None, []),
    "what nobody takes for a while is taken by whoever sees it": (seats(".9", "me", "me", "a"), None, [0]),
    "what waits for another is left to it": (seats(".>a", "a"), None, []),
    "what waited in vain is taken": (seats(".9>a", "b"), None, [0]),
    "what waits for us is taken beyond the share": (seats(".>me", "me", "me", "a"), None, [0]),
    "a free preferred shard is taken beyond the share": (seats("me", "me", ".", "a"), 2, [2]),
}


@pytest.mark.parametrize("told", TAKEN)
def test_what_is_taken(told: str) -> None:
    """The key says it."""
    given, preferred, expected = TAKEN[told]
    assert sorted(to_take("me", given, preferred, 4.0)) == expected


CLAIMED: dict[str, tuple[list[Seat], int | None, frozenset[int], list[int]]] = {
    "half the difference to the richest is asked for": (seats("a", "a", "a", "a", "b"), None, frozenset(), [0, 1]),
    "one apart is even": (seats("a", "a", "me"), None, frozenset(), []),
    "one question at a time": (seats("a>me", "a", "a", "a"), None, frozenset(), [0]),
    "what others asked for is counted as theirs": (seats("a>b", "a>b", "a", "a"), None, frozenset(), [2]),
    "nothing new while a shard is free": (seats(".", "a", "a", "a"), None, frozenset(), []),
    "a leaning outlives a free shard": (seats(".", "a", "a", "a"), None, frozenset({2}), [2]),
    "of equal shards those it leans to": (seats("a", "a", "a", "a"), None, frozenset({2, 3}), [2, 3]),
    "a shard that its holder prefers is not asked for": (seats("a!", "a", "a"), None, frozenset(), [1]),
    "a preferred shard is asked for whatever the shares": (seats("a", "me", "me"), 0, frozenset(), [0]),
    "unless its holder prefers it as well": (seats("a!", "me"), 0, frozenset(), []),
}


@pytest.mark.parametrize("told", CLAIMED)
def test_what_is_asked_for(told: str) -> None:
    """The key says it."""
    given, preferred, leaning, expected = CLAIMED[told]
    assert sorted(to_claim("me", given, preferred, leaning)) == expected


GRANTED: dict[str, tuple[list[Seat], int | None, list[int]]] = {
    "what leaves us no poorer than the claimant is given": (seats("me>a", "me>a", "me>a", "me"), None, [0, 1]),
    "one apart nothing is given": (seats("me>a", "me", "a"), None, []),
    "our preferred shard is never given": (seats("me>a", "me", "me"), 0, []),
    "a shard is given to whoever prefers it": (seats("me>a!", "a", "a"), None, [0]),
    "another's shards are not ours to give": (seats("a>b", "me"), None, []),
    "two claimants are counted apart": (seats("me>a", "me>b", "me", "me>b"), None, [0, 1]),
}


@pytest.mark.parametrize("told", GRANTED)
def test_what_is_given(told: str) -> None:
    """The key says it."""
    given, preferred, expected = GRANTED[told]
    assert to_grant("me", given, preferred) == expected


# ------------------------------------------------------------------------------------------------------------ the controllers


class Line:
    """One replica's way to the API server; `cut` ends it. It notes what it wrote."""

    def __init__(self, api: FakeCluster) -> None:
        self._api = api
        self.cut = False
        self.written: list[str] = []

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._api, name)
        if name in ("pages", "watch"):
            return call if not self.cut else _dead

        async def called(*args: Any, **options: Any) -> Any:
            if self.cut:
                raise TransportError("cut")
            if name == "patch" and options.get("subresource") == "status":
                self.written.append(args[1])
            return await call(*args, **options)

        return called


async def _dead(*_: Any, **__: Any) -> AsyncIterator[Any]:
    raise TransportError("cut")
    yield


class Fleet:
    """Controllers against one API."""

    def __init__(self) -> None:
        self.api = FakeCluster()
        self.clock = VirtualClock()
        self.controllers: list[Controller] = []
        self.lines: list[Line] = []
        self.tasks: list[asyncio.Task[None]] = []
        for name in NAMES:
            made = self.api.put(deployment(name, replicas=1))
            member = self.api.put(pod(made, f"{name}-0", 0).ready().json)
            self.api.put(workload(member, name=f"w-{name}"))

    async def birth(self, shards: int = SHARDS, **more: Any) -> Controller:
        """A further replica."""
        chosen = ControllerSettings(
            observers=ObserverSettings(enabled=False), identity=f"r{len(self.tasks)}", shards=shards, **SHORT, **more
        )
        line = Line(self.api)
        made = Controller(line, chosen, self.clock)  # type: ignore[arg-type]  # a client in all that is used
        self.controllers.append(made)
        self.lines.append(line)
        self.tasks.append(asyncio.create_task(made.run()))
        await settle(300)
        return made

    async def pass_seconds(self, seconds: float) -> None:
        """A quarter at a time, so that what is woken has its turn."""
        for _ in range(round(seconds * 2)):
            await self.clock.advance(0.5)

    def held(self) -> list[int]:
        """How many shards each holds."""
        return [len(each.election.held) for each in self.controllers if hasattr(each.election, "held")]

    def flip(self, name: str, *, ready: bool) -> None:
        """A Pod turns ready or unready."""
        state = "True" if ready else "False"
        self.api.touch("Pod", f"{name}-0", lambda item: item["status"].update(conditions=[{"type": "Ready", "status": state}]))

    def phases(self) -> set[str]:
        """Of all deployments."""
        return {self.api.status(name).get("phase", "") for name in NAMES}


@asynccontextmanager
async def fleet() -> AsyncIterator[Fleet]:
    found = Fleet()
    try:
        yield found
    finally:
        for task in found.tasks:
            task.cancel()
        await asyncio.gather(*found.tasks, return_exceptions=True)


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


# ----------------------------------------------------------------------------------------------------------------- what is kept


def project(keeping: Keeping, kind: KindName, *, listed: bool) -> Callable[[bytes], Any]:
    """The narrowed projection of a kind, as a list's page is decoded or as a watch's event is."""
    narrowed = next(keeping.narrowed(each) for each in kinds("required") if each.name is kind)
    return (lambda raw: narrowed.shrink(msgspec.json.decode(raw, type=narrowed.shape))) if listed else narrowed.project


@pytest.mark.parametrize("listed", [True, False], ids=["in a list", "in a watch"])
def test_a_workload_goes_when_its_pod_is_known_to_be_foreign_and_not_before(listed: bool) -> None:
    """Streams of two kinds have no common order: what cannot be told is kept."""
    import json

    made = {**deployment("chat0"), "metadata": {**deployment("chat0")["metadata"], "uid": "uid-chat0"}}
    member = {**pod(made, "chat0-0", 0).json}
    member["metadata"] = {**member["metadata"], "uid": "uid-pod"}
    quota = json.dumps(workload(member, name="w")).encode()
    keeping = Keeping(SHARDS)
    pods, workloads = project(keeping, KindName.POD, listed=listed), project(keeping, KindName.WORKLOAD, listed=listed)
    foreign = (shard_of("uid-chat0", SHARDS) + 1) % SHARDS
    keeping.keep(frozenset({foreign}))
    assert workloads(quota) is not None
    assert pods(json.dumps(member).encode()) is None
    assert workloads(quota) is None
    keeping.keep(frozenset({foreign, shard_of("uid-chat0", SHARDS)}))
    assert workloads(quota) is not None
    assert pods(json.dumps(member).encode()) is not None


def test_a_list_shows_the_shards_that_came_before_it_began() -> None:
    """A shard that left and came again needs a new list."""
    keeping = Keeping(SHARDS)
    keeping.keep(frozenset({0, 1}))
    listed = keeping.serial
    assert keeping.covered(listed) == {0, 1}
    keeping.keep(frozenset({0, 1, 2}))
    assert keeping.covered(listed) == {0, 1}
    keeping.keep(frozenset({0}))
    keeping.keep(frozenset({0, 1}))
    assert keeping.covered(listed) == {0}
    assert keeping.covered(keeping.serial) == {0, 1}


def test_settings_are_those_of_one_process_without_sharding() -> None:
    """One shard is the Lease and the caches of before."""
    assert replace(ControllerSettings(), shards=1) == ControllerSettings()
    controller = Controller(FakeCluster(), ControllerSettings(), VirtualClock())  # type: ignore[arg-type]
    assert len(controller.terms) == 1
    assert "shard-leases" not in controller.ready()
