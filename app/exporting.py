"""Where spans go and what is said of their sender. Imports OpenTelemetry's SDK: to be imported only where traces are on."""

import time
from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import urlsplit

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExportResult

from app.build import build

TRACES_PATH: Final = "/v1/traces"
# One export, tries again included; the SDK's own ten are too long for the end of a Pod. A figure of the environment's counts instead.
EXPORT_SECONDS: Final = 4.0
TIMEOUTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT")


class HurriedExporter(OTLPSpanExporter):
    """An exporter that gives up what is left, once it was told to hurry and the time of one export is over."""

    _until = float("inf")

    def hurry(self) -> None:
        """The process ends."""
        self._until = time.monotonic() + EXPORT_SECONDS

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send a batch."""
        return super().export(spans) if time.monotonic() < self._until else SpanExportResult.FAILURE


class ExportingProvider(TracerProvider):
    """Spans by OTLP over HTTP, in the background and in batches. Sampling, headers and batch sizes are the SDK's, by its own variables."""

    def __init__(self, endpoint: str | None, environ: Mapping[str, str], *, namespace: str, instance: str) -> None:
        about = {"service.version": build().version, "service.instance.id": instance, "k8s.namespace.name": namespace}
        if not environ.get("OTEL_SERVICE_NAME") and "service.name=" not in environ.get("OTEL_RESOURCE_ATTRIBUTES", ""):
            about["service.name"] = "modelwarden"
        super().__init__(resource=Resource.create(about), shutdown_on_exit=False)
        timeout = None if any(environ.get(name) for name in TIMEOUTS) else EXPORT_SECONDS
        self._exporter = HurriedExporter(endpoint=traces_url(endpoint) if endpoint else None, timeout=timeout)
        self.add_span_processor(BatchSpanProcessor(self._exporter))

    def shutdown(self) -> None:
        """Send what is left, a batch or as many as the time of one suffices for, and end."""
        self._exporter.hurry()
        super().shutdown()


def traces_url(endpoint: str) -> str:
    """The address that traces are posted to, of the collector's own: OTLP appends a path for each signal."""
    return endpoint if urlsplit(endpoint).path.endswith(TRACES_PATH) else endpoint.rstrip("/") + TRACES_PATH
