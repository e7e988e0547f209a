"""JSON patch, merge patch and strategic merge patch, each as a table of before, patch, after."""

from typing import Any

import pytest

from local.patches import PatchError, json_patch, merge_patch
from local.shapes import SHAPES
from local.strategic import strategic_merge
from local.wire import copy

JSON_PATCHES: dict[str, tuple[Any, list[dict[str, Any]], Any]] = {
    "add a member": ({"a": 1}, [{"op": "add", "path": "/b", "value": 2}], {"a": 1, "b": 2}),
    "add replaces a member": ({"a": 1}, [{"op": "add", "path": "/a", "value": 2}], {"a": 2}),
    "add into a list": ({"a": [1, 3]}, [{"op": "add", "path": "/a/1", "value": 2}], {"a": [1, 2, 3]}),
    "add at the end of a list": ({"a": [1]}, [{"op": "add", "path": "/a/-", "value": 2}], {"a": [1, 2]}),
    "remove": ({"a": 1, "b": 2}, [{"op": "remove", "path": "/a"}], {"b": 2}),
    "remove from a list": ({"a": [1, 2]}, [{"op": "remove", "path": "/a/0"}], {"a": [2]}),
    "replace": ({"a": {"b": 1}}, [{"op": "replace", "path": "/a/b", "value": 2}], {"a": {"b": 2}}),
    "replace the whole": ({"a": 1}, [{"op": "replace", "path": "", "value": {"b": 1}}], {"b": 1}),
    "move": ({"a": 1}, [{"op": "move", "from": "/a", "path": "/b"}], {"b": 1}),
    "copy is deep": (
        {"a": {"x": 1}},
        [{"op": "copy", "from": "/a", "path": "/b"}, {"op": "replace", "path": "/b/x", "value": 2}],
        {"a": {"x": 1}, "b": {"x": 2}},
    ),
    "a test that holds": ({"a": 1}, [{"op": "test", "path": "/a", "value": 1}], {"a": 1}),
    "escaped names": ({"a/b": 1, "c~d": 2}, [{"op": "remove", "path": "/a~1b"}, {"op": "remove", "path": "/c~0d"}], {}),
}


@pytest.mark.parametrize(("before", "patch", "after"), JSON_PATCHES.values(), ids=JSON_PATCHES)
def test_json_patches(before: Any, patch: Any, after: Any) -> None:
    """RFC 6902."""
    assert json_patch(copy(before), patch) == after


REFUSED_PATCHES: dict[str, Any] = {
    "a test that fails": [{"op": "test", "path": "/a", "value": 2}],
    "a test of what is absent": [{"op": "test", "path": "/z", "value": 1}],
    "removing what is absent": [{"op": "remove", "path": "/z"}],
    "replacing what is absent": [{"op": "replace", "path": "/z", "value": 1}],
    "adding below what is absent": [{"op": "add", "path": "/z/y", "value": 1}],
    "an index past the end": [{"op": "add", "path": "/l/9", "value": 1}],
    "an index with a leading zero": [{"op": "remove", "path": "/l/00"}],
    "an unknown operation": [{"op": "double", "path": "/a"}],
    "a source that is no text": [{"op": "copy", "path": "/b", "from": [1]}],
    "no value": [{"op": "add", "path": "/b"}],
    "a path that is no pointer": [{"op": "remove", "path": "a"}],
    "removing the whole": [{"op": "remove", "path": ""}],
    "no list": {"op": "remove"},
    "no operation": ["remove"],
}


@pytest.mark.parametrize("patch", REFUSED_PATCHES.values(), ids=REFUSED_PATCHES)
def test_json_patches_that_do_not_apply(patch: Any) -> None:
    """A patch that does not apply is told so, and nothing of it is left half done for the caller to keep."""
    with pytest.raises(PatchError):
        json_patch({"a": 1, "l": [1]}, patch)


MERGES: dict[str, tuple[Any, Any, Any]] = {
    "members merge": ({"a": {"b": 1}}, {"a": {"c": 2}}, {"a": {"b": 1, "c": 2}}),
    "null removes": ({"a": 1, "b": 2}, {"a": None}, {"b": 2}),
    "null in something new leaves nothing": ({}, {"a": {"b": None, "c": 1}}, {"a": {"c": 1}}),
    "lists are replaced": ({"a": [1, 2]}, {"a": [3]}, {"a": [3]}),
    "an object over a text": ({"a": "x"}, {"a": {"b": 1}}, {"a": {"b": 1}}),
}


@pytest.mark.parametrize(("before", "patch", "after"), MERGES.values(), ids=MERGES)
def test_merge_patches(before: Any, patch: Any, after: Any) -> None:
    """RFC 7396."""
    assert merge_patch(copy(before), patch) == after


def _pod(*containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {"spec": {"containers": list(containers), **spec}}


A, B = {"name": "a", "image": "1"}, {"name": "b", "image": "1"}
STRATEGIC: dict[str, tuple[Any, Any, Any]] = {
    "containers merge by name": (_pod(A, B), _pod({"name": "b", "image": "2"}), _pod(A, {"name": "b", "image": "2"})),
    "a new container is added": (_pod(A), _pod(B), _pod(A, B)),
    "$patch delete removes one": (_pod(A, B), _pod({"name": "a", "$patch": "delete"}), _pod(B)),
    "$patch replace replaces the list": (_pod(A, B), _pod({"name": "c"}, {"$patch": "replace"}), _pod({"name": "c"})),
    "env merges inside a container": (
        _pod({"name": "a", "env": [{"name": "X", "value": "1"}]}),
        _pod({"name": "a", "env": [{"name": "Y", "value": "2"}]}),
        _pod({"name": "a", "env": [{"name": "X", "value": "1"}, {"name": "Y", "value": "2"}]}),
    ),
    "a list without a key is replaced": (_pod(A, args=[1]), {"spec": {"args": [2]}}, _pod(A, args=[2])),
    "null removes": (_pod(A, nodeName="n"), {"spec": {"nodeName": None}}, _pod(A)),
    "$setElementOrder orders": (
        _pod(A, B),
        {"spec": {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}], "containers": [{"name": "a", "image": "2"}]}},
        _pod(B, {"name": "a", "image": "2"}),
    ),
    "$deleteFromPrimitiveList": (
        {"metadata": {"finalizers": ["a", "b"]}},
        {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}},
        {"metadata": {"finalizers": ["b"]}},
    ),
    "$retainKeys keeps only those": (
        {"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {}}}},
        {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}},
        {"spec": {"strategy": {"type": "Recreate"}}},
    ),
    "$patch replace on a map": ({"spec": {"a": 1}}, {"spec": {"$patch": "replace", "b": 2}}, {"spec": {"b": 2}}),
}


@pytest.mark.parametrize(("before", "patch", "after"), STRATEGIC.values(), ids=STRATEGIC)
def test_strategic_merge_patches(before: Any, patch: Any, after: Any) -> None:
    """Keyed lists and the directives, as kubectl sends them for built-in kinds."""
    schema = SHAPES["Pod"] | {"properties": {**SHAPES["Pod"]["properties"], "metadata": {"properties": {"finalizers": {}}}}}
    assert strategic_merge(copy(before), copy(patch), schema) == after


@pytest.mark.parametrize("patch", [{"$patch": [1]}, {"spec": {"$patch": {}}}, {"spec": {"$setElementOrder/containers": 1}}])
def test_a_directive_of_the_wrong_shape_is_refused(patch: Any) -> None:
    """As a patch that does not apply, not as a crash."""
    with pytest.raises(PatchError):
        strategic_merge(_pod(A), patch, SHAPES["Pod"])


def test_an_item_without_its_key_is_refused() -> None:
    """A keyed list takes no anonymous item."""
    with pytest.raises(PatchError, match="merge key: name"):
        strategic_merge(_pod(A), _pod({"image": "2"}), SHAPES["Pod"])
