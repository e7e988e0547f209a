"""A real kube-apiserver takes everything that is shipped: the chart as Helm renders it for that very server, and kustomize's base.

`make test-packaging` runs it where KUBEBUILDER_ASSETS names a kube-apiserver and an etcd.
"""

import asyncio
import importlib.util
import json
from collections.abc import AsyncIterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import pytest_asyncio
import yaml
from manifest_reading import KUBECTL, by_identity, kustomized
from test_helm import FOREIGN, JOBS, SYSTEM, Helm, _definition, _helm_python

from deploy.manifests import Options, manifests
from kube.client import Client
from kube.config import connect
from kube.errors import NotFound
from kube.resources import CRDS, NAMESPACES, Resource

JSON = dict[str, Any]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300), pytest.mark.asyncio(loop_scope="module")]

helm_python = _helm_python  # a fixture of the chart's other tests


def _assets() -> ModuleType:
    """The cluster scenarios' way to a real server; their folder is not on the path here."""
    file = Path(__file__).parents[1] / "cluster" / "assets.py"
    spec = importlib.util.spec_from_file_location("cluster_assets", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Server:
    """A real API server, and how an object is offered to it."""

    def __init__(self, client: Client, kubeconfig: Path, home: Path) -> None:
        self.client = client
        self.kubeconfig = kubeconfig
        self.home = home

    async def resource(self, obj: JSON) -> Resource:
        """Where the server serves objects of that kind."""
        group, _, version = obj["apiVersion"].rpartition("/")
        root = Resource(group, version, "", "").root
        served = json.loads(await self.client._call("GET", root))["resources"]
        (found,) = [each for each in served if each["kind"] == obj["kind"] and "/" not in each["name"]]
        return Resource(group, version, found["name"], obj["kind"], found["namespaced"])

    async def accepts(self, obj: JSON, namespace: str = SYSTEM) -> JSON:
        """What the server would make of the object, applied; nothing is stored. Raises the kube error tree."""
        resource = await self.resource(obj)
        where = obj["metadata"].get("namespace", namespace) if resource.namespaced else None
        body = json.dumps(obj).encode()
        name = obj["metadata"]["name"]
        made: JSON = json.loads(
            await self.client.patch(resource, name, body, where, kind="apply", dry_run=True, field_manager="tests", force=True)
        )
        return made

    async def has(self, obj: JSON, namespace: str = SYSTEM) -> bool:
        """Whether the object is stored."""
        resource = await self.resource(obj)
        where = obj["metadata"].get("namespace", namespace) if resource.namespaced else None
        try:
            await self.client.get(resource, obj["metadata"]["name"], where)
        except NotFound:
            return False
        return True


@pytest_asyncio.fixture(name="server", scope="module", loop_scope="module")
async def _server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Server]:
    assets = _assets()
    folder = assets.assets_folder()
    if folder is None:
        pytest.skip("KUBEBUILDER_ASSETS names no folder with a kube-apiserver")
    real = assets.RealServer(folder)
    await asyncio.to_thread(real.start)
    try:
        kubeconfig = real.kubeconfig_for("test-admin", ("system:masters",))
        async with await connect(str(kubeconfig)) as client:
            await client.create(NAMESPACES, json.dumps({"metadata": {"name": SYSTEM}}).encode())
            for resource in FOREIGN:
                if resource is not JOBS:
                    await client.create(CRDS, json.dumps(_definition(resource)).encode())
            yield Server(client, kubeconfig, tmp_path_factory.mktemp("home"))
    finally:
        await asyncio.to_thread(real.stop)


CHOICES: dict[str, JSON] = {
    "as it comes": {},
    "everything that can be switched on": {
        "act": "retire",
        "kueue": "absent",
        "networkPolicy": {"enabled": True},
        "serviceMonitor": {"enabled": True},
        "prometheusRule": {"enabled": True},
        "dashboard": {"enabled": True},
    },
    "certificates by cert-manager": {"certificates": {"mode": "cert-manager"}},
}


async def test_the_chart_is_installed_into_a_real_api_server(helm_python: str, server: Server) -> None:
    """With every choice each rendered object is stored, and applied by another writer it passes the server's own validation."""
    for sentence, values in CHOICES.items():
        helm = Helm(helm_python, server, server.client, server.home)  # type: ignore[arg-type]  # of a cluster it asks the kubeconfig only
        answer = await helm.run("install", {**values, "withdrawFirst": False})
        assert "error" not in answer, (sentence, answer["error"])
        objects = by_identity(obj for obj in yaml.safe_load_all(answer["manifest"]) if obj)
        assert {"Deployment", "Service", "ValidatingWebhookConfiguration", "CustomResourceDefinition"} <= {kind for kind, _ in objects}
        for obj in objects.values():
            assert await server.has(obj), (sentence, obj["kind"], obj["metadata"]["name"])
            await server.accepts(obj)
        answer = await helm.run("uninstall")
        assert "error" not in answer, (sentence, answer["error"])
        for (kind, name), obj in objects.items():
            left = await server.has(obj)
            assert left == (kind == "CustomResourceDefinition"), (sentence, kind, name)


@pytest.mark.skipif(KUBECTL is None, reason="kubectl brings kustomize, and is not installed")
async def test_a_real_api_server_takes_kustomize_s_base(server: Server) -> None:
    """Every object of deploy/base, by server-side dry run; the Pod template keeps all that the file says."""
    objects = kustomized("base")
    for obj in objects.values():
        made = await server.accepts(obj)
        if obj["kind"] == "Deployment":
            _keeps(obj["spec"], made["spec"], "spec")
    assert len(objects) >= 10


async def test_a_real_api_server_takes_what_the_installer_makes(server: Server) -> None:
    """Fitted to that server's version, with everything switched on."""
    version = await server.client.version()
    options = Options(kueue="absent", act="retire", network_policy=True, companions=True, version=(1, int(version["minor"].rstrip("+"))))
    for obj in manifests(options):
        await server.accepts(obj)


def _keeps(ours: Any, theirs: Any, where: str) -> None:
    """Whatever we say is there: an API server drops silently what its version does not know."""
    if isinstance(ours, dict):
        for key, value in ours.items():
            assert key in theirs, f"{where}.{key} is dropped"
            _keeps(value, theirs[key], f"{where}.{key}")
    elif isinstance(ours, list):
        assert len(ours) == len(theirs), where
        for index, value in enumerate(ours):
            _keeps(value, theirs[index], f"{where}[{index}]")
