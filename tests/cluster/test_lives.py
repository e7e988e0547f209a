"""Statuses through the life of a deployment: its parts come, are lost, are replaced and go, and each time the status says just that."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from clusterkit import TestCluster
from household import House, controller, house
from product import MODEL_DEPLOYMENTS, WORKLOADS

from controller.snapshot import StatusSettings
from kube.client import Client
from kube.resources import DEPLOYMENTS, PODS, Resource

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(115)]

CLUSTER_ROLES = Resource("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", namespaced=False)
BINDINGS = Resource("rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False)
PAIR = ({"name": "prefill", "kind": "Prefill", "size": 2}, {"name": "decode", "kind": "Decode"})


def told(status: dict[str, Any]) -> tuple[str, str, str, str]:
    """Phase, summary, and the reasons of the two conditions that a person reads first."""
    reasons = {entry["type"]: entry["reason"] for entry in status["conditions"]}
    return status["phase"], status["roleSummary"], reasons["QuotaReserved"], reasons["RouterReady"]


def condition(status: dict[str, Any], kind: str) -> dict[str, str]:
    """One condition."""
    found: dict[str, str] = next(entry for entry in status["conditions"] if entry["type"] == kind)
    return found


def counts(status: dict[str, Any]) -> dict[str, tuple[int, int, int]]:
    """Desired, ready and quotaReserved by role."""
    return {role["name"]: (role["desired"], role["ready"], role["quotaReserved"]) for role in status["roles"]}


async def becomes(at: House, *wanted: str) -> dict[str, Any]:
    """The status once it tells that."""
    found: dict[str, Any] = {}

    def so(status: dict[str, Any]) -> bool:
        found.update(status)
        return bool(status.get("conditions")) and told(status) == wanted

    try:
        return await at.until(so, "")
    except AssertionError:
        raise AssertionError(f"{told(found)} never is {wanted}") from None


async def test_prefill_and_decode_behind_a_router_from_nothing_to_deletion(cluster: TestCluster) -> None:
    """Every stage of a life has its own words; a stage that is left and reached again has the same ones."""
    async with house(cluster) as at, controller(at, status=StatusSettings()):
        await at.declare(*PAIR, router="vllm-router")
        await at.client.patch(MODEL_DEPLOYMENTS, "chat", b'{"metadata":{"finalizers":["tests/last"]}}', at.namespace)
        status = await becomes(at, "Starting", "0R0P0D", "NoReplicas", "NotDeployed")
        assert "endpoint" not in status
        assert "retirement" not in status
        assert counts(status) == {"prefill": (1, 0, 0), "decode": (1, 0, 0)}
        assert {role["name"]: role["endpoints"] for role in status["roles"]}["decode"] == {"serving": {"state": "Unknown"}}
        await at.cast.converge("chat")
        await becomes(at, "Starting", "0R0P0D", "AdmissionInFlight", "NoReadyReplicas")
        await at.cast.quota("chat", reserved=False, message="no room")
        status = await becomes(at, "Starting", "0R0P0D", "Pending", "NoReadyReplicas")
        assert "no room" in condition(status, "QuotaReserved")["message"]
        assert status["phaseMessage"] == condition(status, "QuotaReserved")["message"]
        await at.cast.quota("chat")
        status = await becomes(at, "Starting", "0R0P0D", "Reserved", "NoReadyReplicas")
        assert counts(status) == {"prefill": (1, 0, 1), "decode": (1, 0, 1)}
        assert [role["assignedFlavors"] for role in status["roles"]] == [["h100"], ["h100"]]
        await at.cast.ready("chat", roles=["prefill"], members=[0])
        await at.cast.ready("chat", roles=["decode"])
        status = await becomes(at, "Degraded", "0R0P1D", "Reserved", "NoReadyReplicas")
        assert condition(status, "RoleKindsReady")["reason"] == "KindsNotReady"
        await at.cast.ready("chat", roles=["prefill"])
        status = await becomes(at, "Degraded", "0R1P1D", "Reserved", "NoReadyReplicas")
        assert status["phaseMessage"] == condition(status, "RouterReady")["message"]
        assert "endpoint" not in status
        await at.cast.router("chat", ready=1)
        status = await becomes(at, "Ready", "1R1P1D", "Reserved", "Ready")
        assert status["endpoint"] == f"http://chat-router.{at.namespace}.svc:8081"
        assert "phaseMessage" not in status
        assert condition(status, "ReplicasUpToDate")["reason"] == "UpToDate"
        ready_at = condition(status, "RouterReady")["lastTransitionTime"]

        await at.cast.router("chat", ready=0)
        status = await becomes(at, "Degraded", "0R1P1D", "Reserved", "NoReadyReplicas")
        assert "endpoint" not in status
        assert condition(status, "RouterReady")["lastTransitionTime"] >= ready_at
        await at.client.patch(MODEL_DEPLOYMENTS, "chat", b'{"spec":{"router":null}}', at.namespace)
        status = await becomes(at, "Ready", "1P1D", "Reserved", "NotApplicable")
        assert status["endpoint"] == f"http://chat.{at.namespace}.svc:8000"
        assert "router" not in status
        assert condition(status, "KVEventsPublishing")["reason"] == "NoRouter"
        assert status["observedGeneration"] == (await at.found())["metadata"]["generation"]

        await at.client.delete(MODEL_DEPLOYMENTS, "chat", at.namespace)
        await at.until(lambda s: s["phase"] == "Deleting", "its end is never told")
        await at.client.delete(DEPLOYMENTS, "chat-router", at.namespace)
        await at.client.patch(MODEL_DEPLOYMENTS, "chat", b'{"metadata":{"finalizers":null}}', at.namespace)


async def test_a_replica_of_two_pods_is_one_thing_whatever_becomes_of_a_member(cluster: TestCluster) -> None:
    """Missing, unready, terminating and replaced members: the count, the group's state and reason, its generation and its moment."""

    def groups(status: dict[str, Any]) -> dict[int, tuple[str, str]]:
        return {group["ordinal"]: (group["state"], group["reason"]) for group in status["roles"][0].get("groups", ())}

    async with house(cluster) as at, controller(at, status=StatusSettings()):
        await at.declare({"name": "server", "replicas": 2, "size": 2})
        await at.cast.converge("chat")
        await at.keep()
        await at.cast.quota("chat")
        await at.cast.ready("chat")
        for pod in await at.pods():
            await at.listen(pod)
        whole = {0: ("Eligible", "Qualified"), 1: ("Eligible", "Qualified")}
        status = await at.until(lambda s: groups(s) == whole, "the groups are never qualified")
        assert status["roles"][0]["endpoints"] == {"eligible": 2, "serving": {"state": "NotConfigured"}}
        assert counts(status) == {"server": (2, 2, 2)}
        first = status["roles"][0]["groups"][1]
        assert [(member["name"], member["seat"], member["ready"]) for member in first["members"]] == [
            ("chat-server-r1-m0", 0, "True"),
            ("chat-server-r1-m1", 1, "True"),
        ]

        await at.cast.ready("chat", ordinals=[1], members=[1], ready=False)
        status = await at.until(lambda s: groups(s)[1] == ("NotReady", "MembersReady"), "the unready member is never told")
        assert (status["phase"], counts(status)) == ("Degraded", {"server": (2, 1, 2)})
        assert status["roles"][0]["endpoints"]["eligible"] == 1
        assert condition(status, "EndpointEligibility")["reason"] == "Revoked"
        await at.cast.ready("chat", ordinals=[1])
        for pod in await at.pods():
            if pod["status"]["podIP"].startswith("10."):
                await at.listen(pod)
        status = await at.until(lambda s: groups(s) == whole, "the group is never restored")
        assert status["roles"][0]["groups"][1]["generation"] == first["generation"]
        assert status["roles"][0]["groups"][0]["qualifiedAt"] <= status["roles"][0]["groups"][1]["qualifiedAt"]

        await at.client.delete(PODS, "chat-server-r1-m1", at.namespace)
        status = await at.until(lambda s: counts(s) == {"server": (2, 1, 2)}, "the departing member still counts")
        leaving = await at.pod("chat-server-r1-m1")
        assert leaving["metadata"]["deletionTimestamp"]
        assert {entry["type"]: entry["status"] for entry in leaving["status"]["conditions"]}["Ready"] == "True"
        assert groups(status)[1] == ("Incomplete", "MemberSetComplete")
        assert condition(status, "QuotaReserved")["reason"] == "PodGroupIncomplete"
        assert "1/2" in condition(status, "QuotaReserved")["message"]
        await at.bury()
        await at.cast.converge("chat")
        await at.cast.quota("chat")
        status = await at.until(lambda s: groups(s)[1][0] == "Unknown", "the new member is never seen")
        heirs = status["roles"][0]["groups"][1]
        assert heirs["generation"] != first["generation"]
        assert "qualifiedAt" not in heirs
        assert [member["ready"] for member in heirs["members"]] == ["True", "Unknown"]
        await at.cast.ready("chat", ordinals=[1], members=[1])
        await at.listen(await at.pod("chat-server-r1-m1"))
        status = await at.until(lambda s: groups(s) == whole, "the replaced group is never qualified")
        assert status["roles"][0]["groups"][1]["generation"] == heirs["generation"]
        assert status["roles"][0]["groups"][1]["qualifiedAt"]
        assert (status["phase"], counts(status)) == ("Ready", {"server": (2, 2, 2)})


async def test_a_preemption_in_part_names_who_lost_and_who_still_holds(cluster: TestCluster) -> None:
    """Decode loses its quota, prefill keeps it: one condition says both, what it means, and ends when the quota is back."""
    async with house(cluster) as at, controller(at, status=StatusSettings()):
        await at.declare(*PAIR, router="vllm-router")
        await at.cast.converge("chat")
        await at.cast.quota("chat")
        await at.cast.ready("chat")
        await at.cast.router("chat", ready=1)
        await becomes(at, "Ready", "1R1P1D", "Reserved", "Ready")
        await at.cast.quota("chat", roles=["decode"], reserved=False, reason="Preempted", message="to make room")
        status = await becomes(at, "Ready", "1R1P1D", "PreemptedInPart", "Ready")
        message = condition(status, "QuotaReserved")["message"]
        assert condition(status, "QuotaReserved")["status"] == "False"
        for part in ("1 of 2 replicas", "of role decode", "role prefill keeps", "kind Decode has no admitted replica left"):
            assert part in message
        assert "h100" not in message
        assert counts(status) == {"prefill": (1, 1, 1), "decode": (1, 1, 0)}
        await at.client.delete(PODS, "chat-decode-0", at.namespace, grace_seconds=0)
        status = await at.until(lambda s: s["roleSummary"] == "1R1P0D", "the taken Pod still counts")
        assert status["phase"] == "Degraded"
        await at.cast.converge("chat")
        await at.cast.quota("chat", roles=["prefill"], reserved=False, reason="Preempted")
        note = "1 replica of role prefill lost quota to preemption"
        status = await at.until(lambda s: note in condition(s, "QuotaReserved")["message"], "the loss of all is never told")
        assert condition(status, "QuotaReserved")["reason"] in {"Pending", "AdmissionInFlight"}
        await at.cast.quota("chat")
        await at.cast.ready("chat")
        status = await becomes(at, "Ready", "1R1P1D", "Reserved", "Ready")
        assert counts(status) == {"prefill": (1, 1, 1), "decode": (1, 1, 1)}


@asynccontextmanager
async def withheld(cluster: TestCluster, resource: Resource) -> AsyncIterator[tuple[Client, Any]]:
    """A client whose lists of one kind are refused, and how to allow them."""
    if cluster.embedded is not None:
        cluster.embedded.faults.fail(403, verb="list", resource=resource.plural, times=1_000_000)

        async def allow() -> None:
            assert cluster.embedded is not None
            cluster.embedded.faults.clear()

        yield await cluster.client(), allow
        return
    admin = await cluster.client()
    user, name = f"watcher-of-all-but-{resource.plural}", f"tests-{cluster.kind}-{resource.plural}"
    others = [
        kind for kind in ("pods", "services", "events", "configmaps", "deployments", "replicasets", "leases") if kind != resource.plural
    ]
    rules = [
        {"apiGroups": ["", "apps", "events.k8s.io", "coordination.k8s.io"], "resources": others, "verbs": ["*"]},
        {"apiGroups": ["worker.gpustack.ai", "apiextensions.k8s.io"], "resources": ["*"], "verbs": ["*"]},
        {"nonResourceURLs": ["*"], "verbs": ["get"]},
    ]
    if resource.group == "":
        rules.append({"apiGroups": ["kueue.x-k8s.io"], "resources": ["*"], "verbs": ["*"]})
    meta = {"metadata": {"name": name}}
    await admin.create(
        CLUSTER_ROLES, json.dumps({"apiVersion": CLUSTER_ROLES.api_version, "kind": "ClusterRole", **meta, "rules": rules}).encode()
    )
    subject = {"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}
    reference = {"kind": "ClusterRole", "name": name, "apiGroup": "rbac.authorization.k8s.io"}
    binding = {"apiVersion": BINDINGS.api_version, "kind": "ClusterRoleBinding", **meta, "subjects": [subject], "roleRef": reference}
    await admin.create(BINDINGS, json.dumps(binding).encode())

    async def granted() -> None:
        everything = [*rules, {"apiGroups": [resource.group], "resources": [resource.plural], "verbs": ["*"]}]
        await admin.patch(CLUSTER_ROLES, name, json.dumps({"rules": everything}).encode())

    try:
        yield await cluster.client(user), granted
    finally:
        await admin.delete(BINDINGS, name)
        await admin.delete(CLUSTER_ROLES, name)


@pytest.mark.parametrize("resource", [WORKLOADS, PODS], ids=["Workload", "Pod"])
async def test_a_refused_list_writes_no_status_and_the_check_says_so(cluster: TestCluster, resource: Resource) -> None:
    """Nothing is written while one kind cannot be read, not even zeros; when it can the status is whole at once."""
    async with house(cluster) as at:
        await at.declare({"name": "server", "replicas": 2})
        await at.cast.converge("chat")
        await at.cast.quota("chat")
        await at.cast.ready("chat")
        before = (await at.found())["metadata"]["resourceVersion"]
        async with withheld(cluster, resource) as (client, allow), controller(at, client, status=StatusSettings()) as running:
            check = f"cache-{resource.kind.lower()}"

            async def heard() -> bool:
                checks = running.ready()
                return "403" in str(checks[check]) and all(value is True for name, value in checks.items() if name != check)

            await cluster.eventually(heard, "the refusal is never heard of", 30)
            await asyncio.sleep(0.5)  # time in which a status could be written; nothing else would tell that none is
            found = await at.found()
            assert "status" not in found
            assert found["metadata"]["resourceVersion"] == before
            await allow()
            status = await at.until(lambda s: s.get("phase") == "Ready", "no status after the refusal", 60)
            assert counts(status) == {"server": (2, 2, 2)}
            assert all(value is True for value in running.ready().values())
