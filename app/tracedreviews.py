"""Reviews in spans: which webhook was asked about which object, which rules spoke, what the verdict was.

What was asked and answered is read once more off the bytes, from a handful of named members: the review path itself knows nothing of
traces, and who does not trace does not load this module.
"""

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Final

import msgspec

from api.spans import Fact
from app.tracing import Traces
from webhooks.errors import AdmissionError
from webhooks.lane import Application, Receive, Scope, Send
from webhooks.server import PATHS, ReviewServer

_HEADERS: Final = (b"traceparent", b"tracestate")
_carried: ContextVar[Mapping[str, str]] = ContextVar("carried")


class _Asked(msgspec.Struct, frozen=True, rename="camel"):
    """Of a review's request, what its span may say."""

    uid: str = ""
    namespace: str = ""
    name: str = ""
    operation: str = ""
    dry_run: bool | None = None


class _Question(msgspec.Struct, frozen=True):
    request: _Asked = _Asked()


class _Said(msgspec.Struct, frozen=True):
    code: int = 0


class _Answered(msgspec.Struct, frozen=True, rename="camel"):
    """Of an answer, the same."""

    allowed: bool = False
    status: _Said = _Said()
    audit_annotations: dict[str, str] = {}
    patch: msgspec.Raw = msgspec.Raw()


class _Answer(msgspec.Struct, frozen=True):
    response: _Answered = _Answered()


_questions = msgspec.json.Decoder(_Question)
_answers = msgspec.json.Decoder(_Answer)


class TracedReviews(ReviewServer):
    """Another server's reviews, each in a span. What was asked and answered is read off the bytes once more: only the traced pay for it."""

    def __init__(self, inner: ReviewServer, traces: Traces) -> None:
        self._inner = inner
        self._traces = traces

    async def review(self, path: str, body: bytes) -> tuple[int, bytes]:
        """As the other one answers."""
        with self._traces.answer(f"admission {path[1:]}", _carried.get({}), modelwarden__webhook=path[1:]) as span:
            status, answer = await self._inner.review(path, body)
            span.say(http__response__status_code=status, **_question_facts(body))
            span.say(**_answer_facts(status, answer))
            if status >= 500:
                span.failed(str(status))
        return status, answer

    def reject(self, path: str, error: AdmissionError) -> tuple[int, bytes]:
        """As the other one answers."""
        with self._traces.answer(f"admission {path[1:]}", _carried.get({}), modelwarden__webhook=path[1:]) as span:
            status, answer = self._inner.reject(path, error)
            span.say(http__response__status_code=status, modelwarden__verdict="refused", modelwarden__code=error.code)
        return status, answer


def _question_facts(body: bytes) -> dict[str, Fact]:
    try:
        asked = _questions.decode(body).request
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return {}
    return {
        "modelwarden__review__uid": asked.uid[:64],
        "modelwarden__operation": asked.operation[:16],
        "modelwarden__dry_run": bool(asked.dry_run),
        "k8s__namespace__name": asked.namespace[:253],
        "modelwarden__object": asked.name[:253],
    }


def _answer_facts(status: int, answer: bytes) -> dict[str, Fact]:
    try:
        told = _answers.decode(answer).response
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return {"modelwarden__verdict": "failed"}
    facts: dict[str, Fact] = {
        "modelwarden__verdict": "failed" if status >= 500 else "allowed" if told.allowed else "refused",
        "modelwarden__patched": bool(told.patch),
        "modelwarden__rules": tuple(filter(None, told.audit_annotations.get("rule", "").split(","))),
    }
    return facts if told.status.code == 0 else facts | {"modelwarden__code": told.status.code}


class CarriedContext:
    """ASGI in front of the lane: what a review's sender says of its own span is kept for the span of the review."""

    def __init__(self, app: Application) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Note it, and pass the call on. Every request is a task, so that nobody sees another's."""
        if scope["type"] == "http" and scope["path"] in PATHS:
            # The standard lets a list of vendors be spread over several headers, in their order.
            found: dict[str, str] = {}
            for name, value in scope["headers"]:
                if name in _HEADERS:
                    key, text = name.decode(), value.decode("latin-1")
                    found[key] = f"{found[key]},{text}" if key in found else text
            _carried.set(found)
        await self._app(scope, receive, send)
