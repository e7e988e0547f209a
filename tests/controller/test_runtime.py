"""The controller end to end on a fake API and virtual time: what it writes, what it leaves alone, and what it never does."""

import pytest
from atwork import ready_deployment, running
from cluster import FakeCluster, Request
from things import deployment
from virtual import settle

from kube.errors import Conflict, KubeError, ServerError


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
