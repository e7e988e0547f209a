"""What is refused of a webhook configuration: whatever would trip, or never be called, when somebody writes later."""

import base64
import binascii
from typing import Any

from local import conditions
from local.selectors import label_selector_matches
from local.statuses import Cause
from local.wire import JSON

_OPERATIONS = frozenset({"*", "CONNECT", "CREATE", "DELETE", "UPDATE"})
_OPERATORS = frozenset({"In", "NotIn", "Exists", "DoesNotExist"})
_CHOICES = (("failurePolicy", ("Fail", "Ignore")), ("matchPolicy", ("Equivalent", "Exact")), ("sideEffects", ("None", "NoneOnDryRun")))


def required(field: str, detail: str = "") -> Cause:
    """A field that is wanted."""
    return Cause(field, "FieldValueRequired", f"Required value: {detail}" if detail else "Required value")


def _rule_faults(rules: Any, where: str) -> list[Cause]:
    """A rule that cannot be read would make every later write fail."""
    out: list[Cause] = []
    for index, rule in enumerate(rules):
        for key in ("operations", "apiGroups", "apiVersions", "resources"):
            values = rule.get(key)
            if not isinstance(values, list) or not values or not all(isinstance(value, str) for value in values):
                out.append(required(f"{where}[{index}].{key}"))
        operations = rule.get("operations") or ()
        out += [
            _unsupported(f"{where}[{index}].operations[{at}]", operation, sorted(_OPERATIONS))
            for at, operation in enumerate(operations)
            if operation not in _OPERATIONS
        ]
    return out


def _unsupported(field: str, value: Any, known: Any) -> Cause:
    texts = ", ".join(f'"{each}"' for each in known)
    return Cause(field, "FieldValueNotSupported", f'Unsupported value: "{value}": supported values: {texts}')


def _selector_faults(selector: Any, where: str) -> list[Cause]:
    out = []
    for index, term in enumerate((selector or {}).get("matchExpressions") or ()):
        operator, values = term.get("operator"), term.get("values") or []
        if operator not in _OPERATORS:
            text = f'Invalid value: "{operator}": not a valid selector operator'
            out.append(Cause(f"{where}.matchExpressions[{index}].operator", "FieldValueInvalid", text))
        elif bool(values) is not (operator in {"In", "NotIn"}):
            kind, text = ("FieldValueRequired", "Required value: must be specified when `operator` is 'In' or 'NotIn'")
            if values:
                kind, text = ("FieldValueForbidden", "Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
            out.append(Cause(f"{where}.matchExpressions[{index}].values", kind, text))
    return out


def _client_faults(config: JSON, where: str) -> list[Cause]:
    """How the webhook is reached."""
    out = []
    if bool(config.get("url")) == bool(config.get("service")):
        out.append(required(where, "exactly one of url or service is required"))
    elif config.get("url") and not str(config["url"]).startswith("https://"):
        text = f"Invalid value: \"{config['url']}\": 'https' is the only allowed URL scheme; desired format: https://host[/path]"
        out.append(Cause(f"{where}.url", "FieldValueInvalid", text))
    elif config.get("service"):
        out += [
            required(f"{where}.service.{key}", f"service {key} is required")
            for key in ("name", "namespace")
            if not config["service"].get(key)
        ]
    try:
        base64.b64decode(config.get("caBundle") or "", validate=True)
    except binascii.Error as fault:
        raise ValueError(f"{where}.caBundle: illegal base64 data") from fault
    return out


def faults(obj: JSON, old: JSON | None) -> list[Cause]:
    """Field errors of a configuration."""
    del old
    out: list[Cause] = []
    seen: set[str] = set()
    for index, hook in enumerate(obj.get("webhooks") or ()):
        where, name = f"webhooks[{index}]", str(hook.get("name", ""))
        if name.count(".") < 2:
            text = f'Invalid value: "{name}": should be a domain with at least three segments separated by dots'
            out.append(Cause(f"{where}.name", "FieldValueInvalid", text))
        elif name in seen:
            out.append(Cause(f"{where}.name", "FieldValueDuplicate", f'Duplicate value: "{name}"'))
        seen.add(name)
        out += [_unsupported(f"{where}.{key}", hook.get(key) or "", known) for key, known in _CHOICES if hook.get(key) not in known]
        if not set(hook.get("admissionReviewVersions") or ()) & {"v1", "v1beta1"}:
            out.append(required(f"{where}.admissionReviewVersions", "must specify one of v1, v1beta1"))
        out += _rule_faults(hook.get("rules") or [], f"{where}.rules")
        for selector in ("objectSelector", "namespaceSelector"):
            label_selector_matches(hook.get(selector), {})  # trips here rather than in somebody's write
            out += _selector_faults(hook.get(selector), f"{where}.{selector}")
        out += _client_faults(hook.get("clientConfig") or {}, f"{where}.clientConfig")
        out += conditions.faults(hook.get("matchConditions") or [], f"{where}.matchConditions")
        if not 1 <= hook.get("timeoutSeconds", 10) <= 30:
            text = f"Invalid value: {hook['timeoutSeconds']}: the timeout value must be between 1 and 30 seconds"
            out.append(Cause(f"{where}.timeoutSeconds", "FieldValueInvalid", text))
    return out
