"""Helm itself renders and installs the chart: the same objects as our installer and kustomize, and a clean way out.

Helm comes as a library in the wheel helm-sdkpy (Python 3.12 or newer), put into an environment of its own. HELM_PYTHON names a Python
that has it already.
"""

import asyncio
import base64
import contextlib
import gzip
import json
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from fetching import fetched
from manifest_reading import DEPLOY, KUBECTL, by_identity, kustomized

from app.verbs.install import _withdraw
from deploy.manifests import Options, manifests
from kube.client import Client
from kube.config import connect
from kube.errors import KubeError, NotFound
from kube.resources import CRDS, DEPLOYMENTS, NAMESPACES, VALIDATING_WEBHOOKS, Resource
from local.cluster import EmbeddedCluster

CHART = DEPLOY / "chart"
DRIVER = Path(__file__).parent / "helm_driver.py"
SYSTEM = "modelwarden-system"
JOBS = Resource("batch", "v1", "jobs", "Job")
SECRETS = Resource("", "v1", "secrets", "Secret")
# Kinds of others that the chart can make, and the one that runs its hook: the embedded cluster learns them as definitions.
FOREIGN = (
    JOBS,
    Resource("cert-manager.io", "v1", "issuers", "Issuer"),
    Resource("cert-manager.io", "v1", "certificates", "Certificate"),
    Resource("monitoring.coreos.com", "v1", "servicemonitors", "ServiceMonitor"),
    Resource("monitoring.coreos.com", "v1", "prometheusrules", "PrometheusRule"),
)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def _new_enough() -> str | None:
    found = [sys.executable, *(shutil.which(f"python3.{minor}") or "" for minor in (14, 13, 12))]
    found += [str(path) for path in sorted(Path.home().glob(".pyenv/versions/*/bin/python"), reverse=True)]
    for candidate in filter(None, found):
        if subprocess.run([candidate, "-c", "import sys, venv; sys.exit(sys.version_info < (3, 12))"], check=False).returncode == 0:
            return candidate
    return None


@pytest.fixture(name="helm_python", scope="module")
def _helm_python(tmp_path_factory: pytest.TempPathFactory) -> str:
    if given := os.environ.get("HELM_PYTHON"):
        return given
    python = _new_enough()
    if python is None:
        pytest.skip("helm-sdkpy needs Python 3.12 or newer, and there is none here")
    folder = tmp_path_factory.mktemp("helm")
    subprocess.run([python, "-m", "venv", folder], check=True)
    fetched([folder / "bin" / "pip", "install", "-q", "helm-sdkpy>=0.1.31,<0.2"], "the wheel helm-sdkpy, which carries Helm")
    return str(folder / "bin" / "python")


class Helm:
    """Helm against one embedded cluster."""

    def __init__(self, python: str, cluster: EmbeddedCluster, client: Client, home: Path) -> None:
        self.cluster = cluster
        self.client = client
        self._python = python
        self._home = home

    async def run(self, action: str, values: dict[str, Any] | None = None, namespace: str = SYSTEM) -> dict[str, Any]:
        """One action's answer."""
        asked = {
            "action": action,
            "kubeconfig": str(self.cluster.kubeconfig),
            "namespace": namespace,
            "chart": str(CHART),
            "values": values,
        }
        process = await asyncio.create_subprocess_exec(
            *(self._python, str(DRIVER)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={"PATH": os.environ["PATH"], "HOME": str(self._home)},
        )
        out, err = await process.communicate(json.dumps(asked).encode())
        assert process.returncode == 0, err.decode()
        answer: dict[str, Any] = json.loads(out.decode().splitlines()[-1])
        return answer

    async def rendered(self, values: dict[str, Any] | None = None, namespace: str = SYSTEM) -> dict[tuple[str, str], dict[str, Any]]:
        """What Helm made of the chart, less the word by which definitions are kept."""
        with contextlib.suppress(KubeError):
            await self.client.create(NAMESPACES, json.dumps({"metadata": {"name": namespace}}).encode())
        answer = await self.run("install", values, namespace)
        assert "error" not in answer, answer["error"]
        objects = by_identity(obj for obj in yaml.safe_load_all(answer["manifest"]) if obj)
        for (kind, _), obj in objects.items():
            if kind == "CustomResourceDefinition":
                assert obj["metadata"]["annotations"].pop("helm.sh/resource-policy") == "keep"
                if not obj["metadata"]["annotations"]:
                    del obj["metadata"]["annotations"]
        return objects


@pytest.fixture(name="helm")
async def _helm(helm_python: str, tmp_path: Path) -> AsyncIterator[Helm]:
    cluster = EmbeddedCluster(state_dir=tmp_path / "cluster")
    await cluster.start()
    async with await connect(str(cluster.kubeconfig)) as client:
        for resource in FOREIGN:
            await client.create(CRDS, json.dumps(_definition(resource)).encode())
        yield Helm(helm_python, cluster, client, tmp_path)
    await cluster.stop()


def _definition(resource: Resource) -> dict[str, Any]:
    names = {"plural": resource.plural, "kind": resource.kind, "singular": resource.kind.lower(), "listKind": f"{resource.kind}List"}
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": resource.version, "served": True, "storage": True, "schema": schema, "subresources": {"status": {}}}
    spec = {"group": resource.group, "scope": "Namespaced", "names": names, "versions": [version]}
    meta = {
        "name": f"{resource.plural}.{resource.group}",
        "annotations": {"api-approved.kubernetes.io": "unapproved, a stand-in of a test"},
    }
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": meta, "spec": spec}


def _same(ours: dict[tuple[str, str], dict[str, Any]], theirs: dict[tuple[str, str], dict[str, Any]]) -> None:
    assert ours.keys() == theirs.keys()
    for name, obj in ours.items():
        assert json.dumps(obj, sort_keys=True) == json.dumps(theirs[name], sort_keys=True), name


async def test_defaults_are_what_the_installer_makes(helm: Helm) -> None:
    """Every object equal but for the namespace, which is the release's own affair; and all of them were accepted."""
    ours = by_identity(manifests(Options()))
    del ours[("Namespace", SYSTEM)]
    _same(ours, await helm.rendered())
    await helm.client.get(DEPLOYMENTS, "modelwarden", SYSTEM)


async def test_choices_are_what_the_installer_makes_of_them(helm: Helm) -> None:
    """No Kueue, retirements performed, four shards, the network closed, elsewhere, another image."""
    options = Options(namespace="elsewhere", image="registry.example/mw:9", kueue="absent", act="retire", shards=4, network_policy=True)
    ours = by_identity(manifests(options))
    del ours[("Namespace", "elsewhere")]
    values = {
        "image": {"repository": "registry.example/mw", "tag": "9"},
        "kueue": "absent",
        "act": "retire",
        "shards": 4,
        "networkPolicy": {"enabled": True},
    }
    _same(ours, await helm.rendered(values, "elsewhere"))


@pytest.mark.skipif(KUBECTL is None, reason="kubectl brings kustomize, and is not installed")
async def test_cert_manager_mode_is_what_the_overlay_makes(helm: Helm) -> None:
    """The other certificate mode, compared with kustomize, which alone knows it."""
    theirs = kustomized("overlays/cert-manager")
    del theirs[("Namespace", SYSTEM)]
    _same(theirs, await helm.rendered({"certificates": {"mode": "cert-manager"}, "networkPolicy": {"enabled": True}}))


async def test_everything_else_that_can_be_chosen(helm: Helm) -> None:
    """Observability as the files have it, with Prometheus's own templates untouched; placement and settings in the Pod."""
    objects = await helm.rendered(
        {
            "serviceMonitor": {"enabled": True},
            "prometheusRule": {"enabled": True},
            "dashboard": {"enabled": True},
            "podDisruptionBudget": {"enabled": False},
            "definitions": {"install": False},
            "topologySpread": False,
            "settings": {"MODELWARDEN_LOG_LEVEL": "debug", "MODELWARDEN_CONTROLLER_WORKERS": 8},
            "tracing": {"endpoint": "http://collector.observability:4318"},
            "networkPolicy": {"enabled": True},
            "podAnnotations": {"a.example/b": "c"},
            "nodeSelector": {"kubernetes.io/os": "linux"},
            "tolerations": [{"key": "control", "operator": "Exists"}],
            "affinity": {"nodeAffinity": {}},
            "priorityClassName": "system-cluster-critical",
            "image": {"pullSecrets": [{"name": "registry"}]},
        }
    )
    folder = DEPLOY / "observability"
    for kind, file in (("PrometheusRule", "alerts.yaml"), ("ServiceMonitor", "servicemonitor.yaml")):
        assert objects[(kind, "modelwarden")] == yaml.safe_load((folder / file).read_text(encoding="utf-8"))
    dashboard = objects[("ConfigMap", "modelwarden-dashboard")]["data"]["modelwarden.json"]
    assert json.loads(dashboard) == json.loads((folder / "dashboard.json").read_text(encoding="utf-8"))
    assert not {"PodDisruptionBudget", "CustomResourceDefinition"} & {kind for kind, _ in objects}
    template = objects[("Deployment", "modelwarden")]["spec"]["template"]
    assert template["metadata"]["annotations"]["a.example/b"] == "c"
    pod = template["spec"]
    assert "topologySpreadConstraints" not in pod
    assert pod["nodeSelector"] == {"kubernetes.io/os": "linux"}
    assert pod["tolerations"] == [{"key": "control", "operator": "Exists"}]
    assert pod["affinity"] == {"nodeAffinity": {}}
    assert pod["priorityClassName"] == "system-cluster-critical"
    assert pod["imagePullSecrets"] == [{"name": "registry"}]
    env = {entry["name"]: entry.get("value") for entry in pod["containers"][0]["env"]}
    assert (env["MODELWARDEN_LOG_LEVEL"], env["MODELWARDEN_CONTROLLER_WORKERS"]) == ("debug", "8")
    assert env["MODELWARDEN_OTEL_ENDPOINT"] == "http://collector.observability:4318"
    egress = objects[("NetworkPolicy", "modelwarden")]["spec"]["egress"]
    assert {"ports": [{"protocol": "TCP", "port": 4318}]} in egress


async def test_helm_lints_the_chart(helm: Helm) -> None:
    """Nothing above a hint (Helm's severity 1): the library does not hand on what a message says."""
    answer = await helm.run("lint")
    assert "error" not in answer, answer
    told = answer.get("Messages") or answer.get("messages") or []
    assert [message for message in told if message["Severity"] > 1] == []


REFUSED = {
    "a misspelt value": {"replicaCount": 3},
    "a mode that does not exist": {"certificates": {"mode": "vault"}},
    "no replica": {"replicas": 0},
    "a collector without a port": {"tracing": {"endpoint": "http://collector.observability"}},
    "a setting that is none of ours": {"settings": {"LOG_LEVEL": "debug"}},
    "a setting that the chart makes itself": {"settings": {"MODELWARDEN_KUEUE": "absent"}},
}


async def test_values_that_mean_nothing_are_refused(helm: Helm) -> None:
    """By the schema, before anything is sent."""
    for sentence, values in REFUSED.items():
        answer = await helm.run("install", values)
        assert "error" in answer, sentence
        assert "schema" in answer["error"] or "validat" in answer["error"], sentence


async def test_the_way_out(helm: Helm) -> None:
    """The hook's Job runs while the service still stands; then everything goes but the definitions."""
    await helm.rendered()
    ends = asyncio.create_task(helm.run("uninstall"))
    while True:
        with contextlib.suppress(NotFound):
            job = json.loads(await helm.client.get(JOBS, "modelwarden-withdraw", SYSTEM))
            break
        assert not ends.done(), ends.result()
        await asyncio.sleep(0.05)
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert container["args"] == ["install", "--withdraw"]
    await helm.client.get(VALIDATING_WEBHOOKS, "modelwarden-validating")
    assert await _withdraw(str(helm.cluster.kubeconfig), None) == 0
    await helm.client.get(DEPLOYMENTS, "modelwarden", SYSTEM)
    done = {"status": {"succeeded": 1, "conditions": [{"type": "Complete", "status": "True"}]}}
    await helm.client.patch(JOBS, "modelwarden-withdraw", json.dumps(done).encode(), SYSTEM, subresource="status")
    answer = await ends
    assert "error" not in answer, answer
    with pytest.raises(NotFound):
        await helm.client.get(DEPLOYMENTS, "modelwarden", SYSTEM)
    with pytest.raises(NotFound):
        await helm.client.get(JOBS, "modelwarden-withdraw", SYSTEM)
    for name in ("modeldeployments", "modeldeploymentscalers"):
        await helm.client.get(CRDS, f"{name}.worker.gpustack.ai")


async def test_a_release_fits_into_its_secret(helm: Helm) -> None:
    """Helm keeps the chart and all it made in one Secret, which may have 1 MiB."""
    await helm.rendered()
    secret = json.loads(await helm.client.get(SECRETS, "sh.helm.release.v1.modelwarden.v1", SYSTEM))
    packed = base64.b64decode(secret["data"]["release"])
    assert len(packed) < 512 * 1024
    assert gzip.decompress(base64.b64decode(packed))
