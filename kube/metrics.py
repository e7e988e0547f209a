"""Counters of the client, under the names that client-go made known."""

from typing import Final

from prometheus_client import Counter, Histogram

REQUESTS: Final = Counter(
    "rest_client_requests_total", "API requests by outcome; code is the HTTP status or <error>.", ["code", "method", "host"]
)
SECONDS: Final = Histogram(
    "rest_client_request_duration_seconds",
    "Time until an API request's answer was read; watches are not counted.",
    ["method"],
    buckets=(0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60),
)
RETRIES: Final = Counter("rest_client_request_retries_total", "API requests sent again, by what made it necessary.", ["cause"])
