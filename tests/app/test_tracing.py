"""Traces are made where somebody asked for them, go where he said, and otherwise nothing of them is there."""

import asyncio
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from structlog.testing import capture_logs

from app import exporting
from app.exporting import HurriedExporter, traces_url
from app.settings import SettingsError, load
from app.tracing import Traces, TracingError, opened, switched_on

SWITCHES: dict[str, tuple[str | None, dict[str, str], bool]] = {
    "nothing said": (None, {}, False),
    "our setting": ("http://collector:4318", {}, True),
    "the standard's variable for everything": (None, {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}, True),
    "the standard's variable for traces": (None, {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://collector:4318/v1/traces"}, True),
    "an endpoint for another signal": (None, {"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://collector:4318"}, False),
    "all of OpenTelemetry disabled": ("http://collector:4318", {"OTEL_SDK_DISABLED": "true"}, False),
    "no exporter of traces": ("http://collector:4318", {"OTEL_TRACES_EXPORTER": "none"}, False),
}

URLS = {
    "http://collector:4318": "http://collector:4318/v1/traces",
    "http://collector:4318/": "http://collector:4318/v1/traces",
    "https://traces.example/otlp": "https://traces.example/otlp/v1/traces",
    "https://traces.example/v1/traces": "https://traces.example/v1/traces",
}


@pytest.fixture(name="bare")
def _bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """As without the extra: the import system's sign for a module that is not to be had."""
    for name in [name for name in sys.modules if name.startswith(("opentelemetry.sdk", "opentelemetry.exporter", "app.exporting"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk", None)
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter", None)


@pytest.mark.parametrize("sentence", SWITCHES)
def test_traces_are_made_where_they_were_asked_for(sentence: str) -> None:
    """And nowhere else."""
    endpoint, environ, on = SWITCHES[sentence]
    assert switched_on(endpoint, environ) is on
    if not on:
        assert opened(endpoint, environ, namespace="n", instance="i") is None


@pytest.mark.parametrize("endpoint", URLS)
def test_an_endpoint_is_the_collector_s(endpoint: str) -> None:
    """The signal's path is appended, as OTLP has it, unless it is there."""
    assert traces_url(endpoint) == URLS[endpoint]


@pytest.mark.usefixtures("bare")
def test_asked_for_without_the_extra_is_an_error_that_says_what_to_install() -> None:
    """Our own setting means this service, and a service without what it was told to do does not start."""
    with pytest.raises(TracingError, match=r"not installed.*pip install 'modelwarden\[otel\]'"):
        opened("http://collector:4318", {}, namespace="n", instance="i")


VAIN: dict[str, dict[str, str]] = {
    "the extra is missing": {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"},
    "only gRPC is offered": {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4317", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
}


@pytest.mark.usefixtures("bare")
@pytest.mark.parametrize("sentence", VAIN)
def test_variables_for_everybody_in_the_pod_break_nothing(sentence: str) -> None:
    """What the standard's variables ask for in vain is logged, and the service serves."""
    with capture_logs() as lines:
        assert opened(None, VAIN[sentence], namespace="n", instance="i") is None
    assert [line["event"] for line in lines] == ["no traces"]


@pytest.mark.parametrize("value", ["collector:4318", "/v1/traces", "http://", "ftp://collector", "http://[::1"])
def test_an_endpoint_that_is_no_address_is_refused(value: str) -> None:
    """With the settings, by name."""
    with pytest.raises(SettingsError, match=r"otel\.endpoint.*has to be an address"):
        load(environ={"MODELWARDEN_OTEL_ENDPOINT": value})


@pytest.mark.parametrize("make", [lambda traces: traces.work("pass"), lambda traces: traces.answer("review", {})])
def test_a_defect_leaves_its_type_and_none_of_its_words(make: Callable[[Traces], AbstractContextManager[object]]) -> None:
    """Words of an exception may quote an argument, a variable or an annotation."""
    kept, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(kept))
    traces = Traces(provider)
    with pytest.raises(ValueError, match="hush"), make(traces):
        raise ValueError("hush")
    (span,) = kept.get_finished_spans()
    assert (span.attributes or {})["error.type"] == "ValueError"
    assert not span.status.is_ok
    assert "hush" not in span.to_json()


async def test_spans_arrive_at_the_collector(monkeypatch: pytest.MonkeyPatch) -> None:
    """By OTLP over HTTP, with who sends them; what is left when the service ends is sent before it does."""
    got: list[tuple[bytes, bytes]] = []

    async def collect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))
        got.append((head.split(b"\r\n")[0], await reader.readexactly(length)))
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none")
    async with await asyncio.start_server(collect, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        traces = opened(f"http://127.0.0.1:{port}", {}, namespace="modelwarden-system", instance="modelwarden-0")
        assert isinstance(traces, Traces)
        with traces.work("reconcile", modelwarden__deployment="chat", modelwarden__phase="") as span:
            span.failed("ServerError")
        await asyncio.to_thread(traces.close)
    ((line, body),) = got
    assert line == b"POST /v1/traces HTTP/1.1"
    (sent,) = ExportTraceServiceRequest.FromString(body).resource_spans
    about = {pair.key: pair.value.string_value for pair in sent.resource.attributes}
    assert (about["service.name"], about["service.instance.id"]) == ("modelwarden", "modelwarden-0")
    assert about["k8s.namespace.name"] == "modelwarden-system"
    (span,) = sent.scope_spans[0].spans
    assert span.name == "reconcile"
    assert {pair.key: pair.value.string_value for pair in span.attributes} == {
        "modelwarden.deployment": "chat",
        "error.type": "ServerError",
    }
    assert span.status.code == 2


def test_the_end_of_a_process_is_not_held_up_by_its_traces(monkeypatch: pytest.MonkeyPatch) -> None:
    """A collector that is silent costs the time of one export, and not that for each batch that waits."""
    now, asked = 100.0, []
    monkeypatch.setattr(exporting.time, "monotonic", lambda: now)
    monkeypatch.setattr(OTLPSpanExporter, "export", lambda *_: asked.append(now) or SpanExportResult.SUCCESS)
    exporter = HurriedExporter(endpoint="http://collector:4318/v1/traces")
    now = 100_000.0
    assert exporter.export([]) is SpanExportResult.SUCCESS
    exporter.hurry()
    assert exporter.export([]) is SpanExportResult.SUCCESS
    now += exporting.EXPORT_SECONDS
    assert exporter.export([]) is SpanExportResult.FAILURE
    assert len(asked) == 2
