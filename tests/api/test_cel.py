"""CEL expressions mean here what they mean on an API server."""

from typing import Any

import pytest

from api.crd import build as b
from api.schema import validate
from api.schema.cel import CelSyntaxError, compiled
from api.schema.celfunctions import Meter
from api.schema.celvalues import CelError

SELF: dict[str, Any] = {"n": 3, "s": "abc", "list": [1, 2, 3], "roles": [{"name": "a"}, {"name": "b", "port": 1}], "empty": [], "d": 1.5}

TRUE = {
    "numbers compare by value over int and double": "self.n == 3.0 && self.d < self.n",
    "a bool is not a number": "!(1 == true)",
    "unequal types are unequal, not an error": "self.s != 3",
    "integer division goes to zero": "-7 / 2 == -3 && 7 / -2 == -3",
    "the remainder has the dividend's sign": "-7 % 2 == -1",
    "subtraction needs no blanks": "self.n-1 == 2",
    "and absorbs an error that the other side decides": "!(self.nope == 1 && false) && !(false && self.nope == 1)",
    "or absorbs an error that the other side decides": "self.nope == 1 || true",
    "a conditional takes one branch only": "has(self.port) ? self.port == 1 : true",
    "has() of a present and of an absent member": "has(self.n) && !has(self.nope)",
    "all over the empty list": "self.empty.all(x, false)",
    "exists over the empty list": "!self.empty.exists(x, true)",
    "all absorbs an error when one element decides": "!self.roles.all(r, has(r.port) && r.port > 1)",
    "exists absorbs an error when one element decides": "self.roles.exists(r, r.port == 1)",
    "exists_one": "self.list.exists_one(x, x > 2)",
    "filter and map": "self.list.filter(x, x > 1).map(x, x * 2) == [4, 6]",
    "map with a filter": "self.list.map(x, x > 1, x + 1) == [3, 4]",
    "a map's keys are what macros walk": "self.all(k, k.size() >= 1)",
    "a macro's variable hides nothing outside": "self.list.all(x, self.list.exists(y, y == x))",
    "in a list and in a map": "2 in self.list && 'n' in self && !('z' in self)",
    "indexing": "self.list[0] == 1 && self.roles[1].name == 'b' && self['n'] == 3",
    "matches searches": "self.s.matches('b') && !self.s.matches('^b')",
    "raw strings keep their backslashes": r"'a.b'.matches(r'\.')",
    "string functions": "self.s.startsWith('a') && self.s.endsWith('c') && self.s.contains('b') && self.s.size() == 3 && size(self.s) == 3",
    "extended string functions": "'a,b'.split(',').join('-') == 'a-b' && ' x '.trim() == 'x' && 'AbC'.lowerAscii() == 'abc'",
    "substring and indexOf": "'hello'.substring(1, 3) == 'el' && 'hello'.indexOf('l') == 2 && 'hello'.lastIndexOf('l') == 3",
    "charAt and replace": "'a'.charAt(0) == 'a' && 'aa'.replace('a', 'b') == 'bb'",
    "regex find": "'ab12'.find('[0-9]+') == '12' && '1a2'.findAll('[0-9]') == ['1', '2']",
    "lists have sum, min and max": "self.list.sum() == 6 && self.list.min() == 1 && self.list.max() == 3",
    "lists have isSorted and indexOf": "self.list.isSorted() && ![2, 1].isSorted() && self.list.indexOf(2) == 1",
    "conversions": "string(3) == '3' && int('3') == 3 && double(1) == 1.0 && string(true) == 'true'",
    "types": "type(self.n) == int && type(self.s) == string && type(self.d) == double && type(self.list) == list",
    "quantities": "quantity('1Gi').isGreaterThan(quantity('100Mi')) && quantity('2').asInteger() == 2 && !isQuantity('x')",
    "durations and timestamps": "duration('1h') > duration('59m') && timestamp('2026-01-01T00:00:00Z').getFullYear() == 2026",
    "maps and lists are equal by content": "{'a': [1, 2]} == {'a': [1, 2]}",
}


@pytest.mark.parametrize("text", TRUE.values(), ids=TRUE.keys())
def test_expressions_that_hold(text: str) -> None:
    """Each sentence is a piece of the language."""
    assert compiled(text).evaluate({"self": SELF}) is True


ERRORS = {
    "a member that is not there": "self.nope == 1",
    "an index beyond the end": "self.list[3] == 1",
    "a division by zero": "1 / 0 == 1",
    "an overflow": "9223372036854775807 + 1 > 0",
    "int and double do not add": "1 + 1.0 == 2.0",
    "an order that does not exist": "self.s < 1",
    "a condition that is no bool": "self.n ? true : false",
    "an undeclared name": "other == 1",
    "a number that is none": "int('x') == 1",
}


@pytest.mark.parametrize("text", ERRORS.values(), ids=ERRORS.keys())
def test_expressions_that_have_no_value(text: str) -> None:
    """An evaluation error is an error, never a silent false."""
    with pytest.raises(CelError):
        compiled(text).evaluate({"self": SELF})


@pytest.mark.parametrize("text", ["self.", "self.x(1)", "frobnicate(1)", "has(self)", "self.list.all(x)", "self.list.all(x.y, true)"])
def test_expressions_that_do_not_compile(text: str) -> None:
    """What cannot be understood is refused when it is compiled, by name."""
    with pytest.raises(CelSyntaxError):
        compiled(text)


def test_no_expression_costs_more_than_its_budget() -> None:
    """Six nested loops over ten elements are given up; the meter, not the clock, ends them."""
    text = "self.all(a, self.all(b, self.all(c, self.all(d, self.all(e, self.all(f, true))))))"
    meter = Meter(10_000)
    with pytest.raises(CelError, match="cost limit"):
        compiled(text).evaluate({"self": list(range(10))}, meter)
    assert meter.left < 0


def test_an_expression_is_compiled_once() -> None:
    """Asking twice gives the same program."""
    assert compiled("self.n == 3") is compiled("self.n == 3")


def _listed(*rules: dict[str, Any], item: dict[str, Any] | None = None) -> dict[str, Any]:
    entry = b.obj("item", {"name": b.text("n"), "v": b.integer("v", **b.rules(b.rule("self == oldSelf", "frozen")))} | (item or {}))
    return b.obj("root", {"items": b.keyed("items", ("name",), entry), "plain": b.atomic("plain", entry)}, **b.rules(*rules))


def test_a_transition_rule_pairs_list_map_entries_by_key() -> None:
    """Order is not identity: an entry that moved is compared with itself, a new one with nobody."""
    old = {"items": [{"name": "a", "v": 1}, {"name": "b", "v": 2}]}
    assert validate(_listed(), {"items": [{"name": "b", "v": 2}, {"name": "c", "v": 9}, {"name": "a", "v": 1}]}, old) == []
    (fault,) = validate(_listed(), {"items": [{"name": "b", "v": 1}]}, old)
    assert (fault.field, fault.message) == ("items[0].v", "Invalid value: 1: frozen")


def test_a_transition_rule_is_left_out_on_create_and_inside_atomic_lists() -> None:
    """Where nothing can be paired nothing is compared."""
    assert validate(_listed(), {"items": [{"name": "a", "v": 1}]}) == []
    assert validate(_listed(), {"plain": [{"name": "a", "v": 2}]}, {"plain": [{"name": "a", "v": 1}]}) == []


def test_a_broken_rule_is_reported_where_and_how_it_says() -> None:
    """`fieldPath`, `reason` and `messageExpression` decide the error's field, type and text."""
    schema = b.obj(
        "root",
        {
            "a": b.obj(
                "a", {"b": b.integer("b")}, **b.rules({"rule": "false", "messageExpression": "'b is ' + string(self.b)", "fieldPath": ".b"})
            )
        },
        **b.rules(b.rule("false", "no", at=".a", reason=b.FORBIDDEN), b.rule("false", "more", reason=b.REQUIRED)),
    )
    assert [(f.field, f.type, f.message) for f in validate(schema, {"a": {"b": 1}})] == [
        ("a", "FieldValueForbidden", "Forbidden: no"),
        ("", "FieldValueRequired", "Required value: more"),
        ("a.b", "FieldValueInvalid", 'Invalid value: "object": b is 1'),
    ]


def test_rules_rest_while_the_shape_is_wrong() -> None:
    """A rule over a value of the wrong type would only add noise; the API server says so, and so do we."""
    schema = b.obj("root", {"n": b.integer("n")}, **b.rules(b.rule("self.n > 1", "small")))
    assert [fault.field for fault in validate(schema, {"n": "x"})] == ["n", "<nil>"]
    assert [fault.message for fault in validate(schema, {"n": 1})] == ['Invalid value: "object": small']


def test_a_number_is_a_double_and_an_escaped_name_can_be_written() -> None:
    """The schema's type decides, and names that CEL cannot spell are escaped as Kubernetes does."""
    schema = b.obj(
        "root",
        {"ratio": {"type": "number"}, "a-b": b.integer("x"), "in": b.integer("y")},
        **b.rules(b.rule("self.ratio / 2.0 == 0.5 && self.a__dash__b == 1 && self.__in__ == 2", "wrong")),
    )
    assert validate(schema, {"ratio": 1, "a-b": 1, "in": 2}) == []
