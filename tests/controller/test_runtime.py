"""The controller end to end on a fake API and virtual time: what it writes, what it leaves alone, and what it never does."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
from cluster import FakeCluster, Request
from things import deployment, pod, workload
from virtual import VirtualClock, settle

from controller.kinds import KindName
from controller.service import Controller
from controller.settings import ControllerSettings, ObserverSettings
from controller.snapshot import StatusSettings
from kube.errors import Conflict, ConnectFailed, Forbidden, KubeError, ServerError, TransportError


@dataclass
class World:
    """A running controller and what it runs against."""

    api: FakeCluster
    clock: VirtualClock
    controller: Controller
    task: asyncio.Task[None]

    def writes(self) -> list[Request]:
        return [request for request in self.api.sent("patch", "ModelDeployment") if request.subresource == "status"]


def settings(*, kueue: str = "required", act: str = "status", elect: bool = False, identity: str = "a") -> ControllerSettings:
    return ControllerSettings(
        status=StatusSettings(kueue=kueue, act=act),  # type: ignore[arg-type]
        observers=ObserverSettings(enabled=False),
        leader_election=elect,
        identity=identity,
    )


@asynccontextmanager
async def running(
    api: FakeCluster, chosen: ControllerSettings | None = None, *, prepare: Callable[[FakeCluster], None] | None = None
) -> AsyncIterator[World]:
    clock = VirtualClock()
    if prepare:
        prepare(api)
    controller = Controller(api, chosen or settings(), clock)  # type: ignore[arg-type]
    task = asyncio.create_task(controller.run())
    await settle(200)
    try:
        yield World(api, clock, controller, task)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def whole_lists(api: FakeCluster) -> list[Request]:
    """The reflector's lists of Pods, not the proofs of one deployment's membership."""
    return [request for request in api.sent("list", "Pod") if "instance" not in request.options["selector"]]


def ready_deployment(api: FakeCluster, name: str = "chat", replicas: int = 1) -> None:
    made = api.put(deployment(name, replicas=replicas))
    for ordinal in range(replicas):
        member = api.put(pod(made, f"{name}-{ordinal}", ordinal).ready().json)
        api.put(workload(member, name=f"w-{name}-{ordinal}"))


async def test_a_deployment_gets_its_status() -> None:
    """One pass over a ready deployment writes Ready, in one patch that carries the resourceVersion."""
    api = FakeCluster()
    async with running(api, prepare=ready_deployment) as world:
        assert api.status("chat")["phase"] == "Ready"
        assert api.status("chat")["roleSummary"] == "1S"
        (write,) = world.writes()
        assert write.body["metadata"]["resourceVersion"]
        assert set(world.controller.ready().values()) == {True}


async def test_a_second_identical_pass_writes_nothing() -> None:
    """Asking again for a pass over the same objects sends no patch."""
    api = FakeCluster()
    async with running(api, prepare=ready_deployment) as world:
        sent = len(world.writes())
        for _ in range(3):
            for key in world.controller.cache.deployments():
                world.controller.queue.add(key)
            await settle()
        assert len(world.writes()) == sent == 1


async def test_a_quiet_fleet_asks_nothing() -> None:
    """An hour in which nothing happens costs no request at all."""
    api = FakeCluster()
    async with running(api, prepare=ready_deployment) as world:
        api.requests.clear()
        await world.clock.advance(3600)
        assert api.requests == []


async def test_a_change_reaches_the_status() -> None:
    """A Pod that loses readiness degrades the status, in one more write."""
    api = FakeCluster()

    def prepare(api: FakeCluster) -> None:
        ready_deployment(api, replicas=2)

    async with running(api, prepare=prepare) as world:
        assert api.status("chat")["phase"] == "Ready"
        api.touch("Pod", "chat-1", lambda item: item["status"].update(conditions=[{"type": "Ready", "status": "False"}]))
        await settle(200)
        assert api.status("chat")["phase"] == "Degraded"
        assert len(world.writes()) == 2


async def test_a_change_of_nothing_that_is_read_starts_no_pass() -> None:
    """A field that no projection names moves the resourceVersion and nothing else."""
    api = FakeCluster()
    async with running(api, prepare=ready_deployment) as world:
        before = world.controller.queue._clock.monotonic(), len(world.writes())
        added = []
        world.controller.queue.add = added.append  # type: ignore[method-assign]
        api.touch("Pod", "chat-0", lambda item: item["status"].update(hostIP="10.0.0.1"))
        await settle(200)
        assert added == []
        assert before[1] == len(world.writes())


@pytest.mark.parametrize("kind", ["Pod", "Workload", "Service", "Deployment", "InstanceType"])
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
    api.unserved |= {"modelartifacts", "kvcachepools", "kvcachepoolbindings", "instancetypes"}
    async with running(api, prepare=ready_deployment) as world:
        assert api.status("chat")["phase"] == "Ready"
        api.requests.clear()
        await world.clock.advance(300)
        assert api.requests == []
        api.unserved.discard("instancetypes")
        crd = {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": "instancetypes.worker.gpustack.ai"},
        }
        api.put(crd)
        await world.clock.advance(1)
        assert len(api.sent("list", "InstanceType")) == 1


async def test_a_conflict_is_recomputed_and_not_replayed() -> None:
    """The patch after a 409 carries what the newer object demands."""
    api = FakeCluster()
    conflicts = []

    def fail(request: Request) -> KubeError | None:
        if request.verb == "patch" and request.subresource == "status" and not conflicts:
            conflicts.append(request)
            api.touch("ModelDeployment", "chat", lambda item: item["metadata"].update(generation=7))
            return Conflict(409, "Conflict", "stale")
        return None

    api.fail = fail
    async with running(api, prepare=ready_deployment) as world:
        await world.clock.advance(1)
        assert api.status("chat")["observedGeneration"] == 7
        assert world.writes()[-1].body["status"]["observedGeneration"] == 7


async def test_an_own_write_is_remembered_until_the_cache_shows_it() -> None:
    """A pass asked for before the watch told of our write neither repeats nor reverts it."""
    api = FakeCluster()
    api.deaf.add("ModelDeployment")
    async with running(api, prepare=ready_deployment) as world:
        assert len(world.writes()) == 1
        api.touch("Pod", "chat-0", lambda item: item["status"].update(conditions=[{"type": "Ready", "status": "False"}]))
        await settle(200)
        assert len(world.writes()) == 1
        api.deaf.clear()
        api._wake()
        await settle(200)
        assert len(world.writes()) == 2
        assert api.status("chat")["phase"] == "Starting"


async def test_what_a_server_does_not_keep_is_not_sent_for_ever() -> None:
    """A server that drops a field gets it once, not in a loop."""
    api = FakeCluster()
    api.drops_status_field = "roleSummary"
    async with running(api, prepare=ready_deployment) as world:
        for _ in range(3):
            for key in world.controller.cache.deployments():
                world.controller.queue.add(key)
            await world.clock.advance(60)
        assert len(world.writes()) == 1


async def test_a_pass_whose_lease_ran_out_writes_nothing() -> None:
    """Even a worker that still runs asks before it writes."""
    api = FakeCluster()
    async with running(api, prepare=ready_deployment) as world:
        world.controller.runner._may_write = lambda: False
        api.touch("Pod", "chat-0", lambda item: item["status"].update(conditions=[{"type": "Ready", "status": "False"}]))
        await settle(200)
        assert len(world.writes()) == 1
        world.controller.runner._may_write = lambda: True
        await world.clock.advance(1.1)
        assert len(world.writes()) == 2, "a renewal that arrived after all must not leave the change untold"


async def test_a_failed_write_is_tried_again_later() -> None:
    """A 500 on the patch is retried with growing waits until it succeeds."""
    api = FakeCluster()
    failing = [ServerError(500, "InternalError", "x")] * 3
    api.fail = lambda request: failing.pop() if request.subresource == "status" and failing else None
    async with running(api, prepare=ready_deployment) as world:
        await world.clock.advance(5)
        assert api.status("chat")["phase"] == "Ready"
        assert len(world.writes()) == 4


async def test_a_deployment_that_is_gone_leaves_nothing_behind() -> None:
    """Deleting and recreating under the same name starts from nothing of the old object."""
    api = FakeCluster()
    async with running(api, prepare=ready_deployment) as world:
        api.remove("ModelDeployment", "chat")
        await settle(200)
        assert world.controller.runner._sightings == {}
        assert world.controller.runner._writer._written == {}
        again = deployment("chat")
        again["metadata"]["uid"] = "uid-other"
        api.put(again)
        await settle(200)
        assert api.status("chat")["phase"] == "Starting"  # the old Pods are not its own


async def test_a_defect_in_one_judgement_leaves_the_others_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """One deployment that cannot be judged does not keep another from its status."""
    import controller.runner

    real = controller.runner.assess

    def broken(snapshot: object) -> object:
        if snapshot.deployment.metadata.name == "bad":  # type: ignore[attr-defined]
            raise ZeroDivisionError
        return real(snapshot)  # type: ignore[arg-type]

    monkeypatch.setattr(controller.runner, "assess", broken)
    api = FakeCluster()

    def prepare(api: FakeCluster) -> None:
        ready_deployment(api, "bad")
        ready_deployment(api, "good")

    async with running(api, prepare=prepare):
        assert api.status("good")["phase"] == "Ready"
        assert api.status("bad") == {}


async def test_a_dying_part_takes_the_controller_down() -> None:
    """A half-alive controller would be worse than a restart."""
    api = FakeCluster()
    async with running(api, prepare=ready_deployment) as world:
        api.fail = lambda request: ZeroDivisionError() if request.verb == "watch" else None  # type: ignore[return-value]
        api.interrupt |= {"Pod"}
        api._wake()
        await world.clock.advance(2)
        await settle(200)
        assert world.task.done()
        assert isinstance(world.task.exception(), ExceptionGroup)
