"""`matchConditions` of a webhook: CEL over the request, asked before the webhook is.

One false condition means that the webhook is not called. One that cannot be evaluated counts only when none is false, and then as a call
that failed: failurePolicy decides.
"""

from typing import Any

from api.schema.cel import CelSyntaxError, compiled
from api.schema.celvalues import CelError, typed
from local.dialing import WebhookCallError
from local.statuses import Cause
from local.wire import JSON

_FREE: JSON = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def hold(conditions: list[JSON], request: JSON) -> bool:
    """Whether all of them hold for this `AdmissionReview.request`. Raises WebhookCallError."""
    if not conditions:
        return True
    bare = {key: value for key, value in request.items() if key not in {"object", "oldObject"}}
    scope: dict[str, Any] = {"request": typed(_FREE, bare)}
    for name in ("object", "oldObject"):
        scope[name] = None if request.get(name) is None else typed(_FREE, request[name])
    unknown: WebhookCallError | None = None
    for condition in conditions:
        try:
            if compiled(str(condition.get("expression", ""))).evaluate(scope) is not True:
                return False
        except (CelError, CelSyntaxError) as fault:
            unknown = WebhookCallError(f"matchCondition {condition.get('name', '')!r} could not be evaluated: {fault}")
    if unknown is not None:
        raise unknown
    return True


def faults(conditions: list[JSON], where: str) -> list[Cause]:
    """Conditions without a name, named twice, or not CEL."""
    out: list[Cause] = []
    seen: set[str] = set()
    for index, condition in enumerate(conditions):
        name = str(condition.get("name", ""))
        if not name:
            out.append(Cause(f"{where}[{index}].name", "FieldValueRequired", "Required value"))
        elif name in seen:
            out.append(Cause(f"{where}[{index}].name", "FieldValueDuplicate", f'Duplicate value: "{name}"'))
        seen.add(name)
        try:
            compiled(str(condition.get("expression", "")))
        except (CelError, CelSyntaxError) as fault:
            text = f'Invalid value: "{condition.get("expression", "")}": compilation failed: {fault}'
            out.append(Cause(f"{where}[{index}].expression", "FieldValueInvalid", text))
    return out
