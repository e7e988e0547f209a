"""The keeper and its Secret: the first set, races, deleted, replaced, damaged, prepared."""

import asyncio
import base64
from datetime import timedelta

import pytest
from certs_world import START, FakeCluster, VirtualClock, bundles, install, serial, settle
from keepers import NAME, NAMESPACE, keeper, published, replace_secret, running, stored, trusts

from certs.authority import CertAuthority, Profile
from kube.errors import NotFound
from kube.resources import SECRETS


async def test_first_start_makes_publishes_and_serves():
    """An empty cluster ends with a Secret, equal caBundles everywhere and a certificate that an API server accepts."""
    cluster, clock = FakeCluster(), VirtualClock()
    install(cluster)
    one = keeper(cluster, clock)
    await one.step()
    assert one.ready
    assert one.problem is None
    assert published(cluster) == stored(cluster).bundle
    assert trusts(cluster, one)
    assert cluster.find(SECRETS, NAME, NAMESPACE)["type"] == "kubernetes.io/tls"


async def test_two_replicas_race_and_one_wins():
    """Both find no Secret, both create: the loser adopts the winner's set, and both serve the same certificate."""
    cluster, clock = FakeCluster(), VirtualClock()
    install(cluster)
    one, two = keeper(cluster, clock), keeper(cluster, clock)
    await asyncio.gather(one.step(), two.step())
    assert [c for c in cluster.calls if c[0] == "create"] == [("create", "Secret", NAME)] * 2
    assert serial(one.held) == serial(two.held) == serial(stored(cluster))
    assert trusts(cluster, one)
    assert trusts(cluster, two)


async def test_a_set_that_could_not_be_stored_is_not_served():
    """Without the namespace there is no Secret to share: a replica that served its own authority would fight every other one."""
    cluster, clock = FakeCluster(), VirtualClock()
    install(cluster)
    cluster.fail = lambda verb, name: NotFound(404, "NotFound", "namespaces not found") if verb == "create" else None
    one = keeper(cluster, clock)
    with pytest.raises(NotFound):
        await one.step()
    assert not one.ready
    assert set(bundles(cluster)) == {None}


async def test_a_secret_deleted_while_it_is_changed_is_created_again():
    """Between our look and our write somebody deletes it: the write becomes a creation."""
    cluster, clock = FakeCluster(), VirtualClock(START - timedelta(days=61))
    install(cluster)
    one = keeper(cluster, clock)
    await one.step()
    first = serial(one.held)
    clock.tick(timedelta(days=61))

    def delete(verb: str, name: str) -> None:
        if verb == "patch" and name == NAME and (SECRETS.kind, NAMESPACE, NAME) in cluster.objects:
            cluster.remove(SECRETS, NAME, NAMESPACE)

    cluster.before_write = delete
    await one.step()
    assert serial(stored(cluster)) == serial(one.held) != first


async def test_a_deleted_secret_is_put_back_as_it_was():
    """The same authority and certificate come back, so that no API server ever meets a stranger."""
    cluster, clock = FakeCluster(), VirtualClock()
    install(cluster)
    one = keeper(cluster, clock)
    async with running(one):
        first = serial(one.held)
        cluster.remove(SECRETS, NAME, NAMESPACE)
        await settle()
        assert serial(stored(cluster)) == first
        assert trusts(cluster, one)


async def test_a_replaced_secret_is_adopted_and_no_handshake_fails():
    """Both authorities are told first; every replica changes over when the API servers have had their time, and was trusted throughout."""
    cluster, clock = FakeCluster(), VirtualClock()
    install(cluster)
    one, two = keeper(cluster, clock), keeper(cluster, clock)
    other = CertAuthority(Profile.of_service("modelwarden", NAMESPACE)).bootstrap(START)
    async with running(one, two):
        await clock.advance(61)
        old = stored(cluster).authorities
        first = serial(one.held)
        replace_secret(cluster, other)
        await settle()
        assert set(stored(cluster).authorities) == {*other.authorities, *old}
        assert published(cluster) == stored(cluster).bundle
        for _ in range(7):
            assert one.context.serving.certificate.serial_number == two.context.serving.certificate.serial_number == first
            assert trusts(cluster, one)
            assert trusts(cluster, two)
            await clock.advance(4)
        await clock.advance(92)
        for each in (one, two):
            assert each.context.serving.certificate == other.serving.certificate
            assert trusts(cluster, each)
        replace_secret(cluster, other)
        await settle()
        assert published(cluster) == other.bundle, "said once more, nothing that is served needs the old trust"


async def test_a_process_that_starts_serves_what_it_finds():
    """It serves nothing yet that could be refused, and what it finds others have told."""
    cluster, clock = FakeCluster(), VirtualClock()
    install(cluster)
    await keeper(cluster, clock).step()
    other = CertAuthority(Profile.of_service("modelwarden", NAMESPACE)).bootstrap(START)
    replace_secret(cluster, other)
    one = keeper(cluster, clock)
    await one.step()
    assert published(cluster) == other.bundle
    assert one.context.serving.certificate == other.serving.certificate


DAMAGE = {
    "bytes that are no base64": {"tls.crt": "%%%"},
    "bytes that are no certificate": {"tls.crt": base64.b64encode(b"nonsense").decode()},
    "the signing key cut out": {"ca.key": ""},
}


@pytest.mark.parametrize("sentence", DAMAGE)
async def test_a_damaged_secret_is_mended_from_memory(sentence):
    """A hand that slips in the Secret does not reach a single handshake."""
    cluster, clock = FakeCluster(), VirtualClock()
    install(cluster)
    one = keeper(cluster, clock)
    async with running(one):
        first = serial(one.held)
        secret = cluster.find(SECRETS, NAME, NAMESPACE)
        cluster.put(SECRETS, NAME, secret | {"data": secret["data"] | DAMAGE[sentence]}, NAMESPACE)
        await settle()
        assert serial(stored(cluster)) == first
        assert trusts(cluster, one)


async def test_an_empty_prepared_secret_is_filled_and_keeps_its_labels():
    """An installer may create the Secret so that we need no right to create one."""
    cluster, clock = FakeCluster(), VirtualClock()
    install(cluster)
    cluster.put(SECRETS, NAME, {"metadata": {"labels": {"owner": "helm"}}, "type": "Opaque"}, NAMESPACE)
    one = keeper(cluster, clock)
    await one.step()
    assert serial(stored(cluster)) == serial(one.held)
    assert cluster.find(SECRETS, NAME, NAMESPACE)["metadata"]["labels"] == {"owner": "helm"}
