"""From review bytes to answer bytes: which handler answers which path, and what every failure looks like on the wire.

`review` never raises. A refusal is HTTP 200 with `allowed: false`. What could not be judged is HTTP 400 or 413 where the sender's bytes are
at fault and 500 otherwise (a failed read, a crash), with a complete review as its body, so that failurePolicy decides and the sender still
sees its uid. Source: decisions D4 and D5, lessons F83, F84.
"""

import time
import traceback
from collections.abc import Awaitable, Callable, Mapping

import structlog

from webhooks import response, wire
from webhooks.deployments import DeploymentReviews
from webhooks.errors import AdmissionError, MalformedReviewError
from webhooks.lookups import READS_END, Lookup
from webhooks.metrics import AdmissionMetrics
from webhooks.pods import PodReviews
from webhooks.response import Envelope, Response
from webhooks.scalers import ScalerReviews
from webhooks.settings import AdmissionSettings
from webhooks.wire import BrokenReviewError, Request

VALIDATE_DEPLOYMENT = "/validate-modeldeployment"
MUTATE_DEPLOYMENT = "/mutate-modeldeployment"
VALIDATE_SCALER = "/validate-modeldeploymentscaler"
MUTATE_POD = "/mutate-pod"
PATHS = frozenset({VALIDATE_DEPLOYMENT, MUTATE_DEPLOYMENT, VALIDATE_SCALER, MUTATE_POD})

REVIEW_SECONDS = 7.0
"""How long one review may take, all its reads together: the API server gives up after ten (F90), and hears our own words until then."""

Handler = Callable[[Request], Awaitable[Response]]

_log = structlog.get_logger(__name__)


class ReviewServer:
    """Answers reviews. One per process; what it remembers between reviews changes no answer, only the time."""

    def __init__(
        self, lookup: Lookup, settings: AdmissionSettings, metrics: AdmissionMetrics | None = None, seconds: float = REVIEW_SECONDS
    ) -> None:
        deployments = DeploymentReviews(lookup, settings, metrics)
        self._metrics = metrics
        self._seconds = seconds
        self._handlers: Mapping[str, Handler] = {
            VALIDATE_DEPLOYMENT: deployments.validate,
            MUTATE_DEPLOYMENT: deployments.mutate,
            VALIDATE_SCALER: ScalerReviews(lookup, metrics).validate,
            MUTATE_POD: PodReviews(lookup).mutate,
        }

    async def review(self, path: str, body: bytes) -> tuple[int, bytes]:
        """The HTTP status and the body of the answer to a review that was posted to `path`."""
        metrics = self._metrics
        if metrics is None:
            return await self._review(path, body)
        calls = metrics.calls(path[1:])
        calls.under_way += 1
        started = time.perf_counter()
        try:
            status, answer = await self._review(path, body)
        finally:
            calls.under_way -= 1
        calls.latency.observe(time.perf_counter() - started)
        calls.answered(status)
        return status, answer

    def reject(self, path: str, error: AdmissionError) -> tuple[int, bytes]:
        """The answer to a call that never became a review."""
        if self._metrics is not None:
            self._metrics.calls(path[1:]).answered(error.code)
        return error.code, response.write_answer(Envelope(), response.refuse(error.code, error.reason, str(error)))

    async def _review(self, path: str, body: bytes) -> tuple[int, bytes]:
        envelope = Envelope()
        READS_END.set(time.monotonic() + self._seconds)
        try:
            envelope, request = wire.read_review(body)
            return 200, response.write_answer(envelope, await self._handlers[path](request))
        except BrokenReviewError as error:
            return 400, response.write_answer(error.envelope, response.refuse(400, error.reason, str(error)))
        except MalformedReviewError as error:
            return 400, response.write_answer(
                envelope, response.refuse(400, "BadRequest", f"the object under review cannot be read: {error}")
            )
        except AdmissionError as error:
            _log.warning("review could not be judged", path=path, uid=envelope.uid, error=str(error))
            return error.code, response.write_answer(envelope, response.refuse(error.code, error.reason, str(error)))
        except Exception as error:  # noqa: BLE001 - one boundary turns a rule's crash into an answer
            # Frames and types only: an error's own words, or a renderer that shows local variables, would show the object.
            _log.error("a rule crashed", path=path, uid=envelope.uid, error=type(error).__name__, traceback=_frames(error))
            if self._metrics is not None:
                self._metrics.panics.inc()
            return 500, response.write_answer(
                envelope, response.refuse(500, "InternalError", "the review could not be judged: a rule crashed")
            )


def _frames(error: BaseException) -> str:
    """Where an error came from, and where the one behind it did; of each only the type is named."""
    found: list[str] = []
    behind: BaseException | None = error
    while behind is not None and len(found) < 8:
        found.append("".join(traceback.format_tb(behind.__traceback__)) + type(behind).__name__)
        behind = behind.__cause__ or behind.__context__
    return "\ncaused by:\n".join(found)
