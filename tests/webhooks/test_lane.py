"""The review lane as an ASGI server drives it: what it answers itself, what it passes on, and how it treats bad senders."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from reviewing import UID, deployment, envelope, instance_type, request

from webhooks.lane import ReviewLane
from webhooks.lookups import ObjectLookup
from webhooks.metrics import AdmissionMetrics
from webhooks.server import VALIDATE_DEPLOYMENT, ReviewServer
from webhooks.settings import AdmissionSettings

GOOD = envelope(request(deployment().body))
JSON = (b"content-type", b"application/json")


class Call:
    """One HTTP call: chunks in, messages out."""

    def __init__(
        self, *chunks: bytes, path: str = VALIDATE_DEPLOYMENT, method: str = "POST", headers: Sequence[tuple[bytes, bytes]] = (JSON,)
    ) -> None:
        self.scope = {"type": "http", "path": path, "method": method, "headers": list(headers)}
        self.sent: list[dict[str, Any]] = []
        self.read = 0
        self._chunks = list(chunks)

    async def receive(self) -> dict[str, Any]:
        self.read += 1
        if not self._chunks:
            return {"type": "http.disconnect"}
        chunk = self._chunks.pop(0)
        return {"type": "http.request", "body": chunk, "more_body": bool(self._chunks)}

    async def send(self, message: Any) -> None:
        self.sent.append(dict(message))

    @property
    def status(self) -> int:
        return int(self.sent[0]["status"])

    @property
    def headers(self) -> dict[bytes, bytes]:
        return dict(self.sent[0]["headers"])

    @property
    def body(self) -> Any:
        return json.loads(self.sent[1]["body"])


async def behind(scope: Any, receive: Any, send: Any) -> None:
    """The application behind the lane."""
    await send({"type": "http.response.start", "status": 418, "headers": []})
    await send({"type": "http.response.body", "body": b"{}"})


def lane(**more: Any) -> ReviewLane:
    """A lane before a server that finds the builders' instance type."""
    return ReviewLane(behind, ReviewServer(ObjectLookup([instance_type()]), AdmissionSettings()), **more)


async def drive(call: Call, **more: Any) -> Call:
    """Put a call to a lane."""
    await lane(**more)(call.scope, call.receive, call.send)
    return call


async def test_a_review_is_answered() -> None:
    """200, JSON, with its length, and the body is the review's answer."""
    call = await drive(Call(GOOD))
    assert call.status == 200
    assert call.headers[b"content-type"] == b"application/json"
    assert int(call.headers[b"content-length"]) == len(call.sent[1]["body"])
    assert call.body["response"]["uid"] == UID


async def test_a_body_in_chunks_is_one_body() -> None:
    """However the bytes arrive."""
    call = await drive(Call(*(GOOD[i : i + 7] for i in range(0, len(GOOD), 7))))
    assert call.body["response"]["allowed"] is True


@pytest.mark.parametrize("path", ["/", "/readyz", "/validate-modeldeployment/", "/validate-modeldeploymen"])
async def test_other_paths_are_passed_on(path: str) -> None:
    """The application behind answers them."""
    assert (await drive(Call(b"", path=path))).status == 418


async def test_other_protocols_are_passed_on() -> None:
    """Lifespan events reach the application behind."""
    call = Call()
    call.scope = {"type": "lifespan"}
    assert (await drive(call)).status == 418


@pytest.mark.parametrize("method", ["GET", "PUT", "HEAD"])
async def test_reviews_are_posted(method: str) -> None:
    """405 with what is allowed."""
    call = await drive(Call(GOOD, method=method))
    assert call.status == 405
    assert call.headers[b"allow"] == b"POST"


MEDIA = {
    "none": ((), 415),
    "text": ([(b"content-type", b"text/plain")], 415),
    "a form": ([(b"content-type", b"application/x-www-form-urlencoded")], 415),
    "JSON's longer cousin": ([(b"content-type", b"application/json-patch+json")], 415),
    "JSON": ([JSON], 200),
    "JSON with a character set": ([(b"content-type", b"application/json; charset=utf-8")], 200),
    "JSON in capitals": ([(b"content-type", b"Application/JSON")], 200),
}


@pytest.mark.parametrize("name", MEDIA)
async def test_media_type(name: str) -> None:
    """Reviews are JSON and say so; others are told 415 in a review's shape."""
    headers, status = MEDIA[name]
    call = await drive(Call(GOOD, headers=headers))
    assert call.status == status
    assert call.body["kind"] == "AdmissionReview"


async def test_a_declared_length_above_the_limit_is_refused_unread() -> None:
    """413, and not a byte of the body is taken."""
    call = await drive(Call(GOOD, headers=[JSON, (b"content-length", str((8 << 20) + 1).encode())]))
    assert call.status == 413
    assert call.read == 0
    assert call.headers[b"connection"] == b"close"


async def test_a_body_that_grows_above_the_limit_is_refused_while_it_grows() -> None:
    """413 as soon as it is known; the rest is not read."""
    call = await drive(Call(*[b"x" * 400] * 100), max_body=1000)
    assert call.status == 413
    assert call.read == 3


async def test_a_single_chunk_above_the_limit_is_refused() -> None:
    """The limit holds for one chunk too, and at the limit a body passes."""
    assert (await drive(Call(b"x" * 1001), max_body=1000)).status == 413
    assert (await drive(Call(GOOD), max_body=len(GOOD))).status == 200


async def test_the_limit_is_eight_mebibytes() -> None:
    """By default."""
    assert (await drive(Call(b"x" * (8 << 20)))).status == 400
    assert (await drive(Call(b"x" * ((8 << 20) + 1)))).status == 413


async def test_a_sender_that_goes_away_is_not_answered() -> None:
    """Before or within its body."""
    assert (await drive(Call())).sent == []
    call = Call(b"{", b"")
    call._chunks[1:] = []
    original = call.receive

    async def receive() -> dict[str, Any]:
        return {**await original(), "more_body": True}

    await lane()(call.scope, receive, call.send)
    assert call.sent == []


async def test_a_slow_sender_is_given_up_on_and_hurts_nobody() -> None:
    """While one body trickles, another review is answered; the slow one ends with 408."""
    trickle = Call()

    async def never() -> dict[str, Any]:
        trickle.read += 1
        if trickle.read == 1:
            return {"type": "http.request", "body": b"{", "more_body": True}
        return await asyncio.Event().wait()  # type: ignore[return-value]

    served = lane(body_seconds=0.01)
    slow = asyncio.create_task(served(trickle.scope, never, trickle.send))
    quick = Call(GOOD)
    await served(quick.scope, quick.receive, quick.send)
    assert quick.status == 200
    await slow
    assert trickle.status == 408


async def test_rejected_calls_are_counted() -> None:
    """What never became a review shows in the metrics by its code."""
    registry = CollectorRegistry()
    counted = ReviewLane(behind, ReviewServer(ObjectLookup([]), AdmissionSettings(), AdmissionMetrics(registry)))
    call = Call(GOOD, headers=())
    await counted(call.scope, call.receive, call.send)
    labels = {"webhook": "validate-modeldeployment", "code": "415"}
    assert registry.get_sample_value("controller_runtime_webhook_requests_total", labels) == 1


async def test_large_bodies_that_do_not_end_never_fill_the_memory() -> None:
    """Together they hold so much and no more: a further large one is told 503, a small one is answered, and room comes back."""
    served = lane(max_held=1 << 20, body_seconds=30)
    gone = asyncio.Event()

    def hoarder() -> Call:
        call = Call()

        async def receive() -> dict[str, Any]:
            call.read += 1
            if call.read <= 6:
                return {"type": "http.request", "body": b" " * 65_536, "more_body": True}
            await gone.wait()
            return {"type": "http.disconnect"}

        call.receive = receive  # type: ignore[method-assign]
        return call

    calls = [hoarder() for _ in range(4)]
    tasks = [asyncio.create_task(served(call.scope, call.receive, call.send)) for call in calls]
    for _ in range(200):
        await asyncio.sleep(0)
    refused = [call for call in calls if call.sent]
    assert [call.status for call in refused] == [503] * len(refused)
    assert 1 <= len(refused) < len(calls)
    assert refused[0].body["response"]["allowed"] is False
    small = Call(GOOD[:100], GOOD[100:])
    await served(small.scope, small.receive, small.send)
    assert small.status == 200
    gone.set()
    await asyncio.gather(*tasks)
    large = Call(*[GOOD + b" " * 900_000], b" ")
    await served(large.scope, large.receive, large.send)
    assert large.status == 200
    assert served._held == 0
