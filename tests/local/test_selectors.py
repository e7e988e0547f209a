"""Label selectors in all their spellings, and field selectors of what a kind can be selected by."""

import pytest

from local.kinds import PODS
from local.selectors import compile_selectors, label_selector_matches, parse_labels
from local.statuses import StatusError
from local.store import Entry

LABELS = {"app": "web", "tier": "1", "example.com/x": ""}

MATCHING = {
    "equality": ("app=web", True),
    "double equality": ("app==web", True),
    "inequality of an absent key holds": ("nothing!=web", True),
    "presence": ("tier", True),
    "absence": ("!nothing", True),
    "absence of a present key": ("!app", False),
    "a set": ("app in (db, web)", True),
    "outside a set": ("app notin (db,web)", False),
    "absent key outside a set": ("nothing notin (a)", True),
    "several terms are all needed": ("app=web,tier=2", False),
    "a comma inside parentheses separates values only": ("app in (a,web),tier", True),
    "an empty value": ("example.com/x=", True),
    "greater than": ("tier>0", True),
    "less than": ("tier<1", False),
    "blanks do not matter": (" app  in ( web ) , tier ", True),
}


@pytest.mark.parametrize(("selector", "holds"), MATCHING.values(), ids=MATCHING)
def test_label_selectors(selector: str, holds: bool) -> None:
    """A selector selects what the API's grammar says."""
    assert all(test(LABELS) for test in parse_labels(selector)) is holds


UNREADABLE = {"three signs": "a===b", "an open set": "a in (b", "no number to compare with": "a>b", "a negated comparison": "!a=b"}


@pytest.mark.parametrize("selector", UNREADABLE.values(), ids=UNREADABLE)
def test_unreadable_label_selectors_are_400(selector: str) -> None:
    """What cannot be read is refused and never selects everything."""
    with pytest.raises(StatusError) as refused:
        parse_labels(selector)
    assert refused.value.code == 400


OBJECTS = {
    "an absent selector selects everything": (None, True),
    "an empty selector selects everything": ({}, True),
    "labels": ({"matchLabels": {"app": "web"}}, True),
    "labels and an expression": ({"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}, False),
    "In": ({"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]}, True),
    "NotIn of an absent key": ({"matchExpressions": [{"key": "no", "operator": "NotIn", "values": ["web"]}]}, True),
    "Exists": ({"matchExpressions": [{"key": "no", "operator": "Exists"}]}, False),
    "an unknown operator selects nothing": ({"matchExpressions": [{"key": "app", "operator": "Near"}]}, False),
}


@pytest.mark.parametrize(("selector", "holds"), OBJECTS.values(), ids=OBJECTS)
def test_label_selector_objects(selector: dict | None, holds: bool) -> None:
    """The LabelSelector kind, as webhook configurations carry it."""
    assert label_selector_matches(selector, LABELS) is holds


FIELDS = {
    "by name": ("metadata.name=p", True),
    "by namespace": ("metadata.namespace!=a", False),
    "by phase": ("status.phase=Running", True),
    "by node, together": ("spec.nodeName=n1,status.phase!=Failed", True),
    "an empty value means absent": ("status.podIP=", True),
}


@pytest.mark.parametrize(("selector", "holds"), FIELDS.values(), ids=FIELDS)
def test_field_selectors(selector: str, holds: bool) -> None:
    """A Pod is selected by the fields that the API server knows."""
    obj = {"metadata": {"name": "p", "namespace": "a", "uid": "u"}, "spec": {"nodeName": "n1"}, "status": {"phase": "Running"}}
    entry = Entry(("a", "p"), 1, b"", obj, PODS.selectable)
    matches = compile_selectors(PODS, "", selector)
    assert matches is not None
    assert matches(entry) is holds


def test_a_field_that_cannot_be_selected_by_is_400() -> None:
    """An unknown field is refused by its name."""
    with pytest.raises(StatusError, match=r"spec\.containers") as refused:
        compile_selectors(PODS, "", "spec.containers=x")
    assert refused.value.code == 400


def test_no_selector_is_no_test() -> None:
    """A list without selectors pays nothing."""
    assert compile_selectors(PODS, "", "") is None
