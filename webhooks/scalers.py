"""Reviews of ModelDeploymentScalers. Source: admission facts 2."""

from api import keys
from webhooks import response, wire
from webhooks.answers import invalid
from webhooks.lookups import Lookup
from webhooks.metrics import AdmissionMetrics
from webhooks.response import Response
from webhooks.validation.scaler import ScalerSubject, judge_scaler, others_to_read
from webhooks.wire import Request

JUDGED = frozenset({"CREATE", "UPDATE"})


class ScalerReviews:
    """Validates scalers."""

    def __init__(self, lookup: Lookup, metrics: AdmissionMetrics | None = None) -> None:
        self._lookup = lookup
        self._metrics = metrics

    async def validate(self, request: Request) -> Response:
        """The rules of a scaler. Deletes, subresources and scalers on their way out pass."""
        if request.operation not in JUDGED or request.sub_resource or request.object is None:
            return response.allow()
        stored = request.old_object if request.operation == "UPDATE" else None
        if wire.read_metadata(stored if stored is not None else request.object).deleting:
            return response.allow()
        new = wire.read_scaler(request.object)
        old = wire.read_scaler(stored) if stored is not None else None
        subject = ScalerSubject(new, old)
        if others_to_read(subject):
            subject = ScalerSubject(new, old, await self._lookup.scalers(request.namespace or new.metadata.namespace))
        findings = judge_scaler(subject)
        if not findings:
            return response.allow()
        if self._metrics is not None and not request.dry_run:
            self._metrics.refused(finding.rule for finding in findings)
        return invalid(keys.MODEL_DEPLOYMENT_SCALER, request.name or new.metadata.name, findings)
