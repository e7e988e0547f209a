"""What admission counts, under the names that dashboards already know (end of the field lessons).

Dry runs answer like real writes but are not counted as decisions (field lesson F89).
"""

from collections.abc import Iterable

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram

_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class AdmissionMetrics:
    """The collectors of one server, on one registry."""

    def __init__(self, registry: CollectorRegistry = REGISTRY) -> None:
        self.requests = Counter(
            "controller_runtime_webhook_requests_total",
            "Admission requests by webhook and HTTP status.",
            ("webhook", "code"),
            registry=registry,
        )
        self.latency = Histogram(
            "controller_runtime_webhook_latency_seconds",
            "Seconds from the whole body to the answer, by webhook.",
            ("webhook",),
            buckets=_BUCKETS,
            registry=registry,
        )
        self.in_flight = Gauge(
            "controller_runtime_webhook_requests_in_flight", "Requests being answered, by webhook.", ("webhook",), registry=registry
        )
        self._calls: dict[str, WebhookCalls] = {}
        self.panics = Counter(
            "controller_runtime_webhook_panics_total", "Crashes inside a handler, each answered with 500.", registry=registry
        )
        self.fence = Counter(
            "modelwarden_fence_decisions_total",
            "Writes that the scaler fence judged, by rule and verdict.",
            ("rule", "verdict"),
            registry=registry,
        )
        self.refusals = Counter(
            "modelwarden_admission_refusals_total", "Findings that refused a write, by rule.", ("rule",), registry=registry
        )

    def refused(self, rules: Iterable[str]) -> None:
        """Count a refused write, once for each rule that found something."""
        for rule in dict.fromkeys(rules):
            self.refusals.labels(rule).inc()

    def calls(self, webhook: str) -> "WebhookCalls":
        """The per-call collectors of one webhook, resolved once."""
        found = self._calls.get(webhook)
        if found is None:
            found = self._calls[webhook] = WebhookCalls(self, webhook)
        return found


class WebhookCalls:
    """What is counted of every call of one webhook."""

    __slots__ = ("_codes", "_metrics", "_webhook", "latency", "under_way")

    def __init__(self, metrics: AdmissionMetrics, webhook: str) -> None:
        self._metrics = metrics
        self._webhook = webhook
        self._codes: dict[int, Counter] = {}
        self.under_way = 0  # a plain number that the gauge reads: two locked additions for each review would tell no more
        metrics.in_flight.labels(webhook).set_function(lambda: self.under_way)
        self.latency = metrics.latency.labels(webhook)

    def answered(self, status: int) -> None:
        """Count an answer by its HTTP status."""
        counter = self._codes.get(status)
        if counter is None:
            counter = self._codes[status] = self._metrics.requests.labels(self._webhook, str(status))
        counter.inc()
