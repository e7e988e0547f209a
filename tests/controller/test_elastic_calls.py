"""The elastic world is resized by its own path, which keeps a record; the controller reads the record and calls nobody."""

import json
from collections.abc import Callable
from dataclasses import replace

import httpx
import pytest
import respx
from atwork import running, settings
from cluster import FakeCluster
from things import Thing, deployment, pod, workload

from controller.settings import ObserverSettings

ELASTIC = [{"name": "server", "replicas": 1, "instanceType": "h100", "elasticEp": {"width": 4, "headInstanceType": "cpu"}}]


def timed_out(_: httpx.Request) -> httpx.Response:
    """A call that is never answered."""
    raise httpx.ReadTimeout("no answer")


@pytest.mark.parametrize("answer", [timed_out, lambda _: httpx.Response(503)], ids=["unanswered", "refused"])
async def test_an_unanswered_scale_call_is_never_sent_again_and_costs_no_attempt(answer: Callable[[httpx.Request], httpx.Response]) -> None:
    """The attempts stay what the record says, the condition does not turn, and in an hour no engine is asked for anything but metrics."""
    record = {"desired": {"known": True, "value": 4}, "effective": {"known": False, "reason": "the scale call timed out"}}
    record["refusal"] = {"attempts": 2, "message": "", "abandoned": False}

    def prepare(api: FakeCluster) -> None:
        made = api.put(deployment(roles=ELASTIC))
        for ordinal in range(2):
            thing = pod(made, f"chat-{ordinal}", ordinal).ready().at(f"10.0.0.{ordinal + 1}")
            api.put(workload(api.put(thing.json), name=f"w{ordinal}"))
        api.put({**Thing("v1", "ConfigMap", "elastic-observation-uid-chat").json, "data": {"observation.json": json.dumps(record)}})

    api = FakeCluster()
    observing = replace(settings(act="retire"), observers=ObserverSettings())
    with respx.mock(assert_all_called=False) as wire:
        wire.route().mock(side_effect=answer)
        async with running(api, observing, prepare=prepare) as world:
            await world.clock.advance(60)
            resize = [entry for entry in api.status("chat")["conditions"] if entry["type"] == "ElasticResize"]
            assert [(entry["status"], entry["reason"]) for entry in resize] == [("True", "NoRefusal")]
            written = len(world.writes())
            await world.clock.advance(3600)
            assert len(world.writes()) == written
        assert {call.request.method for call in wire.calls} <= {"GET"}
        assert {call.request.url.path for call in wire.calls} <= {"/metrics"}
    stored = json.loads(api.get_object("ConfigMap", "elastic-observation-uid-chat")["data"]["observation.json"])
    assert stored["refusal"]["attempts"] == 2
    assert [request.verb for request in api.requests if request.kind == "ConfigMap" and request.verb != "get"] == []
