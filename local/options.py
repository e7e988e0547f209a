"""What the options of a request say, checked as the API server checks them: of writes, of deletes, of lists."""

from typing import Any

from aiohttp import web

from local import statuses
from local.statuses import Cause, InvalidError
from local.wire import JSON

MANAGER_MAX = 128
_POLICIES = ("Foreground", "Background", "Orphan")
_DRY_RUN = 'supported values: "All"'


def _invalid(kind: str, *causes: Cause) -> InvalidError:
    return InvalidError(kind, "meta.k8s.io", "", causes)


def write_options(request: web.BaseRequest, kind: str, *, applying: bool = False) -> JSON:
    """dryRun, fieldManager, fieldValidation and force of the query. Raises 422 for values that they do not take."""
    query = request.query
    out: list[Cause] = []
    dry = query.getall("dryRun", [])
    if dry and dry != ["All"]:
        out.append(Cause("dryRun", "FieldValueNotSupported", f'Unsupported value: "{dry[0]}": {_DRY_RUN}'))
    validation = query.get("fieldValidation", "") or "Warn"
    if validation not in {"Ignore", "Warn", "Strict"}:
        text = f'Unsupported value: "{validation}": supported values: "Ignore", "Strict", "Warn"'
        out.append(Cause("fieldValidation", "FieldValueNotSupported", text))
    named = query.get("fieldManager", "")
    if len(named.encode()) > MANAGER_MAX:
        out.append(Cause("fieldManager", "FieldValueTooLong", f"Too long: may not be more than {MANAGER_MAX} bytes"))
    elif not named.isprintable():
        out.append(Cause("fieldManager", "FieldValueInvalid", f"Invalid value: {named!r}: should only contain printable characters"))
    if query.get("force") is not None and not applying and kind == "PatchOptions":
        out.append(Cause("force", "FieldValueForbidden", "Forbidden: may not be specified for non-apply patch"))
    if out:
        raise _invalid(kind, *out)
    manager = named or request.headers.get("User-Agent", "").partition("/")[0] or "unknown"
    return {"dry_run": bool(dry), "manager": manager[:MANAGER_MAX], "validation": validation, "named_manager": bool(named)}


def delete_options(request: web.BaseRequest, body: Any) -> JSON:
    """DeleteOptions of the body, what it leaves open from the query. Raises 400 and 422."""
    if body and (not isinstance(body, dict) or body.get("kind", "DeleteOptions") != "DeleteOptions"):
        raise statuses.bad_request("the body of a delete is DeleteOptions")
    options: JSON = dict(body or {})
    query = request.query
    if "gracePeriodSeconds" in query and "gracePeriodSeconds" not in options:
        options["gracePeriodSeconds"] = _integer("gracePeriodSeconds", query["gracePeriodSeconds"])
    if "propagationPolicy" in query and "propagationPolicy" not in options:
        options["propagationPolicy"] = query["propagationPolicy"]
    if "orphanDependents" in query and "orphanDependents" not in options:
        options["orphanDependents"] = query["orphanDependents"] in {"true", "1"}
    _check_shape(options)
    out: list[Cause] = []
    policy = options.get("propagationPolicy")
    if policy is not None and policy not in _POLICIES:
        text = f'Unsupported value: "{policy}": supported values: "Background", "Foreground", "Orphan"'
        out.append(Cause("propagationPolicy", "FieldValueNotSupported", text))
    elif policy is not None and options.get("orphanDependents") is not None:
        text = f'Invalid value: "{policy}": orphanDependents and deletionPropagation cannot be both set'
        out.append(Cause("propagationPolicy", "FieldValueInvalid", text))
    dry = options.get("dryRun") or []
    if dry and dry != ["All"]:
        out.append(Cause("dryRun", "FieldValueNotSupported", f'Unsupported value: "{dry[0]}": {_DRY_RUN}'))
    if out:
        raise _invalid("DeleteOptions", *out)
    return options


def _check_shape(options: JSON) -> None:
    """Members of other types than theirs. Raises 400."""
    shapes: dict[str, type] = {
        "gracePeriodSeconds": int,
        "propagationPolicy": str,
        "orphanDependents": bool,
        "preconditions": dict,
        "dryRun": list,
    }
    for key, kind in shapes.items():
        value = options.get(key)
        if value is None:
            options.pop(key, None)
        elif not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise statuses.bad_request(f"cannot unmarshal {type(value).__name__} into field DeleteOptions.{key} of type {kind.__name__}")
    for key, value in (options.get("preconditions") or {}).items():
        if value is not None and not isinstance(value, str):
            raise statuses.bad_request(f"cannot unmarshal {type(value).__name__} into field DeleteOptions.preconditions.{key} of type str")


def check_list(*, resource_version: str, match: str, token: str) -> None:
    """Options of a list that do not go together, or that nobody can read. Raises 400 and 422."""
    if resource_version:
        whole("resourceVersion", resource_version)
    if token and resource_version and resource_version != "0":
        raise statuses.bad_request("specifying resource version is not allowed when using continue")
    if not match:
        return
    field, text = "resourceVersionMatch", ""
    kind = "FieldValueForbidden"
    if not resource_version:
        text = "Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided"
    elif token:
        text = "Forbidden: resourceVersionMatch is forbidden when continue is provided"
    elif match not in {"Exact", "NotOlderThan"}:
        kind, text = "FieldValueNotSupported", f'Unsupported value: "{match}": supported values: "Exact", "NotOlderThan"'
    elif match == "Exact" and resource_version == "0":
        text = 'Forbidden: resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
    if text:
        raise _invalid("ListOptions", Cause(field, kind, text))


def whole_number(request: web.BaseRequest, key: str) -> int:
    """A non-negative number of the query, 0 when absent. Raises 400."""
    text = request.query.get(key, "")
    return whole(key, text) if text else 0


def whole(key: str, text: str) -> int:
    """A non-negative number. Raises 400."""
    if not (text.isascii() and text.isdigit()):
        raise statuses.bad_request(f'{key}: Invalid value: "{text}": must be a non-negative integer')
    return int(text)


def _integer(key: str, text: str) -> int:
    try:
        return int(text)
    except ValueError as fault:
        raise statuses.bad_request(f'{key}: Invalid value: "{text}": must be an integer') from fault
