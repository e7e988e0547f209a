"""Text that people keep: YAML 1.1 and JSON as Kubernetes reads them, and every fault with its line."""

from itertools import pairwise
from typing import Any

import pytest

from api.documents import DocumentError, documents


def bomb(first: str, form: str) -> str:
    """Each line stands for ten times the one before."""
    lines = [f"{name}: &{name} {form % ', '.join([f'*{before}'] * 10)}" for before, name in pairwise("abcdefgh")]
    return "\n".join((f"a: &a {first}", *lines))


READ: dict[str, tuple[str, list[Any]]] = {
    "a YAML stream": ("a: 1\n---\nb: 2\n", [{"a": 1}, {"b": 2}]),
    "an empty document between two": ("a: 1\n---\n---\nb: 2\n", [{"a": 1}, None, {"b": 2}]),
    "nothing": ("", []),
    "a time stays a text": ("at: 2026-01-01T00:00:00Z", [{"at": "2026-01-01T00:00:00Z"}]),
    "words of YAML 1.1": ("a: yes\nb: 010", [{"a": True, "b": 8}]),
    "JSON": ('{"a": {"b": [1, "x"]}}', [{"a": {"b": [1, "x"]}}]),
    "JSON documents one after another": ('{"a": 1}\n {"b": 2}{"c": 3}\n', [{"a": 1}, {"b": 2}, {"c": 3}]),
    "a byte order mark": ('\ufeff{"a": 1}', [{"a": 1}]),
    "flow style that begins like JSON": ("{a: 1, b: [x]}", [{"a": 1, "b": ["x"]}]),
    "a merge key whose member is overridden": ("a: &a {x: 1}\nb: {<<: *a, x: 2}", [{"a": {"x": 1}, "b": {"x": 2}}]),
    "an alias, used often": ("a: &a [1, 2]\nb: [*a, *a, {c: *a}]", [{"a": [1, 2], "b": [[1, 2], [1, 2], {"c": [1, 2]}]}]),
    "the same name at two places": ("a: {x: 1}\nb: {x: 1}", [{"a": {"x": 1}, "b": {"x": 1}}]),
}
FAULTS: dict[str, tuple[str, int | None, str]] = {
    "a key twice": ("a: 1\nb: 2\na: 3\n", 3, 'duplicate key "a"'),
    "a key twice, deep in the second document": ("a: 1\n---\nb:\n- c: {}\n  d: 1\n  c: 1\n", 6, 'duplicate key "c"'),
    "a key twice, which is one once it is JSON": ("1: a\n'1': b\n", 2, 'duplicate key "1"'),
    "a key twice in JSON": ('{"a": 1,\n "b": {"x": 1,\n "x": 2}}', 3, 'duplicate key "x"'),
    "a key twice in a stream of JSON": ('{"a": 1}\n{"b": 1, "b": 2}', None, 'duplicate key "b"'),
    "no number of JSON": ('{"a": NaN}', None, "NaN is no number of JSON"),
    "JSON that ends too early": ('{"a": 1,\n', 2, "column 1"),
    "YAML that ends too early": ("a: [", 2, "did not find expected node content"),
    "a value that its tag does not take": ("a: !!bool maybe", 1, "does not fit its tag"),
    "a tag that would run code": ("a: !!python/object:os.system {}", 1, "could not determine a constructor"),
    "a mapping as a key": ("? {a: 1}\n: 2", 1, "unhashable"),
    "aliases of aliases of aliases": (bomb("[1, 1, 1]", "[%s]"), None, "its aliases stand for"),
    "merges of merges of merges": (bomb("{x: 1}", "{<<: [%s]}"), None, "its aliases stand for"),
    "an alias that contains itself": ("a: &a {b: [*a]}", None, "contains itself"),
    "nested beyond every stack": ("[" * 20000, 1, "nesting depth"),
    "JSON nested beyond every stack": ('{"a":' * 20000, None, ""),
}


@pytest.mark.parametrize("sentence", READ)
def test_it_reads(sentence: str) -> None:
    """What Kubernetes would make of it."""
    text, found = READ[sentence]
    assert documents(text) == found


@pytest.mark.parametrize("sentence", FAULTS)
def test_it_refuses(sentence: str) -> None:
    """With the line, where one is known, and what is wrong there."""
    text, line, message = FAULTS[sentence]
    with pytest.raises(DocumentError) as caught:
        documents(text)
    assert message in str(caught.value)
    if line is not None:
        assert caught.value.line == line
        assert str(caught.value).startswith(f"line {line}: ")
