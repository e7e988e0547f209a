"""Traces by OpenTelemetry, for those who installed the extra and named where they go: one span for a review, one for a controller's pass.

Nothing of OpenTelemetry's SDK is imported, and no wrapper stands in anybody's way, unless `switched_on` says so. The provider is our own
and not the process's, so that libraries which trace by themselves (FastAPI does) add no spans for probes and scrapes. A span says which
rules spoke, what the verdict was and of which object; it never says what an object carries.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import structlog

from api.spans import Fact, Span
from app.build import build

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span as OpenTelemetrySpan

# The standard's own names. A Pod may get them from somebody who means everything in it.
ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
EXTRA: Final = "pip install 'modelwarden[otel]'"
PROTOCOLS: Final = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
PROTOCOL: Final = "http/protobuf"

log = structlog.get_logger("tracing")


class TracingError(Exception):
    """Traces were asked for and cannot be made. The message says what to do."""


def switched_on(endpoint: str | None, environ: Mapping[str, str]) -> bool:
    """Whether anybody named where traces go, and nobody by the standard's own variables that there shall be none."""
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true" or environ.get("OTEL_TRACES_EXPORTER", "").strip().lower() == "none":
        return False
    return bool(endpoint) or any(environ.get(name) for name in ENDPOINTS)


def opened(endpoint: str | None, environ: Mapping[str, str], *, namespace: str, instance: str) -> "Traces | None":
    """Traces, or None where they are not switched on. Raises TracingError where our own setting asks for what cannot be had.

    The standard's variables may be meant for everybody in the Pod: what they ask for in vain is logged, and the service serves.
    """
    if not switched_on(endpoint, environ):
        return None
    try:
        return Traces(_exporting(endpoint, environ, namespace=namespace, instance=instance))
    except TracingError as error:
        if endpoint:
            raise
        log.warning("no traces", error=str(error))
        return None


def _exporting(endpoint: str | None, environ: Mapping[str, str], *, namespace: str, instance: str) -> "TracerProvider":
    protocol = next((environ[name] for name in PROTOCOLS if environ.get(name)), PROTOCOL)
    if not endpoint and protocol != PROTOCOL:
        raise TracingError(f"the environment asks for traces by {protocol}, and only {PROTOCOL} is spoken: set otel.endpoint")
    try:
        from app.exporting import ExportingProvider
    except ImportError as error:
        raise TracingError(f"traces are asked for, but OpenTelemetry is not installed ({error}): {EXTRA}") from error
    return ExportingProvider(endpoint, environ, namespace=namespace, instance=instance)


class Traces:
    """`api.spans.Spans` by OpenTelemetry."""

    def __init__(self, made: "TracerProvider") -> None:
        from opentelemetry import trace
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._provider = made
        self._tracer = made.get_tracer("modelwarden", build().version)
        self._propagator = TraceContextTextMapPropagator()
        self._kinds = trace.SpanKind

    @contextmanager
    def work(self, name: str, **facts: Fact) -> Iterator[Span]:
        """A span of our own doing, the root of its trace."""
        with self._tracer.start_as_current_span(name, attributes=_attributes(facts), **_SILENT) as span, _typed(_Told(span)) as told:
            yield told

    @contextmanager
    def answer(self, name: str, carried: Mapping[str, str], **facts: Fact) -> Iterator[Span]:
        """A span of an answer to somebody who may have sent his own span's id along (W3C Trace Context)."""
        parent: Context = self._propagator.extract(carried)
        attributes = _attributes(facts)
        with (
            self._tracer.start_as_current_span(name, context=parent, kind=self._kinds.SERVER, attributes=attributes, **_SILENT) as span,
            _typed(_Told(span)) as told,
        ):
            yield told

    def close(self) -> None:
        """Send what is left and end. Blocks, for some seconds where nobody answers."""
        self._provider.shutdown()


# An exception's words may quote what an object carries: a span says its type.
_SILENT: Final[Mapping[str, Any]] = {"record_exception": False, "set_status_on_exception": False}


@contextmanager
def _typed(told: "_Told") -> Iterator["_Told"]:
    try:
        yield told
    except Exception as error:
        told.failed(type(error).__name__)
        raise


class _Told:
    """A span as the rooms know it."""

    __slots__ = ("_span",)

    def __init__(self, span: "OpenTelemetrySpan") -> None:
        self._span = span

    def say(self, **facts: Fact) -> None:
        """Add facts."""
        self._span.set_attributes(_attributes(facts))

    def failed(self, error: str) -> None:
        """Mark it."""
        from opentelemetry.trace import StatusCode

        self._span.set_attribute("error.type", error)
        self._span.set_status(StatusCode.ERROR)


def _attributes(facts: Mapping[str, Fact]) -> dict[str, Any]:
    return {name.replace("__", "."): value for name, value in facts.items() if value not in ("", ())}
