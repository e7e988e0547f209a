"""What the rules say of a write itself, before any other object is read; remembered, because most writes are sent more than once.

A dry run comes before the real write, a GitOps tool applies the same manifest again and again, and a scaler moves between few sizes. The
rules of the first phase are pure functions of the two specs, the name and the settings, so remembering changes nothing but the time. Other
objects are read for every review; equal instance types get the answer of the last time, the KV cache is judged anew. Large specs are
judged anew too, so that nobody fills the memory with them.
"""

from collections.abc import Mapping
from functools import lru_cache

import msgspec

from api.objects import InstanceType
from webhooks import wire
from webhooks.settings import AdmissionSettings
from webhooks.validation import advice, registry
from webhooks.validation.findings import Finding
from webhooks.validation.subject import Fabric, Subject

Types = Mapping[str, InstanceType | None]

REMEMBERED = 128


class Outcome(msgspec.Struct, frozen=True):
    """What is wrong with a write, and what else its writer should know."""

    findings: tuple[Finding, ...]
    warnings: tuple[str, ...]


class Judgement:
    """A write as the rules see it, what the first phase says of it, and the last answer that instance types completed."""

    __slots__ = ("_last", "_own", "fabric", "subject", "types")

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.types = registry.types_to_read(subject)
        self.fabric = registry.fabric_to_read(subject)
        self._own = self._outcome(subject, registry.judge(subject, ("object",)))
        self._last: tuple[Types, Outcome] | None = None

    def beside(self, types: Types) -> Outcome:
        """The outcome beside these instance types, with the last phases where no object of the KV cache is needed for them.

        Types that are equal to those of the last time, in all that any rule reads, get the answer of the last time. Raises
        CannotJudgeError where a type has not been observed yet.
        """
        if self._last is not None and self._last[0] == types:
            return self._last[1]
        subject = self.subject.beside(types)
        findings = (*self._own.findings, *registry.judge(subject, ("types",)))[: registry.MOST_FINDINGS]
        if not findings and not self.fabric:
            findings = registry.judge_rest(subject)
        outcome = self._own if len(findings) == len(self._own.findings) else self._outcome(subject, findings)
        self._last = types, outcome
        return outcome

    def completed(self, types: Types, fabric: Fabric) -> Outcome:
        """The outcome of a write that has no fault so far, by the KV cache's objects: they are read for each review."""
        subject = self.subject.beside(types, fabric)
        findings = registry.judge_rest(subject)
        return self._outcome(subject, findings) if findings else self._own

    @staticmethod
    def _outcome(subject: Subject, findings: tuple[Finding, ...]) -> Outcome:
        refused = frozenset([finding.field for finding in findings])
        return Outcome(findings, advice.warnings(advice.advise(subject, refused)))


class Judgements:
    """Judges writes of ModelDeployments by their two specs as they came."""

    def __init__(self, settings: AdmissionSettings) -> None:
        self._settings = settings
        self._remembered = lru_cache(maxsize=REMEMBERED)(self._judge)

    def of(self, name: str, new: bytes, old: bytes | None) -> Judgement:
        """The judgement of a write. Raises MalformedReviewError where a spec cannot be read."""
        if len(new) > wire.REMEMBERED_BYTES or (old is not None and len(old) > wire.REMEMBERED_BYTES):
            return self._judge(name, new, old)
        return self._remembered(name, new, old)

    def _judge(self, name: str, new: bytes, old: bytes | None) -> Judgement:
        former = wire.read_deployment_spec(old) if old is not None else None
        return Judgement(Subject(wire.read_deployment_spec(new), former, settings=self._settings, name=name))
