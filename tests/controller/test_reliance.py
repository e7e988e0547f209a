"""What the controller does about kinds that it cannot read, or could and can no more: it writes nothing false, and finds its way back."""

import pytest
from atwork import World, ready_deployment, running, settings, whole_lists
from cluster import FakeCluster
from things import deployment

from controller.kinds import KindName
from kube.errors import ConnectFailed, Forbidden, KubeError, ServerError, TransportError


@pytest.mark.parametrize("kind", ["Pod", "Workload", "Service", "Deployment", "KVCachePoolBinding"])
async def test_a_failed_list_writes_no_status(kind: str) -> None:
    """While one kind cannot be listed nothing is written; readiness names the kind; when it can be, the status comes."""
    api = FakeCluster()
    api.fail = lambda request: ServerError(500, "InternalError", "boom") if (request.verb, request.kind) == ("list", kind) else None
    async with running(api, prepare=ready_deployment) as world:
        await world.clock.advance(120)
        assert world.writes() == []
        checks = world.controller.ready()
        assert [name for name, state in checks.items() if state is not True] == [f"cache-{kind.lower()}"]
        assert "boom" in str(checks[f"cache-{kind.lower()}"])
        api.fail = lambda _: None
        await world.clock.advance(60)
        assert api.status("chat")["phase"] == "Ready"


async def test_a_relist_that_fails_is_no_empty_list() -> None:
    """After a 410 whose list fails the old status stands: the Pods are not gone because nobody could be asked."""
    api = FakeCluster()
    async with running(api, prepare=ready_deployment) as world:
        sent = len(world.writes())
        api.fail = lambda request: Forbidden(403, "Forbidden", "no") if (request.verb, request.kind) == ("list", "Pod") else None
        api.compact()
        await world.clock.advance(5)
        api.touch("ModelDeployment", "chat", lambda item: item["metadata"].update(generation=2))
        await world.clock.advance(5)
        assert len(world.writes()) == sent
        assert not world.controller._readable()
        api.fail = lambda _: None
        await world.clock.advance(60)
        assert api.status("chat")["observedGeneration"] == 2


async def test_a_410_is_answered_by_a_list_whose_differences_are_told() -> None:
    """A Pod that vanished while the watch was blind is seen to be gone after the new list."""
    api = FakeCluster()

    def prepare(api: FakeCluster) -> None:
        ready_deployment(api, replicas=2)

    async with running(api, prepare=prepare) as world:
        api.remove("Pod", "chat-1", quietly=True)
        api.compact()
        await world.clock.advance(60)
        assert api.status("chat")["phase"] == "Degraded"
        assert len(whole_lists(api)) == 2


@pytest.mark.parametrize("error", [TransportError("cut"), ServerError(503, "Unavailable", "later")])
async def test_a_broken_watch_goes_on_where_it_was(error: KubeError) -> None:
    """A transport fault costs no list, and no event."""
    api = FakeCluster()
    async with running(api, prepare=ready_deployment) as world:
        failing = [error, error]
        api.fail = lambda request: failing.pop() if (request.verb, request.kind) == ("watch", "Pod") and failing else None
        api.interrupt.add("Pod")
        api.touch("Pod", "chat-0", lambda item: item["status"].update(conditions=[]))
        await world.clock.advance(30)
        assert len(whole_lists(api)) == 1
        assert api.status("chat")["phase"] == "Starting"


async def test_a_quiet_watch_that_is_cut_costs_no_list() -> None:
    """Ten minutes of silence are no blindness: the watch is opened again, everything stays readable."""
    api = FakeCluster()
    async with running(api, prepare=ready_deployment) as world:
        await world.clock.advance(600)
        cuts = [TransportError("cut")] * 3
        api.fail = lambda request: cuts.pop() if (request.verb, request.kind) == ("watch", "Pod") and cuts else None
        api.interrupt.add("Pod")
        api._wake()
        await world.clock.advance(30)
        assert cuts == []
        assert len(whole_lists(api)) == 1
        assert set(world.controller.ready().values()) == {True}


async def test_a_deployment_that_cannot_be_read_gets_no_status() -> None:
    """A spec of another shape is not judged as an empty one; other deployments are."""
    api = FakeCluster()

    def prepare(api: FakeCluster) -> None:
        ready_deployment(api, "good")
        odd = deployment("odd")
        odd["spec"]["roles"] = "none"
        api.put(odd)

    async with running(api, prepare=prepare):
        assert api.status("good")["phase"] == "Ready"
        assert api.status("odd") == {}


async def test_a_pod_that_cannot_be_read_still_stands() -> None:
    """Of a Pod with an unreadable part the metadata counts: it occupies its place and is not ready."""
    api = FakeCluster()

    def prepare(api: FakeCluster) -> None:
        ready_deployment(api, replicas=2)
        api.touch("Pod", "chat-1", lambda item: item["status"].update(conditions="odd"))

    async with running(api, prepare=prepare):
        assert api.status("chat")["roles"][0]["ready"] == 1
        assert api.status("chat")["phase"] == "Degraded"


async def test_a_watch_that_stays_broken_ends_the_reliance() -> None:
    """What was known a minute ago and cannot be watched since is not written from."""
    api = FakeCluster()
    async with running(api, prepare=ready_deployment) as world:
        api.fail = lambda request: TransportError("cut") if request.kind == "Pod" else None
        api.interrupt.add("Pod")
        api.compact()
        await world.clock.advance(300)
        reading = world.controller.reflectors[KindName.POD]
        assert (reading.readable, "cut" in reading.reason) == (False, True)
        api.touch("Pod", "chat-0", lambda item: item["status"].update(conditions=[]))
        api.touch("ModelDeployment", "chat", lambda item: item["spec"].update(engine={"name": "SGLang"}))
        await world.clock.advance(10)
        assert len(world.writes()) == 1


def go_away(api: FakeCluster, world: World) -> None:
    """Every watch ends and every request is refused."""
    api.fail = lambda _: ConnectFailed("refused")
    for kind in world.controller.reflectors:
        api.interrupt.add(str(kind))
    api._wake()


async def test_what_was_read_once_and_can_be_read_no_more_costs_statuses_and_not_admission() -> None:
    """An API server that is away for minutes leaves every replica ready: it must not come back to a service without endpoints."""
    api = FakeCluster()
    async with running(api, prepare=ready_deployment) as world:
        go_away(api, world)
        await world.clock.advance(300)
        assert not any(reflector.readable for reflector in world.controller.reflectors.values())
        assert set(world.controller.ready().values()) == {True}


async def test_a_server_that_was_away_is_found_again_within_seconds() -> None:
    """However long it was away: a refused connection is tried every few seconds, apart from each other, and every kind is listed once."""
    api = FakeCluster()
    async with running(api, prepare=ready_deployment) as world:
        go_away(api, world)
        await world.clock.advance(600)
        api.interrupt.clear()
        api.touch("Pod", "chat-0", lambda item: item["status"].update(conditions=[{"type": "Ready", "status": "False"}]))
        api.requests.clear()
        api.fail = lambda _: None
        await world.clock.advance(6)
        assert api.status("chat")["phase"] == "Starting"
        assert len(whole_lists(api)) == 1


async def test_kueue_absent_reads_no_workload() -> None:
    """Under `absent` no Workload request is made although the kind is served, and the condition says why."""
    api = FakeCluster()
    async with running(api, settings(kueue="absent"), prepare=ready_deployment):
        assert [request for request in api.requests if request.kind == "Workload"] == []
        status = api.status("chat")
        quota = next(condition for condition in status["conditions"] if condition["type"] == "QuotaReserved")
        assert (quota["status"], quota["reason"]) == ("Unknown", "KueueNotInstalled")
        assert "quotaReserved" not in status["roles"][0]


async def test_kueue_required_and_missing_writes_no_status() -> None:
    """Under `required` a server without Workloads is a failed read, told by readiness."""
    api = FakeCluster()
    api.unserved.add("workloads")
    async with running(api, prepare=ready_deployment) as world:
        await world.clock.advance(60)
        assert world.writes() == []
        assert world.controller.ready()["cache-workload"] is not True


@pytest.mark.parametrize(("missing", "version"), [(set(), "v1beta2"), ({"workloads/v1beta2"}, "v1beta1")])
async def test_the_newest_served_workload_version_is_read(missing: set[str], version: str) -> None:
    """v1beta2 where it is served, else v1beta1."""
    api = FakeCluster()
    api.unserved |= missing
    async with running(api, prepare=ready_deployment) as world:
        resource = world.controller.reflectors["Workload"]._resource  # type: ignore[index]
        assert resource is not None
        assert resource.version == version
        assert api.status("chat")["phase"] == "Ready"


async def test_a_kind_that_is_not_served_reads_as_not_found() -> None:
    """Without the gpustack kinds a status is written; when a definition appears the kind is read, without polling for it."""
    api = FakeCluster()
    api.unserved |= {"modelartifacts", "kvcachepools", "kvcachepoolbindings"}
    async with running(api, prepare=ready_deployment) as world:
        assert api.status("chat")["phase"] == "Ready"
        api.requests.clear()
        await world.clock.advance(300)
        assert api.requests == []
        api.unserved.discard("kvcachepoolbindings")
        crd = {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": "kvcachepoolbindings.worker.gpustack.ai"},
        }
        api.put(crd)
        await world.clock.advance(1)
        assert len(api.sent("list", "KVCachePoolBinding")) == 1
