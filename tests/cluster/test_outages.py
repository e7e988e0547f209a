"""Two whole replicas of one service and the faults that a cluster has: who writes, what is told, and whether reviews are answered.

`make test-cluster` runs them with a short Lease and shortened faults; `-m slow` with the figures that are deployed. Each prints what it
measured. What is promised stands in docs/high-availability.md.
"""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest
import pytest_asyncio
from fencekit import on_either
from ledger import World, world
from replicas import DEPLOYED, SHORT, Pair, Replica, Times, certificate_of, now, pair
from reviewpump import Pump, Tally, pumping

from certs.authority import CertAuthority, Profile
from certs.material import Material, fingerprint, read_material
from kube.resources import SECRETS

pytestmark = [pytest.mark.cluster, pytest.mark.real, pytest.mark.asyncio(loop_scope="module")]

SYSTEM = "modelwarden-system"
Tell = Callable[[str], None]


@dataclass(frozen=True)
class Lengths:
    """How long things last in a run, seconds."""

    times: Times
    frozen: float
    away: float
    answer: float
    slow: float
    apart: float


SHORTENED = Lengths(SHORT, frozen=8, away=10, answer=1.8, slow=10, apart=8)
WHOLE = Lengths(DEPLOYED, frozen=30, away=60, answer=5, slow=60, apart=40)


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(SHORTENED, id="shortened", marks=pytest.mark.timeout(110)),
        pytest.param(WHOLE, id="whole", marks=[pytest.mark.slow, pytest.mark.timeout(400)]),
    ],
)
def lengths(request: pytest.FixtureRequest) -> Lengths:
    """The run's lengths."""
    found: Lengths = request.param
    return found


@pytest.fixture
def tell(request: pytest.FixtureRequest, cluster_kind: str, figures: list[str]) -> Tell:
    """Keep a figure for the summary."""

    def keep(text: str) -> None:
        figures.append(f"{cluster_kind:<8}  {request.node.name}: {text}")

    return keep


@dataclass(frozen=True)
class Stage:
    """What a scenario plays on: everything whole and settled at `version` and at the moment `began`."""

    pair: Pair
    world: World
    pump: Pump
    leader: Replica
    follower: Replica
    version: int
    began: float

    def reviews(self, who: Replica, since: float = 0.0, until: float = float("inf")) -> Tally:
        """The reviews of a replica in a window, which begins with the scenario unless it is said."""
        return self.pump.window(who.name, since or self.began, until)

    def one_writer(self) -> None:
        """No status was written but by the holder of the moment, and none came from nowhere."""
        assert self.world.overlaps(self.version) == []
        assert self.world.strangers(self.version) == []


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running(
    request: pytest.FixtureRequest, cluster_kind: str, lengths: Lengths, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[tuple[Pair, World, Pump]]:
    """Both replicas, six deployments, reviews on their way, for all scenarios of one run."""
    folder = tmp_path_factory.mktemp("replicas")
    async with (
        on_either(request, cluster_kind, tmp_path_factory) as cluster,
        pair(cluster, folder / "homes", lengths.times) as both,
        world(both) as built,
        pumping(both, built.namespace) as pump,
    ):
        yield both, built, pump


@pytest_asyncio.fixture(loop_scope="module")
async def stage(running: tuple[Pair, World, Pump]) -> Stage:
    """Whatever the last scenario did is over: all is whole, and statuses follow the world."""
    both, built, pump = running
    leader, follower = await both.whole()
    await built.flip(True)
    await built.told(1)
    await built.quiet()
    return Stage(both, built, pump, leader, follower, built.newest(), now())


@pytest_asyncio.fixture(loop_scope="module")
async def sending(stage: Stage) -> Stage:
    """Status writes have left the leader, and its proxy keeps them back."""
    stage.leader.proxy.hold_writes()
    await stage.world.flip(False)
    await stage.pair.cluster.eventually(lambda: stage.world.status_writes_held(stage.leader), "no write is on its way")
    return stage


def all_answered(tally: Tally) -> None:
    """Every review got its verdict, none an error, none nothing."""
    assert tally.count() > 0
    assert tally.unanswered() == [], str(tally)


# ------------------------------------------------------------------------------------------------------------- the leader


async def test_the_leader_is_killed(stage: Stage, lengths: Lengths, tell: Tell) -> None:
    """The other takes over when the Lease has run out; what changed in the gap is told once, by the new holder alone."""
    at = stage
    await at.leader.kill()
    await at.world.flip(False)
    await at.pair.leader(other_than=at.leader)
    gap = now() - at.began
    await at.world.told(0)
    total = now() - at.began
    # The survivor looks every 1 to 2.2 retry periods: once to see the last renewal, once to see that it was the last.
    assert total < lengths.times.lease + 4.4 * lengths.times.retry + 2
    assert at.world.counts_told(at.version) == at.world.each(0)
    at.one_writer()
    all_answered(at.reviews(at.follower))
    tell(f"takeover {gap:.1f} s after the kill, all statuses right {total:.1f} s after it")
    tell(f"survivor: {at.reviews(at.follower)}")
    tell(f"writes through the API server: {at.pump.window('api', at.began)}")


async def test_the_leader_is_frozen_with_writes_on_their_way(sending: Stage, lengths: Lengths, tell: Tell) -> None:
    """What it had sent is delivered after the other took over, and refused; awake again it steps back before it writes anything."""
    at = sending
    at.leader.freeze()
    asleep = now()
    await at.pair.leader(other_than=at.leader)
    gap = now() - asleep
    await at.world.told(0)
    await asyncio.sleep(max(0.0, lengths.frozen - (now() - asleep)))
    awake = now()
    lost = len(at.leader.said("lease lost"))
    await at.leader.proxy.heal()
    at.leader.thaw()
    await at.pair.cluster.eventually(lambda: at.leader.has_said("lease lost", lost), "it never notices")
    noticed = now() - awake
    await at.world.flip(True)
    await at.world.told(1)
    await at.pair.cluster.eventually(at.leader.ready, "it is never ready again")
    await at.world.quiet()
    late = at.world.late_writes(at.leader, awake)
    assert late, "the scenario has to bring a late write"
    assert set(late) == {409}
    assert at.world.counts_told(at.version) == at.world.each(0, 1)
    at.one_writer()
    assert (await at.pair.leader()) is at.follower
    all_answered(at.reviews(at.follower))
    back = at.reviews(at.leader, awake + 1)
    all_answered(back)
    tell(f"frozen {awake - asleep:.0f} s, takeover {gap:.1f} s, noticed {noticed:.2f} s after SIGCONT; {len(late)} late writes, all 409")
    tell(f"survivor: {at.reviews(at.follower)}; awakened: {back}")


async def test_the_leader_alone_is_cut_off_from_the_api_server(sending: Stage, lengths: Lengths, tell: Tell) -> None:
    """Its packets are dropped: it gives up in time, the other takes over, and what is delivered when the network heals is refused."""
    at = sending
    at.leader.proxy.hold()
    apart = now()
    await at.pair.leader(other_than=at.leader)
    gap = now() - apart
    await at.world.told(0)
    gave_up = at.leader.said("lease lost")
    assert gave_up, "the old holder has to give up before the other takes over"
    await asyncio.sleep(max(0.0, lengths.apart - (now() - apart)))
    healed = now()
    await at.leader.proxy.heal()
    await at.world.flip(True)
    await at.world.told(1)
    await at.world.quiet()
    late = at.world.late_writes(at.leader, healed)
    assert late
    assert set(late) == {409}
    assert at.world.counts_told(at.version) == at.world.each(0, 1)
    at.one_writer()
    alone = at.reviews(at.leader, apart, healed - 11)
    all_answered(at.reviews(at.follower))
    assert at.reviews(at.leader).count("late", "no-connection", "no-handshake", "no-answer") == 0
    tell(f"apart {healed - apart:.0f} s, takeover {gap:.1f} s; {len(late)} late writes, all 409")
    tell(f"connected: {at.reviews(at.follower)}; cut off: {alone}, slowest {at.reviews(at.leader).worst():.1f} s")


# --------------------------------------------------------------------------------------------------------- the API server


async def test_the_api_server_is_away(stage: Stage, lengths: Lengths, tell: Tell) -> None:
    """Nobody crashes, nothing false is told, reviews are answered but where a read is needed; what changed meanwhile is told once after."""
    at = stage
    pids = [each.pid for each in at.pair.replicas]
    for each in at.pair.replicas:
        await each.proxy.cut()
    cpu = [each.cpu_seconds for each in at.pair.replicas]
    changed = at.world.names[:2]
    await at.world.flip(False, changed)
    await asyncio.sleep(lengths.away)
    assert at.pair.front.endpoints == [each.name for each in at.pair.replicas], (
        "an API server that is away must not take the endpoints away"
    )
    used = [each.cpu_seconds - before for each, before in zip(at.pair.replicas, cpu, strict=True)]
    assert at.world.counts_told(at.version) == {name: [] for name in at.world.names}
    healed = now()
    for each in at.pair.replicas:
        await each.proxy.heal()
    await at.world.told(0, changed)
    recovered = now() - healed
    await at.world.quiet()
    assert [each.pid for each in at.pair.replicas] == pids
    assert at.world.counts_told(at.version) == {name: [0] if name in changed else [] for name in at.world.names}
    at.one_writer()
    storm = [each.proxy.busiest(healed) for each in at.pair.replicas]
    assert max(storm) <= 60
    for each in at.pair.replicas:
        during = at.reviews(each, until=healed)
        assert during.count("admitted", reads=False) == during.count(reads=False)
        assert during.count("cannot-judge", "admitted", reads=True) == during.count(reads=True)
        tell(f"{each.name} during: {during}, slowest {during.worst():.1f} s; after: {at.reviews(each, healed + 1)}")
        all_answered(at.reviews(each, healed + 1))
    tell(f"away {healed - at.began:.0f} s; statuses right {recovered:.1f} s after the return; CPU meanwhile {used} s (reviews included)")
    tell(f"busiest second after the return: {storm} requests a replica; status writes: {len(changed)}")


async def test_the_api_server_is_slow(stage: Stage, lengths: Lengths, tell: Tell) -> None:
    """The Lease stays where it is, statuses follow late, requests do not pile up, and every review is answered in its time."""
    at = stage
    lease = await at.pair.lease()
    for each in at.pair.replicas:
        each.proxy.most_under_way = 0
        each.proxy.slow(lengths.answer)
    await at.world.flip(False)
    told = await at.world.told(0, seconds=20 * lengths.answer)
    await asyncio.sleep(max(0.0, lengths.slow - (now() - at.began)))
    after = await at.pair.lease()
    most = [each.proxy.most_under_way for each in at.pair.replicas]
    healed = now()
    for each in at.pair.replicas:
        await each.proxy.heal()
    await at.world.flip(True)
    recovered = await at.world.told(1)
    await at.world.quiet()
    at.one_writer()
    assert at.world.counts_told(at.version) == at.world.each(0, 1)
    assert max(most) < 100
    for each in at.pair.replicas:
        during = at.reviews(each, until=healed - 11 if lengths.slow > 20 else healed)
        assert at.reviews(each).count("late", "no-connection", "no-handshake", "no-answer") == 0
        assert during.count("admitted", reads=False) == during.count(reads=False)
        tell(f"{each.name}: {during}, slowest {during.worst():.1f} s")
    kept = lease.get("holderIdentity") == after.get("holderIdentity") and lease.get("leaseTransitions") == after.get("leaseTransitions")
    tell(f"answers {lengths.answer} s late for {healed - at.began:.0f} s: Lease {'kept' if kept else 'lost'}")
    tell(f"statuses {told:.1f} s while slow, {recovered:.1f} s after; most requests under way {most}")
    assert kept


# ----------------------------------------------------------------------------------------------------------- certificates


class Certificates:
    """The set in the Secret, and what became of it on both replicas."""

    def __init__(self, at: Stage) -> None:
        self._at = at
        self._client = at.pair.client
        self.authority = CertAuthority(Profile.of_service("modelwarden", SYSTEM, extra=("127.0.0.1",)))

    async def stored(self) -> Material:
        """What stands in the Secret."""
        data = json.loads(await self._client.get(SECRETS, "modelwarden-certs", SYSTEM))["data"]
        return read_material({key: base64.b64decode(value) for key, value in data.items()}, own=True)

    async def store(self, material: Material) -> None:
        """Put a set into the Secret, as another replica or a person does."""
        data = {key: base64.b64encode(value).decode() for key, value in material.to_files().items()}
        await self._client.patch(SECRETS, "modelwarden-certs", json.dumps({"data": data}).encode(), SYSTEM)

    async def delete(self) -> None:
        """Somebody deletes the Secret; it is put back."""
        await self._client.delete(SECRETS, "modelwarden-certs", SYSTEM)

        async def restored() -> bool:
            found = [item async for page in self._client.pages(SECRETS, SYSTEM) for item in page.items]
            return any(json.loads(bytes(item))["metadata"]["name"] == "modelwarden-certs" for item in found)

        await self._at.pair.cluster.eventually(restored, "the Secret is never put back")

    async def served(self, changed: Callable[[Material], bool]) -> float:
        """Seconds until both replicas serve the stored set, which has changed so."""
        began = now()

        async def everywhere() -> bool:
            material = await self.stored()
            served = {await certificate_of(each.port) for each in self._at.pair.replicas}
            return changed(material) and served == {fingerprint(material.serving.certificate)}

        await self._at.pair.cluster.eventually(everywhere, "not every replica serves it", 150)
        return now() - began


def no_handshake_failed(at: Stage, tell: Tell, took: list[str]) -> None:
    """Every review and every write through the API server was answered."""
    for each in at.pair.replicas:
        tell(f"{each.name}: {at.reviews(each)}")
    api = at.pump.window("api", at.began)
    tell(f"writes through the API server: {api}; {', '.join(took)}")
    for each in at.pair.replicas:
        assert at.reviews(each).count("no-handshake") == 0
        all_answered(at.reviews(each))
    all_answered(api)
    at.one_writer()


async def test_certificates_are_renewed_rotated_and_deleted_while_reviews_are_sent(stage: Stage, tell: Tell) -> None:
    """The serving certificate; the authority with an overlap, which the replicas bring to its end; a deleted Secret is put back."""
    at, certificates = stage, Certificates(stage)
    first = await certificates.stored()
    renewed = certificates.authority.renew(first, datetime.now(UTC))
    await certificates.store(renewed)
    took = [f"renewed in {await certificates.served(lambda found: found.serving.certificate == renewed.serving.certificate):.1f} s"]
    rotated = certificates.authority.rotate(renewed, datetime.now(UTC))
    await certificates.store(rotated)
    took.append(f"rotated in {await certificates.served(lambda found: found.signed_by_current() and len(found.authorities) > 1):.1f} s")
    await certificates.delete()
    after = await certificates.stored()
    assert set(after.authorities) == set(rotated.authorities)
    took.append("deleted and put back")
    await asyncio.sleep(1)
    no_handshake_failed(at, tell, took)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("lengths", [pytest.param(WHOLE, id="whole")], indirect=True)
async def test_certificates_are_replaced_by_a_stranger_while_reviews_are_sent(stage: Stage, tell: Tell) -> None:
    """A set that knows nothing of what is served: it is completed, told, and served when the API servers have had their time."""
    at, certificates = stage, Certificates(stage)
    alien = certificates.authority.bootstrap(datetime.now(UTC))
    await certificates.store(alien)
    took = [f"replaced in {await certificates.served(lambda found: found.serving.certificate == alien.serving.certificate):.1f} s"]
    await asyncio.sleep(2)
    no_handshake_failed(at, tell, took)
