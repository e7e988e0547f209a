"""Every write that any test here puts to the rules also asks the rules beside their gates: none of them may have had anything to say."""

from collections.abc import Iterable
from typing import Any

import pytest

from webhooks.validation import registry
from webhooks.validation.findings import Finding, Phase
from webhooks.validation.subject import Subject


@pytest.fixture(autouse=True)
def gates_lose_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wrap the judgement of the registry."""
    judge: Any = registry.judge

    def judged(subject: Subject, phases: Iterable[Phase] = ("object", "types")) -> tuple[Finding, ...]:
        asked = tuple(phases)
        found: tuple[Finding, ...] = judge(subject, asked)
        beside = [rule for rule in registry.RULES if rule.phase in asked and rule.when not in subject.features]
        missed = {rule.id for rule in beside if list(rule.check(subject))}
        assert missed == set(), f"{missed} say something of {subject.spec}, beside their gates"
        return found

    monkeypatch.setattr(registry, "judge", judged)
