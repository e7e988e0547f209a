"""A few storms over a sharded fleet, and what a storm seldom meets; `make simulate` takes hundreds."""

import asyncio

import pytest

from tests.simulation.fleets import Fate, Fleet, play, quietly
from tests.simulation.replicas import Replica


@pytest.mark.parametrize("seed", [4])
def test_a_stormy_fleet_has_one_writer_a_deployment(seed: int) -> None:
    """Five replicas die, pause, return and lose the API; no deployment has two writers, gaps are bounded, shares come out even."""
    fate = play(seed, 30.0)
    assert fate.broken == "", "\n".join(fate.log)


def born(fleet: Fleet, shards: int) -> Replica:
    """A replica of that number of shards."""
    fleet.shards = shards
    fleet.birth()
    return fleet.replicas[-1]


def test_who_cannot_renew_the_common_lease_stops_before_another_number_of_shards_begins() -> None:
    """The Leases of its shards alone keep nobody writing: a replica of another number knows nothing of them."""

    async def story() -> Fate:
        fleet = Fleet(0, storm=0.0)
        fleet.watch()
        four = born(fleet, 4)
        await asyncio.sleep(6)
        three = born(fleet, 3)
        await asyncio.sleep(6)
        assert (len(four.writes()), len(three.writes())) == (4, 0)
        four.fault = "partial"
        await asyncio.sleep(30)
        assert (len(four.writes()), len(three.writes())) == (0, 3)
        return await fleet.end()

    fate = quietly(story)
    assert fate.broken == "", "\n".join(fate.log)


def test_who_stood_still_may_write_nothing_when_it_goes_on() -> None:
    """Stopped for longer than its Leases last, its shards are others'; at no step may both write, and afterwards shares come out even."""

    async def story() -> Fate:
        fleet = Fleet(2, storm=0.0)
        fleet.watch()
        stopped, other = born(fleet, 4), born(fleet, 4)
        await asyncio.sleep(20)
        assert len(stopped.writes()) == 2
        stopped.paused.clear()
        await asyncio.sleep(25)
        assert (len(stopped.writes()), len(other.writes())) == (0, 4)
        stopped.paused.set()
        await asyncio.sleep(20)
        assert sorted(fleet.shares()) == [2, 2]
        return await fleet.end()

    fate = quietly(story)
    assert fate.broken == "", "\n".join(fate.log)


def test_handovers_cut_no_write_and_leave_no_shard_alone_for_long() -> None:
    """Three newcomers get their shares of eight shards, one after another, while every shard is written all the time."""

    async def story() -> Fate:
        fleet = Fleet(1, storm=0.0)
        fleet.watch()
        born(fleet, 8)
        await asyncio.sleep(34)
        for _ in range(3):
            born(fleet, 8)
            await asyncio.sleep(9)
        assert fleet.shares() == [2, 2, 2, 2]
        return await fleet.end()

    fate = quietly(story)
    assert fate.broken == "", "\n".join(fate.log)
    assert fate.handovers >= 6
    assert fate.handover < 3.0
