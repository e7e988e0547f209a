"""Reviews of ModelDeployments: gather what the pure packages ask for, call them, and put their verdict on the wire.

Source: decisions D4 and D5, admission facts 3.0 and 4.
"""

import asyncio
from collections.abc import Iterable

import msgspec

from api import keys
from api.objects import InstanceType, KVCachePool, KVCachePoolBinding, ModelDeployment, ModelDeploymentScaler, ObjectMeta
from webhooks import defaulting, response, wire
from webhooks.answers import invalid
from webhooks.fence import FenceRequest, Scaler, Verdict, judge, scaler_to_read, target_of
from webhooks.fence.messages import explain, refusal
from webhooks.judgements import Judgement, Judgements
from webhooks.lookups import Lookup
from webhooks.metrics import AdmissionMetrics
from webhooks.patch import encode_patch
from webhooks.response import Cause, Details, Response
from webhooks.settings import AdmissionSettings
from webhooks.validation.names import expected_name
from webhooks.validation.subject import Fabric, Subject
from webhooks.wire import Object, Request

JUDGED = frozenset({"CREATE", "UPDATE"})
RULE = "rule"
TERM = "term"

UNCONCERNED = Verdict()


def _annotated(deployment: ModelDeployment) -> bool:
    annotations = deployment.metadata.annotations
    return bool(annotations) and (keys.SCALER_BINDING in annotations or keys.SCALER_DECISION in annotations)


_Side = tuple[ModelDeployment, bytes]
"""One side of a write, and its spec as it came."""


def _sides(request: Request, new: Object) -> tuple[_Side, _Side | tuple[None, None]]:
    """Both sides of a write. Of an object on its way out only the metadata is read: no spec keeps its finalizers (F87)."""
    stored = request.old_object if request.operation == "UPDATE" else None
    if stored is None:
        return _side(new, wire.read_metadata(new)), (None, None)
    metadata, former = wire.read_metadata(new), wire.read_metadata(stored)
    if former.deleting:
        return (ModelDeployment(metadata=metadata), b""), (ModelDeployment(metadata=former), b"")
    return _side(new, metadata), _side(stored, former)


def _side(obj: Object, metadata: ObjectMeta) -> _Side:
    text = wire.spec_text(obj)
    return ModelDeployment(metadata=metadata, spec=wire.read_deployment_spec(text)), text


class DeploymentReviews:
    """Validates and defaults ModelDeployments."""

    def __init__(self, lookup: Lookup, settings: AdmissionSettings, metrics: AdmissionMetrics | None = None) -> None:
        self._lookup = lookup
        self._settings = settings
        self._judgements = Judgements(settings)
        self._metrics = metrics

    async def validate(self, request: Request) -> Response:
        """The fence first, then the rules. Deletes and subresources pass."""
        if request.operation not in JUDGED or request.sub_resource or request.object is None:
            return response.allow()
        (new, text), (old, old_text) = _sides(request, request.object)
        name = request.name or new.metadata.name
        verdict = await self._fenced(request, name, new, old)
        audit = {} if verdict is UNCONCERNED else self._record(request, verdict)
        if not verdict.allowed:
            causes = tuple(Cause(reason=v.rule, field=v.field, message=explain(v)) for v in verdict.violations)
            details = Details(name=name, group=keys.GROUP, kind=keys.MODEL_DEPLOYMENT, causes=causes)
            return response.refuse(403, "Forbidden", refusal(verdict), details=details, audit=audit)
        if old is not None and old.metadata.deleting:
            return response.allow(audit=audit)
        judgement = self._judgements.of(expected_name(new.metadata) or name, text, old_text)
        return await self._ruled(request, name, judgement, request.namespace or new.metadata.namespace, audit)

    async def mutate(self, request: Request) -> Response:
        """Cards for the roles that leave them open. An object of the wrong shape is left to the schema, which says what is wrong."""
        if request.operation not in JUDGED or request.sub_resource or request.object is None:
            return response.allow()
        try:
            deployment = wire.read_deployment(request.object)
        except wire.WrongShapeError:
            return response.allow()
        types = await self._types(defaulting.types_to_read(deployment))
        return response.allow(patch=encode_patch(defaulting.default_accelerators(deployment, types)))

    async def _fenced(self, request: Request, name: str, new: ModelDeployment, old: ModelDeployment | None) -> Verdict:
        scaler_writer = bool(request.username) and request.username in self._settings.scaler_usernames
        if not scaler_writer and not _annotated(new) and (old is None or not _annotated(old)):
            return UNCONCERNED
        write = FenceRequest(name=name, old=target_of(old) if old is not None else None, new=target_of(new), scaler_writer=scaler_writer)
        owner = scaler_to_read(write)
        if owner is not None:
            found = await self._lookup.get(ModelDeploymentScaler, request.namespace or new.metadata.namespace, owner)
            write = msgspec.structs.replace(write, scaler=Scaler.of(found) if found is not None else None)
        return judge(write)

    async def _ruled(self, request: Request, name: str, judgement: Judgement, namespace: str, audit: dict[str, str]) -> Response:
        types = await self._types(judgement.types)
        outcome = judgement.beside(types)
        if judgement.fabric and not outcome.findings:
            outcome = judgement.completed(types, await self._fabric(namespace, judgement.subject))
        if not outcome.findings:
            return response.allow(audit=audit, warnings=outcome.warnings)
        if self._metrics is not None and not request.dry_run:
            self._metrics.refused(finding.rule for finding in outcome.findings)
        return invalid(keys.MODEL_DEPLOYMENT, name, outcome.findings, audit=audit, warnings=outcome.warnings)

    async def _types(self, names: tuple[str, ...]) -> dict[str, InstanceType | None]:
        """Uncached reads, each name once per review, side by side."""
        if len(names) == 1:
            return {names[0]: await self._lookup.get(InstanceType, None, names[0])}
        found = await asyncio.gather(*(self._lookup.get(InstanceType, None, name) for name in names))
        return dict(zip(names, found, strict=True))

    async def _fabric(self, namespace: str, subject: Subject) -> Fabric:
        cache = subject.spec.kv_cache
        binding = await self._lookup.get(KVCachePoolBinding, namespace, cache.pool_ref.name) if cache is not None else None
        pool = await self._lookup.get(KVCachePool, None, binding.spec.pool_ref.name) if binding and binding.spec.pool_ref.name else None
        return Fabric(binding=binding, pool=pool)

    def _record(self, request: Request, verdict: Verdict) -> dict[str, str]:
        """Count what the fence said, and what the audit log keeps of it."""
        said = verdict.rules
        if not said:
            return {}
        if self._metrics is not None and not request.dry_run:
            rules: Iterable[str] = dict.fromkeys(v.rule for v in verdict.violations) or (verdict.rule,)
            for rule in rules:
                self._metrics.fence.labels(rule, "allowed" if verdict.allowed else "refused").inc()
        return {RULE: said} if verdict.term is None else {RULE: said, TERM: str(verdict.term)}
