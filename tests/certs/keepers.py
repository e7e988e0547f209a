"""Keepers of certificates at work against a fake cluster, and what that cluster then holds."""

import asyncio
import base64
from contextlib import asynccontextmanager
from datetime import timedelta

from certs_world import FakeCluster, VirtualClock, bundles, handshake, settle

from certs.authority import CertAuthority, Profile
from certs.context import ServingContext
from certs.keeper import CertKeeper
from certs.material import Material, read_material
from certs.publisher import WebhookPublisher
from certs.store import SecretStore
from kube.resources import SECRETS

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


def replace_secret(cluster: FakeCluster, material: Material) -> None:
    """As a person does who knows nothing of what stood there."""
    secret = cluster.find(SECRETS, NAME, NAMESPACE)
    data = {key: base64.b64encode(value).decode() for key, value in material.to_files().items()}
    cluster.put(SECRETS, NAME, secret | {"data": data}, NAMESPACE)
