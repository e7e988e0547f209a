"""JSON patch (RFC 6902) and JSON merge patch (RFC 7396). Both work on a copy the caller owns, and may change it in place."""

from typing import Any

from local.wire import JSON, copy


class PatchError(ValueError):
    """A patch that cannot be applied to this document."""


def merge_patch(target: Any, patch: Any) -> Any:
    """RFC 7396: null removes, an object descends, anything else replaces."""
    if not isinstance(patch, dict):
        return patch
    out: JSON = target if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            out.pop(key, None)
        else:
            out[key] = merge_patch(out.get(key), value)
    return out


def json_patch(document: Any, operations: Any) -> Any:
    """RFC 6902. Raises PatchError, which names the operation and the path."""
    if not isinstance(operations, list):
        raise PatchError("a JSON patch is a list of operations")
    for operation in operations:
        if not isinstance(operation, dict) or not isinstance(operation.get("path"), str):
            raise PatchError(f"not an operation: {operation!r}")
        try:
            document = _operate(document, operation)
        except (AttributeError, KeyError, IndexError, ValueError, TypeError) as fault:
            if isinstance(fault, PatchError):
                raise
            text = f"{operation.get('op')} operation does not apply: doc is missing path: {operation['path']}: missing value"
            raise PatchError(text) from fault
    return document


def _operate(document: Any, operation: JSON) -> Any:
    op, path = operation.get("op"), operation["path"]
    if op in {"move", "copy"} and not isinstance(operation.get("from"), str):
        raise PatchError(f"{op} operation has no source: {path}")
    if op in {"add", "replace", "test"} and "value" not in operation:
        raise PatchError(f"{op} operation has no value: {path}")
    match op:
        case "add":
            return _add(document, path, copy(operation["value"]))
        case "remove":
            return _remove(document, path)[0]
        case "replace":
            if path == "":
                return copy(operation["value"])
            parent, last = _parent(document, path)
            if isinstance(parent, list):
                parent[_index(last, len(parent))] = copy(operation["value"])
            else:
                _ = parent[last]
                parent[last] = copy(operation["value"])
            return document
        case "move":
            document, value = _remove(document, operation["from"])
            return _add(document, path, value)
        case "copy":
            return _add(document, path, copy(_get(document, operation["from"])))
        case "test":
            try:
                present = _get(document, path)
            except (KeyError, IndexError):
                present = None
            if present != operation["value"]:
                raise PatchError(f"testing value {path} failed: test failed")
            return document
    raise PatchError(f"Unexpected kind: {op}")


def pointer(path: str) -> list[str]:
    """The parts of a JSON pointer."""
    if path == "":
        return []
    if not path.startswith("/"):
        raise PatchError(f"not a JSON pointer: {path}")
    return [part.replace("~1", "/").replace("~0", "~") for part in path[1:].split("/")]


def _index(part: str, length: int) -> int:
    if not (part.isascii() and part.isdigit()) or (len(part) > 1 and part[0] == "0"):
        raise PatchError(f"not an index: {part}")
    index = int(part)
    if index >= length:
        raise IndexError(part)
    return index


def _step(value: Any, part: str) -> Any:
    return value[_index(part, len(value))] if isinstance(value, list) else value[part]


def _get(document: Any, path: str) -> Any:
    for part in pointer(path):
        document = _step(document, part)
    return document


def _parent(document: Any, path: str) -> tuple[Any, str]:
    parts = pointer(path)
    if not parts:
        raise PatchError("the whole document has no parent")
    for part in parts[:-1]:
        document = _step(document, part)
    if not isinstance(document, (dict, list)):
        raise KeyError(path)
    return document, parts[-1]


def _add(document: Any, path: str, value: Any) -> Any:
    if path == "":
        return value
    parent, last = _parent(document, path)
    if isinstance(parent, list):
        parent.insert(len(parent) if last == "-" else _index(last, len(parent) + 1), value)
    else:
        parent[last] = value
    return document


def _remove(document: Any, path: str) -> tuple[Any, Any]:
    parent, last = _parent(document, path)
    if isinstance(parent, list):
        return document, parent.pop(_index(last, len(parent)))
    return document, parent.pop(last)
