"""Label and field selectors, from the query string and from the LabelSelector kind, compiled to a test of a stored entry."""

import re
from collections.abc import Callable, Iterable, Mapping

from local import statuses
from local.kinds import Served
from local.metadata import fits_key, fits_value
from local.store import Entry, Matches
from local.wire import JSON

Test = Callable[[Mapping[str, str]], bool]

_TERM = re.compile(r"\s*(?:(?P<bang>!)\s*)?(?P<key>[A-Za-z0-9][-A-Za-z0-9_./]*)\s*(?P<rest>.*)$", re.DOTALL)
_SET = re.compile(r"(?P<op>in|notin)\s*\((?P<values>[^()]*)\)\s*$")
_UNESCAPED_COMMA = re.compile(r"(?<!\\),")
_ESCAPED = re.compile(r"\\([\\,=])")
_INTEGER = re.compile(r"-?[0-9]+\Z")
_EQUALS = re.compile(r"(?P<op>==|=|!=|>|<)\s*(?P<value>[-A-Za-z0-9_.]*)\s*$")


def split_terms(text: str) -> list[str]:
    """Comma-separated terms; commas inside parentheses do not count."""
    out, depth, start = [], 0, 0
    for position, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if char == "," and depth == 0:
            out.append(text[start:position])
            start = position + 1
    out.append(text[start:])
    return [part.strip() for part in out]


def parse_labels(text: str) -> list[Test]:
    """The tests of a label selector. Raises 400."""
    terms = split_terms(text)
    if terms == [""]:
        return []
    if "" in terms:
        raise statuses.bad_request("unable to parse requirement: found ',', expected: identifier")
    return [_label_term(term) for term in terms]


def _checked(key: str, values: Iterable[str]) -> None:
    """A key that no label can have, or a value that none can, is no selector of labels. Raises 400."""
    if not fits_key(key):
        raise statuses.bad_request(f'unable to parse requirement: invalid label key "{key}"')
    for value in values:
        if not fits_value(value):
            raise statuses.bad_request(f'unable to parse requirement: invalid label value: "{value}": at key: "{key}"')


def _label_term(term: str) -> Test:
    found = _TERM.match(term)
    if found is None:
        raise statuses.bad_request(f"unable to parse requirement: found '{term}', expected: identifier")
    key, rest = found["key"], found["rest"].strip()
    _checked(key, ())
    if not rest:
        return (lambda labels: key not in labels) if found["bang"] else (lambda labels: key in labels)
    if found["bang"]:
        raise statuses.bad_request(f"unable to parse requirement: found '{rest}', expected: ',' or 'end of string'")
    group = _SET.match(rest)
    if group is not None:
        values = {value.strip() for value in group["values"].split(",")}
        _checked(key, values)
        if group["op"] == "in":
            return lambda labels: labels.get(key) in values
        return lambda labels: labels.get(key) not in values
    equals = _EQUALS.match(rest)
    if equals is None:
        raise statuses.bad_request(f"unable to parse requirement: found '{rest}', expected: in, notin, =, ==, !=, gt, lt")
    _checked(key, (equals["value"],))
    return _compare(key, equals["op"], equals["value"])


def _compare(key: str, op: str, value: str) -> Test:
    if op in {"=", "=="}:
        return lambda labels: labels.get(key) == value
    if op == "!=":
        return lambda labels: labels.get(key) != value
    if not _INTEGER.match(value):
        raise statuses.bad_request(f"for 'Gt', 'Lt' operators, the value must be an integer: {value}")
    bound = int(value)

    def compare(labels: Mapping[str, str]) -> bool:
        present = labels.get(key, "")
        return _INTEGER.match(present) is not None and (int(present) > bound if op == ">" else int(present) < bound)

    return compare


def label_selector_matches(selector: JSON | None, labels: Mapping[str, str]) -> bool:
    """Whether a LabelSelector object selects the labels; an empty or absent one selects everything."""
    if not selector:
        return True
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(_expression(term, labels) for term in selector.get("matchExpressions") or ())


def _expression(term: JSON, labels: Mapping[str, str]) -> bool:
    key, values = term.get("key", ""), term.get("values") or ()
    match term.get("operator"):
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
    return False


def parse_fields(text: str, served: Served) -> list[Callable[[Entry], bool]]:
    """The tests of a field selector; empty terms say nothing. Raises 400 for a field that the resource does not select by."""
    terms = (term.strip() for term in _UNESCAPED_COMMA.split(text))
    return [_field_term(term, served) for term in terms if term not in {"", "="}]


def _field_term(term: str, served: Served) -> Callable[[Entry], bool]:
    path, op, value = re.split(r"(==|!=|=)", term, maxsplit=1) if "=" in term else (term, "", "")
    if not op:
        raise statuses.bad_request(f"invalid selector: '{term}'; can't understand '{term}'")
    wanted = op != "!="
    path, value = path.strip(), _ESCAPED.sub(r"\1", value.strip())
    if path == "metadata.name":
        return lambda entry: (entry.key[1] == value) is wanted
    if path == "metadata.namespace":
        return lambda entry: (entry.key[0] == value) is wanted
    if path not in served.selectable:
        raise statuses.bad_request(f"field label not supported: {path}")
    return lambda entry: (entry.fields.get(path, "") == value) is wanted


def compile_selectors(served: Served, labels: str, fields: str) -> Matches | None:
    """One test for both selectors, None when neither narrows."""
    label_tests = parse_labels(labels)
    field_tests = parse_fields(fields, served)
    if not label_tests and not field_tests:
        return None
    return lambda entry: all(test(entry.labels) for test in label_tests) and all(test(entry) for test in field_tests)
