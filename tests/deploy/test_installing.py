"""`mdctl install` against a cluster: complete, repeatable, and careful with what others wrote."""

import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from app.verbs.install import _PLURALS, _install, _withdraw
from deploy.manifests import Options, manifests
from kube.client import Client
from kube.config import connect
from kube.errors import NotFound
from kube.resources import DEPLOYMENTS, MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS, Resource
from local.cluster import EmbeddedCluster


@pytest.fixture(name="cluster")
async def _cluster(tmp_path: Path) -> AsyncIterator[EmbeddedCluster]:
    cluster = EmbeddedCluster(state_dir=tmp_path)
    await cluster.start()
    yield cluster
    await cluster.stop()


@pytest.fixture(name="client")
async def _client(cluster: EmbeddedCluster) -> AsyncIterator[Client]:
    async with await connect(str(cluster.kubeconfig)) as client:
        yield client


def _resource(obj: dict[str, Any]) -> Resource:
    group, _, version = obj["apiVersion"].rpartition("/")
    return Resource(group, version, _PLURALS[obj["kind"]], obj["kind"], namespaced="namespace" in obj["metadata"])


async def _all(client: Client, options: Options) -> list[dict[str, Any]]:
    return [
        json.loads(await client.get(_resource(obj), obj["metadata"]["name"], obj["metadata"].get("namespace")))
        for obj in manifests(options)
    ]


async def test_everything_is_there_after_one_run(cluster: EmbeddedCluster, client: Client, capsys: pytest.CaptureFixture[str]) -> None:
    """Every object is applied, and each is told in one line."""
    options = Options(namespace="elsewhere", companions=True)
    assert await _install(options, str(cluster.kubeconfig), None, force=False) == 0
    assert len(await _all(client, options)) == len(capsys.readouterr().out.splitlines())


async def test_a_second_run_changes_nothing(cluster: EmbeddedCluster, client: Client) -> None:
    """Server-side apply of the same manifests is no write: no resourceVersion moves."""
    options = Options()
    await _install(options, str(cluster.kubeconfig), None, force=False)
    before = [obj["metadata"]["resourceVersion"] for obj in await _all(client, options)]
    assert await _install(options, str(cluster.kubeconfig), None, force=False) == 0
    assert [obj["metadata"]["resourceVersion"] for obj in await _all(client, options)] == before


async def test_a_published_trust_survives_the_next_installation(cluster: EmbeddedCluster, client: Client) -> None:
    """The caBundle is the service's field: installing again neither drops nor contests it."""
    await _install(Options(), str(cluster.kubeconfig), None, force=False)
    bundle = base64.b64encode(b"-----BEGIN CERTIFICATE-----").decode()
    patch = [{"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": bundle}]
    await client.patch(VALIDATING_WEBHOOKS, "modelwarden-validating", json.dumps(patch).encode(), kind="json")
    assert await _install(Options(), str(cluster.kubeconfig), None, force=False) == 0
    kept = json.loads(await client.get(VALIDATING_WEBHOOKS, "modelwarden-validating"))
    assert kept["webhooks"][0]["clientConfig"]["caBundle"] == bundle


async def test_another_manager_s_field_is_a_conflict_until_it_is_forced(
    cluster: EmbeddedCluster, client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    """Somebody scaled the service: the run says whose field it is, does the rest, and exits 1; --force takes it over."""
    await _install(Options(), str(cluster.kubeconfig), None, force=False)
    body = json.dumps({"spec": {"replicas": 5}}).encode()
    await client.patch(DEPLOYMENTS, "modelwarden", body, "modelwarden-system", field_manager="somebody")
    capsys.readouterr()
    assert await _install(Options(), str(cluster.kubeconfig), None, force=False) == 1
    told = capsys.readouterr()
    assert "somebody" in told.err
    assert "--force" in told.err
    assert await _install(Options(), str(cluster.kubeconfig), None, force=True) == 0
    assert json.loads(await client.get(DEPLOYMENTS, "modelwarden", "modelwarden-system"))["spec"]["replicas"] == 2


async def test_no_cluster_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A kubeconfig that is not there is told, not thrown."""
    assert await _install(Options(), str(tmp_path / "none"), None, force=False) == 1
    assert capsys.readouterr().err == f"Error: no kubeconfig at {tmp_path / 'none'}\n"


async def test_withdrawing_takes_the_webhook_configurations_and_nothing_else(
    cluster: EmbeddedCluster, client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    """What an uninstallation begins with. What is gone already is told and is no failure."""
    await _install(Options(), str(cluster.kubeconfig), None, force=False)
    capsys.readouterr()
    assert await _withdraw(str(cluster.kubeconfig), None) == 0
    for resource, name in ((VALIDATING_WEBHOOKS, "modelwarden-validating"), (MUTATING_WEBHOOKS, "modelwarden-mutating")):
        with pytest.raises(NotFound):
            await client.get(resource, name)
    await client.get(DEPLOYMENTS, "modelwarden", "modelwarden-system")
    assert capsys.readouterr().out.count("deleted") == 2
    assert await _withdraw(str(cluster.kubeconfig), None) == 0
    assert capsys.readouterr().out.count("not there") == 2
