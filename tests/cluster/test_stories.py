"""The product on a cluster, from the first apply to the last status: the packaged scenarios, played unchanged on either cluster."""

import json
from typing import Any

import pytest
from clusterkit import TestCluster
from product import MODEL_DEPLOYMENTS, SCALER, deployment, moved, product

from app.clock import ScaledClock
from kube.client import Client
from kube.errors import ApiError
from local.scenario import Step, load, play

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(110)]

SPEED = 12.0


async def _status(cluster: TestCluster, client: Client, name: str, namespace: str, *, phase: str) -> dict[str, Any]:
    """The status once it is of the newest generation and in that phase."""

    async def reached() -> dict[str, Any] | None:
        found = await deployment(client, name, namespace)
        status = found.get("status") or {}
        current = status.get("observedGeneration") == found["metadata"]["generation"]
        return status if current and status.get("phase") == phase else None

    found: dict[str, Any] = await cluster.eventually(reached, f"{name} never is {phase}")
    return found


def _conditions(status: dict[str, Any]) -> dict[str, str]:
    return {entry["type"]: entry["status"] for entry in status["conditions"]}


async def test_prefill_and_decode_behind_a_router_become_ready_and_survive_a_lost_member(cluster: TestCluster) -> None:
    """Quota, readiness and the router are told as they come; the lost member degrades the deployment until it is back."""
    client, clock = await cluster.client(), ScaledClock(SPEED)
    acts: list[str] = []
    async with product(cluster):
        space = await cluster.namespace("story")

        async def on_step(step: Step) -> None:
            if step.act == "converge" and "lose" in acts:  # the member is lost and not yet back
                degraded = await _status(cluster, client, "chat", space, phase="Degraded")
                assert degraded["roleSummary"] == "1R1P0D"
            acts.append(step.act)

        await play(moved(load("prefill-decode"), space), client, clock, on_step)
        status = await _status(cluster, client, "chat", space, phase="Ready")
    assert status["roleSummary"] == "1R1P1D"
    assert status["endpoint"] == f"http://chat-router.{space}.svc:8081"
    held = _conditions(status)
    assert {kind: held[kind] for kind in ("QuotaReserved", "RoleKindsReady", "RouterReady", "ReplicasUpToDate")} == dict.fromkeys(
        ("QuotaReserved", "RoleKindsReady", "RouterReady", "ReplicasUpToDate"), "True"
    )
    roles = {role["name"]: (role["desired"], role["ready"], role["quotaReserved"]) for role in status["roles"]}
    assert roles == {"prefill": (1, 1, 1), "decode": (1, 1, 1)}


async def test_a_partial_preemption_is_told_by_role(cluster: TestCluster) -> None:
    """While one of three replicas waits for quota the deployment is Degraded; afterwards all three count again."""
    client = await cluster.client()
    async with product(cluster):
        space = await cluster.namespace("story")
        await play(moved(load("partial-preemption"), space), client, ScaledClock(SPEED))
        status = await _status(cluster, client, "embed", space, phase="Ready")
    (role,) = status["roles"]
    assert (role["desired"], role["ready"], role["quotaReserved"]) == (3, 3, 3)


async def test_only_the_scaler_writes_the_counts_of_a_bound_deployment(cluster: TestCluster) -> None:
    """A person's edit and a torn-off binding are refused by name and with the ways out; a suspended scaler opens the hatch."""
    client = await cluster.client()
    told: dict[str, str] = {}

    def on_step(step: Step) -> None:
        if step.refused:
            told[step.act] = step.told

    async with product(cluster):
        space = await cluster.namespace("story")
        scaler = await cluster.client(SCALER, ("system:masters",))

        async def become(user: str) -> Client:
            assert user == SCALER
            return scaler

        await play(moved(load("scaler-bound"), space), client, ScaledClock(SPEED), on_step, become=become)
        found = await deployment(client, "assist", space)
    assert found["spec"]["roles"][0]["replicas"] == 1
    assert "assist-load" in told["scale"]
    assert "RespectIgnoreDifferences=true" in told["scale"]
    assert "assist-load" in told["release"]


async def test_a_refused_field_is_named_with_its_cause_and_a_dry_run_is_refused_alike(cluster: TestCluster) -> None:
    """An operator-owned flag comes back as 422 at its place in extraArgs, whether the request is a dry-run or not."""
    client = await cluster.client()
    async with product(cluster):
        space = await cluster.namespace("story")
        role = {"name": "server", "instanceType": "none", "extraArgs": ["--kv_transfer_config={}"]}
        body = {
            "apiVersion": MODEL_DEPLOYMENTS.api_version,
            "kind": "ModelDeployment",
            "metadata": {"name": "refused"},
            "spec": {"model": {"name": "m"}, "engine": {"name": "vLLM", "version": "0.29.0"}, "roles": [role]},
        }
        for dry_run in (False, True):
            with pytest.raises(ApiError) as refused:
                await client.create(MODEL_DEPLOYMENTS, json.dumps(body).encode(), space, dry_run=dry_run)
            assert refused.value.code == 422
            fields = {cause["field"] for cause in refused.value.details["causes"]}
            assert "spec.roles[0].extraArgs[0]" in fields
