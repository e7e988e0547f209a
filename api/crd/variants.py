"""The same definitions for API servers of different age.

CEL rules came with Kubernetes 1.25, their `reason` and `fieldPath` with 1.28. A server that does not know a field drops it when it is
posted, but refuses it in a server-side apply, and kubectl refuses it before that. So an older server is given what it knows.
"""

from collections.abc import Iterator
from typing import Any, Final

RULES: Final = "x-kubernetes-validations"
RULES_SINCE: Final = (1, 25)
RULE_FIELDS_SINCE: Final = (1, 28)
_NEWER: Final = frozenset({"reason", "fieldPath"})


def fitted(definition: dict[str, Any], version: tuple[int, int]) -> dict[str, Any]:
    """The definition with what a server of that version (major, minor) knows."""
    if version >= RULE_FIELDS_SINCE:
        return definition
    out: dict[str, Any] = _copied(definition, keep_rules=version >= RULES_SINCE)
    return out


def rule_patch(definition: dict[str, Any]) -> list[dict[str, Any]]:
    """The JSON patch that adds the rules to a definition that was fitted without them."""
    return [
        {"op": "add", "path": "/" + "/".join([*path, RULES]), "value": rules}
        for path, rules in _rules(definition["spec"]["versions"][0]["schema"], ["spec", "versions", "0", "schema"])
    ]


def _copied(value: Any, *, keep_rules: bool) -> Any:
    if isinstance(value, list):
        return [_copied(item, keep_rules=keep_rules) for item in value]
    if not isinstance(value, dict):
        return value
    out = {}
    for name, item in value.items():
        if name == RULES and isinstance(item, list):
            if keep_rules:
                out[name] = [{k: v for k, v in rule.items() if k not in _NEWER} for rule in item]
        else:
            out[name] = _copied(item, keep_rules=keep_rules)
    return out


def _rules(value: Any, path: list[str]) -> Iterator[tuple[list[str], list[Any]]]:
    if isinstance(value, dict):
        for name, item in value.items():
            if name == RULES:
                yield path, item
            else:
                yield from _rules(item, [*path, name.replace("~", "~0").replace("/", "~1")])
