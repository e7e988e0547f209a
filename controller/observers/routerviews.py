"""One router Pod's own view of the endpoints it may select, read from that Pod directly and bound to Pods by address.

The document is decoded strictly: an unknown field, a missing boolean, trailing data make the view an error, for a view that is half
understood could confirm what it does not say. The router's clock is not trusted; the moment of receipt is ours.

Source: status facts 6.2.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from api import keys
from api.clock import Clock, format_time
from api.objects import Pod
from controller.observers.net import MIB, Dialer, ObservationError
from controller.snapshot import RouterView, RouterWorker

PATH: Final = "/observer/endpoints"
CAP: Final = 4 * MIB
COLLECTION_SECONDS: Final = 14.0


class _Strict(msgspec.Struct, forbid_unknown_fields=True):
    """Nothing unknown, nothing left out."""


class _Router(_Strict):
    boot_generation: int
    now_ms: int


class _Selection(_Strict):
    registered: bool
    healthy: bool
    circuit_open: bool
    in_selection: bool


class _Worker(_Strict):
    url: str
    port: int
    role: str
    worker_id: str
    selection: _Selection
    pod_hint: str | None = None
    lane: Any = None
    last_job: Any = None


class _Document(_Strict):
    router: _Router
    registry_revision: int
    workers: list[_Worker]


async def router_view(dialer: Dialer, router: str, pod: Pod, members: Mapping[str, Pod], clock: Clock) -> RouterView:
    """What that router Pod selects. `members` are the deployment's Pods by address. An error is a view that says so."""
    uid = pod.metadata.uid
    port = keys.ROUTER_OBSERVER_PORT_LLMD if router == "llm-d-router" else keys.ROUTER_PORT
    try:
        if not pod.status.pod_ip:
            raise ObservationError("the router Pod has no address yet")
        body = await dialer.get(pod.status.pod_ip, port, PATH, seconds=COLLECTION_SECONDS, cap=CAP)
        document = decode(body)
        workers = tuple(bind(document.workers, members))
    except ObservationError as error:
        return RouterView(router_pod_uid=uid, received_at=format_time(clock.now()), error=str(error))
    return RouterView(
        router_pod_uid=uid,
        boot_generation=document.router.boot_generation,
        received_at=format_time(clock.now()),
        workers=workers,
    )


def decode(body: bytes) -> _Document:
    """The document, strictly. Raises ObservationError."""
    try:
        document = msgspec.json.decode(body, type=_Document, strict=True)
    except (msgspec.MsgspecError, RecursionError) as fault:
        raise ObservationError(f"the view cannot be read: {fault}") from fault
    if document.router.boot_generation == 0:
        raise ObservationError("the view bears no boot generation")
    return document


def bind(workers: Iterable[_Worker], members: Mapping[str, Pod]) -> Iterable[RouterWorker]:
    """Each selected row names exactly one live Pod, or the whole view is refused. Rows out of selection may name nobody."""
    for worker in workers:
        host = _host(worker.url)
        pod = members.get(host)
        if pod is None:
            if worker.selection.in_selection:
                raise ObservationError(f"the selected worker at {host} is no Pod of the deployment")
            continue
        yield RouterWorker(pod_uid=pod.metadata.uid, port=worker.port, role=worker.role, in_selection=worker.selection.in_selection)


def _host(url: str) -> str:
    try:
        return urlsplit(url if "//" in url else f"//{url}").hostname or ""
    except ValueError as fault:
        raise ObservationError("a worker's address cannot be read") from fault
