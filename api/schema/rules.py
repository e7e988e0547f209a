"""The CEL rules of a schema (`x-kubernetes-validations`), walked over an object and, beside it, over the stored one.

Stored and new values are paired where the API server pairs them: members by name, entries of a list map by their keys, and nothing inside
an atomic list or a set. A rule that speaks of `oldSelf` is left out where there is no such pair.
"""

import json
from collections.abc import Iterator
from typing import Any, Final

from api.schema import errors
from api.schema.cel import BUDGET, CelSyntaxError, compiled
from api.schema.celfunctions import Meter
from api.schema.celvalues import CelError, escaped, typed
from api.schema.errors import FieldError, child

_ABSENT: Final = object()
_TOTAL: Final = 10 * BUDGET


def check(schema: dict[str, Any], obj: Any, old: Any, path: str = "") -> Iterator[FieldError]:
    """Every rule that does not hold. All rules together may spend ten rules' budgets, as on an API server."""
    walk = _Walk()
    yield from walk.value(schema, typed(schema, obj), _ABSENT if old is None else typed(schema, old), path)


class _Walk:
    def __init__(self) -> None:
        self._left = _TOTAL

    def value(self, schema: dict[str, Any], value: Any, old: Any, path: str) -> Iterator[FieldError]:
        if value is None:
            return
        for rule in schema.get("x-kubernetes-validations") or ():
            yield from self._rule(rule, value, old, path)
        if isinstance(value, dict):
            yield from self._members(schema, value, old, path)
        elif isinstance(value, list):
            items = schema.get("items")
            if isinstance(items, dict):
                keys = schema.get("x-kubernetes-list-map-keys") or () if schema.get("x-kubernetes-list-type") == "map" else ()
                stored = _by_keys(old, keys) if keys and isinstance(old, list) else {}
                for index, item in enumerate(value):
                    yield from self.value(items, item, stored.get(_identity(item, keys), _ABSENT), f"{path}[{index}]")

    def _members(self, schema: dict[str, Any], value: dict[str, Any], old: Any, path: str) -> Iterator[FieldError]:
        properties: dict[str, Any] = schema.get("properties") or {}
        additional = schema.get("additionalProperties")
        before = old if isinstance(old, dict) else {}
        for name, sub in properties.items():
            spelled = escaped(name)
            if spelled in value:
                yield from self.value(sub, value[spelled], before.get(spelled, _ABSENT), child(path, name))
        if isinstance(additional, dict):
            for name, item in value.items():
                if name not in properties:
                    yield from self.value(additional, item, before.get(name, _ABSENT), errors.key(path, name))

    def _rule(self, rule: dict[str, Any], value: Any, old: Any, path: str) -> Iterator[FieldError]:
        try:
            program = compiled(rule["rule"])
        except CelSyntaxError as error:
            yield FieldError(path, errors.INVALID, f"rule compile error: {error}")
            return
        scope = {"self": value}
        if program.mentions_old:
            if old is _ABSENT or old is None:
                return
            scope["oldSelf"] = old
        meter = Meter(min(BUDGET, self._left))
        try:
            before = meter.left
            holds = program.evaluate(scope, meter)
            self._left -= before - meter.left
        except CelError as error:
            yield errors.invalid(path, "object" if isinstance(value, dict) else value, f"{error} evaluating rule: {_message(rule, scope)}")
            return
        if holds is not True:
            yield _broken(rule, scope, value, path)


def _broken(rule: dict[str, Any], scope: dict[str, Any], value: Any, path: str) -> FieldError:
    field = path + rule.get("fieldPath", "") if path else rule.get("fieldPath", "").removeprefix(".")
    message = _message(rule, scope)
    match rule.get("reason", errors.INVALID):
        case errors.REQUIRED:
            return errors.required(field, message)
        case errors.FORBIDDEN:
            return errors.forbidden(field, message)
        case errors.DUPLICATE:
            return FieldError(field, errors.DUPLICATE, f"Duplicate value: {message}")
    return errors.invalid(field, "object" if isinstance(value, dict) else value, message)


def _message(rule: dict[str, Any], scope: dict[str, Any]) -> str:
    expression = rule.get("messageExpression")
    if expression:
        try:
            text = compiled(expression).evaluate(scope)
        except (CelError, CelSyntaxError):
            text = None
        if isinstance(text, str) and text.strip() and "\n" not in text:
            return text
    return str(rule.get("message") or f"failed rule: {rule['rule']}").strip()


def _identity(item: Any, keys: Any) -> str:
    return json.dumps([item.get(escaped(key)) for key in keys], sort_keys=True, default=str) if isinstance(item, dict) and keys else ""


def _by_keys(items: list[Any], keys: Any) -> dict[str, Any]:
    return {_identity(item, keys): item for item in items if isinstance(item, dict)}
