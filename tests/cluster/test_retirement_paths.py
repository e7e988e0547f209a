"""Retirements with real readings and real deletions: the whole way, budgets that run out, retries, removals that queue up, adoption."""

from typing import Any

import pytest
from clusterkit import TestCluster
from household import House, ago, children, controller, gone, house

from kube.resources import PODS

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(115)]

SERVER = {"name": "server", "replicas": 2}
ORDER = ("Admitted", "Disqualified", "Withdrawing", "Draining", "Deleting", "Settling")


async def eligible(at: House, *names: str) -> None:
    """These Pods, and no others, carry the label."""

    async def so() -> bool:
        return await at.labelled() == set(names)

    await at.cluster.eventually(so, f"never are just {names} labelled", 30)


async def test_a_busy_replica_is_waited_for_and_then_leaves_step_by_step(cluster: TestCluster) -> None:
    """The router lets go, the engine's gauges are heard, the Pod and its Workload are deleted, and the field is gone; each step is told."""
    seen: list[str] = []
    async with house(cluster) as at:
        await at.whole(SERVER)
        at.busy.add("chat-server-1")
        async with controller(at):
            await eligible(at, "chat-server-0", "chat-server-1")
            status = await at.until(lambda s: s["roles"][0]["endpoints"]["serving"].get("value") == 2, "the router never confirms")
            assert [group["state"] for group in status["roles"][0]["groups"]] == ["Eligible", "Eligible"]
            uids = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in await at.pods()}
            owns = (await at.workloads())[uids["chat-server-1"]]
            await at.scale(server=1)
            busy = "chat-server-1: busy (vllm:num_requests_running=2)"
            status = await at.until(lambda s: busy in (s.get("retirement") or {}).get("reason", ""), "the busy engine is never heard")
            operation = status["retirement"]
            assert operation["state"] == "Draining"
            assert (operation["roleName"], operation["replicaOrdinal"]) == ("server", 1)
            assert (operation["targetMemberUIDs"], operation["targetWorkloadUID"]) == ([uids["chat-server-1"]], owns)
            assert operation["startedAt"] <= operation["phaseStartedAt"] < operation["deadline"]
            states = {group["ordinal"]: group["state"] for group in status["roles"][0]["groups"]}
            assert states == {0: "Eligible", 1: "Retiring"}
            assert await at.labelled() == {"chat-server-0"}
            at.busy.clear()
            await at.until_step("Deleting")

            async def ends() -> bool:
                state = (await at.operation()).get("state", "-")
                if not seen or seen[-1] != state:
                    seen.append(state)
                if "deletionTimestamp" in (await at.pods())[-1]["metadata"]:
                    await at.bury()
                return state == "-"

            await at.until(
                lambda s: "waiting for chat-server-1 to leave" in (s.get("retirement") or {}).get("reason", ""), "no Pod is waited for"
            )
            await cluster.eventually(ends, "the operation never ends", 30)
            assert seen in (["Deleting", "Settling", "-"], ["Deleting", "-"])
            assert await gone(at.client, PODS, "chat-server-1", at.namespace)
            assert owns not in (await at.workloads()).values()
            status = await at.until(lambda s: s["roles"][0]["endpoints"]["serving"].get("value") == 1, "the router never confirms one")
            assert status["phase"] == "Ready"
            assert (status["roles"][0]["desired"], status["roles"][0]["ready"]) == (1, 1)


@pytest.mark.parametrize(
    ("state", "stubborn", "times", "told"),
    [
        ("Disqualified", True, {"phaseStartedAt": 27, "startedAt": 27, "deadline": -273}, "the withdrawal's budget of 30 s"),
        ("Draining", False, {"phaseStartedAt": 237, "startedAt": 240, "deadline": -60}, "the drain's budget of 240 s"),
        ("Draining", False, {"phaseStartedAt": 10, "startedAt": 297, "deadline": -3}, "the operation's total budget"),
    ],
)
async def test_a_budget_that_runs_out_retains_everything_over_a_restart(
    cluster: TestCluster, state: str, stubborn: bool, times: dict[str, float], told: str
) -> None:
    """The clocks go on while nobody runs; the operation ends Aborted with members, Workload and hold in place; a retry begins anew."""
    async with house(cluster) as at, children(at) as born:
        await at.whole(SERVER)
        at.busy.add("chat-server-1")
        at.stubborn = stubborn
        pid = await born.born()
        await eligible(at, "chat-server-0", "chat-server-1")
        await at.scale(server=1)
        await at.until_step(state)
        born.kill(pid)
        await at.store(**{name: ago(seconds) for name, seconds in times.items()})
        pid = await born.born()
        operation = await at.until_step("Aborted")
        assert told in operation["reason"]
        assert "members, Workload and capacity are retained" in operation["reason"]
        born.kill(pid)

        pid = await born.born()
        await at.scale(server=1)
        held = ["Eligible", "Retiring"]
        status = await at.until(lambda s: [group["state"] for group in s["roles"][0]["groups"]] == held, f"never {held}")
        assert status["retirement"] == operation
        born.kill(pid)
        assert {pod["metadata"]["name"] for pod in await at.pods()} == {"chat-server-0", "chat-server-1", "chat-router-1-a"}
        assert len(await at.workloads()) == 2
        assert born.did("delete:Pod") == born.did("delete:Workload") == []

        at.stubborn = False
        at.busy.clear()
        await at.annotate(retirement_retry="server:1:again")
        pid = await born.born(hold="before:clearRetry")
        await born.held(pid)
        born.kill(pid)
        stored = await at.operation()
        assert stored["lastConsumedRetryToken"] == "again"
        assert stored["startedAt"] > operation["startedAt"]
        assert (await at.found())["metadata"]["annotations"]["modeldeployment.gpustack.ai/retirement-retry"] == "server:1:again"
        await born.born()
        await at.until_over()
        assert "modeldeployment.gpustack.ai/retirement-retry" not in (await at.found())["metadata"].get("annotations", {})
        assert born.did("delete:Pod") == stored["targetMemberUIDs"]
        assert set(born.did("delete:Workload")) <= {stored["targetWorkloadUID"]}  # or the collector took it along with its Pod
        assert stored["targetWorkloadUID"] not in (await at.workloads()).values()


async def test_two_removals_at_once_go_one_after_the_other(cluster: TestCluster) -> None:
    """The lower ordinal first; the other is refused by name and left alone, until the first is over."""
    async with house(cluster) as at:
        await at.whole({"name": "server", "replicas": 3})
        at.busy |= {"chat-server-1", "chat-server-2"}
        async with controller(at):
            await eligible(at, "chat-server-0", "chat-server-1", "chat-server-2")
            await at.scale(server=1)
            first = await at.until_step("Draining")
            assert first["replicaOrdinal"] == 1
            assert first["reason"].endswith("Refused meanwhile, and left in place: server ordinal 2.")
            assert "deletionTimestamp" not in (await at.pod("chat-server-2"))["metadata"]
            assert await at.labelled() == {"chat-server-0", "chat-server-2"}
            at.busy.discard("chat-server-1")

            async def second() -> dict[str, Any]:
                await at.bury()
                found = await at.operation()
                return found if found.get("replicaOrdinal") == 2 else {}

            await cluster.eventually(second, "the second is never admitted", 30)
            assert await gone(at.client, PODS, "chat-server-1", at.namespace)
            assert "deletionTimestamp" not in (await at.pod("chat-server-2"))["metadata"]
            at.busy.clear()
            await at.until_over()
            await eligible(at, "chat-server-0")
            assert {pod["metadata"]["name"] for pod in await at.pods()} == {"chat-server-0", "chat-router-1-a"}


async def test_a_retained_replica_that_is_declared_again_is_adopted(cluster: TestCluster) -> None:
    """Same members, every other criterion met: the field is cleared, the label returns, and nothing was ever deleted."""
    async with house(cluster) as at, children(at) as born:
        await at.whole(SERVER)
        at.busy.add("chat-server-1")
        await born.born()
        await eligible(at, "chat-server-0", "chat-server-1")
        await at.scale(server=1)
        await at.until_step("Draining")
        await at.store(deadline=ago(0))
        await at.until_step("Aborted")
        await at.scale(server=2)
        await at.until(lambda s: "retirement" not in s, "the replica is never adopted")
        await eligible(at, "chat-server-0", "chat-server-1")
        status = await at.until(lambda s: s["roles"][0]["endpoints"]["serving"].get("value") == 2, "the router never confirms")
        assert status["phase"] == "Ready"
        assert born.did("delete:Pod") == born.did("delete:Workload") == []


async def test_a_pod_that_took_a_captured_name_meanwhile_is_left_alone(cluster: TestCluster) -> None:
    """The operation was to delete a UID; while no controller ran that Pod went and another took its name and place: it stays."""
    async with house(cluster) as at, children(at) as born:
        await at.whole(SERVER)
        pid = await born.born(hold="before:delete:Pod")
        await eligible(at, "chat-server-0", "chat-server-1")
        await at.scale(server=1)
        await born.held(pid)
        born.kill(pid)
        assert (await at.operation())["state"] == "Deleting"
        await at.client.delete(PODS, "chat-server-1", at.namespace)
        await at.bury()
        await at.scale(server=2)
        heir = await at.seat("chat-server-1", ordinal=1)
        await born.born()
        await at.until_over()
        found = await at.pod("chat-server-1")
        assert found["metadata"]["uid"] == heir["metadata"]["uid"]
        assert "deletionTimestamp" not in found["metadata"]
        assert born.did("delete:Pod") == []


async def test_a_replica_of_two_pods_is_drained_by_its_leader_and_leaves_whole(cluster: TestCluster) -> None:
    """Only member 0 answers for requests; both Pods and their one Workload are deleted, though one lost its ordinal meanwhile."""
    async with house(cluster) as at, children(at) as born:
        await at.whole({"name": "server", "replicas": 2, "size": 2})
        seats = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in await at.pods() if "router" not in pod["metadata"]["name"]}
        at.busy |= {"chat-server-r1-m0", "chat-server-r1-m1"}
        await born.born()
        await eligible(at, *seats)
        await at.scale(server=1)
        leader = "Draining: chat-server-r1-m0: busy (vllm:num_requests_running=2)."
        await at.until(lambda s: (s.get("retirement") or {}).get("reason") == leader, "the leader is never heard")
        members = sorted(uid for name, uid in seats.items() if "-r1-" in name)
        assert (await at.operation())["targetMemberUIDs"] == members
        await at.client.patch(
            PODS, "chat-server-r1-m1", b'{"metadata":{"labels":{"modeldeployment.gpustack.ai/pod-ordinal":null}}}', at.namespace
        )
        at.busy.discard("chat-server-r1-m0")
        await at.until_over()
        assert sorted(born.did("delete:Pod")) == members
        await eligible(at, "chat-server-r0-m0", "chat-server-r0-m1")
        left = {pod["metadata"]["uid"] for pod in await at.pods() if "router" not in pod["metadata"]["name"]}
        assert left == set(seats.values()) - set(members)
        assert len(await at.workloads()) == 1
