"""What one engine Pod tells of itself: the store operations it counted, and whether it still carries requests.

Where to ask follows from the Pod alone: its address, and the port and scheme that were stamped on it with the command that the operator
built. A Pod without the stamp took its command line over, and is not asked.

Source: status facts 4.3 and 5.5, seed "CacheAttached".
"""

import math
from collections.abc import Mapping
from typing import Final, NamedTuple

from api import keys
from api.clock import Clock, format_time
from api.objects import Pod
from controller.observers.exposition import Samples, samples
from controller.observers.net import MIB, Dialer, ObservationError
from controller.snapshot import CacheOperations, DrainRead
from engines.facade import read_argv

METRICS_PATH: Final = "/metrics"
ANSWER_SECONDS: Final = 2.0

# Counters of operations on the shared store. vLLM labels the outcome; SGLang counts only tokens that arrived or left.
VLLM_OPERATIONS: Final = "vllm:mooncake_store_operation_total"
SGLANG_SUCCESSES: Final = ("sglang:prefetched_tokens_total", "sglang:backuped_tokens_total")

# Gauges that all have to be there and zero for a member to be idle.
DRAIN_GAUGES: Final[Mapping[str, tuple[str, ...]]] = {
    "vLLM": ("vllm:num_requests_running", "vllm:num_requests_waiting"),
    "SGLang": (
        "sglang:num_running_reqs",
        "sglang:num_queue_reqs",
        "sglang:num_prefill_bootstrap_queue_reqs",
        "sglang:num_prefill_inflight_queue_reqs",
        "sglang:num_decode_prealloc_queue_reqs",
        "sglang:num_decode_transfer_queue_reqs",
    ),
}


class Endpoint(NamedTuple):
    """Where an engine is asked."""

    host: str
    port: int
    scheme: str


def endpoint_of(pod: Pod) -> Endpoint:
    """From the Pod's own address and stamps. Raises ObservationError where it cannot be asked."""
    annotations = pod.metadata.annotations
    port = annotations.get(keys.PROMETHEUS_PORT)
    if port is None:
        raise ObservationError("the Pod took its command line over")
    if not (port.isascii() and port.isdigit() and len(port) <= 5):  # an annotation has room for more digits than a number may have
        raise ObservationError(f"the port {port[:16]!r} is no port")
    if not pod.status.pod_ip:
        raise ObservationError("the Pod has no address yet")
    return Endpoint(pod.status.pod_ip, int(port), annotations.get(keys.PROMETHEUS_SCHEME, "http"))


async def read_metrics(dialer: Dialer, pod: Pod, wanted: frozenset[str]) -> Samples:
    """The wanted samples of one Pod. Raises ObservationError."""
    where = endpoint_of(pod)
    body = await dialer.get(where.host, where.port, METRICS_PATH, scheme=where.scheme, seconds=ANSWER_SECONDS, cap=MIB)
    return samples(body, wanted)


async def cache_operations(dialer: Dialer, engine: str, pod: Pod) -> CacheOperations | None:
    """The store operations that the Pod counted; None when it counted none. Raises ObservationError."""
    if engine == "vLLM":
        found = await read_metrics(dialer, pod, frozenset({VLLM_OPERATIONS}))
        succeeded = failed = 0
        for labels, value in found.get(VLLM_OPERATIONS, ()):
            count = _count(value)
            if labels.get("status") == "ok":
                succeeded += count
            else:
                failed += count
    elif engine == "SGLang":
        found = await read_metrics(dialer, pod, frozenset(SGLANG_SUCCESSES))
        succeeded = sum(_count(value) for name in SGLANG_SUCCESSES for _, value in found.get(name, ()))
        failed = 0
    else:
        raise ObservationError(f"engine {engine} has no known counters")
    if not succeeded and not failed:
        return None
    return CacheOperations(pod_uid=pod.metadata.uid, succeeded=succeeded, failed=failed)


def refused(engine: str, pod: Pod) -> str:
    """Why the member's gauges cannot tell when it is idle; empty where they can.

    Half of a prefill/decode pair holds requests that its own gauges do not count. SGLang's own flag says so too, whatever the label is.
    """
    if pod.metadata.labels.get(keys.ROLE_KIND) in ("prefill", "decode") or (engine == "SGLang" and _disaggregated(pod)):
        return "half of a pair holds requests that its own gauges do not count"
    return "" if engine in DRAIN_GAUGES else f"engine {engine} has no list of gauges"


def _disaggregated(pod: Pod) -> bool:
    main = pod.main
    if main is None:
        return False
    tokens = (*main.command, *main.args)
    first = next((at for at, token in enumerate(tokens) if token.startswith("--")), len(tokens))
    mode = read_argv("SGLang", None, tokens[first:]).option("disaggregation_mode")
    return mode is not None and mode.value in ("prefill", "decode")


async def drain_read(dialer: Dialer, engine: str, pod: Pod, clock: Clock) -> DrainRead:
    """One reading of the request gauges of a member that is not `refused`; an error is a reading too."""
    gauges = DRAIN_GAUGES[engine]
    try:
        found = await read_metrics(dialer, pod, frozenset(gauges))
        busy = _busy(found, gauges)
    except ObservationError as error:
        return DrainRead(at=format_time(clock.now()), outcome="Error", detail=str(error))
    return DrainRead(at=format_time(clock.now()), outcome="Busy" if busy else "Idle", detail=busy)


def _busy(found: Samples, gauges: tuple[str, ...]) -> str:
    """The gauges that are not at zero, empty when idle. A gauge that is missing or nonsense makes the reading an error."""
    missing = [name for name in gauges if name not in found]
    if missing:
        raise ObservationError(f"gauges missing: {', '.join(sorted(missing))}")
    for name in gauges:
        for _, value in found[name]:
            if not math.isfinite(value) or value < 0:
                raise ObservationError(f"{name} reads {value}")
    busy = [f"{name}={sum(value for _, value in found[name]):g}" for name in gauges if any(value for _, value in found[name])]
    return ", ".join(sorted(busy))


def _count(value: float) -> int:
    if not math.isfinite(value) or value < 0:
        raise ObservationError(f"a counter reads {value}")
    return int(value)
