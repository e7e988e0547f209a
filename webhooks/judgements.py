"""What the rules say of a write itself, before any other object is read; remembered, because most writes are sent more than once.

A dry run comes before the real write, a GitOps tool applies the same manifest again and again, and a scaler moves between few sizes. The
rules of the first phase are pure functions of the two specs, the name and the settings, so remembering changes nothing but the time; what
depends on other objects is judged anew for every review. Large specs are judged anew too, so that nobody fills the memory with them.
"""

from functools import lru_cache

import msgspec

from webhooks import wire
from webhooks.settings import AdmissionSettings
from webhooks.validation import advice, registry
from webhooks.validation.findings import Finding
from webhooks.validation.subject import Subject

REMEMBERED = 128


class Judgement(msgspec.Struct, frozen=True):
    """A write as the rules see it, what the first phase finds wrong with it, and the warnings that it gets when nothing else is wrong."""

    subject: Subject
    findings: tuple[Finding, ...]
    warnings: tuple[str, ...]


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
        subject = Subject(wire.read_deployment_spec(new), former, settings=self._settings, name=name)
        findings = registry.judge(subject, ("object",))
        refused = frozenset([finding.field for finding in findings])
        return Judgement(subject, findings, advice.warnings(advice.advise(subject, refused)))
