"""When who is asked, and what of it asks for a pass."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import httpx
import msgspec
import pytest
import respx
from cluster import FakeCluster
from prometheus_client import REGISTRY
from test_cache import Fed
from test_readings import gauges, operations, view
from things import Thing, deployment, pod, router, router_pod
from virtual import VirtualClock, settle

from controller.kinds import KindName
from controller.observers.board import Board
from controller.observers.service import ObserverService
from controller.settings import ObserverSettings
from controller.snapshot import ElasticObservation
from controller.store import Key
from kube.errors import Forbidden, ServerError

CHAT = Key("team", "chat")


class Watched:
    """An observer service over a cache that a test feeds."""

    def __init__(self, **spec: object) -> None:
        self.fed = Fed()
        self.clock = VirtualClock()
        self.board = Board()
        self.news: list[Key] = []
        self.made = deployment(**spec)  # type: ignore[arg-type]
        self.fed.put(KindName.DEPLOYMENT, self.made)
        self.fed.put(KindName.POD, pod(self.made, "chat-0").ready().at("10.0.0.1").json)
        self.api = FakeCluster()
        self.service = ObserverService(self.api, self.fed.cache, self.board, ObserverSettings(), self.clock, on_news=self.news.append)

    def route(self) -> None:
        """A managed router with one Pod."""
        above, below = router(self.made)
        self.fed.put(KindName.POD, router_pod(self.made).json)
        self.fed.put(KindName.ROUTER, above)
        self.api.put(below)

    def pair(self, second: str | None = "True", *, leaving: bool = False) -> None:
        """The Pod and another one as one replica; the second's readiness, None where it is missing."""
        for member, ready in enumerate(("True", second)):
            thing = (
                pod(self.made, f"chat-{member}")
                .at(f"10.0.0.{member + 1}")
                .labelled(**{"modeldeployment.gpustack.ai/member-index": str(member)})
            )
            thing.annotated("kueue.x-k8s.io/pod-group-total-count", "2")
            if ready is not None:
                thing.ready(ready)
                if leaving and member:
                    thing.json["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
                self.fed.put(KindName.POD, thing.json, 2)

    def facts(self) -> object:
        return self.board.read(CHAT, "uid-chat")


def observed(observer: str, outcome: str) -> float:
    return REGISTRY.get_sample_value("modelwarden_observations_total", {"observer": observer, "outcome": outcome}) or 0.0


@asynccontextmanager
async def observing(watched: Watched) -> AsyncIterator[respx.MockRouter]:
    with respx.mock(assert_all_called=False) as wire:
        task = asyncio.create_task(watched.service.run())
        try:
            yield wire
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def test_a_plain_deployment_is_not_asked() -> None:
    """Nothing to observe, nobody dialled."""
    watched = Watched()
    async with observing(watched) as wire:
        await watched.clock.advance(120)
        assert wire.calls.call_count == 0
        assert watched.news == []


async def test_only_what_changed_is_thought_over_and_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten thousand deployments that need nothing observed cost nothing; one that comes to need it is asked in the same second."""
    watched = Watched()
    watched.fed.put(KindName.DEPLOYMENT, deployment("other"))
    thoughts: list[str] = []
    think_over = watched.service._think_over
    monkeypatch.setattr(watched.service, "_think_over", lambda key: (thoughts.append(key.name), think_over(key)))
    async with observing(watched) as wire:
        await watched.clock.advance(60)
        assert sorted(thoughts) == ["chat", "other"]
        route = wire.get("http://10.0.0.9:8081/observer/endpoints").respond(200, json=view())
        watched.route()
        watched.fed.put(KindName.DEPLOYMENT, watched.made | {"spec": {**watched.made["spec"], "router": {"name": "vllm-router"}}}, 2)
        await watched.clock.advance(1.5)
        assert (thoughts[2:], route.call_count) == (["chat"], 1)
        watched.fed.drop(KindName.DEPLOYMENT, watched.made)
        await watched.clock.advance(60)
        assert (thoughts[3:], route.call_count) == (["chat"], 1)


async def test_views_are_collected_and_only_differences_are_news() -> None:
    """Every ten seconds; the same view twice asks for one pass."""
    watched = Watched(router={"name": "vllm-router"})
    watched.route()
    async with observing(watched) as wire:
        route = wire.get("http://10.0.0.9:8081/observer/endpoints").respond(200, json=view())
        await watched.clock.advance(65)
        assert 6 <= route.call_count <= 7
        assert watched.news == [CHAT]
        facts = watched.board.read(CHAT, "uid-chat")
        assert facts is not None
        assert facts.router_views[0].error is None
        assert facts.router_views[0].received_at != "2026-01-01T00:00:00Z"  # its moment moves on all the same
        route.respond(500)
        await watched.clock.advance(11)
        assert watched.news == [CHAT, CHAT]


async def test_a_view_that_comes_again_after_it_grew_stale_is_news() -> None:
    """A pass in between wrote that the routers cannot be told; only another pass takes that back."""
    watched = Watched(router={"name": "vllm-router"})
    watched.route()
    async with observing(watched) as wire:
        asked = 0

        async def answer(_: httpx.Request) -> httpx.Response:
            nonlocal asked
            asked += 1
            await watched.clock.sleep(13 if asked == 2 else 0)
            return httpx.Response(200, json=view())

        wire.get("http://10.0.0.9:8081/observer/endpoints").mock(side_effect=answer)
        await watched.clock.advance(20)
        assert (asked, watched.news) == (2, [CHAT])
        await watched.clock.advance(20)
        assert watched.news == [CHAT, CHAT]


@pytest.mark.parametrize("leap", [-20.0, 20.0, -3600.0])
async def test_views_after_the_clock_was_set_are_news(leap: float) -> None:
    """A pass meanwhile judged the last ones by another time; the same again, of the new time, takes back what it wrote."""
    watched = Watched(router={"name": "vllm-router"})
    watched.route()
    now, shift = watched.clock.now, 0.0
    watched.clock.now = lambda: now() + timedelta(seconds=shift)  # type: ignore[method-assign]
    async with observing(watched) as wire:
        wire.get("http://10.0.0.9:8081/observer/endpoints").respond(200, json=view())
        await watched.clock.advance(15)
        assert watched.news == [CHAT]
        shift = leap
        await watched.clock.advance(12)
        assert watched.news == [CHAT, CHAT]
        await watched.clock.advance(30)
        assert watched.news == [CHAT, CHAT]


async def test_engines_that_nobody_can_reach_keep_no_router_and_no_drain_waiting() -> None:
    """A network policy over one team's metrics is enough to have hundreds of questions wait out their time, again and again."""
    watched = Watched(router={"name": "vllm-router"})
    watched.service._settings = ObserverSettings(concurrency=2)
    watched.route()
    shut = deployment("shut", kvCache={"poolRef": {"name": "bind"}})
    watched.fed.put(KindName.DEPLOYMENT, shut)
    for ordinal in range(40):
        watched.fed.put(KindName.POD, pod(shut, f"shut-{ordinal}", ordinal).ready().at(f"10.1.0.{ordinal + 1}").json)

    async def silence(_: httpx.Request) -> httpx.Response:
        await watched.clock.sleep(1e6)
        return httpx.Response(500)

    async with observing(watched) as wire:
        wire.get(url__regex=r"http://10\.1\.0\..*").mock(side_effect=silence)
        route = wire.get("http://10.0.0.9:8081/observer/endpoints").respond(200, json=view())
        await watched.clock.advance(65)
        assert route.call_count >= 6
        facts = watched.board.read(CHAT, "uid-chat")
        assert facts is not None
        assert facts.router_views[0].error is None


async def test_what_is_learnt_of_a_deployment_that_went_meanwhile_is_not_kept() -> None:
    """The pass that takes its facts off the board was before the answer came."""
    watched = Watched(kvCache={"poolRef": {"name": "bind"}})
    async with observing(watched) as wire:

        async def leave(_: httpx.Request) -> httpx.Response:
            watched.fed.drop(KindName.DEPLOYMENT, watched.made)
            watched.board.forget(CHAT)
            return httpx.Response(200, text=operations(3, 1))

        wire.get("http://10.0.0.1:8000/metrics").mock(side_effect=leave)
        await watched.clock.advance(5)
        assert len(watched.board) == 0


async def test_a_deployment_that_went_is_due_no_more() -> None:
    """Not even where its last collection asked for another one at once."""
    watched = Watched(router={"name": "vllm-router"})
    watched.route()
    async with observing(watched) as wire:

        async def leave(_: httpx.Request) -> httpx.Response:
            watched.fed.drop(KindName.POD, pod(watched.made, "chat-0").json)
            watched.fed.drop(KindName.DEPLOYMENT, watched.made)
            await watched.clock.sleep(3)
            return httpx.Response(200, json=view())

        wire.get("http://10.0.0.9:8081/observer/endpoints").mock(side_effect=leave)
        await watched.clock.advance(10)
        assert watched.service._due == {}


async def test_a_defect_in_reading_an_answer_concerns_one_deployment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Engines and routers choose what they answer: whoever finds a gap in our reading must not end the service of all."""
    watched = Watched(router={"name": "vllm-router"}, kvCache={"poolRef": {"name": "bind"}})
    watched.route()
    monkeypatch.setattr("controller.observers.service.cache_operations", lambda *_: 1 // 0)
    before = observed("cache", "defect")
    async with observing(watched) as wire:
        route = wire.get("http://10.0.0.9:8081/observer/endpoints").respond(200, json=view())
        await watched.clock.advance(65)
        assert route.call_count >= 6  # the others go on
    assert observed("cache", "defect") - before == 3  # and so does this one, at its own pace


async def test_members_that_change_during_the_collection_spoil_it() -> None:
    """A view taken over a changing membership says nothing."""
    watched = Watched(router={"name": "vllm-router"})
    watched.route()
    async with observing(watched) as wire:

        async def change(_: httpx.Request) -> httpx.Response:
            watched.fed.put(KindName.POD, pod(watched.made, "chat-9", 1).ready().at("10.0.0.2").json)
            return httpx.Response(200, json=view())

        wire.get("http://10.0.0.9:8081/observer/endpoints").mock(side_effect=change)
        await watched.clock.advance(0.5)
        facts = watched.board.read(CHAT, "uid-chat")
        assert facts is not None
        assert "changed during the collection" in str(facts.router_views[0].error)
        await watched.clock.advance(3)  # asked again at once, not after the period
        facts = watched.board.read(CHAT, "uid-chat")
        assert facts is not None
        assert facts.router_views[0].error is None


async def test_a_router_is_proved_once_and_then_asked() -> None:
    """The chain of owners is read past the cache once in a Pod's life."""
    watched = Watched(router={"name": "vllm-router"})
    watched.route()
    async with observing(watched) as wire:
        wire.get("http://10.0.0.9:8081/observer/endpoints").respond(200, json=view())
        await watched.clock.advance(65)
        assert [request.kind for request in watched.api.requests] == ["ReplicaSet"]


async def test_a_pod_that_only_looks_like_the_router_is_not_asked() -> None:
    """Labels and a borrowed owner name are no proof: the view is an error, and nothing is sent."""
    watched = Watched(router={"name": "vllm-router"})
    watched.route()
    watched.api.touch("ReplicaSet", "chat-router-abc", lambda item: item["metadata"].update(uid="uid-of-another"))
    async with observing(watched) as wire:
        await watched.clock.advance(30)
        assert wire.calls.call_count == 0
        facts = watched.board.read(CHAT, "uid-chat")
        assert facts is not None
        assert "no Pod of the managed router" in str(facts.router_views[0].error)


async def test_a_chain_that_cannot_be_read_is_asked_for_again() -> None:
    """A failed read is neither proof nor disproof."""
    watched = Watched(router={"name": "vllm-router"})
    watched.route()
    failures = [ServerError(500, "x", "x")]
    watched.api.fail = lambda _: failures.pop() if failures else None
    async with observing(watched) as wire:
        wire.get("http://10.0.0.9:8081/observer/endpoints").respond(200, json=view())
        await watched.clock.advance(1)
        facts = watched.board.read(CHAT, "uid-chat")
        assert facts is not None
        assert "cannot be read" in str(facts.router_views[0].error)
        await watched.clock.advance(11)
        facts = watched.board.read(CHAT, "uid-chat")
        assert facts is not None
        assert facts.router_views[0].error is None


async def test_only_pods_of_the_very_deployment_are_dialled() -> None:
    """A Pod that carries the labels and belongs to somebody else is not asked."""
    watched = Watched(kvCache={"poolRef": {"name": "b"}})
    stranger = pod(watched.made, "evil").ready().at("10.6.6.6").json
    stranger["metadata"]["ownerReferences"][0]["uid"] = "uid-else"
    watched.fed.put(KindName.POD, stranger)
    async with observing(watched) as wire:
        wire.get("http://10.0.0.1:8000/metrics").respond(200, text=operations(1, 0))
        await watched.clock.advance(31)
        assert {call.request.url.host for call in wire.calls} == {"10.0.0.1"}
        facts = watched.board.read(CHAT, "uid-chat")
        assert facts is not None
        assert facts.cache_operations["uid-chat-0"].succeeded == 1
        assert watched.news == [CHAT]


async def test_an_engine_that_stops_telling_is_news() -> None:
    """An account that is no longer given is withdrawn, not kept."""
    watched = Watched(kvCache={"poolRef": {"name": "b"}})
    async with observing(watched) as wire:
        route = wire.get("http://10.0.0.1:8000/metrics").respond(200, text=operations(1, 0))
        await watched.clock.advance(1)
        route.respond(500)
        await watched.clock.advance(31)
        facts = watched.board.read(CHAT, "uid-chat")
        assert facts is not None
        assert facts.cache_operations == {}
        assert watched.news == [CHAT, CHAT]


async def test_a_drain_is_read_while_it_drains_and_only_then() -> None:
    """Two reads are kept, of the captured members only; a restart in between is an error."""
    watched = Watched()
    operation = {"roleName": "server", "replicaOrdinal": 0, "targetMemberUIDs": ["uid-chat-0"], "state": "Draining"}
    async with observing(watched) as wire:
        wire.get("http://10.0.0.1:8000/metrics").respond(200, text=gauges("vLLM"))
        await watched.clock.advance(5)
        assert wire.calls.call_count == 0
        watched.fed.put(KindName.DEPLOYMENT, {**watched.made, "status": {"retirement": operation}}, 2)
        await watched.clock.advance(10)
        facts = watched.board.read(CHAT, "uid-chat")
        assert facts is not None
        assert [read.outcome for read in facts.drain["uid-chat-0"].reads] == ["Idle", "Idle"]
        restarted = pod(watched.made, "chat-0").ready().at("10.0.0.1").json
        restarted["status"]["containerStatuses"] = [{"name": "main", "restartCount": 1}]
        watched.fed.put(KindName.POD, restarted, 3)
        await watched.clock.advance(2)
        facts = watched.board.read(CHAT, "uid-chat")
        assert facts is not None
        assert "restarted" in facts.drain["uid-chat-0"].reads[-1].detail


async def test_a_drain_hides_no_restart_of_another_of_many_members() -> None:
    """What is remembered of one deployment's members is nobody else's to push out, and goes when its drain does."""
    watched, many = Watched(), deployment("other")
    for number in range(1030):
        watched.fed.put(KindName.POD, pod(many, f"other-{number}").json)
    operation = {"roleName": "server", "replicaOrdinal": 0, "targetMemberUIDs": ["uid-chat-0"], "state": "Draining"}
    others = {**operation, "targetMemberUIDs": [f"uid-other-{number}" for number in range(1030)]}
    async with observing(watched) as wire:
        wire.get("http://10.0.0.1:8000/metrics").respond(200, text=gauges("vLLM"))
        watched.fed.put(KindName.DEPLOYMENT, {**many, "status": {"retirement": others}}, 2)
        await watched.clock.advance(1.5)
        watched.fed.put(KindName.DEPLOYMENT, {**watched.made, "status": {"retirement": operation}}, 2)
        await watched.clock.advance(0.9)
        restarted = pod(many, "other-0").json
        restarted["status"]["containerStatuses"] = [{"name": "main", "restartCount": 1}]
        watched.fed.put(KindName.POD, restarted, 3)
        await watched.clock.advance(2)
        facts = watched.board.read(Key("team", "other"), "uid-other")
        assert facts is not None
        assert "restarted" in facts.drain["uid-other-0"].reads[-1].detail
        watched.fed.put(KindName.DEPLOYMENT, watched.made, 4)
        watched.fed.drop(KindName.DEPLOYMENT, many)
        await watched.clock.advance(1.5)
        assert watched.service._restarts == {}


async def test_a_bound_member_is_not_asked_again() -> None:
    """One qualification request a Pod, repeated only until it is bound."""
    watched = Watched(size=2)
    watched.pair()
    async with observing(watched) as wire:
        wire.post("http://10.0.0.2:8000/v1/completions").respond(503)
        route = wire.post("http://10.0.0.1:8000/v1/completions").respond(503)
        await watched.clock.advance(31)
        unanswered = route.call_count
        assert unanswered == 2
        answer = {"id": "cmpl-gpustack-qualify-uid-chat-0", "choices": [{"finish_reason": "length"}]}
        route.respond(200, json=answer)
        await watched.clock.advance(300)
        assert route.call_count == unanswered + 1
        facts = watched.board.read(CHAT, "uid-chat")
        assert facts is not None
        assert facts.forward["uid-chat-0"].outcome == "Bound"


@pytest.mark.parametrize(
    ("ready", "leaving", "asked"),
    [
        pytest.param("True", False, {"10.0.0.1", "10.0.0.2"}, id="a whole replica"),
        pytest.param("False", False, set(), id="a member that is not ready"),
        pytest.param("True", True, set(), id="a member on its way out"),
        pytest.param(None, False, set(), id="a member that is missing"),
    ],
)
async def test_only_a_replica_that_fails_nothing_else_is_asked(ready: str | None, leaving: bool, asked: set[str]) -> None:
    """A request is served for nothing where another criterion already disqualifies."""
    watched = Watched(size=2)
    watched.pair(ready, leaving=leaving)
    async with observing(watched) as wire:
        wire.post(path="/v1/completions").respond(503)
        await watched.clock.advance(5)
        assert {call.request.url.host for call in wire.calls} == asked


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(None, ElasticObservation(record=False), id="a record that is not there"),
        pytest.param(
            '{"desired":{"known":true,"value":4},"effective":{"known":true,"value":4}}',
            ElasticObservation(desired=4, observed=4, known=True, record=True),
            id="a settled world",
        ),
        pytest.param(
            '{"Desired":{"Known":true,"Value":4},"Effective":{"Known":false,"Value":0,"Reason":"no answer"},"admitted":{"known":true}}',
            ElasticObservation(desired=4, known=False, proof="no answer", record=True),
            id="the other spelling, and a width that cannot be named",
        ),
        pytest.param("{", None, id="a record that cannot be understood"),
        pytest.param('{"desired":4}', None, id="a layer of another shape"),
    ],
)
async def test_the_elastic_record(text: str | None, expected: ElasticObservation | None) -> None:
    """What stands in the record is told; what cannot be read leaves everything as it was."""
    watched = Watched(roles=[{"name": "server", "replicas": 1, "instanceType": "h100", "elasticEp": {"width": 4}}])
    if text is not None:
        record = Thing("v1", "ConfigMap", "elastic-observation-uid-chat").json
        watched.api.put({**record, "data": {"observation.json": text}})
    async with observing(watched):
        await watched.clock.advance(65)
        facts = watched.board.read(CHAT, "uid-chat")
        assert (facts.elastic if facts else None) == expected
        assert watched.news == ([CHAT] if expected else [])


async def test_a_record_that_may_not_be_read_is_not_asked_for_again_and_again() -> None:
    """A missing permission costs one request an hour."""
    watched = Watched(roles=[{"name": "server", "replicas": 1, "instanceType": "h100", "elasticEp": {"width": 4}}])
    watched.api.fail = lambda _: Forbidden(403, "Forbidden", "no")
    async with observing(watched):
        await watched.clock.advance(3000)
        assert len(watched.api.requests) == 1


def test_facts_of_another_object_of_that_name_are_not_handed_out() -> None:
    """A recreated deployment starts without observations."""
    watched = Watched()
    watched.board.amend(CHAT, "uid-before", forward={})
    assert watched.facts() is None


def test_the_observations_are_in_a_fixed_order() -> None:
    """The same facts give the same bytes, whatever order they came in."""
    from controller.snapshot import Forward

    one, two = Board(), Board()
    entries = {uid: Forward(pod_uid=uid, outcome="Bound") for uid in ("b", "a")}
    first = one.amend(CHAT, "u", forward=entries).observations()
    second = two.amend(CHAT, "u", forward=dict(sorted(entries.items()))).observations()
    assert msgspec.json.encode(first) == msgspec.json.encode(second)
    assert json.loads(msgspec.json.encode(first))["forward"][0]["podUID"] == "a"


async def test_the_service_ends_its_requests_when_it_ends() -> None:
    """A follower's hands are off: nothing is in flight after the term."""
    watched = Watched(router={"name": "vllm-router"})
    watched.route()
    entered = asyncio.Event()

    async def hang(_: httpx.Request) -> httpx.Response:
        entered.set()
        await asyncio.Event().wait()
        return httpx.Response(200)

    async with observing(watched) as wire:
        wire.get("http://10.0.0.9:8081/observer/endpoints").mock(side_effect=hang)
        await asyncio.wait_for(entered.wait(), 5)
    await settle()
    assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("observe")]
