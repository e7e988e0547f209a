"""What engines and routers answer, and what is made of it."""

import json
from typing import Any

import httpx
import msgspec
import pytest
import respx
from things import PodThing, deployment, pod, router_pod
from virtual import VirtualClock

from api.objects import Pod
from controller.observers.engine import DRAIN_GAUGES, cache_operations, drain_read, endpoint_of, refused
from controller.observers.exposition import samples
from controller.observers.forward import forward
from controller.observers.net import Dialer, ObservationError
from controller.observers.routerviews import router_view
from controller.snapshot import CacheOperations, RouterView, RouterWorker


def made(thing: PodThing) -> Pod:
    return msgspec.convert(thing.json, Pod)


MEMBER = made(pod(deployment(), "chat-0").ready().at("10.0.0.1"))
ROUTER = msgspec.convert(router_pod(deployment()).json, Pod)
METRICS = "http://10.0.0.1:8000/metrics"


@pytest.mark.parametrize(
    ("body", "found"),
    [
        pytest.param('a{x="1"} 2\n', {"a": [({"x": "1"}, 2.0)]}, id="a sample with a label"),
        pytest.param("# HELP a b\n# TYPE a gauge\na 0\n", {"a": [({}, 0.0)]}, id="comments are passed over"),
        pytest.param("a 1 1700000000000\n", {"a": [({}, 1.0)]}, id="a timestamp"),
        pytest.param('a{x="q\\"\\\\\\n,}",y=""} 1e3\n', {"a": [({"x": 'q"\\\n,}', "y": ""}, 1000.0)]}, id="escapes in a label"),
        pytest.param("b 1\n", {}, id="a name that is not wanted"),
        pytest.param('a{x="1",} 2\n', {"a": [({"x": "1"}, 2.0)]}, id="a trailing comma"),
    ],
)
def test_expositions(body: str, found: dict[str, Any]) -> None:
    """The wanted samples, with their labels."""
    assert samples(body.encode(), frozenset({"a"})) == found


@pytest.mark.parametrize("body", [b"<html>", b"", b"# only\n", b"a one\n", b"a{x=1} 2\n", b"\xff 1\n", b"a\n"])
def test_what_is_no_exposition(body: bytes) -> None:
    """Half an answer is none."""
    with pytest.raises(ObservationError):
        samples(body, frozenset({"a"}))


def operations(ok: float, error: float) -> str:
    name = "vllm:mooncake_store_operation_total"
    return f'{name}{{operation="save_put",status="ok"}} {ok}\n{name}{{operation="load_get",status="error"}} {error}\n'


@pytest.mark.parametrize(
    ("engine", "body", "account"),
    [
        pytest.param("vLLM", operations(3, 1), (3, 1), id="vLLM counts both"),
        pytest.param("vLLM", operations(0, 4), (0, 4), id="vLLM whose operations all failed"),
        pytest.param("vLLM", operations(0, 0), None, id="no operation is no account"),
        pytest.param("vLLM", "other 1\n", None, id="no counter is no account"),
        pytest.param("SGLang", "sglang:backuped_tokens_total 64\n", (64, 0), id="SGLang counts what left"),
    ],
)
@respx.mock
async def test_cache_operations(engine: str, body: str, account: tuple[int, int] | None) -> None:
    """Successes and failures of the store as the engine counted them."""
    respx.get(METRICS).respond(200, text=body)
    async with Dialer(VirtualClock()) as dialer:
        found = await cache_operations(dialer, engine, MEMBER)
    expected = None if account is None else CacheOperations(pod_uid="uid-chat-0", succeeded=account[0], failed=account[1])
    assert found == expected


@pytest.mark.parametrize("answer", [httpx.Response(500), httpx.Response(200, text=operations(float("nan"), 1)), httpx.ConnectError("no")])
@respx.mock
async def test_a_scrape_that_fails_is_no_account(answer: Any) -> None:
    """An error raises: it is neither success nor failure of the store."""
    respx.get(METRICS).mock(**({"side_effect": answer} if isinstance(answer, Exception) else {"return_value": answer}))
    async with Dialer(VirtualClock()) as dialer:
        with pytest.raises(ObservationError):
            await cache_operations(dialer, "vLLM", MEMBER)


def gauges(engine: str, value: float = 0.0, **others: float) -> str:
    named = {name.partition(":")[2]: name for name in DRAIN_GAUGES[engine]}
    values = dict.fromkeys(named.values(), value) | {named[short]: figure for short, figure in others.items()}
    return "".join(f'{name}{{engine="0"}} {figure}\n' for name, figure in values.items())


@pytest.mark.parametrize(
    ("engine", "body", "outcome"),
    [
        pytest.param("vLLM", gauges("vLLM"), "Idle", id="all gauges at zero"),
        pytest.param("vLLM", gauges("vLLM", num_requests_waiting=1), "Busy", id="one request waits"),
        pytest.param("vLLM", gauges("vLLM") + 'vllm:num_requests_running{engine="1"} 2\n', "Busy", id="another rank is busy"),
        pytest.param("vLLM", "vllm:num_requests_running 0\n", "Error", id="a gauge is missing"),
        pytest.param("vLLM", gauges("vLLM", num_requests_running=float("nan")), "Error", id="not a number"),
        pytest.param("vLLM", gauges("vLLM", num_requests_running=float("inf")), "Error", id="infinite"),
        pytest.param("vLLM", gauges("vLLM", num_requests_running=-1), "Error", id="negative"),
        pytest.param("vLLM", "<html>", "Error", id="no metrics"),
        pytest.param("SGLang", gauges("SGLang"), "Idle", id="SGLang with all six"),
        pytest.param("SGLang", gauges("SGLang", num_decode_transfer_queue_reqs=1), "Busy", id="SGLang moving a request"),
    ],
)
@respx.mock
async def test_drain_reads(engine: str, body: str, outcome: str) -> None:
    """Idle needs every gauge, finite and at zero."""
    respx.get(METRICS).respond(200, text=body)
    async with Dialer(VirtualClock()) as dialer:
        reading = await drain_read(dialer, engine, MEMBER, VirtualClock())
    assert (reading.outcome, reading.at) == (outcome, "2026-01-01T00:00:00Z")


@pytest.mark.parametrize(
    ("engine", "command", "kind", "says"),
    [
        pytest.param(
            "SGLang",
            ["python", "-m", "sglang", "--disaggregation-mode", "decode"],
            "server",
            "half of a pair",
            id="SGLang decode by its flag",
        ),
        pytest.param(
            "SGLang", ["python", "-m", "sglang", "--disaggregation-mode=prefill"], "server", "half of a pair", id="SGLang prefill, joined"
        ),
        pytest.param("SGLang", ["python", "-m", "sglang", "--tp-size", "2"], "server", "", id="a plain SGLang server"),
        pytest.param("vLLM", ["vllm", "serve", "m"], "decode", "half of a pair", id="half of a pair by its label"),
        pytest.param("vLLM", ["vllm", "serve", "m"], "server", "", id="a plain vLLM server"),
        pytest.param("Other", [], "server", "no list of gauges", id="an engine without a list"),
    ],
)
def test_members_that_cannot_be_read(engine: str, command: list[str], kind: str, says: str) -> None:
    """What is refused is refused before anything is sent, with the reason."""
    thing = pod(deployment(), "chat-0").at("10.0.0.1")
    thing.json["spec"]["containers"][0]["command"] = command
    thing.json["metadata"]["labels"]["modeldeployment.gpustack.ai/role-kind"] = kind
    found = refused(engine, made(thing))
    assert says in found if says else found == ""


def test_a_pod_that_took_its_command_over_is_not_asked() -> None:
    """Without the stamp nobody knows where it listens."""
    thing = pod(deployment(), "chat-0").at("10.0.0.1")
    del thing.json["metadata"]["annotations"]["prometheus.io/port"]
    with pytest.raises(ObservationError, match="took its command line over"):
        endpoint_of(made(thing))


@pytest.mark.parametrize("port", ["", "x", "-1", "８０００", "123456", "9" * 5000])
def test_a_stamp_that_is_no_port(port: str) -> None:
    """Whoever may edit a Pod may write anything there: a reading that does not come about, however long it is."""
    with pytest.raises(ObservationError, match="is no port"):
        endpoint_of(made(pod(deployment(), "chat-0").at("10.0.0.1").annotated("prometheus.io/port", port)))


def test_an_engine_with_tls_is_asked_over_https() -> None:
    """The stamped scheme decides."""
    thing = pod(deployment(), "chat-0").at("10.0.0.1").annotated("prometheus.io/scheme", "https")
    assert endpoint_of(made(thing)) == ("10.0.0.1", 8000, "https")


BOUND = "gpustack-qualify-uid-chat-0"


@pytest.mark.parametrize(
    ("engine", "answer", "outcome"),
    [
        pytest.param("vLLM", {"id": f"cmpl-{BOUND}", "choices": [{"finish_reason": "length"}]}, "Bound", id="vLLM gave the id back"),
        pytest.param("vLLM", {"id": "cmpl-other", "choices": [{"finish_reason": "length"}]}, "Unanswered", id="another id"),
        pytest.param("vLLM", {"id": f"cmpl-{BOUND}", "choices": [{"finish_reason": None}]}, "Unanswered", id="not finished"),
        pytest.param("vLLM", [], "Unanswered", id="no completion"),
        pytest.param("SGLang", {"meta_info": {"id": BOUND, "finish_reason": {"type": "length"}}}, "Bound", id="SGLang gave the id back"),
        pytest.param("SGLang", {"meta_info": {"id": BOUND, "finish_reason": None}}, "Unanswered", id="SGLang not finished"),
        pytest.param("Other", {}, "Unsupported", id="an unknown engine is not asked"),
        pytest.param("vLLM", None, "Unanswered", id="an error status is no failure of the path"),
    ],
)
@respx.mock
async def test_forward(engine: str, answer: Any, outcome: str) -> None:
    """Bound only by the id and a finish reason; never Failed for want of an answer."""
    response = httpx.Response(500) if answer is None else httpx.Response(200, json=answer)
    route = respx.post(url__regex=r"http://10\.0\.0\.1:8000/(v1/completions|generate)").mock(return_value=response)
    async with Dialer(VirtualClock()) as dialer:
        found = await forward(dialer, engine, "m", MEMBER, 15.0)
    assert (found.pod_uid, found.outcome) == ("uid-chat-0", outcome)
    if engine == "vLLM":
        sent = json.loads(route.calls.last.request.content)
        assert (sent["max_tokens"], sent["temperature"], sent["request_id"]) == (1, 0, BOUND)


def view(**changes: Any) -> dict[str, Any]:
    worker = {
        "url": "http://10.0.0.1:8000",
        "port": 8000,
        "role": "server",
        "pod_hint": None,
        "worker_id": "w",
        "selection": {"registered": True, "healthy": True, "circuit_open": False, "in_selection": True},
    }
    worker["selection"] = {**worker["selection"], **changes.pop("selection", {})}  # type: ignore[dict-item]
    worker.update(changes.pop("worker", {}))
    return {"router": {"boot_generation": 7, "now_ms": 1}, "registry_revision": 1, "workers": [worker], **changes}


async def viewed(body: bytes, status: int = 200) -> RouterView:
    with respx.mock:
        respx.get("http://10.0.0.9:8081/observer/endpoints").respond(status, content=body)
        async with Dialer(VirtualClock()) as dialer:
            return await router_view(dialer, "vllm-router", ROUTER, {"10.0.0.1": MEMBER}, VirtualClock())


async def test_a_view_is_bound_to_pods() -> None:
    """A selected worker becomes the Pod at its address."""
    found = await viewed(json.dumps(view()).encode())
    assert found == RouterView(
        router_pod_uid="uid-chat-router-abc-1",
        boot_generation=7,
        received_at="2026-01-01T00:00:00Z",
        workers=(RouterWorker(pod_uid="uid-chat-0", port=8000, role="server", in_selection=True),),
    )


def without(document: dict[str, Any], *path: str) -> dict[str, Any]:
    inner: Any = document
    for name in path[:-1]:
        inner = inner[0][name] if isinstance(inner, list) else inner[name]
    (inner[0] if isinstance(inner, list) else inner).pop(path[-1])
    return document


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"<html>", id="body is not JSON"),
        pytest.param(json.dumps(without(view(), "workers")).encode(), id="workers list missing"),
        pytest.param(json.dumps(view(workers=None)).encode(), id="workers list null"),
        pytest.param(json.dumps(without(view(), "workers", "selection", "in_selection")).encode(), id="a boolean missing"),
        pytest.param(json.dumps(view(selection={"healthy": "true"})).encode(), id="a boolean as text"),
        pytest.param(json.dumps(view(surprise=1)).encode(), id="an unknown field"),
        pytest.param(json.dumps(view()).encode() + b"{}", id="trailing data"),
        pytest.param(json.dumps(view(router={"boot_generation": 0, "now_ms": 1})).encode(), id="no boot generation"),
        pytest.param(json.dumps(view(worker={"url": "http://10.9.9.9:1"})).encode(), id="a selected worker that is nobody's Pod"),
        pytest.param(b" " * (5 << 20), id="oversized body"),
        pytest.param(b"[" * 100000, id="a depth bomb"),
    ],
)
async def test_views_that_are_errors(body: bytes) -> None:
    """Half a view confirms nothing."""
    found = await viewed(body)
    assert found.error
    assert found.workers == ()


async def test_a_refused_view_is_an_error() -> None:
    """Any status but 200."""
    assert (await viewed(b"{}", 404)).error == "answered 404"


async def test_a_row_out_of_selection_need_not_be_bound() -> None:
    """A registry may know of workers that are gone."""
    found = await viewed(json.dumps(view(worker={"url": "http://10.9.9.9:1"}, selection={"in_selection": False})).encode())
    assert found.error is None
    assert found.workers == ()
