"""The keeper in virtual time: expiry, renewal, races, a deleted Secret, an edited caBundle, clock jumps, rotation with overlap."""

import asyncio
import base64
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest
from certs_world import START, FakeCluster, FakePage, VirtualClock, bundles, handshake, install, serial, settle, webhook_configuration
from prometheus_client import REGISTRY

from certs.authority import CertAuthority, Profile
from certs.cluster import watch_object
from certs.context import ServingContext
from certs.keeper import CertKeeper
from certs.material import Material, read_material
from certs.publisher import WebhookPublisher
from certs.store import SecretStore
from kube.errors import Forbidden, Gone, NotFound, ServerError
from kube.resources import MUTATING_WEBHOOKS, SECRETS, VALIDATING_WEBHOOKS

NAMESPACE, NAME = "modelwarden-system", "modelwarden-certs"
DAY = 86400.0


def keeper(cluster: FakeCluster, clock: VirtualClock, *, authority_days: float = 300, serving_days: float = 90) -> CertKeeper:
    """A replica's keeper."""
    profile = Profile.of_service(
        "modelwarden", NAMESPACE, authority_life=timedelta(days=authority_days), serving_life=timedelta(days=serving_days)
    )
    store = SecretStore(cluster, clock, namespace=NAMESPACE, name=NAME)
    return CertKeeper(ServingContext(), store, WebhookPublisher(cluster, clock), clock, CertAuthority(profile))


@asynccontextmanager
async def running(*keepers: CertKeeper):
    """The keepers' loops, while the test plays."""
    tasks = [asyncio.create_task(k.run()) for k in keepers]
    await settle()
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(r, asyncio.CancelledError) for r in results), results


async def later(clock: VirtualClock, days: float) -> None:
    """So many days pass in one step (a look at the clock each minute of them would be a long test), and then a minute as ever."""
    clock.tick(timedelta(days=days) - timedelta(seconds=61))
    await clock.advance(61)


def stored(cluster: FakeCluster):
    data = cluster.find(SECRETS, NAME, NAMESPACE)["data"]
    return read_material({key: base64.b64decode(value) for key, value in data.items()}, own=True)


def published(cluster: FakeCluster) -> bytes:
    """The one bundle that all webhooks carry."""
    (only,) = set(bundles(cluster))
    assert only is not None
    return base64.b64decode(only)


def trusts(cluster: FakeCluster, one: CertKeeper) -> bool:
    """Whether an API server that reads the configurations would accept what this replica serves."""
    return bool(handshake(one.context.ssl, published(cluster)))


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


def replace_secret(cluster: FakeCluster, material: Material) -> None:
    """As a person does who knows nothing of what stood there."""
    secret = cluster.find(SECRETS, NAME, NAMESPACE)
    data = {key: base64.b64encode(value).decode() for key, value in material.to_files().items()}
    cluster.put(SECRETS, NAME, secret | {"data": data}, NAMESPACE)


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
