"""The acceptance cases about behaviour that concern the running controller, each run end to end and named by its id."""

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
import respx
import test_acting
import test_reliance
import test_runtime
from atwork import World, running, settings
from cluster import FakeCluster, Request
from things import deployment, pod, router, router_pod, workload
from virtual import settle

from controller.settings import ObserverSettings
from controller.status.groups import generation_of

CASES = Path(__file__).parents[1] / "contract" / "cases" / "behaviour.jsonl"
OTHER_ROOMS = {
    "scaler-fence",
    "pod-gates",
    "condition.ElasticResize",
}  # the webhooks' tests hold the first two; nothing here scales an engine

Case = Callable[[], Awaitable[None]]
COVERED: dict[str, Case] = {
    "bh.status-write.second-identical-pass-writes-nothing": test_runtime.test_a_second_identical_pass_writes_nothing,
    "bh.status-write.failed-pod-list-writes-no-status": lambda: test_reliance.test_a_failed_list_writes_no_status("Pod"),
    "bh.status-write.kueue-absent-although-the-kind-is-served": test_reliance.test_kueue_absent_reads_no_workload,
    "bh.retirement.shared-workload-survives": test_acting.test_a_shared_workload_survives,
    "bh.retirement.sole-workload-is-deleted": test_acting.test_deleting_deletes_by_uid_the_targets_and_their_workload,
    "bh.retirement.the-field-is-cleared-with-an-explicit-null": test_acting.test_deleting_deletes_by_uid_the_targets_and_their_workload,
    "bh.retirement-retry.a-consumed-directive-s-annotation-is-cleared-after-the-token-was-persist-v2": (
        test_acting.test_a_consumed_directive_is_cleared_after_its_token_is_stored
    ),
}


def case(identity: str) -> Callable[[Case], Case]:
    """Registers a test as the one that holds a case."""

    def register(test: Case) -> Case:
        COVERED[identity] = test
        return test

    return register


def worker(**changes: Any) -> dict[str, Any]:
    selection = {"registered": True, "healthy": True, "circuit_open": False, "in_selection": True}
    return {
        "url": "http://10.0.0.1:8000",
        "port": 8000,
        "role": "server",
        "pod_hint": "",
        "worker_id": "w",
        "selection": selection,
        **changes,
    }


def document(*workers: dict[str, Any]) -> dict[str, Any]:
    return {"router": {"boot_generation": 1, "now_ms": 1}, "registry_revision": 1, "workers": list(workers)}


@asynccontextmanager
async def routed(answer: Any) -> AsyncIterator[World]:
    """A deployment behind llm-d-router whose one required view answers so."""

    def prepare(api: FakeCluster) -> None:
        made = api.put(deployment(router={"name": "llm-d-router"}))
        member = api.put(pod(made, "chat-0").ready().at("10.0.0.1").json)
        api.put(workload(member))
        api.put(router_pod(made, router="llm-d-router").json)
        for part in router(made):
            api.put(part)

    observing = replace(settings(), observers=ObserverSettings())
    with respx.mock(assert_all_called=False) as wire:
        route = wire.get("http://10.0.0.9:9090/observer/endpoints")
        if callable(answer):
            route.mock(side_effect=answer)
        else:
            route.mock(return_value=httpx.Response(200, content=answer))
        async with running(FakeCluster(), observing, prepare=prepare) as world:
            await world.clock.advance(3)
            yield world


def serving(world: World) -> dict[str, Any]:
    return world.api.status("chat")["roles"][0]["endpoints"]["serving"]  # type: ignore[no-any-return]


async def test_a_complete_view_confirms() -> None:
    """What the errors below are errors against: a whole view gives Confirmed and its count."""
    async with routed(json.dumps(document(worker())).encode()) as world:
        assert serving(world) == {"state": "Confirmed", "value": 1}


async def view_is_an_error(body: bytes) -> None:
    async with routed(body) as world:
        facts = world.controller.board.read(world.controller.cache.deployments()[0], "uid-chat")
        assert facts is not None
        assert facts.router_views[0].error
        assert serving(world) == {"state": "Unknown"}


@case("bh.serving.oversized-body")
async def oversized() -> None:
    await view_is_an_error(json.dumps(document(worker())).encode() + b" " * (5 << 20))


@case("bh.serving.body-is-not-json")
async def no_json() -> None:
    await view_is_an_error(b"<html>")


@case("bh.serving.workers-list-missing")
async def no_workers() -> None:
    await view_is_an_error(b'{"router":{"boot_generation":1,"now_ms":1},"registry_revision":1}')


@case("bh.serving.boolean-missing-in-selection")
async def no_boolean() -> None:
    lacking = worker()
    del lacking["selection"]["in_selection"]
    await view_is_an_error(json.dumps(document(lacking)).encode())


@case("bh.serving.membership-changed-during-collection")
async def membership_changed() -> None:
    world_of: list[World] = []

    async def answer(_: httpx.Request) -> httpx.Response:
        for world in world_of:
            made = world.api.get_object("ModelDeployment", "chat")
            name = f"chat-{world.api.version}"
            world.api.put(pod(made, name, 1).ready().at(f"10.0.1.{world.api.version % 250}").json)
            await settle(40)
        return httpx.Response(200, json=document(worker()))

    async with routed(answer) as world:
        assert serving(world)["state"] == "Confirmed"
        world_of.append(world)
        await world.clock.advance(11)
        assert serving(world) == {"state": "Unknown"}


@case("bh.retirement.sglang-decode-member-refused")
async def decode_refused() -> None:
    def prepare(api: FakeCluster) -> None:
        made = deployment(engine={"name": "SGLang", "version": "0.5.21"})
        stored = test_acting.operation("Draining", deadline="2026-01-01T00:05:00Z")
        made["status"] = {"phase": "Ready", "retirement": stored}
        made = api.put(made)
        for ordinal in (0, 1):
            thing = pod(made, f"chat-{ordinal}", ordinal).ready().at(f"10.0.0.{ordinal + 1}")
            thing.json["spec"]["containers"][0]["command"] = ["python", "-m", "sglang", "--disaggregation-mode", "decode"]
            api.put(workload(api.put(thing.json), name=f"w{ordinal}"))

    observing = replace(settings(act="retire"), observers=ObserverSettings())
    with respx.mock:  # nobody may be dialled at all
        async with running(FakeCluster(), observing, prepare=prepare) as world:
            await world.clock.advance(10)
            found = world.api.status("chat")["retirement"]
            assert found["state"] == "Draining"
            assert "a replica of that kind cannot be read (half of a pair" in found["reason"]
            assert found["reason"].count("cannot be read") == found["reason"].count("half of a pair")  # said once a member
            assert world.api.sent("delete") == []


@case("bh.eligibility-hold.the-retention-is-proved-by-an-uncached-read")
async def retention() -> None:
    for gone in (False, True):
        api = FakeCluster()
        made = deployment(router={"name": "vllm-router"})
        group = {"ordinal": 0, "generation": generation_of(["uid-chat-0"]), "state": "Eligible", "reason": "Qualified", "message": ""}
        group |= {"qualifiedAt": "2025-12-31T00:00:00Z", "members": [{"name": "chat-0", "uid": "uid-chat-0", "seat": 0, "ready": "True"}]}
        made["status"] = {"phase": "Ready", "roles": [{"name": "server", "groups": [group]}]}
        made = api.put(made)
        api.put(workload(api.put(pod(made, "chat-0").ready().json)))
        api.deaf.add("Pod")

        def vanish(request: Request, api: FakeCluster = api, gone: bool = gone) -> None:
            """The cache has listed the member by the time that the deployment's own Pods are asked for."""
            if (
                gone
                and request.verb == "list"
                and "instance" in (request.options["selector"] or "")
                and ("Pod", "team", "chat-0") in api.objects
            ):
                api.remove("Pod", "chat-0")

        api.fail = vanish
        async with running(api, settings()) as world:
            await world.clock.advance(1)
            found = api.status("chat")["roles"][0]["groups"][0]
            assert (found["state"], found["reason"]) == (("AwaitingObservation", "NoRouterView") if gone else ("Eligible", "Retained"))
            assert found.get("qualifiedAt") == "2025-12-31T00:00:00Z"


@case("bh.status-write.same-input-same-bytes")
async def same_bytes() -> None:
    made = deployment(replicas=2, router={"name": "vllm-router"})
    made["status"] = {}
    members = [pod(made, f"chat-{ordinal}", ordinal).ready().json for ordinal in (0, 1)]
    line = json.dumps(
        {
            "objects": [made, *members, *(workload(each, name=f"w-{each['metadata']['name']}") for each in members)],
            "now": "2026-01-01T00:00:00Z",
        }
    )
    outputs = set()
    for seed in ("1", "2"):
        done = subprocess.run(  # noqa: ASYNC221 - two short runs, one after the other
            [sys.executable, "-m", "app.cli", "status", "--jsonl"],
            input=line.encode() + b"\n",
            capture_output=True,
            check=True,
            cwd=Path(__file__).parents[2],
            env={**os.environ, "PYTHONHASHSEED": seed},
        )
        outputs.add(done.stdout)
    assert len(outputs) == 1
    assert b'"deployments"' in outputs.pop()


@pytest.mark.parametrize("identity", sorted(COVERED))
async def test_case(identity: str) -> None:
    """Each case as its own run."""
    await COVERED[identity]()


def test_every_case_of_ours_is_held() -> None:
    """A case that is added to the file and belongs here cannot be forgotten."""
    known = {entry["id"]: entry["area"] for entry in map(json.loads, CASES.read_text().splitlines())}
    assert {identity for identity, area in known.items() if area not in OTHER_ROOMS} == set(COVERED)
