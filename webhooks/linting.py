"""The webhooks' own rules over manifests, without a cluster: the schema first, then the registry, the fence and the argument reader.

Look-ups find what stands among the manifests; a rule that reads an object which is not there stays silent instead of guessing.
Source: decisions D5 and D8.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypeVar

import msgspec

from api import keys
from api.crd.check import admit
from api.objects import InstanceType, KVCachePool, KVCachePoolBinding, ModelDeployment, ModelDeploymentScaler
from webhooks.defaulting import default_accelerators
from webhooks.documents import read_document
from webhooks.errors import CannotJudgeError
from webhooks.fence import FenceRequest, Scaler, judge, scaler_to_read, target_of
from webhooks.fence.messages import explain, ways_out
from webhooks.patch import apply_patch
from webhooks.settings import AdmissionSettings
from webhooks.validation import registry
from webhooks.validation.advice import advise_all
from webhooks.validation.findings import Finding
from webhooks.validation.names import expected_name
from webhooks.validation.scaler import ScalerSubject, judge_scaler
from webhooks.validation.subject import Fabric, Subject

Severity = Literal["error", "warning", "info"]
Document = Mapping[str, Any]
K = TypeVar("K")

SCHEMA = "MD000"
UNOBSERVED = "MD001"
JUDGED = (keys.MODEL_DEPLOYMENT, keys.MODEL_DEPLOYMENT_SCALER)


class LintFinding(msgspec.Struct, frozen=True, kw_only=True):
    """One finding on one object; the members of D8's result line, with the object's place among those given."""

    id: str
    severity: Severity
    object: str
    field: str
    message: str
    fix: str = ""
    index: int = 0


def name_of(document: Document) -> str:
    """An object in words: kind, namespace and name."""
    meta = _metadata(document)
    place = f"{meta['namespace']}/" if meta.get("namespace") else ""
    return f"{document.get('kind')} {place}{meta.get('name') or meta.get('generateName') or ''}"


def _metadata(document: Document) -> Mapping[str, Any]:
    """Empty where it is no object: the schema says so, and the rest has no name to go by."""
    found = document.get("metadata")
    return found if isinstance(found, Mapping) else {}


def _key(document: Document) -> tuple[str, str, str]:
    meta = _metadata(document)
    return str(document.get("kind")), str(meta.get("namespace") or ""), str(meta.get("name") or "")


def is_judged(document: Document) -> bool:
    """Whether a document is of a kind that rules judge."""
    return document.get("kind") in JUDGED and str(document.get("apiVersion", "")).startswith(f"{keys.GROUP}/")


def lint(documents: Sequence[Document], old: Iterable[Document] = (), settings: AdmissionSettings | None = None) -> tuple[LintFinding, ...]:
    """Every finding on every ModelDeployment and scaler of the documents; `old` holds stored objects to compare with."""
    linter = _Linter(documents, old, settings or AdmissionSettings())
    return tuple(found for index, document in enumerate(documents) if is_judged(document) for found in linter.document(index, document))


class _Linter:
    def __init__(self, documents: Sequence[Document], old: Iterable[Document], settings: AdmissionSettings) -> None:
        self._settings = settings
        self._old = {_key(document): document for document in old}
        self._types = {t.metadata.name: t for t in _of_kind(documents, InstanceType, keys.INSTANCE_TYPE)}
        self._pools = {p.metadata.name: p for p in _of_kind(documents, KVCachePool, keys.KV_CACHE_POOL)}
        self._bindings = {
            (b.metadata.namespace, b.metadata.name): b for b in _of_kind(documents, KVCachePoolBinding, keys.KV_CACHE_POOL_BINDING)
        }
        self._scalers = _of_kind(documents, ModelDeploymentScaler, keys.MODEL_DEPLOYMENT_SCALER)

    def document(self, index: int, document: Document) -> Iterable[LintFinding]:
        """The findings on one document."""
        before = self._old.get(_key(document))
        stored, faults = admit(dict(document), dict(before) if before is not None else None)
        who = name_of(document)
        for fault in faults:
            yield LintFinding(id=SCHEMA, severity="error", object=who, field=fault.field, message=fault.message, index=index)
        held = admit(dict(before))[0] if before is not None else None
        broken = {fault.field.removeprefix("metadata.") for fault in faults if fault.field.startswith("metadata.")}
        if broken:  # a label that is a number hides nothing else
            stored = {**stored, "metadata": {name: value for name, value in stored["metadata"].items() if name not in broken}}
        try:
            found = self._deployment(stored, held) if document.get("kind") == keys.MODEL_DEPLOYMENT else self._scaler(stored, held)
        except msgspec.ValidationError as error:
            if not faults:  # else the schema said in better words what is wrong with the shape; of the stored object it says nothing
                yield LintFinding(
                    id=SCHEMA,
                    severity="error",
                    object=who,
                    field="spec",
                    message=f"it or the stored object cannot be read: {error}",
                    index=index,
                )
            return
        taken = {fault.field for fault in faults}
        for finding in found:
            if finding.field not in taken or finding.refuses:
                yield _stated(finding, who, index)

    def _deployment(self, stored: Document, held: Document | None) -> Iterable[Finding]:
        draft = read_document(stored, ModelDeployment)
        new = read_document(apply_patch(stored, default_accelerators(draft, self._types)), ModelDeployment)
        old = read_document(held, ModelDeployment) if held is not None else None
        subject = Subject(
            new.spec, old.spec if old is not None else None, name=expected_name(new.metadata), settings=self._settings
        ).beside(self._types, self._fabric(new))
        findings = _judged(subject) if old is None or not old.metadata.deleting else ()
        refused = frozenset(finding.field for finding in findings if finding.refuses)
        return (*self._fenced(new, old), *findings, *advise_all(subject, refused))

    def _fabric(self, new: ModelDeployment) -> Fabric | None:
        """The KV cache as far as the documents hold it; without its binding nothing is said about it."""
        cache = new.spec.kv_cache
        binding = self._bindings.get((new.metadata.namespace, cache.pool_ref.name)) if cache is not None else None
        pool = self._pools.get(binding.spec.pool_ref.name) if binding is not None else None
        return Fabric(binding=binding, pool=pool) if binding is not None and pool is not None else None

    def _fenced(self, new: ModelDeployment, old: ModelDeployment | None) -> tuple[Finding, ...]:
        """The fence as it meets a writer who is no scaler."""
        write = FenceRequest(name=new.metadata.name, old=target_of(old) if old else None, new=target_of(new), scaler_writer=False)
        owner = scaler_to_read(write)
        scaler = next((s for s in self._scalers if s.metadata.name == owner and s.metadata.namespace == new.metadata.namespace), None)
        verdict = judge(msgspec.structs.replace(write, scaler=Scaler.of(scaler) if scaler is not None else None))
        return tuple(
            Finding(rule=v.rule, name="Fence", field=v.field, message=explain(v), reason="Forbidden", fix="; ".join(ways_out(verdict)))
            for v in verdict.violations
        )

    def _scaler(self, stored: Document, held: Document | None) -> tuple[Finding, ...]:
        new = read_document(stored, ModelDeploymentScaler)
        old = read_document(held, ModelDeploymentScaler) if held is not None else None
        if (old or new).metadata.deleting:
            return ()
        others = tuple(s for s in self._scalers if s.metadata.namespace == new.metadata.namespace)
        return judge_scaler(ScalerSubject(new, old, others))


def _judged(subject: Subject) -> tuple[Finding, ...]:
    """What the rules say; where a type has not been observed yet, what they say without the types, and that it has not."""
    findings = registry.judge(subject, ("object",))
    try:
        findings = (*findings, *registry.judge(subject, ("types",)))
        if not findings and subject.fabric is not None:
            findings = registry.judge_rest(subject)
    except CannotJudgeError as error:
        unobserved = Finding(rule=UNOBSERVED, name="", field="spec.roles", message=str(error), refuses=False, severity="warning")
        findings = (*findings, unobserved)
    return findings


def _of_kind(documents: Sequence[Document], shape: type[K], kind: str) -> tuple[K, ...]:
    found: list[K] = []
    for document in documents:
        if document.get("kind") == kind:
            try:
                found.append(read_document(document, shape))
            except msgspec.ValidationError:
                continue  # an object that cannot be read is not there to be looked up
    return tuple(found)


def _stated(finding: Finding, who: str, index: int) -> LintFinding:
    name = "" if finding.name in {"Arguments", "Fence", ""} else f"{finding.name}: "
    return LintFinding(
        id=finding.rule,
        severity="error" if finding.refuses else finding.severity,
        object=who,
        field=finding.field,
        message=f"{name}{finding.message}",
        fix=finding.fix,
        index=index,
    )
