"""One server of the comparison, as a process: `python -m bench.serve NAME PORT CERT KEY CORE`.

`ours` is the product's own application and rules with look-ups answered from memory; `yardstick` is the bare raw-ASGI msgspec handler
that the goal is measured against: it reads what a review handler must read and allows.
"""

import os
import ssl
import sys
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import msgspec
import uvicorn

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
    """The product's application: FastAPI with the review lane in front, look-ups from memory."""
    from app.server import build_app  # the product is loaded only when it is what is measured
    from webhooks.lookups import ObjectLookup
    from webhooks.server import ReviewServer
    from webhooks.settings import AdmissionSettings

    from bench.reviews import deployment

    types = {
        "apiVersion": "worker.gpustack.ai/v1",
        "kind": "InstanceType",
        "metadata": {"name": "h20-8x"},
        "spec": {"acceleratable": True, "acceleratorGroup": "nvidia-h20"},
        "status": {"accelerator": {"capacity": "64"}, "detail": {"manufacturer": "nvidia", "slicedDetail": {}}},
    }
    return build_app(ReviewServer(ObjectLookup([types, deployment(0)]), AdmissionSettings()))


def main() -> None:
    """Serve until ended."""
    name, port, cert, key, core = sys.argv[1:6]
    if int(core) >= 0 and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {int(core)})
    application = {"yardstick": lambda: yardstick, "ours": ours}[name]()
    uvicorn.run(
        application,
        host="127.0.0.1",
        port=int(port),
        ssl_certfile=cert,
        ssl_keyfile=key,
        ssl_version=ssl.PROTOCOL_TLS_SERVER,
        loop="uvloop",
        http="httptools",
        timeout_keep_alive=120,
        access_log=False,
        log_level="warning",
        interface="asgi3",
    )


if __name__ == "__main__":
    main()
