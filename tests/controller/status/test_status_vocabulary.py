"""The vocabulary of conditions: one status per reason, and a page that says what the table says."""

from pathlib import Path

import pytest

from api import reasons

PAGE = Path(__file__).parents[3] / "docs" / "conditions.md"
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
    """The question, its source in the contract, and the objects."""
    for condition in reasons.CONDITIONS:
        assert condition.question.endswith("?")
        assert condition.reads
        assert condition.source


def test_the_page_is_current() -> None:
    """docs/conditions.md is generated (make docs) and says what the table says."""
    assert PAGE.read_text(encoding="utf-8") == reasons.markdown()
