"""The definitions and the manifests, judged by an API server: embedded, or real with `--cluster=real`."""

import asyncio
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from clusterkit import JSON, TestCluster

import deploy
from api.crd import files
from api.crd.check import admit
from api.crd.variants import RULES_SINCE, fitted

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

CASES = Path(__file__).parents[1] / "contract" / "cases" / "schema.jsonl"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
KUBECTL = shutil.which("kubectl")


async def _define(cluster: TestCluster) -> None:
    """Post every definition, as this server knows it, and wait until it is served."""
    for definition in (d for ds in files().values() for d in ds):
        name = definition["metadata"]["name"]
        posted = await cluster.wire("POST", DEFINITIONS, fitted(definition, (1, cluster.minor)))
        assert posted.code in {201, 409}, posted.body

        async def established(name: str = name) -> bool:
            found = (await cluster.wire("GET", f"{DEFINITIONS}/{name}")).ok()
            conditions = {c["type"]: c["status"] for c in (found.get("status") or {}).get("conditions") or ()}
            assert conditions.get("NonStructuralSchema") != "True", found["status"]
            return conditions.get("Established") == "True"

        await cluster.eventually(established, f"{name} is established")


async def _served(cluster: TestCluster, namespace: str, plural: str) -> str:
    path = f"/apis/worker.gpustack.ai/v1/namespaces/{namespace}/{plural}"

    async def found() -> bool:
        return (await cluster.wire("GET", path)).code == 200

    await cluster.eventually(found, f"{plural} are served")
    return path


def _bare(field: str) -> str:
    """A path without indices: servers before 1.22 or so leave them out."""
    return re.sub(r"\[\d+\]", "", field)


def _causes(status: JSON) -> set[str]:
    return {_bare(cause["field"]) for cause in status.get("details", {}).get("causes", ())} - {"<nil>"}


async def test_the_server_s_verdicts_are_those_of_our_own_engine(cluster: TestCluster) -> None:
    """Every schema case, created in a dry run: same verdict, errors at the same fields, and the same object when it is admitted."""
    await _define(cluster)
    namespace = await cluster.namespace()
    differing: list[Any] = []
    for case in map(json.loads, CASES.read_text(encoding="utf-8").splitlines()):
        if "oldObject" in case or ("CEL" in case["name"] and (1, cluster.minor) < RULES_SINCE):
            continue
        sent = case["object"] | {"metadata": case["object"]["metadata"] | {"namespace": namespace}}
        path = await _served(cluster, namespace, f"{sent['kind'].lower()}s")
        answer = await cluster.wire("POST", path, sent, dryRun="All")
        stored, faults = admit(sent)
        if (1, cluster.minor) < RULES_SINCE and faults and answer.code == 201:
            # What only a rule refuses, an older server admits: `case["valid"]` says what it has to come to elsewhere.
            assert all("in body" not in fault.message for fault in faults), case["id"]
            continue
        ours = {_bare(fault.field) for fault in faults} - {"<nil>"}
        if faults and (answer.code != 422 or _causes(answer.body) != ours):
            differing.append((case["id"], answer.code, _causes(answer.body), ours))
        if not faults and (answer.code != 201 or answer.body["spec"] != stored["spec"]):
            differing.append((case["id"], answer.code, answer.body))
    assert differing == []


@pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed")
async def test_the_base_passes_a_dry_run_of_kubectl(cluster: TestCluster) -> None:
    """`kubectl apply --dry-run=server -k deploy/base`, with kubectl's own validation on, on any server."""
    assert KUBECTL is not None
    made = await cluster.wire("POST", "/api/v1/namespaces", {"metadata": {"name": "modelwarden-system"}})
    assert made.code in {201, 409}, made.body
    words = ["--kubeconfig", str(cluster.kubeconfig), "apply", "--dry-run=server", "-k", str(Path(deploy.__file__).parent / "base")]
    kubectl = await asyncio.create_subprocess_exec(KUBECTL, *words, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE)
    async with asyncio.timeout(120):
        out, err = await kubectl.communicate()
    assert kubectl.returncode == 0, err.decode()
    assert out.decode().count("(server dry run)") == 14, out.decode()
