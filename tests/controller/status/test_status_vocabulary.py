"""The vocabulary of conditions: one status per reason, and a page that says what the table says."""

from pathlib import Path

import pytest

from api import reasons
from api.crd.deployment_status import status
from controller.status import vocabulary

DOCS = Path(__file__).parents[3] / "docs"
ROWS = [row for condition in reasons.CONDITIONS for row in condition.reasons]


def test_ten_conditions() -> None:
    """The contract's ten, each once."""
    assert len(reasons.TYPES) == len(set(reasons.TYPES)) == 10


def test_a_reason_has_one_status() -> None:
    """No (type, reason) pair is written twice."""
    pairs = [(row.type, row.reason) for row in ROWS]
    assert len(pairs) == len(set(pairs))


@pytest.mark.parametrize("row", ROWS, ids=[f"{row.type}-{row.reason}" for row in ROWS])
def test_a_row_is_whole(row: reasons.Reason) -> None:
    """Meaning, way out and actor; a CamelCase reason that the API server admits."""
    assert row.status in {"True", "False", "Unknown"}
    assert row.actor in {"nobody", "wait", "user", "platform", "operator"}
    assert row.meaning.endswith(".")
    assert row.action.endswith(".")
    assert row.reason.isalnum()
    assert row.reason[0].isupper()
    assert reasons.find(row.type, row.reason) is row


def test_every_condition_says_what_it_reads() -> None:
    """The question, and the objects."""
    for condition in reasons.CONDITIONS:
        assert condition.question.endswith("?")
        assert condition.reads


def test_the_page_is_current() -> None:
    """docs/conditions.md and docs/status.md are generated (make docs) and say what the tables say."""
    assert (DOCS / "conditions.md").read_text(encoding="utf-8") == reasons.markdown()
    assert (DOCS / "status.md").read_text(encoding="utf-8") == vocabulary.markdown()


def test_every_value_of_a_field_has_its_words() -> None:
    """What the schema lets a status say is what the page lists: phase, serving state, a group's state, a step of a retirement."""
    fields = status()["properties"]
    role = fields["roles"]["items"]["properties"]
    said = {
        "phase": (fields["phase"], vocabulary.PHASES),
        "serving": (role["endpoints"]["properties"]["serving"]["properties"]["state"], vocabulary.SERVING),
        "group": (role["groups"]["items"]["properties"]["state"], vocabulary.STATES),
        "step": (fields["retirement"]["properties"]["state"], vocabulary.STEPS),
    }
    assert {name: set(schema["enum"]) for name, (schema, _) in said.items()} == {name: set(words) for name, (_, words) in said.items()}
    for words in (*(words for _, words in said.values()), vocabulary.GATES):
        assert all(word.meaning.endswith(".") and word.change.endswith(".") for word in words.values())
