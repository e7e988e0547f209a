"""A review's span says which rules spoke, about which object and with what verdict, and nothing of what the object carries."""

import json
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from reviewing import UID, deployment, envelope, instance_type, request, role

from app.tracedreviews import CarriedContext, TracedReviews
from app.tracing import Traces
from webhooks.errors import LookupFailedError
from webhooks.lane import ReviewLane
from webhooks.lookups import ObjectLookup
from webhooks.server import VALIDATE_DEPLOYMENT, ReviewServer
from webhooks.settings import AdmissionSettings

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SECRET = "s3cr3t-of-a-user"
GOOD = deployment(role().env(TOKEN=SECRET)).annotated("note", SECRET).named("chat")
REFUSED = deployment(role(replicas=1).env(TOKEN=SECRET).args("--tensor-parallel-size", SECRET)).named("chat")


class Broken(ObjectLookup):
    """A cluster that does not answer."""

    async def get(self, *_: Any) -> Any:
        raise LookupFailedError("no answer")


async def behind(scope: Any, receive: Any, send: Any) -> None:
    """The application behind the lane."""
    await send({"type": "http.response.start", "status": 418, "headers": []})
    await send({"type": "http.response.body", "body": b"{}"})


async def traced(
    body: bytes, *headers: tuple[bytes, bytes], lookup: Any = None, path: str = VALIDATE_DEPLOYMENT, media: bytes = b"application/json"
) -> tuple[bytes, list[ReadableSpan]]:
    """The answer to a post through the whole front, and the spans that it left."""
    kept = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    server = ReviewServer(lookup or ObjectLookup([instance_type()]), AdmissionSettings())
    app = CarriedContext(ReviewLane(behind, TracedReviews(server, Traces(provider))))
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    await app({"type": "http", "path": path, "method": "POST", "headers": [(b"content-type", media), *headers]}, receive, send)
    return sent[1]["body"], list(kept.get_finished_spans())


def posted(new: Any) -> bytes:
    """A review that creates it."""
    return envelope(request(new.body))


async def test_a_review_that_passes() -> None:
    """One span: the webhook, the object's key, the verdict, the answer as it was without traces."""
    body = posted(GOOD)
    answer, (span,) = await traced(body)
    assert (200, answer) == await ReviewServer(ObjectLookup([instance_type()]), AdmissionSettings()).review(VALIDATE_DEPLOYMENT, body)
    assert (span.name, span.kind, span.parent) == ("admission validate-modeldeployment", SpanKind.SERVER, None)
    assert dict(span.attributes or {}) == {
        "modelwarden.webhook": "validate-modeldeployment",
        "http.response.status_code": 200,
        "modelwarden.review.uid": UID,
        "modelwarden.operation": "CREATE",
        "modelwarden.dry_run": False,
        "k8s.namespace.name": "team-a",
        "modelwarden.object": "chat",
        "modelwarden.verdict": "allowed",
        "modelwarden.patched": False,
    }
    assert span.status.status_code is StatusCode.UNSET


async def test_a_review_that_rules_refuse_names_them() -> None:
    """As the audit log does, in the answer's order."""
    answer, (span,) = await traced(posted(REFUSED))
    assert span.attributes is not None
    assert span.attributes["modelwarden.verdict"] == "refused"
    assert span.attributes["modelwarden.code"] == 422
    said = json.loads(answer)["response"]["auditAnnotations"]["rule"]
    assert said
    assert ",".join(span.attributes["modelwarden.rules"]) == said  # type: ignore[arg-type]


async def test_a_review_that_could_not_be_judged_is_an_error() -> None:
    """Only that: a refusal is an answer like another."""
    _, (span,) = await traced(posted(GOOD), lookup=Broken([]))
    assert span.attributes is not None
    assert (span.attributes["modelwarden.verdict"], span.attributes["http.response.status_code"]) == ("failed", 500)
    assert span.status.status_code is StatusCode.ERROR


HOSTILE: dict[str, tuple[bytes, bytes]] = {
    "no JSON": (b"{", b"application/json"),
    "a member of another type": (json.dumps({"request": {"uid": [SECRET], "name": 7}}).encode(), b"application/json"),
    "deeper than anybody reads": (b'{"request":' + b"[" * 100_000, b"application/json"),
    "bad UTF-8": (b'{"request":{"name":"\xff\xfe"}}', b"application/json"),
    "another media type": (b"{}", b"text/plain"),
}


@pytest.mark.parametrize("sentence", HOSTILE)
async def test_what_is_no_review_leaves_a_span_without_facts_of_it(sentence: str) -> None:
    """And is answered as it is without traces."""
    body, media = HOSTILE[sentence]
    _, (span,) = await traced(body, media=media)
    assert span.attributes is not None
    assert 400 <= int(str(span.attributes["http.response.status_code"])) < 500
    assert not {"modelwarden.object", "modelwarden.review.uid"} & span.attributes.keys()
    assert SECRET not in span.to_json()


@pytest.mark.parametrize("new", [GOOD, REFUSED])
async def test_a_span_says_nothing_of_what_an_object_carries(new: Any) -> None:
    """Neither values nor messages, which quote them, nor who wrote."""
    answer, (span,) = await traced(posted(new))
    told = span.to_json()
    assert SECRET not in told
    assert "username" not in told
    assert json.loads(answer)["response"].get("status", {}).get("message", SECRET) not in told


CARRIED: dict[str, tuple[list[tuple[bytes, bytes]], bool]] = {
    "a sender's span": ([(b"traceparent", f"00-{TRACE}-{PARENT}-01".encode())], True),
    "no header": ([], False),
    "no span's id": ([(b"traceparent", b"00-zz-zz-01")], False),
    "two of them": ([(b"traceparent", f"00-{TRACE}-{PARENT}-01".encode())] * 2, False),
    "bytes of no text": ([(b"traceparent", b"\xff\x00")], False),
}


@pytest.mark.parametrize("sentence", CARRIED)
async def test_a_sender_s_span_is_the_parent(sentence: str) -> None:
    """W3C Trace Context; what is none of it starts a trace of its own."""
    headers, followed = CARRIED[sentence]
    _, (span,) = await traced(posted(GOOD), *headers, (b"tracestate", b"a=1"), (b"tracestate", b"b=2"))
    assert span.context is not None
    if not followed:
        assert span.parent is None
        return
    assert span.parent is not None
    assert (f"{span.context.trace_id:032x}", f"{span.parent.span_id:016x}") == (TRACE, PARENT)
    assert span.context.trace_state.to_header() == "a=1,b=2"


async def test_a_sender_who_does_not_sample_is_not_traced() -> None:
    """The sender decides for the whole trace."""
    _, spans = await traced(posted(GOOD), (b"traceparent", f"00-{TRACE}-{PARENT}-00".encode()))
    assert spans == []


async def test_other_paths_leave_no_span() -> None:
    """Probes and scrapes come every few seconds and tell nobody anything."""
    _, spans = await traced(b"", path="/readyz")
    assert spans == []
