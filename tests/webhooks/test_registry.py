"""The registry itself: stable ids, one sentence each, a current page, and a gating of rules that loses nothing."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from api.objects import ModelDeployment
from webhooks.ruletable import page, sentences
from webhooks.settings import AdmissionSettings
from webhooks.validation import registry, scaler
from webhooks.validation.subject import Subject

ROOT = Path(__file__).parents[2]
EVERY = (*registry.RULES, *scaler.RULES)

# Ids are a promise: a rule may be retired, its id is never given to another.
KNOWN = [
    "MD101",
    "MD102",
    "MD103",
    "MD104",
    "MD105",
    "MD111",
    "MD112",
    "MD113",
    "MD121",
    "MD122",
    "MD123",
    "MD124",
    "MD125",
    "MD126",
    "MD201",
    "MD202",
    "MD203",
    "MD204",
    "MD205",
    "MD206",
    "MD207",
    "MD301",
    "MD302",
    "MD303",
    "MD304",
    "MD305",
    "MD401",
    "MD402",
    "MD403",
    "MD404",
    "MD405",
    "MD406",
    "MD407",
    "MD408",
    "MD409",
    "MD410",
    "MD501",
    "MD502",
    "MD503",
    "MD504",
    "MD505",
    "MD506",
    "MD507",
    "MD508",
    "MD511",
    "MD512",
    "MD513",
    "MD601",
    "MD602",
    "MD603",
    "MD604",
    "MD605",
    "MD606",
    "MD701",
    "MD702",
    "MD711",
    "MD712",
    "MD713",
    "MD714",
    "MD715",
    "MD716",
    "MD717",
    "MD721",
    "MD722",
    "MD723",
    "MD801",
    "MD802",
    "MD803",
    "MD804",
    "MD805",
    "MD806",
    "MD901",
    "MD902",
    "MD903",
    "MD904",
    "MD905",
    "MD906",
]


def test_ids_and_names_are_unique_and_known() -> None:
    """Nobody renumbers."""
    assert sorted(rule.id for rule in EVERY) == sorted(KNOWN)
    assert len({rule.name for rule in EVERY}) == len(EVERY)


@pytest.mark.parametrize("rule", EVERY, ids=lambda rule: rule.id)
def test_a_rule_says_what_it_is(rule: Any) -> None:
    """One sentence, at least one field, a source."""
    assert re.fullmatch(r"MD[1-9][0-9]{2}", rule.id)
    assert re.fullmatch(r"[A-Z][A-Za-z]+", rule.name)
    assert rule.sentence.endswith(".")
    assert rule.sentence.count(". ") == 0
    assert rule.fields
    assert rule.source
    assert rule.id in sentences()


def test_the_page_of_rules_is_current() -> None:
    """`make docs` writes it."""
    assert (ROOT / "docs" / "rules.md").read_text("utf-8") == page()


def _deployments() -> list[tuple[str, Any, Any]]:
    lines = (ROOT / "tests" / "contract" / "cases" / "admission.jsonl").read_text("utf-8").splitlines()
    requests = [(case["id"], case["input"]["review"]["request"]) for case in map(json.loads, lines)]
    return [
        (name, request["object"], request["oldObject"])
        for name, request in requests
        if request["resource"]["resource"] == "modeldeployments" and request["object"]
    ]


def test_gating_loses_nothing() -> None:
    """A rule that is not called for a write would have said nothing about it: shown on every deployment of the acceptance cases."""
    import msgspec

    for name, new, old in _deployments():
        made, former = (msgspec.convert(obj, ModelDeployment) if obj else None for obj in (new, old))
        subject = Subject(made.spec, former.spec if former else None, name=made.metadata.name, settings=AdmissionSettings())
        missed = {
            rule.id for rule in registry.RULES if rule.phase != "types" and rule.when not in subject.features and list(rule.check(subject))
        }
        assert missed == set(), name
