"""Three services that share a fleet in four shards, one of them killed: its shards are taken, statuses stay true, none has two writers.

Who wrote is known from the proxy that each replica stands behind, and who was to write from every version that the Leases had.
"""

import itertools
import json
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime
from pathlib import Path

import pytest
from assets import free_ports
from clusterkit import TestCluster
from faultproxy import FaultProxy
from ledger import World, world
from product import SYSTEM, put
from replicas import CARDS, INSTANCE_TYPES, SHORT, Pair, Replica

from api.crd.variants import fitted
from controller.shards import Layout, shard_of
from deploy.manifests import Options, manifests
from kube.client import Client
from kube.errors import NotFound
from kube.resources import CRDS, LEASES, NAMESPACES, Resource

# Every wait below has its own end, and says what never came; together they may take this long.
pytestmark = [pytest.mark.cluster, pytest.mark.real, pytest.mark.timeout(400)]

LAYOUT = Layout("modelwarden", 4)
ALL = [LAYOUT.lease(shard) for shard in range(LAYOUT.shards)]
SETTINGS = {"MODELWARDEN_SHARDS": "4", "MODELWARDEN_CERTS_SOURCE": "memory", "MODELWARDEN_CERTS_PUBLISH": "false"}


async def prepared(cluster: TestCluster, client: Client) -> None:
    """Definitions without webhooks, our namespace, and no Leases of before."""
    await put(client, NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM}})
    for obj in manifests(Options(companions=True, version=(1, cluster.minor))):
        if obj["kind"] == "CustomResourceDefinition":
            await put(client, CRDS, fitted(obj, (1, cluster.minor)))
    for plural in ("modeldeployments", "modeldeploymentscalers", "instancetypes"):
        resource = Resource("worker.gpustack.ai", "v1", plural, plural)
        await cluster.eventually(lambda resource=resource: client.serves(resource), f"{plural} are never served")
    spec = {"acceleratable": True, "acceleratorGroup": "nvidia-h100"}
    card = {"apiVersion": INSTANCE_TYPES.api_version, "kind": "InstanceType", "metadata": {"name": CARDS}, "spec": spec}
    await put(client, INSTANCE_TYPES, card)
    await without_leases(client)


async def without_leases(client: Client) -> None:
    """For a next test."""
    for name in (LAYOUT.base, *ALL):
        try:
            await client.delete(LEASES, name, SYSTEM)
        except NotFound:
            continue


class Shards:
    """The replicas and who holds what."""

    def __init__(self, pair: Pair) -> None:
        self.pair = pair

    async def holders(self) -> dict[str, str]:
        """The names of the replicas that the Leases name, by Lease."""
        found = {}
        async for page in self.pair.client.pages(LEASES, SYSTEM):
            for item in page.items:
                lease = json.loads(bytes(item))
                found[lease["metadata"]["name"]] = (lease["spec"].get("holderIdentity") or "").partition("_")[0]
        return {name: found.get(name, "") for name in ALL}

    async def even(self, names: set[str]) -> bool:
        """Whether exactly these hold everything, in shares at most one apart."""
        holders = Counter((await self.holders()).values())
        return holders.keys() == names and max(holders.values()) - min(holders.values()) <= 1

    async def settle(self, names: set[str]) -> float:
        """Seconds until it is so."""
        began = time.monotonic()
        await self.pair.cluster.eventually(lambda: self.even(names), f"the shares of {sorted(names)} never get even", 60)
        return time.monotonic() - began


@asynccontextmanager
async def shards(cluster: TestCluster, folder: Path) -> AsyncIterator[Shards]:
    """Three replicas, ready."""
    client = await cluster.client()
    await prepared(cluster, client)
    async with AsyncExitStack() as closing:
        closing.push_async_callback(without_leases, client)
        replicas = []
        for name, port in zip(("replica-a", "replica-b", "replica-c"), free_ports(3), strict=True):
            home = folder / name
            home.mkdir()
            proxy = FaultProxy(cluster.kubeconfig_for(name, ("system:masters",)), home)
            await proxy.start()
            closing.push_async_callback(proxy.stop)
            replica = Replica(name, proxy, port, SHORT, folder)
            replica.settings = SETTINGS
            await replica.start()
            closing.push_async_callback(replica.end)
            replicas.append(replica)
        found = Pair(cluster, client, replicas, None, cluster.kubeconfig)  # type: ignore[arg-type]  # nobody asks for reviews

        async def ready() -> bool:
            return all([await each.ready() for each in replicas])

        await cluster.eventually(ready, "the replicas never get ready", 60)
        yield Shards(found)


def trespasses(at: World) -> list[str]:
    """Status writes that landed though the Lease of the deployment's shard named another."""
    uids = {seen.obj["metadata"]["name"]: seen.obj["metadata"]["uid"] for seen in at.deployments.seen}
    found = []
    for replica in at.pair.replicas:
        for version, patch, name in writes(at, replica):
            lease = LAYOUT.lease(shard_of(uids[name], LAYOUT.shards))
            named = [seen for seen in at.leases.seen if seen.version < version and seen.obj["metadata"]["name"] == lease]
            holder = max(named, key=lambda seen: seen.version).obj["spec"].get("holderIdentity") or "" if named else ""
            if not holder.startswith(f"{replica.name}_"):
                found.append(f"{replica.name} wrote {name} at {version} while {lease} named {holder or 'nobody'}: {patch}")
    return found


def taking(at: World, victim: Replica, killed: float) -> tuple[float, float]:
    """Seconds from a last renewal by the victim to the taking of that Lease, the longest; and the others' slowest round meanwhile.

    By the times that the replicas wrote into the Leases. How fast a round goes is the machine's affair; how many are needed is ours.
    """
    longest = slowest = 0.0
    for name in ALL:
        versions = [seen for seen in sorted(at.leases.seen, key=lambda seen: seen.version) if seen.obj["metadata"]["name"] == name]
        for before, after in itertools.pairwise(versions):
            holders = [(seen.obj["spec"].get("holderIdentity") or "").partition("_")[0] for seen in (before, after)]
            renewed = [datetime.fromisoformat(seen.obj["spec"]["renewTime"]) for seen in (before, after)]
            seconds = (renewed[1] - renewed[0]).total_seconds()
            if holders[0] == holders[1] != victim.name and after.at > killed:
                slowest = max(slowest, seconds)
            if holders[0] == victim.name != holders[1] and after.at > killed:
                longest = max(longest, seconds)
    return longest, slowest


def writes(at: World, replica: Replica) -> list[tuple[int, object, str]]:
    """Version, patch and deployment of each status write that was carried out."""
    return [
        (int(call.version), json.loads(call.body), call.path.split("/")[-2])
        for call in replica.proxy.calls
        if call.method == "PATCH" and call.path.endswith("/status") and f"/{at.namespace}/" in call.path and call.code < 300
    ]


async def test_the_shards_of_a_killed_service_are_taken_and_statuses_stay_true(
    cluster: TestCluster, cluster_kind: str, tmp_path: Path, figures: list[str]
) -> None:
    """Killed with -9, a replica's shards are others' within its Lease's duration and some; it comes back and gets its share again."""
    async with shards(cluster, tmp_path) as fleet, world(fleet.pair, 10) as at:
        everybody = {each.name for each in fleet.pair.replicas}
        first = await fleet.settle(everybody)
        await at.flip(False)
        await at.told(0)
        assert sum(bool(writes(at, each)) for each in fleet.pair.replicas) >= 2  # UIDs are the server's: a shard may be empty

        victim = fleet.pair.replicas[0]
        killed = time.monotonic()
        await victim.kill()
        await at.flip(True)
        taken = await at.told(1)
        await fleet.settle(everybody - {victim.name})
        assert await victim.ask("/readyz") == (0, "")
        # A round sees the last renewal, one sees after the Lease's duration that it was the last, and takes it.
        longest, slowest = taking(at, victim, killed)
        assert SHORT.lease - SHORT.retry < longest < SHORT.lease + 3 * slowest

        await victim.start()
        again = await fleet.settle(everybody)
        await at.flip(False)
        await at.told(0)
        assert await victim.metric("modelwarden_shards_held") >= 1
        assert trespasses(at) == []
        assert at.strangers() == []
        figures.append(
            f"{cluster_kind:<8}  shards: even {first:.1f} s after the start, true {taken:.1f} s after the kill, even {again:.1f} s later; "
            f"taken {longest:.1f} s after the last renewal, with rounds of {slowest:.1f} s at most"
        )
