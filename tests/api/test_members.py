"""Keys that stand twice in one JSON object, as every reader of documents looks for them."""

import json

import pytest

from api.members import repeated

CASES: dict[str, tuple[str, str | None]] = {
    "none": ('{"a": 1, "b": 2}', None),
    "an empty object": ("{}", None),
    "twice with one value": ('{"a": 1, "a": 1}', "a"),
    "spelt in two ways": (r'{"a": 1, "\u0061": 2}', "a"),
    "the first that comes again, not the first that has a twin": ('{"a": 1, "b": 2, "b": 3, "a": 4}', "b"),
    "the same key in another object": ('{"a": {"a": 1}}', None),
    "the last of very many": ("{" + ", ".join(f'"k{number}": 0' for number in range(50_000)) + ', "k49999": 1}', "k49999"),
}


@pytest.mark.parametrize("case", CASES)
def test_the_key_that_stands_twice(case: str) -> None:
    """It is named, whatever it holds and however it is spelt; in time that grows with the object."""
    text, wanted = CASES[case]
    seen: list[str] = []
    json.loads(text, object_pairs_hook=lambda pairs: seen.append(repeated(pairs) or ""))
    assert seen[-1] == (wanted or "")
