"""Defaulting, pruning and validation do what an API server does, and leave their input alone."""

import copy
from typing import Any

import pytest

from api.crd import build as b
from api.schema import default, prune, validate
from api.schema.errors import DUPLICATE, INVALID, NOT_SUPPORTED, REQUIRED, TOO_LONG, TOO_MANY, TYPE_INVALID

PORT = b.obj("port", {"port": b.integer("p", low=1, high=65535), "protocol": b.enum("t", "TCP", "UDP", default="TCP")}, required=("port",))
ROOT = b.obj(
    "root",
    {
        "spec": b.obj(
            "spec",
            {
                "name": b.text("name", low=1, high=5, pattern="^[a-z]+$"),
                "count": b.integer("count", low=0, default=1),
                "wide": b.integer("wide", wide=True),
                "share": {"type": "number", "minimum": 0, "exclusiveMinimum": True, "multipleOf": 0.25},
                "maybe": b.integer("maybe", nullable=True, default=7),
                "amount": b.quantity("amount"),
                "at": b.time("at"),
                "on": b.boolean("on"),
                "mode": b.enum("mode", "A", "B"),
                "ports": b.keyed("ports", ("port", "protocol"), PORT, high=2),
                "tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
                "labels": b.mapping("labels", b.text("value", high=3)),
                "block": b.obj("block", {"inner": b.integer("inner", default=3)}, default={}),
                "either": {"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}], "properties": {"a": {}, "b": {}}},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {"known": PORT}},
                "embedded": {"type": "object", "x-kubernetes-embedded-resource": True, "properties": {"spec": b.obj("s", {})}},
            },
            required=("name",),
        )
    },
)


def spec(**fields: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "X", "metadata": {"name": "x"}, "spec": {"name": "ok", **fields}}


DEFAULTED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "an absent member with a default is filled": ({}, {"count": 1}),
    "a member that is given stays": ({"count": 5}, {"count": 5}),
    "a null in a member that is not nullable is replaced by its default": ({"count": None}, {"count": 1}),
    "a null in a member without a default is dropped": ({"mode": None}, {}),
    "a nullable null stays null": ({"maybe": None}, {"maybe": None}),
    "a default inside a list item is filled": ({"ports": [{"port": 1}]}, {"ports": [{"port": 1, "protocol": "TCP"}]}),
    "a default on an object lets those inside it in": ({}, {"block": {"inner": 3}}),
    "an object that is given gets the defaults inside": ({"block": {}}, {"block": {"inner": 3}}),
}


@pytest.mark.parametrize(("given", "wanted"), DEFAULTED.values(), ids=DEFAULTED.keys())
def test_defaults(given: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Every default of the schema is filled, where its parent exists, and nulls count as missing."""
    filled = default(ROOT, spec(**given))["spec"]
    assert {key: filled.get(key) for key in wanted} == wanted
    assert all(key in filled or key in wanted for key in given if given[key] is not None)
    assert ("mode" in filled) is bool(given.get("mode"))


def test_defaulting_and_pruning_leave_their_input_alone() -> None:
    """Both are pure: the object handed in is the object kept, also where nested parts changed."""
    given = spec(ports=[{"port": 1, "extra": 1}], block={}, unknown=1)
    before = copy.deepcopy(given)
    default(ROOT, prune(ROOT, given))
    assert given == before


def test_a_default_is_never_shared_between_two_objects() -> None:
    """Filling one object's default must not give it another's dict."""
    first, second = default(ROOT, spec()), default(ROOT, spec())
    first["spec"]["block"]["inner"] = 99
    assert second["spec"]["block"]["inner"] == 3
    assert default(ROOT, spec())["spec"]["block"]["inner"] == 3


PRUNED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "an unknown member goes": ({"foo": 1}, {"name": "ok"}),
    "an unknown member of a list item goes": ({"ports": [{"port": 1, "foo": 1}]}, {"name": "ok", "ports": [{"port": 1}]}),
    "free keys of a map stay": ({"labels": {"a": "b"}}, {"name": "ok", "labels": {"a": "b"}}),
    "unknown members stay where they are preserved, but not below a known one": (
        {"free": {"any": {"thing": 1}, "known": {"port": 1, "foo": 1}}},
        {"name": "ok", "free": {"any": {"thing": 1}, "known": {"port": 1}}},
    ),
    "an embedded resource keeps its type and metadata": (
        {"embedded": {"apiVersion": "v1", "kind": "P", "metadata": {"name": "p", "foo": 1}, "spec": {"x": 1}, "y": 1}},
        {"name": "ok", "embedded": {"apiVersion": "v1", "kind": "P", "metadata": {"name": "p"}, "spec": {}}},
    ),
}


@pytest.mark.parametrize(("given", "wanted"), PRUNED.values(), ids=PRUNED.keys())
def test_pruning(given: dict[str, Any], wanted: dict[str, Any]) -> None:
    """What the schema does not name is dropped; what it says to keep is kept."""
    assert prune(ROOT, spec(**given))["spec"] == wanted


def test_pruning_keeps_the_root_s_type_and_what_object_meta_knows() -> None:
    """`metadata` survives without being in the schema, but not its invented members; a root member that nobody names goes."""
    pruned = prune(ROOT, {**spec(), "metadata": {"name": "x", "labels": {"a": "b"}, "bogus": 1}, "bogus": 1})
    assert pruned == {"apiVersion": "v1", "kind": "X", "metadata": {"name": "x", "labels": {"a": "b"}}, "spec": {"name": "ok"}}


FAULTS: dict[str, tuple[dict[str, Any], list[tuple[str, str]]]] = {
    "nothing is wrong": ({}, []),
    "too long": ({"name": "abcdef"}, [("spec.name", TOO_LONG)]),
    "length counts characters, not bytes": ({"labels": {"a": "äöü"}}, []),
    "too short and outside the pattern are two faults": ({"name": ""}, [("spec.name", INVALID), ("spec.name", INVALID)]),
    "outside an enumeration": ({"mode": "C"}, [("spec.mode", NOT_SUPPORTED)]),
    "below the least": ({"count": -1}, [("spec.count", INVALID)]),
    "an exclusive bound refuses the bound": ({"share": 0}, [("spec.share", INVALID)]),
    "no multiple": ({"share": 0.3}, [("spec.share", INVALID)]),
    "a multiple": ({"share": 0.75}, []),
    "over int32": ({"count": 1 << 31}, [("spec.count", INVALID)]),
    "an int64 holds what an int32 does not": ({"wide": 1 << 31}, []),
    "over int64": ({"wide": 1 << 63}, [("spec.wide", INVALID)]),
    "a bool is no number": ({"count": True}, [("spec.count", TYPE_INVALID)]),
    "a whole float is an integer": ({"count": 2.0}, []),
    "a text is no bool": ({"on": "true"}, [("spec.on", TYPE_INVALID)]),
    "null where it is not allowed": ({"count": None}, [("spec.count", TYPE_INVALID)]),
    "null where it is": ({"maybe": None}, []),
    "a quantity as number": ({"amount": 3}, []),
    "a quantity as text": ({"amount": "1.5Gi"}, []),
    "a quantity that is none": ({"amount": "1.5Gib"}, [("spec.amount", INVALID)]),
    "a bool is no quantity": ({"amount": True}, [("spec.amount", TYPE_INVALID)]),
    "an instant": ({"at": "2026-01-01T00:00:00Z"}, []),
    "an instant with offset and fraction": ({"at": "2026-01-01T00:00:00.5+02:00"}, []),
    "no such day": ({"at": "2026-02-30T00:00:00Z"}, [("spec.at", INVALID)]),
    "a day is no instant": ({"at": "2026-01-01"}, [("spec.at", INVALID)]),
    "a fault inside a list names the index": ({"ports": [{"port": 1}, {"port": 0}]}, [("spec.ports[1].port", INVALID)]),
    "a required member of an item": ({"ports": [{}]}, [("spec.ports[0].port", REQUIRED)]),
    "too many items": ({"ports": [{"port": n} for n in (1, 2, 3)]}, [("spec.ports", TOO_MANY)]),
    "two items with the same keys": (
        {"ports": [{"port": 1, "protocol": "TCP"}, {"port": 1, "protocol": "TCP"}]},
        [("spec.ports[1]", DUPLICATE)],
    ),
    "two items that differ in one of two keys": ({"ports": [{"port": 1, "protocol": "TCP"}, {"port": 1, "protocol": "UDP"}]}, []),
    "a set with a repeated value": ({"tags": ["a", "b", "a"]}, [("spec.tags[2]", DUPLICATE)]),
    "a map's value": ({"labels": {"a": "long"}}, [("spec.labels.a", TOO_LONG)]),
    "a map's key that holds a dot is bracketed": ({"labels": {"a.b/c": "long"}}, [("spec.labels[a.b/c]", TOO_LONG)]),
    "neither of two": ({"either": {}}, [("spec.either", INVALID)]),
    "one of two": ({"either": {"a": 1}}, []),
    "both of two": ({"either": {"a": 1, "b": 1}}, [("spec.either", INVALID)]),
    "an embedded resource without a kind": ({"embedded": {"apiVersion": "v1"}}, [("spec.embedded.kind", REQUIRED)]),
}


@pytest.mark.parametrize(("given", "wanted"), FAULTS.values(), ids=FAULTS.keys())
def test_validation(given: dict[str, Any], wanted: list[tuple[str, str]]) -> None:
    """Each fault is found once, at the field the API server would name, with its cause's reason."""
    assert [(fault.field, fault.type) for fault in validate(ROOT, spec(**given))] == wanted


def test_a_missing_required_member_is_named_with_its_parent() -> None:
    """The path of a missing member is its own, and the message says that it is required."""
    (fault,) = validate(ROOT, {"spec": {}})
    assert (fault.field, fault.type, fault.message) == ("spec.name", REQUIRED, "Required value")


def test_patterns_are_searched_in_linear_time() -> None:
    """A pattern that backtracking engines choke on answers at once: patterns are RE2."""
    schema = {"type": "string", "pattern": "^(a+)+$"}
    assert len(validate(schema, "a" * 5000 + "b")) == 1
