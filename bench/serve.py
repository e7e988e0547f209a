"""One server of the comparison, as a process: `python -m bench.serve NAME PORT CERT KEY CORE`.

`ours` is the product's own application and rules with look-ups answered from memory; `yardstick` is the bare raw-ASGI msgspec handler
that the goal is measured against: it reads what a review handler must read and allows, behind uvicorn as it comes.
"""

import gc
import os
import socket
import ssl
import sys
from collections.abc import Awaitable, Callable, Coroutine, MutableMapping
from typing import Any

import msgspec
import uvloop

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class YardMeta(msgspec.Struct, frozen=True, gc=False):
    """What a lean handler reads of an object's metadata."""

    name: str = ""
    annotations: dict[str, str] = {}


class YardRole(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What a lean handler reads of a role."""

    name: str = ""
    replicas: int = 1
    extra_args: list[str] = []


class YardSpec(msgspec.Struct, frozen=True, gc=False):
    """What a lean handler reads of a spec."""

    roles: list[YardRole] = []


class YardObject(msgspec.Struct, frozen=True, gc=False):
    """What a lean handler reads of an object."""

    metadata: YardMeta = YardMeta()
    spec: YardSpec = YardSpec()


class YardRequest(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What a lean handler reads of a request."""

    uid: str
    object: YardObject | None = None
    old_object: YardObject | None = None


class YardReview(msgspec.Struct, frozen=True, gc=False):
    """What a lean handler reads of a review."""

    request: YardRequest


_decoder = msgspec.json.Decoder(YardReview)


async def yardstick(scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
    """The bare handler: decode, compare the replicas, answer."""
    if scope["type"] == "lifespan":
        while True:
            message = await receive()
            await send({"type": message["type"] + ".complete"})
            if message["type"] == "lifespan.shutdown":
                return
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            break
    request = _decoder.decode(body).request
    same = request.object is not None and request.old_object is not None
    if same and request.object and request.old_object:
        same = [r.replicas for r in request.object.spec.roles] == [r.replicas for r in request.old_object.spec.roles]
    answer = (
        b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":"' + request.uid.encode() + b'","allowed":true}}'
    )
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(answer)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": answer})


def ours() -> Any:
    """The product's application: FastAPI with the review lane in front, its metrics on, look-ups from memory."""
    from app.health import Health
    from app.server import make_app, with_lane
    from bench.reviews import deployment
    from webhooks.lookups import ObjectLookup
    from webhooks.metrics import AdmissionMetrics
    from webhooks.server import ReviewServer
    from webhooks.settings import AdmissionSettings

    instance_type = {
        "apiVersion": "worker.gpustack.ai/v1",
        "kind": "InstanceType",
        "metadata": {"name": "h20-8x"},
        "spec": {"acceleratable": True, "acceleratorGroup": "nvidia-h20"},
        "status": {"accelerator": {"capacity": "64"}, "detail": {"manufacturer": "nvidia", "slicedDetail": {}}},
    }
    reviews = ReviewServer(ObjectLookup([instance_type, deployment(0)]), AdmissionSettings(), AdmissionMetrics())
    return with_lane(make_app(Health()), reviews)


def listen(port: int) -> socket.socket:
    """The socket, bound on loopback."""
    bound = socket.socket()
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.bind(("127.0.0.1", port))
    return bound


def serve_ours(port: int, context: ssl.SSLContext) -> Coroutine[Any, Any, None]:
    """The product's application behind the product's HTTP server."""
    from app.server import HttpServer

    return HttpServer(ours(), listen(port), tls=context, keep_alive=120, drain=1).run()


def serve_yardstick(port: int, context: ssl.SSLContext) -> Coroutine[Any, Any, None]:
    """The bare handler behind uvicorn as it comes, with nothing that costs: httptools, no access log, no lifespan."""
    import uvicorn

    config = uvicorn.Config(
        yardstick,  # type: ignore[arg-type]  # plain ASGI; uvicorn's own types are narrower
        http="httptools",
        loop="none",
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        timeout_keep_alive=120,
        ssl_context_factory=lambda _config, _default: context,
    )
    return uvicorn.Server(config).serve(sockets=[listen(port)])


def main() -> None:
    """Serve until ended."""
    name, port, cert, key, core = sys.argv[1:6]
    if int(core) >= 0 and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {int(core)})
    from app import collector

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    served = {"yardstick": serve_yardstick, "ours": serve_ours}[name](int(port), context)
    collector.relax()  # as the service does; the yardstick gets the same
    gc.freeze()
    uvloop.run(served)


if __name__ == "__main__":
    main()
