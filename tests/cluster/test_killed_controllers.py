"""A retirement from the removal to the last write, by controllers that are processes and are killed at every step of it."""

import pytest
from clusterkit import TestCluster
from household import House, ago, children, house

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(115)]

STEPS = (
    "status:Admitted",
    "unlabel",
    "status:Disqualified",
    "status:Withdrawing",
    "status:Draining",
    "status:Deleting",
    "delete:Pod",
    "delete:Workload",
    "status:Settling",
    "status:cleared",
)


@pytest.mark.parametrize("moment", ["after", "before"])
async def test_one_retirement_outlives_a_kill_at_each_of_its_writes(cluster: TestCluster, moment: str) -> None:
    """Each successor goes on from what is stored; the captured Pod and its Workload are deleted once, by UID, and nothing else is."""
    async with house(cluster) as at, children(at) as born:
        await at.whole({"name": "server", "replicas": 2})
        first = await born.born()
        await cluster.eventually(lambda: _all_labelled(at), "the replicas are never eligible")
        born.kill(first)
        before = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in await at.pods()}
        target, workload = before["chat-server-1"], (await at.workloads())[before["chat-server-1"]]
        await at.scale(server=1)

        for point in STEPS:
            pid = await born.born(hold=f"{moment}:{point}")
            if point == "status:Settling":
                await cluster.eventually(lambda: _without(at, workload), "the Workload is never deleted")
                await at.bury()
            await born.held(pid)
            stored = await at.operation()
            if moment == "after" and point.startswith("status:") and point != "status:cleared":
                assert stored["state"] == point.removeprefix("status:")
            if stored:
                assert (stored["targetMemberUIDs"], stored["targetWorkloadUID"]) == ([target], workload)
            born.kill(pid)
            if stored:  # a slow machine must not spend the budgets: they have tests of their own
                await at.store(phaseStartedAt=ago(0), deadline=ago(-300))
        await born.born()
        await at.until_over()
        assert {pod["metadata"]["name"] for pod in await at.pods()} == {"chat-server-0", "chat-router-1-a"}
        assert await at.workloads() == {before["chat-server-0"]: (await at.workloads())[before["chat-server-0"]]}
        assert born.did("delete:Pod") == [target]
        assert born.did("delete:Workload") == [workload]
        assert await at.labelled() == {"chat-server-0"}


async def _all_labelled(at: House) -> bool:
    return await at.labelled() == {"chat-server-0", "chat-server-1"}


async def _without(at: House, workload: str) -> bool:
    return workload not in (await at.workloads()).values()
