"""Retirements end to end with `act: retire`: stored before done, by UID, and cleared after."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from atwork import World, running, settings
from cluster import FakeCluster, Request
from things import deployment, pod, router, router_pod, workload
from virtual import settle

from api.clock import format_time
from api.status import Retirement
from controller.observers.board import Facts
from controller.snapshot import Drain, DrainRead, RouterView
from kube.errors import ServerError

KEY = ("team", "chat")


def operation(state: str, **parts: Any) -> dict[str, Any]:
    return {
        "roleName": "server",
        "replicaOrdinal": 1,
        "observedGeneration": 1,
        "targetMemberUIDs": ["uid-chat-1"],
        "targetWorkloadUID": "uid-w1",
        "state": state,
        "reason": "x",
        "startedAt": "2026-01-01T00:00:00Z",
        "deadline": "2026-01-01T00:05:00Z",
        "phaseStartedAt": "2026-01-01T00:00:00Z",
        **parts,
    }


def scene(api: FakeCluster, *, stored: dict[str, Any] | None = None, shared: bool = False, replicas: int = 1, **annotations: str) -> None:
    """One replica too many, each with its Workload, or both with one."""
    made = deployment(replicas=replicas)
    made["metadata"]["annotations"].update(annotations)
    made["status"] = {"phase": "Ready", **({"retirement": stored} if stored else {})}
    made = api.put(made)
    members = [api.put(pod(made, f"chat-{ordinal}", ordinal).ready().json) for ordinal in (0, 1)]
    api.put(workload(members[0], name="w0"))
    api.put(workload(*(members if shared else members[1:]), name="w1"))


@asynccontextmanager
async def retiring(api: FakeCluster) -> AsyncIterator[World]:
    async with running(api, settings(act="retire")) as world:
        yield world


def deletes(api: FakeCluster) -> list[tuple[str, str, Any]]:
    return [(request.kind, request.name, request.options.get("uid")) for request in api.sent("delete")]


async def test_the_pass_that_admits_deletes_nothing() -> None:
    """The reservation is stored; nothing else happens in that pass, nor before the protocol says so."""
    api = FakeCluster()
    scene(api)
    async with retiring(api):
        found = api.status("chat")["retirement"]
        assert found["targetMemberUIDs"] == ["uid-chat-1"]
        assert found["targetWorkloadUID"] == "uid-w1"
        assert deletes(api) == []


async def test_deleting_deletes_by_uid_the_targets_and_their_workload() -> None:
    """From a stored Deleting on, the captured Pod and its sole Workload go, each with its UID."""
    api = FakeCluster()
    scene(api, stored=operation("Deleting"))
    async with retiring(api) as world:
        await world.clock.advance(10)
        assert ("Pod", "chat-1", "uid-chat-1") in deletes(api)
        assert ("Workload", "w1", "uid-w1") in deletes(api)
        assert {name for _, name, _ in deletes(api)} == {"chat-1", "w1"}
        assert "retirement" not in api.status("chat")
        nulls = [r for r in world.writes() if r.body["status"].get("retirement", 0) is None]
        assert len(nulls) == 1


async def test_a_shared_workload_survives() -> None:
    """A Workload that owns a Pod outside the target set is not deleted."""
    api = FakeCluster()
    scene(api, stored=operation("Deleting"), shared=True)
    async with retiring(api) as world:
        await world.clock.advance(10)
        assert set(deletes(api)) == {("Pod", "chat-1", "uid-chat-1")}
        assert "retirement" not in api.status("chat")


async def test_status_mode_deletes_nothing() -> None:
    """Under `act: status` the same stored operation is only reported."""
    api = FakeCluster()
    scene(api, stored=operation("Deleting"))
    async with running(api, settings(act="status")) as world:
        await world.clock.advance(10)
        assert deletes(api) == []
        assert api.sent("patch", "Pod") == []


@pytest.mark.parametrize("act", ["status", "retire"])
async def test_the_write_that_ends_an_operation_brings_the_next_one(act: str) -> None:
    """A replica of a role that went waits for an aborted operation; that one ends, and nothing else happens that would bring a pass."""
    api = FakeCluster()
    made = deployment(replicas=1)
    ended = operation("Aborted", replicaOrdinal=0, targetMemberUIDs=["uid-chat-0"], targetWorkloadUID="uid-w0")
    made["status"] = {"phase": "Ready", "retirement": ended}
    made = api.put(made)
    kept, left = (api.put(pod(made, name, 0, role).ready().json) for name, role in (("chat-0", "server"), ("gone-0", "gone")))
    api.put(workload(kept, name="w0"))
    api.put(workload(left, name="w1"))
    async with running(api, settings(act=act)) as world:
        await world.clock.advance(1)
        assert api.status("chat").get("retirement", {}).get("roleName") == "gone"
        assert any(request.body["status"].get("retirement", 0) is None for request in world.writes())


async def test_an_operation_that_is_no_longer_stored_deletes_nothing() -> None:
    """The API server is asked before the first delete: a cache that lags must not act on an operation that ended."""
    api = FakeCluster()
    scene(api, stored=operation("Deleting"))
    api.deaf.add("ModelDeployment")
    first = []

    def lag(request: Request) -> None:
        # Between the read of the cache and the act somebody stores another state.
        if request.verb == "get" and not first:
            first.append(request)
            api.touch("ModelDeployment", "chat", lambda item: item["status"]["retirement"].update(state="Aborted"))

    api.fail = lag
    async with retiring(api) as world:
        await world.clock.advance(1)
        api.deaf.clear()
        api._wake()
        await world.clock.advance(5)
        assert deletes(api) == []


async def test_another_pod_of_that_name_is_not_deleted() -> None:
    """A Pod recreated under the captured name has another UID; it is neither named nor hit."""
    api = FakeCluster()
    scene(api, stored=operation("Deleting", targetMemberUIDs=["uid-of-before"]))
    async with retiring(api) as world:
        await world.clock.advance(10)
        assert [name for kind, name, _ in deletes(api) if kind == "Pod" and name == "chat-1"] == []


async def test_a_consumed_directive_is_cleared_after_its_token_is_stored() -> None:
    """First the status with token and Admitted, then the annotation, by a patch that carries the resourceVersion."""
    api = FakeCluster()
    key = "modeldeployment.gpustack.ai/retirement-retry"
    scene(api, stored=operation("Aborted"), **{key: "server:1:token-a"})
    async with retiring(api) as world:
        await world.clock.advance(1)
        writes = api.sent("patch", "ModelDeployment")
        tokens = [r.body.get("status", {}).get("retirement", {}).get("lastConsumedRetryToken") for r in writes]
        stored = tokens.index("token-a")
        cleared = [at for at, r in enumerate(writes) if r.body["metadata"].get("annotations") == {key: None}]
        assert writes[stored].body["status"]["retirement"]["state"] == "Admitted"
        assert len(cleared) == 1
        assert cleared[0] > stored
        assert writes[cleared[0]].body["metadata"]["resourceVersion"]
        assert key not in api.get_object("ModelDeployment", "chat")["metadata"]["annotations"]


async def test_eligible_members_are_labelled_and_a_target_loses_its_label() -> None:
    """`endpoint-eligible` follows the criteria: set on the kept replica, taken from the retiring one."""
    api = FakeCluster()
    scene(api)
    api.touch("Pod", "chat-1", lambda item: item["metadata"]["labels"].update({"modeldeployment.gpustack.ai/endpoint-eligible": "true"}))
    async with retiring(api) as world:
        await world.clock.advance(3)
        labels = {name: api.get_object("Pod", name)["metadata"]["labels"] for name in ("chat-0", "chat-1")}
        assert labels["chat-0"]["modeldeployment.gpustack.ai/endpoint-eligible"] == "true"
        assert "modeldeployment.gpustack.ai/endpoint-eligible" not in labels["chat-1"]
        assert api.status("chat")["retirement"]["state"] == "Disqualified"


async def test_a_pod_that_changed_meanwhile_is_labelled_only_after_it_was_judged_anew() -> None:
    """A label carries the version that was judged: refused on a newer Pod, though its change concerns nobody, and asked for again."""
    api = FakeCluster()
    scene(api, replicas=2)
    changed = []

    def meanwhile(request: Request) -> None:
        if request.verb == "patch" and request.kind == "Pod" and request.name == "chat-0" and not changed:
            changed.append(request)
            api.touch("Pod", "chat-0", lambda item: item["metadata"]["labels"].update(other="x"))

    api.fail = meanwhile
    async with retiring(api) as world:
        await world.clock.advance(5)
        versions = [r.body["metadata"]["resourceVersion"] for r in api.sent("patch", "Pod") if r.name == "chat-0"]
        assert len(versions) == len(set(versions)) == 2
        for name in ("chat-0", "chat-1"):
            assert api.get_object("Pod", name)["metadata"]["labels"]["modeldeployment.gpustack.ai/endpoint-eligible"] == "true"


async def test_a_budget_that_is_spent_aborts_without_any_news() -> None:
    """Time alone ends a withdrawal that no router can confirm: a pass comes when its budget is over."""
    api = FakeCluster()
    scene(api)
    async with retiring(api) as world:
        await world.clock.advance(29)
        assert api.status("chat")["retirement"]["state"] == "Disqualified"
        await world.clock.advance(7)
        assert api.status("chat")["retirement"]["state"] == "Aborted"
        assert deletes(api) == []
        api.requests.clear()
        await world.clock.advance(3600)
        assert api.requests == []


async def test_a_whole_operation() -> None:
    """Admitted to the end behind a router: withdrawn, drained, deleted, settled, and the field is gone."""
    api = FakeCluster()
    made = deployment(replicas=1, router={"name": "vllm-router"})
    made["status"] = {"phase": "Ready"}
    made = api.put(made)
    members = [api.put(pod(made, f"chat-{ordinal}", ordinal).ready().json) for ordinal in (0, 1)]
    for at, member in enumerate(members):
        api.put(workload(member, name=f"w{at}"))
    for above in router(made):
        api.put(above)
    asked = api.put(router_pod(made).json)
    async with retiring(api) as world:
        seen = []
        for _ in range(40):
            now = format_time(world.clock.now())
            view = RouterView(router_pod_uid=asked["metadata"]["uid"], boot_generation=1, received_at=now)
            idle = Drain(pod_uid="uid-chat-1", reads=(DrainRead(at=now, outcome="Idle"), DrainRead(at=now, outcome="Idle")))
            world.controller.board.put(KEY, Facts("uid-chat", router_views=(view,), drain={"uid-chat-1": idle}))  # type: ignore[arg-type]
            await world.clock.advance(1)
            seen.append(api.status("chat").get("retirement", {}).get("state", "-"))
        order = [state for at, state in enumerate(seen) if at == 0 or seen[at - 1] != state]
        assert order[-1] == "-"
        assert deletes(api) == [("Pod", "chat-1", "uid-chat-1"), ("Workload", "w1", "uid-w1")]
        states = [
            r.body["status"]["retirement"].get("state")
            for r in world.writes()
            if isinstance(r.body["status"].get("retirement"), dict) and "state" in r.body["status"]["retirement"]
        ]
        assert states == ["Admitted", "Disqualified", "Withdrawing", "Draining", "Deleting", "Settling"]
        stored_deleting = next(at for at, r in enumerate(api.requests) if r.subresource == "status" and "Deleting" in str(r.body))
        first_delete = next(at for at, r in enumerate(api.requests) if r.verb == "delete")
        assert stored_deleting < first_delete


@pytest.mark.parametrize("crash_at", range(6))
async def test_a_crash_at_any_write_loses_nothing(crash_at: int) -> None:
    """The controller is killed as its n-th write of a Deleting operation leaves; a new one ends the operation, deleting nothing else."""
    api = FakeCluster()
    scene(api, stored=operation("Draining"))
    writes = 0
    crashed = asyncio.Event()

    def fail(request: Request) -> ServerError | None:
        nonlocal writes
        if request.verb in ("patch", "delete") and request.kind != "Event":
            writes += 1
            if writes - 1 == crash_at:
                crashed.set()
                return ServerError(500, "x", "the answer never came")
        return None

    idle = DrainRead(at="2026-01-01T00:00:30Z", outcome="Idle")
    api.fail = fail
    for _ in range(2):
        async with retiring(api) as world:
            for _ in range(20):
                world.controller.board.put(KEY, Facts("uid-chat", drain={"uid-chat-1": Drain(pod_uid="uid-chat-1", reads=(idle, idle))}))  # type: ignore[arg-type]
                await world.clock.advance(0.5)
                if crashed.is_set():
                    crashed.clear()
                    break
    await settle()
    assert {name for _, name, _ in deletes(api)} <= {"chat-1", "w1"}
    assert "retirement" not in api.status("chat")
    assert api.get_object("Pod", "chat-0")


def test_the_retirement_that_is_stored_decodes() -> None:
    """The builder above has the wire's names."""
    import msgspec

    assert msgspec.convert(operation("Deleting"), Retirement).target_member_uids == ("uid-chat-1",)
