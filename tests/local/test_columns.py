"""JSON paths of printer columns, ages, and the rows that kubectl shows."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from api.clock import format_time
from local.jsonpaths import evaluate
from local.kinds import PODS, Column, Served
from local.tables import Rendering, age

NOW = datetime(2026, 1, 1, tzinfo=UTC)
OBJECT = {
    "spec": {"name": "x", "a.b": 1, "list": [{"n": "p", "v": 1}, {"n": "q", "v": 2}]},
    "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Other", "status": "False"}]},
}
PATHS: dict[str, tuple[str, list[Any]]] = {
    "a field": (".spec.name", ["x"]),
    "in braces": ("{.spec.name}", ["x"]),
    "a quoted field": (".spec['a.b']", [1]),
    "an escaped dot": (".spec.a\\.b", [1]),
    "an index": (".spec.list[0].n", ["p"]),
    "from the end": (".spec.list[-1].n", ["q"]),
    "all items": (".spec.list[*].v", [1, 2]),
    "a filter on text": ('.status.conditions[?(@.type=="Ready")].status', ["True"]),
    "a filter in single quotes": (".status.conditions[?(@.type=='Ready')].status", ["True"]),
    "a filter on a number": (".spec.list[?(@.v>1)].n", ["q"]),
    "a filter by presence": (".spec.list[?(@.v)].n", ["p", "q"]),
    "what is not there": (".spec.nothing.more", []),
}


@pytest.mark.parametrize(("path", "found"), PATHS.values(), ids=PATHS)
def test_json_paths(path: str, found: list[Any]) -> None:
    """As printer columns write them."""
    assert evaluate(path, OBJECT) == found


def test_an_unreadable_path_is_said_so() -> None:
    """Not silently empty."""
    with pytest.raises(ValueError, match="unreadable"):
        evaluate(".spec[", OBJECT)


AGES = {
    0: "0s",
    119: "119s",
    120: "2m",
    150: "2m30s",
    3599: "59m",
    10800: "3h",
    11000: "3h3m",
    3600 * 30: "30h",
    86400 * 3: "3d",
    86400 * 800: "2y70d",
}


@pytest.mark.parametrize(("seconds", "text"), AGES.items())
def test_ages(seconds: int, text: str) -> None:
    """kubectl's human durations."""
    assert age(format_time(NOW - timedelta(seconds=seconds)), NOW) == text


def test_an_age_of_nothing_is_unknown() -> None:
    """And a broken one is invalid."""
    assert (age(None, NOW), age("never", NOW)) == ("<unknown>", "<invalid>")


def test_columns_of_a_definition_keep_their_types() -> None:
    """Numbers stay numbers, an absent text is empty, an absent number is null, further values are joined."""
    columns = (Column("N", ".n", "integer"), Column("T", ".t"), Column("L", ".l[*]"), Column("M", ".m", "integer"), Column("O", ".o"))
    rendering = Rendering(Served("g", "v1", "things", "Thing", columns=columns, custom=True))
    row = rendering.row({"metadata": {"name": "x"}, "n": 3, "l": ["a", "b"], "o": {"k": 1}}, NOW, "Metadata")
    assert row["cells"] == ["x", 3, "", "a,b", None, '{"k":1}']


PODS_SHOWN: dict[str, tuple[dict[str, Any], list[Any]]] = {
    "new": ({"status": {"phase": "Pending"}}, ["p", "0/1", "Pending", 0]),
    "ready": ({"status": {"phase": "Running", "containerStatuses": [{"ready": True, "restartCount": 2}]}}, ["p", "1/1", "Running", 2]),
    "waiting": (
        {"status": {"phase": "Pending", "containerStatuses": [{"state": {"waiting": {"reason": "ImagePullBackOff"}}}]}},
        ["p", "0/1", "ImagePullBackOff", 0],
    ),
    "evicted": ({"status": {"phase": "Failed", "reason": "Evicted"}}, ["p", "0/1", "Evicted", 0]),
    "ending": ({"metadata": {"deletionTimestamp": "x"}, "status": {"phase": "Running"}}, ["p", "0/1", "Terminating", 0]),
}


@pytest.mark.parametrize(("more", "cells"), PODS_SHOWN.values(), ids=PODS_SHOWN)
def test_pods_are_shown_as_kubectl_shows_them(more: dict[str, Any], cells: list[Any]) -> None:
    """Readiness, the most telling reason, restarts."""
    obj = {"spec": {"containers": [{}]}, **more, "metadata": {"name": "p", **more.get("metadata", {})}}
    assert Rendering(PODS).row(obj, NOW, "None")["cells"][:4] == cells


def test_a_pod_whose_status_has_another_shape_hides_no_other() -> None:
    """Its cells say so, and the list goes on."""
    strange = {"metadata": {"name": "q"}, "status": {"containerStatuses": "x"}}
    table = Rendering(PODS).table([strange, {"metadata": {"name": "p"}, "status": {"phase": "Running"}}], NOW, "None", {})
    assert [row["cells"][:4] for row in table["rows"]] == [["q", "<invalid>", "<invalid>", "<invalid>"], ["p", "0/0", "Running", 0]]
