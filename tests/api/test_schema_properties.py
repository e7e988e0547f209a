"""What holds for any JSON: nothing raises, and doing it twice is doing it once."""

import json
from typing import Any

from click.testing import CliRunner
from crd_builders import split
from hypothesis import given, settings
from hypothesis import strategies as st

from api.crd import schema_of
from api.crd.check import admit
from api.schema import default, prune, validate
from app.verbs.crds import command

LEAVES = (
    st.none() | st.booleans() | st.integers(-(1 << 70), 1 << 70) | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8)
)
NAMES = st.sampled_from(
    [
        "spec",
        "roles",
        "name",
        "kind",
        "env",
        "ports",
        "port",
        "router",
        "engine",
        "model",
        "elasticEp",
        "width",
        "metadata",
        "status",
        "resources",
    ]
)
JSON = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES | st.text(max_size=4), inner, max_size=5), max_leaves=25
)
DEPLOYMENT = schema_of("ModelDeployment")


def graft(document: dict[str, Any], path: list[str | int], value: Any) -> dict[str, Any]:
    """The document with a value put somewhere into it."""
    copy = json.loads(json.dumps(document))
    node = copy
    for step in path[:-1]:
        node = node[step]
    node[path[-1]] = value
    return copy


PLACES = st.sampled_from(
    [
        ["spec"],
        ["metadata"],
        ["spec", "roles"],
        ["spec", "roles", 0],
        ["spec", "roles", 0, "env"],
        ["spec", "roles", 0, "ports"],
        ["spec", "roles", 0, "resources"],
        ["spec", "roles", 0, "elasticEp"],
        ["spec", "roles", 0, "additionalVolumes"],
        ["spec", "router"],
        ["spec", "engine"],
        ["status"],
    ]
)


@settings(max_examples=300, deadline=None)
@given(PLACES, JSON, PLACES, JSON)
def test_any_json_anywhere_gets_a_verdict(place: list[str | int], value: Any, old_place: list[str | int], old_value: Any) -> None:
    """New and stored object alike may be anything; each fault has a text, and a field unless it is about the object itself."""
    for fault in admit(graft(split().build(), place, value), graft(split().build(), old_place, old_value))[1]:
        assert fault.field or place == ["metadata"]
        assert fault.message


@settings(max_examples=200, deadline=None)
@given(PLACES, JSON)
def test_pruning_and_defaulting_twice_is_once(place: list[str | int], value: Any) -> None:
    """Both are idempotent, and defaults bring nothing that pruning would take away."""
    once = default(DEPLOYMENT, prune(DEPLOYMENT, graft(split().build(), place, value)))
    assert prune(DEPLOYMENT, once) == once
    assert default(DEPLOYMENT, once) == once


@settings(max_examples=100, deadline=None)
@given(JSON)
def test_any_json_can_be_validated_without_being_prepared(value: Any) -> None:
    """Neither pruned nor defaulted, not even an object: still a verdict."""
    assert isinstance(validate(DEPLOYMENT, value, value), list)


LINES = {
    "no JSON": "{",
    "no object": "[]",
    "an object that is none": '{"object": 1}',
    "NaN": '{"object": {"spec": NaN}}',
    "a depth bomb": '{"object": ' + '{"a":' * 100000 + "1" + "}" * 100000 + "}",
    "nothing": "{}",
}


def test_a_bad_line_gives_an_error_and_the_run_goes_on() -> None:
    """One answer for each line, in order; the good ones between the bad ones are judged."""
    good = json.dumps({"object": split().build()})
    text = "".join(f"{line}\n{good}\n" for line in LINES.values())
    done = CliRunner().invoke(command, ["--check", "--jsonl"], input=text)
    assert done.exit_code == 0, done.output
    answers = [json.loads(line) for line in done.output.splitlines()]
    assert [("error" in answer, answer.get("valid")) for answer in answers] == [(True, None), (False, True)] * len(LINES)
