"""Who owns which field: sets of paths, plain writes, and server-side apply with its conflicts."""

from typing import Any

import pytest

from local import managers
from local.fieldsets import changes, fields_of, from_tree, holds, remove_path, spoken, to_tree
from local.kinds import Served
from local.statuses import StatusError

PART = {"type": "object", "properties": {"name": {}, "n": {}, "deep": {"type": "object"}}}
SCHEMA = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "parts": {"type": "array", "items": PART, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
                "tags": {"type": "array", "x-kubernetes-list-type": "set"},
                "plain": {"type": "array"},
                "whole": {"type": "object", "x-kubernetes-map-type": "atomic"},
            },
        }
    },
}
KIND = Served("g.example", "v1", "things", "Thing", subresources=frozenset({"status"}), schema=SCHEMA, custom=True)
T0, T1 = "2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z"

TREES: dict[str, tuple[Any, Any]] = {
    "scalars": ({"spec": {"a": 1, "b": {"c": 2}}}, {"f:spec": {"f:a": {}, "f:b": {"f:c": {}}}}),
    "an empty map is owned itself": ({"spec": {"b": {}}}, {"f:spec": {"f:b": {}}}),
    "a keyed list": (
        {"spec": {"parts": [{"name": "p", "n": 1}]}},
        {"f:spec": {"f:parts": {'k:{"name":"p"}': {".": {}, "f:n": {}, "f:name": {}}}}},
    ),
    "a set": ({"spec": {"tags": ["x"]}}, {"f:spec": {"f:tags": {'v:"x"': {}}}}),
    "an atomic list": ({"spec": {"plain": [1, 2]}}, {"f:spec": {"f:plain": {}}}),
    "an atomic map": ({"spec": {"whole": {"a": 1}}}, {"f:spec": {"f:whole": {}}}),
}


@pytest.mark.parametrize(("obj", "tree"), TREES.values(), ids=TREES)
def test_what_owning_an_object_means(obj: Any, tree: Any) -> None:
    """The wire's form, and back."""
    paths = set(fields_of(obj, SCHEMA))
    assert to_tree(paths) == tree
    assert from_tree(tree) == paths
    assert all(holds(tree, path) for path in paths)
    assert not holds(tree, ("f:spec", "f:nothing"))


CHANGES: dict[str, tuple[Any, Any, set[str]]] = {
    "nothing": ({"spec": {"a": 1}}, {"spec": {"a": 1}}, set()),
    "a value": ({"spec": {"a": 1}}, {"spec": {"a": 2}}, {"set .spec.a"}),
    "an item's field": (
        {"spec": {"parts": [{"name": "p", "n": 1}]}},
        {"spec": {"parts": [{"name": "p", "n": 2}]}},
        {'set .spec.parts[name="p"].n'},
    ),
    "an item more": (
        {"spec": {"tags": ["x"]}},
        {"spec": {"tags": ["y", "x"]}},
        {'set .spec.tags[="y"]'},
    ),
    "a field less": ({"spec": {"a": {"b": 1}, "c": 1}}, {"spec": {"c": 1}}, {"gone .spec.a.b", "gone .spec.a"}),
    "an atomic list": ({"spec": {"plain": [1]}}, {"spec": {"plain": [2]}}, {"set .spec.plain"}),
    "order in a keyed list is no change": (
        {"spec": {"parts": [{"name": "p"}, {"name": "q"}]}},
        {"spec": {"parts": [{"name": "q"}, {"name": "p"}]}},
        set(),
    ),
}


@pytest.mark.parametrize(("old", "new", "found"), CHANGES.values(), ids=CHANGES)
def test_what_changed(old: Any, new: Any, found: set[str]) -> None:
    """Only the paths whose values differ."""
    assert {f"{what} {spoken(path)}" for what, path in changes(old, new, SCHEMA)} == found


def test_a_path_is_removed_and_its_parents_stay() -> None:
    """Items by key or by value, fields by name."""
    obj = {"spec": {"parts": [{"name": "p", "n": 1}, {"name": "q"}], "tags": ["x", "y"]}}
    remove_path(obj, ("f:spec", "f:parts", 'k:{"name":"p"}', "f:n"), SCHEMA)
    remove_path(obj, ("f:spec", "f:parts", 'k:{"name":"q"}'), SCHEMA)
    remove_path(obj, ("f:spec", "f:tags", 'v:"x"'), SCHEMA)
    assert obj == {"spec": {"parts": [{"name": "p"}], "tags": ["y"]}}


# ------------------------------------------------------------------------------------------------------------- writes


def _thing(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "g.example/v1", "kind": "Thing", "metadata": {"name": "t"}, "spec": spec}


def _apply(live: Any, manager: str, *, force: bool = False, now: str = T0, **spec: Any) -> dict[str, Any]:
    return managers.apply(KIND, live, _thing(**spec), manager, subresource="", force=force, now=now)


def _owners(obj: dict[str, Any]) -> dict[str, set[str]]:
    return {entry["manager"]: {spoken(path) for path in from_tree(entry["fieldsV1"])} for entry in obj["metadata"].get("managedFields", [])}


def test_a_plain_write_owns_what_it_changed_and_takes_it_from_others() -> None:
    """The second writer's field leaves the first writer's set; the rest stays where it was."""
    old = _thing(a=1, b=1)
    managers.record_update(KIND, None, old, "one", subresource="", now=T0)
    new = _thing(a=2, b=1)
    managers.record_update(KIND, old, new, "two", subresource="", now=T1)
    assert _owners(new) == {"one": {".spec.b"}, "two": {".spec.a"}}


def test_entries_that_a_write_does_not_touch_stay_as_they_came() -> None:
    """Not even their order of keys is written anew, and their time stays."""
    old = _thing(a=1)
    managers.record_update(KIND, None, old, "one", subresource="", now=T0)
    new = {**_thing(a=1), "status": {"x": 1}}
    managers.record_update(KIND, old, new, "two", subresource="status", now=T1)
    assert new["metadata"]["managedFields"][0] is old["metadata"]["managedFields"][0]
    assert new["metadata"]["managedFields"][1]["subresource"] == "status"


def test_a_removed_field_is_owned_by_nobody() -> None:
    """Also not by the one who removed it."""
    old = _thing(a=1, b=1)
    managers.record_update(KIND, None, old, "one", subresource="", now=T0)
    new = _thing(b=1)
    managers.record_update(KIND, old, new, "two", subresource="", now=T1)
    assert _owners(new) == {"one": {".spec.b"}}


def test_a_second_applier_of_another_value_conflicts() -> None:
    """The answer names the field and the manager; the same value is shared instead."""
    live = _apply(None, "one", a=1)
    with pytest.raises(StatusError) as refused:
        _apply(live, "two", a=2)
    assert refused.value.code == 409
    assert refused.value.message == 'Apply failed with 1 conflict: conflict with "one": .spec.a'
    assert refused.value.details is not None
    assert refused.value.details["causes"] == [{"reason": "FieldManagerConflict", "message": 'conflict with "one"', "field": ".spec.a"}]
    shared = _apply(live, "two", a=1)
    assert _owners(shared) == {"one": {".spec.a"}, "two": {".spec.a"}}


def test_force_takes_the_field_over() -> None:
    """The former owner owns it no longer."""
    after = _apply(_apply(None, "one", a=1, b=1), "two", force=True, a=2)
    assert after["spec"] == {"a": 2, "b": 1}
    assert _owners(after) == {"one": {".spec.b"}, "two": {".spec.a"}}


def test_what_an_applier_stops_declaring_goes_unless_another_owns_it() -> None:
    """Fields, items of keyed lists, items of sets."""
    live = _apply(None, "one", a=1, b=1, parts=[{"name": "p"}, {"name": "q"}], tags=["x", "y"])
    live = _apply(live, "two", b=1, parts=[{"name": "q"}], tags=["y"])
    after = _apply(live, "one", a=1)
    assert after["spec"] == {"a": 1, "b": 1, "parts": [{"name": "q"}], "tags": ["y"]}


def test_whoever_applied_an_empty_map_and_fills_it_loses_nothing() -> None:
    """The map was theirs as a whole; now what is in it is. What others put there stays."""
    live = _apply(None, "one", free={})
    filled = _apply(live, "one", free={"x": 1})
    assert filled["spec"]["free"] == {"x": 1}
    assert _owners(filled) == {"one": {".spec.free.x"}}
    shared = _apply(_apply(live, "two", free={"y": 2}), "one", free={"x": 1})
    assert shared["spec"]["free"] == {"x": 1, "y": 2}


def test_applying_the_same_again_keeps_the_time() -> None:
    """So that nothing is written for nothing."""
    live = _apply(None, "one", a=1, parts=[{"name": "p"}])
    assert _apply(live, "one", now=T1, a=1, parts=[{"name": "p"}]) == live


def test_items_keep_their_order_and_new_ones_follow() -> None:
    """Live order first."""
    live = _apply(None, "one", parts=[{"name": "b"}, {"name": "a"}])
    after = _apply(live, "two", parts=[{"name": "c"}, {"name": "a", "n": 1}])
    assert after["spec"]["parts"] == [{"name": "b"}, {"name": "a", "n": 1}, {"name": "c"}]


def test_a_key_twice_is_no_typed_object() -> None:
    """Refused before anything is merged."""
    with pytest.raises(StatusError, match="duplicate entries"):
        _apply(None, "one", parts=[{"name": "p"}, {"name": "p"}])


def test_managed_fields_in_an_apply_are_refused() -> None:
    """An exported object is not a manifest."""
    body = _thing(a=1)
    body["metadata"]["managedFields"] = [{"manager": "x"}]
    with pytest.raises(StatusError, match="must be nil"):
        managers.apply(KIND, None, body, "one", subresource="", force=False, now=T0)


def test_an_apply_to_the_status_takes_nothing_else() -> None:
    """And owns nothing else."""
    live = _apply(None, "one", a=1)
    body = {**_thing(a=9), "status": {"x": 1}}
    after = managers.apply(KIND, live, body, "two", subresource="status", force=False, now=T1)
    assert after["spec"] == {"a": 1}
    assert _owners(after) == {"one": {".spec.a"}, "two": {".status.x"}}
