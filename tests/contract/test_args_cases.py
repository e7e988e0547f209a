"""The handed acceptance cases of `mdctl args`: each line answers as the case expects."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.verbs.args import answer

CASES = [json.loads(line) for line in (Path(__file__).parent / "cases" / "args.jsonl").read_text().splitlines() if line.strip()]


def at(document: Any, path: str) -> Any:
    """The value at a dotted path, None where there is none."""
    for step in path.split("."):
        document = document.get(step) if isinstance(document, dict) else None
    return document


def said(result: dict[str, Any], key: str) -> str:
    """The text in which a mention is looked for."""
    value = at(result, key)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def differences(result: dict[str, Any], expect: dict[str, Any]) -> Iterator[str]:
    """Everything that the answer does not say as expected."""
    source = result["parallelism"]["source"]
    if expect.get("unreadable") is True:
        if (source["kind"], source["complete"], result["parallelism"]["loadBalance"]) != ("Unknown", False, "Unknown"):
            yield f"not unreadable: {source}"
        if result["parallelism"]["declared"] or result["parallelism"]["modes"]:
            yield "an unreadable line claims something"
    elif expect.get("unreadable") is False and source["kind"] == "Unknown":
        yield f"unreadable: {source}"
    for text in expect.get("names", ()):
        if text.lower() not in source.get("unreadableReason", "").lower():
            yield f"the reason does not name {text}: {source}"
    for path, wanted in expect.get("equal", {}).items():
        if at(result, path) != wanted or type(at(result, path)) is not type(wanted):
            yield f"{path} is {at(result, path)!r}, not {wanted!r}"
    for path in expect.get("absent", ()):
        if at(result, path) is not None:
            yield f"{path} is there"
    for key, texts in expect.get("mentions", {}).items():
        for text in texts:
            if (text and text.lower() not in said(result, key).lower()) or not at(result, key):
                yield f"{key} does not mention {text!r}"
    for key, texts in expect.get("omits", {}).items():
        yield from (f"{key} mentions {text!r}" for text in texts if text.lower() in said(result, key).lower())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_the_answer_is_what_the_case_expects(case: dict[str, Any]) -> None:
    """Degrees, modes, balance, listener, TLS, gates and findings of one line."""
    result = json.loads(answer(json.dumps(case["input"]).encode()))
    assert not list(differences(result, case["expect"]))


def test_the_cases_exercise_every_kind_of_expectation() -> None:
    """A comparison that nothing reaches would prove nothing."""
    keys = {key for case in CASES for key in case["expect"]}
    assert {"equal", "unreadable", "names", "mentions", "omits"} <= keys


@pytest.mark.parametrize(
    ("line", "says"),
    {
        "no JSON": (b"{", "truncated"),
        "an engine nobody knows": (b'{"engine": "llama", "argv": []}', "llama"),
        "no engine": (b"{}", "engine"),
        "arguments that are no list": (b'{"engine": "vLLM", "argv": "-tp 2"}', "argv"),
    }.values(),
)
def test_a_bad_line_answers_with_an_error_and_no_crash(line: bytes, says: str) -> None:
    """The run goes on: a bad line is answered in its place."""
    result = json.loads(answer(line))
    assert set(result) == {"error"}
    assert re.search(says, result["error"], re.IGNORECASE)
