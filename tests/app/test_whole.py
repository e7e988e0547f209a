"""The service on the embedded cluster, in one process, over HTTPS both ways: what is refused, what is judged, and how it leaves."""

import asyncio
import base64
import json

import pytest
from app_world import EXAMPLES, SYSTEM, Whole, documents, whole

from app.board import DEPLOYMENTS
from kube.errors import Invalid
from kube.resources import LEASES, SECRETS


async def judged(world: Whole, name: str) -> dict:
    """The deployment once its status is there."""
    async for event in world.client.watch(DEPLOYMENTS, "team-a", resource_version="", field_selector=f"metadata.name={name}"):
        found = json.loads(bytes(event.object))
        if found.get("status", {}).get("observedGeneration") == found["metadata"].get("generation"):
            return found
    raise AssertionError("the watch ended")


async def test_every_accepted_example_is_judged(tmp_path):
    """Admitted, defaulted and given a status; the bundle is the Secret's authority everywhere."""
    async with asyncio.timeout(90), whole(tmp_path) as world:
        secret = json.loads(await world.client.get(SECRETS, "modelwarden-certs", SYSTEM))
        assert await world.published() == base64.b64decode(secret["data"]["ca.crt"]) == world.service.keeper.held.bundle
        summaries = {}
        for path in sorted(EXAMPLES.glob("*.yaml")):
            for document in documents(path):
                if path.name != "00-prerequisites.yaml":
                    await world.apply(document)
                if document["kind"] == "ModelDeployment":
                    status = (await judged(world, document["metadata"]["name"]))["status"]
                    summaries[document["metadata"]["name"]] = (status["roleSummary"], status["phase"])
        assert summaries == {
            "qwen3-cached": ("0S", "Starting"),
            "qwen3-pd": ("0R0P0D", "Starting"),
            "qwen3-scaled": ("0S", "Starting"),
            "qwen3-server": ("0S", "Starting"),
        }


async def test_every_refused_example_is_refused(tmp_path):
    """Each where its comment says, in a dry run; and the process leaves with its Lease given back."""
    async with asyncio.timeout(90), whole(tmp_path) as world:
        refused = {}
        for path in sorted((EXAMPLES / "refused").glob("*.yaml")):
            if path.name == "replicas-of-a-scaler.yaml":
                continue  # refused only once the scaler is bound: the fence's own tests
            for document in documents(path):
                with pytest.raises(Invalid) as caught:
                    await world.apply(document, dry_run=True)
                refused[path.stem] = [cause["field"] for cause in caught.value.details["causes"]]
        assert refused["owned-flag"] == ["spec.roles[0].extraArgs[1]"]
        assert refused["unreadable-argument"] == ["spec.roles[0].extraArgs[0]"]
        assert refused["width"] == ["spec.roles[0].resources.accelerator"]
        assert refused["privileged"] == ["spec.roles[0].privileged"]
        assert refused["external-balance-without-router"] == ["spec.router"]


async def test_the_lease_is_given_back(tmp_path):
    """The next replica need not wait it out."""
    async with asyncio.timeout(90), whole(tmp_path) as world:
        async for event in world.client.watch(LEASES, SYSTEM, resource_version=""):
            if json.loads(bytes(event.object))["spec"].get("holderIdentity"):
                break
        world.stop.set()
        async for event in world.client.watch(LEASES, SYSTEM, resource_version=""):
            if not json.loads(bytes(event.object))["spec"].get("holderIdentity"):
                break
