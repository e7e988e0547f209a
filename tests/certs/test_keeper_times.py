"""The keeper and time: renewal, clocks that jump or disagree, an API server that fails or ends every watch."""

import asyncio
from datetime import timedelta

from certs_world import START, FakeCluster, FakePage, VirtualClock, install, serial
from keepers import DAY, keeper, later, published, running, stored, trusts

from certs.cluster import watch_object
from kube.errors import Gone, ServerError
from kube.resources import VALIDATING_WEBHOOKS


async def test_renewal_at_two_thirds_reaches_every_replica():
    """One replica renews, the other takes the new certificate over; the bundle does not change and nothing is refused meanwhile."""
    cluster, clock = FakeCluster(), VirtualClock(START - timedelta(days=61))
    install(cluster)
    one, two = keeper(cluster, clock), keeper(cluster, clock)
    async with running(one, two):
        first, bundle = serial(one.held), published(cluster)
        await later(clock, 59.9)
        assert serial(stored(cluster)) == first
        await later(clock, 0.3)
        assert serial(stored(cluster)) != first
        assert serial(one.held) == serial(two.held) == serial(stored(cluster))
        assert published(cluster) == bundle
        assert trusts(cluster, one)
        assert trusts(cluster, two)


async def test_a_quiet_day_costs_no_call():
    """Time is looked at, the API server is not."""
    cluster, clock = FakeCluster(), VirtualClock()
    install(cluster)
    async with running(keeper(cluster, clock)):
        await clock.advance(120)
        before = len(cluster.calls)
        await clock.advance(DAY)
        assert len(cluster.calls) == before


async def test_an_api_server_that_fails_is_asked_again():
    """Nothing dies of a 500; readiness says why until it passes."""
    cluster, clock = FakeCluster(), VirtualClock()
    install(cluster)
    cluster.fail = lambda _verb, _name: ServerError(500, "InternalError", "etcd is away")
    one = keeper(cluster, clock)
    async with running(one):
        await clock.advance(120)
        assert not one.ready
        assert "etcd is away" in one.problem
        cluster.fail = lambda _verb, _name: None
        await clock.advance(60)
        assert one.ready
        assert one.problem is None


async def test_a_clock_that_jumps_forward_is_noticed_within_a_minute():
    """A suspended machine wakes up after the certificate's end: sleep is never trusted for the date."""
    cluster, clock = FakeCluster(), VirtualClock(START - timedelta(days=100))
    install(cluster)
    one = keeper(cluster, clock)
    async with running(one):
        first = serial(one.held)
        await clock.advance(120)
        clock.jump(timedelta(days=100) - timedelta(seconds=120))
        assert not one.ready
        await clock.advance(61)
        assert serial(one.held) != first
        assert one.ready
        assert trusts(cluster, one)


async def test_a_clock_set_back_gets_certificates_that_are_valid():
    """What is not valid yet helps nobody: a new authority joins the old one, and the certificate follows at once."""
    cluster, clock = FakeCluster(), VirtualClock(START + timedelta(days=10))
    install(cluster)
    one = keeper(cluster, clock)
    async with running(one):
        await clock.advance(120)
        clock.jump(timedelta(days=-10))
        await clock.advance(61)
        assert one.ready
        assert trusts(cluster, one)
        assert len(stored(cluster).authorities) == 2


async def test_replicas_whose_clocks_disagree_do_not_fight():
    """Each finds the other's certificate impossible; the store sees at most one write a minute of each, not a storm."""
    cluster = FakeCluster()
    install(cluster)
    here, there = VirtualClock(), VirtualClock(START + timedelta(days=2000))
    one, two = keeper(cluster, here), keeper(cluster, there)
    async with running(one, two):
        before = len([c for c in cluster.calls if c[0] != "get" and c[1] == "Secret"])
        for _ in range(10):
            await asyncio.gather(here.advance(60), there.advance(60))
        writes = len([c for c in cluster.calls if c[0] != "get" and c[1] == "Secret"]) - before
        assert writes <= 44


async def test_watches_that_end_at_once_are_started_again_once_a_second():
    """A proxy that lets no watch live must not make each replica ask the API server without a breath."""
    clock, asked = VirtualClock(), []

    class Hasty:
        """Lists, and ends every watch, or refuses it as too old, at once."""

        async def pages(self, resource, namespace=None, *, field_selector=None):
            yield FakePage("1")

        async def watch(self, resource, namespace=None, *, resource_version, field_selector=None):
            asked.append(clock.monotonic())
            if len(asked) % 2:
                raise Gone(410)
            return
            yield

    watching = asyncio.ensure_future(watch_object(Hasty(), clock, VALIDATING_WEBHOOKS, "x", None, wake=lambda: None))
    await clock.advance(5.5)
    watching.cancel()
    assert asked == [0, 1, 2, 3, 4, 5]
