"""What the keeper does to the caBundle of the webhook configurations: made equal, told before it is served, overlapping."""

import base64
from datetime import timedelta

import pytest
from certs_world import START, FakeCluster, VirtualClock, bundles, install, serial, settle, webhook_configuration
from keepers import NAME, NAMESPACE, keeper, later, published, replace_secret, running, stored, trusts
from prometheus_client import REGISTRY

from certs.authority import CertAuthority, Profile
from kube.errors import Forbidden
from kube.resources import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS

EDITS = {
    "emptied": "",
    "another authority's": base64.b64encode(CertAuthority(Profile.of_service("x", "y")).bootstrap(START).bundle).decode(),
    "removed": None,
}


@pytest.mark.parametrize("sentence", EDITS)
async def test_an_edited_bundle_is_made_equal_again(sentence):
    """Equal to the current set, not merely filled where empty."""
    cluster, clock = FakeCluster(), VirtualClock()
    install(cluster)
    one = keeper(cluster, clock)
    async with running(one):
        right = published(cluster)
        edited = webhook_configuration("a.modelwarden", "b.modelwarden", bundle=EDITS[sentence])
        cluster.put(VALIDATING_WEBHOOKS, "modelwarden-validating", edited)
        await settle()
        assert published(cluster) == right == stored(cluster).bundle


async def test_an_additional_authority_in_the_bundle_is_taken_out():
    """What nobody vouches for is not left behind, even beside the right one."""
    cluster, clock = FakeCluster(), VirtualClock()
    install(cluster)
    one = keeper(cluster, clock)
    async with running(one):
        right = published(cluster)
        stranger = base64.b64decode(EDITS["another authority's"])
        both = base64.b64encode(right + stranger).decode()
        cluster.put(MUTATING_WEBHOOKS, "modelwarden-mutating", webhook_configuration("c.modelwarden", bundle=both))
        await settle()
        assert published(cluster) == right


async def test_configurations_that_come_later_get_the_bundle():
    """The service may be there before its manifests: no error, and the bundle the moment they appear."""
    cluster, clock = FakeCluster(), VirtualClock()
    one = keeper(cluster, clock)
    async with running(one):
        assert one.ready
        install(cluster)
        await settle()
        assert published(cluster) == stored(cluster).bundle


async def test_a_patch_that_meets_another_writer_looks_again():
    """A webhook inserted between our read and our patch moves the indices; the test operation notices."""
    cluster, clock = FakeCluster(), VirtualClock()
    install(cluster)
    inserted = []

    def insert(verb: str, name: str) -> None:
        if verb == "patch" and name == "modelwarden-validating" and not inserted:
            inserted.append(name)
            cluster.put(VALIDATING_WEBHOOKS, name, webhook_configuration("new.modelwarden", "a.modelwarden", "b.modelwarden"))

    cluster.before_write = insert
    one = keeper(cluster, clock)
    await one.step()
    assert inserted
    assert len(bundles(cluster)) == 4
    assert published(cluster) == stored(cluster).bundle


async def test_rotation_publishes_before_it_serves():
    """The published bundle trusts what every replica serves, all the way; both authorities overlap, and the old one goes last."""
    cluster, clock = FakeCluster(), VirtualClock(START - timedelta(days=201))
    install(cluster)
    one, two = keeper(cluster, clock), keeper(cluster, clock)
    async with running(one, two):
        old = stored(cluster).authority.certificate
        await later(clock, 59.9)
        await later(clock, 60)
        await later(clock, 60)
        await later(clock, 19)
        assert stored(cluster).authorities == (old,)
        # The next two hours hold the rotation: look at each minute of them.
        for _ in range(3600):
            await clock.advance(60)
            if stored(cluster).authorities != (old,):
                break
        new = stored(cluster).authority.certificate
        assert new != old
        assert stored(cluster).authorities == (new, old)
        assert published(cluster) == stored(cluster).bundle
        before = serial(one.held)
        assert not stored(cluster).signed_by_current()
        assert serial(one.held) == serial(two.held)
        await clock.advance(50)
        assert serial(one.held) == before, "the API servers had no time to learn the new authority"
        await clock.advance(120)
        assert stored(cluster).signed_by_current()
        assert one.context.serving.certificate == two.context.serving.certificate == stored(cluster).serving.certificate
        assert stored(cluster).authorities == (new, old)
        assert trusts(cluster, one)
        await later(clock, 45)
        await later(clock, 46)
        assert stored(cluster).authorities == (new,)
        assert published(cluster) == stored(cluster).bundle


async def test_a_bundle_that_cannot_be_published_keeps_the_old_certificate():
    """The swap waits for the trust: without the right to patch, the replica goes on with what clients know."""
    cluster, clock = FakeCluster(), VirtualClock()
    install(cluster)
    one = keeper(cluster, clock)
    await one.step()
    first = one.context.serving
    other = CertAuthority(Profile.of_service("modelwarden", NAMESPACE)).bootstrap(START)
    replace_secret(cluster, other)
    cluster.fail = lambda verb, name: Forbidden(403, "Forbidden", "no") if verb == "patch" and name != NAME else None
    for _ in range(3):
        with pytest.raises(Forbidden):
            await one.step()
        clock.tick(timedelta(seconds=61))
    assert one.context.serving == first
    cluster.fail = lambda _verb, _name: None
    await one.step()
    assert one.context.serving == first, "told this moment"
    clock.tick(timedelta(seconds=61))
    await one.step()
    assert one.context.serving.certificate == other.serving.certificate


async def test_the_first_certificate_is_served_even_unpublished():
    """Starting without the right to publish is a problem told, not a service refused: health and other replicas' work go on."""
    cluster, clock = FakeCluster(), VirtualClock()
    install(cluster)
    cluster.fail = lambda verb, name: Forbidden(403, "Forbidden", "no") if verb == "patch" else None
    one = keeper(cluster, clock)
    async with running(one):
        assert one.ready
        assert "Forbidden" in one.problem
        cluster.fail = lambda _verb, _name: None
        await clock.advance(60)
        assert one.problem is None
        assert published(cluster) == stored(cluster).bundle


@pytest.mark.parametrize("verb", ["get", "patch"])
async def test_a_configuration_that_cannot_be_written_is_counted_and_keeps_no_other_from_its_trust(verb):
    """The alarm reads the counter, whatever the refusal is; the other configuration's writes go through meanwhile."""
    cluster, clock = FakeCluster(), VirtualClock()
    install(cluster)
    refused = "modelwarden-validating"
    cluster.fail = lambda asked, name: Forbidden(403, "Forbidden", "no") if (asked, name) == (verb, refused) else None
    labels = {"configuration": refused, "result": "failed"}
    before = REGISTRY.get_sample_value("modelwarden_certificate_publications_total", labels) or 0
    one = keeper(cluster, clock)
    with pytest.raises(Forbidden):
        await one.step()
    assert REGISTRY.get_sample_value("modelwarden_certificate_publications_total", labels) == before + 1
    assert [bool(bundle) for bundle in bundles(cluster)] == [False, False, True], "two of the one, one of the other"
