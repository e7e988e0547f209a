"""What `/metrics` says of the fleet: nulls have no sample, Unknown has its own, followers say nothing."""

from atwork import ready_deployment, running, settings
from cluster import FakeCluster
from prometheus_client import REGISTRY, generate_latest
from things import deployment
from virtual import VirtualClock, settle

from api.status import Status, decode_status
from controller.fleet import FleetCollector, _standing, _sums
from controller.service import Controller
from kube.errors import Forbidden

CHAT = {"namespace": "team", "name": "chat"}


def sample(family: str, /, **labels: str) -> float | None:
    return REGISTRY.get_sample_value(family, labels)


async def test_a_ready_deployment() -> None:
    """State sets, replica counts, and no sample for what is not known."""
    api = FakeCluster()
    async with running(api, prepare=ready_deployment):
        assert sample("modelwarden_deployment_phase", **CHAT, phase="Ready") == 1
        assert sample("modelwarden_deployment_phase", **CHAT, phase="Degraded") == 0
        assert sample("modelwarden_deployment_condition", **CHAT, type="QuotaReserved", status="True") == 1
        assert sample("modelwarden_deployment_condition", **CHAT, type="QuotaReserved", status="Unknown") == 0
        assert sample("modelwarden_role_replicas_ready", **CHAT, role="server") == 1
        assert sample("modelwarden_role_endpoints_eligible", **CHAT, role="server") == 1
        assert sample("modelwarden_role_endpoints_serving", **CHAT, role="server") is None
        assert sample("modelwarden_deployments", phase="Ready") == 1
        assert sample("leader_election_master_status", name="modelwarden") == 1
    assert b"modelwarden_deployment_phase{" not in generate_latest(REGISTRY)


async def test_a_deployment_that_was_not_judged_is_unknown() -> None:
    """No status yet is a phase of its own and not zero of everything."""
    api = FakeCluster()
    api.unserved.add("workloads")

    def prepare(api: FakeCluster) -> None:
        api.put(deployment())

    async with running(api, prepare=prepare):
        assert sample("modelwarden_deployment_phase", **CHAT, phase="Unknown") == 1
        assert sample("modelwarden_role_replicas_ready", **CHAT, role="server") is None


async def test_conditions_are_told_to_be_stale_while_a_kind_cannot_be_read() -> None:
    """Nothing is judged then: the figures stand, and say that they are old."""
    api = FakeCluster()
    async with running(api, prepare=ready_deployment) as world:
        assert sample("modelwarden_statuses_stale") == 0
        api.fail = lambda request: Forbidden(403, "Forbidden", "no") if (request.verb, request.kind) == ("list", "Pod") else None
        api.compact()
        await world.clock.advance(5)
        assert sample("modelwarden_statuses_stale") == 1
        assert sample("modelwarden_deployment_phase", **CHAT, phase="Ready") == 1
        api.fail = lambda _: None
        await world.clock.advance(60)
        assert sample("modelwarden_statuses_stale") == 0


async def test_a_large_fleet_is_summed() -> None:
    """Beyond the bound only sums are shown."""
    api = FakeCluster()

    def prepare(api: FakeCluster) -> None:
        for number in range(3):
            ready_deployment(api, f"chat{number}")

    async with running(api, prepare=prepare) as world:
        families = [family.name for family in FleetCollector(world.controller.cache, world.clock, lambda: True, detailed=2).collect()]
        assert families == ["modelwarden_statuses_stale", "modelwarden_deployments", "modelwarden_conditions"]


async def test_a_follower_shows_nothing() -> None:
    """Two replicas do not count a deployment twice."""
    controller = Controller(FakeCluster(), settings(elect=True), VirtualClock())  # type: ignore[arg-type]
    await settle()
    assert list(controller.fleet.collect()) == []


def test_a_condition_of_somebody_else_is_not_counted() -> None:
    """Labels have an end: types that others invent are theirs."""
    status = decode_status({"conditions": [{"type": kind, "status": "True"} for kind in ("QuotaReserved", "Theirs-4711")]})
    counted = {sample.labels.get("type") for family in _sums([_standing(status)]) for sample in family.samples}
    assert counted == {None, "QuotaReserved"}


async def test_between_scrapes_no_status_is_kept() -> None:
    """Decoded statuses of ten thousand deployments would take more room than all their Pods."""
    async with running(FakeCluster(), prepare=ready_deployment) as world:
        fleet = FleetCollector(world.controller.cache, world.clock, lambda: True)
        first = [sample for family in fleet.collect() for sample in family.samples]
        assert [type(known.standing.phase) for known in fleet._known.values()] == [str]
        assert not any(isinstance(part, Status) for known in fleet._known.values() for part in known)
        assert [sample for family in fleet.collect() for sample in family.samples] == first
