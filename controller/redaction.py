"""What leaves a cluster in a dump, and what does not.

Left out: field ownership, the last-applied copy of a manifest, the KV cache's client document. Hidden: values of environment variables, and
values of options that name a key, a token, a password or a secret. A variable that the engine's argument reader reads, or that an argument
refers to, keeps a value that is a small number: a degree is no secret, and the parallelism could not be read without it.
"""

import re
from collections.abc import Sequence
from typing import Any, Final

Object = dict[str, Any]

HIDDEN: Final = "REDACTED"
DROPPED_ANNOTATIONS: Final = ("kubectl.kubernetes.io/last-applied-configuration",)
HIDDEN_ANNOTATIONS: Final = ("kvcache.gpustack.ai/client-config",)
READ_BY_ENGINES: Final = re.compile(r"VLLM_DP_(SIZE|RANK|RANK_LOCAL|MASTER_PORT)")
SMALL_NUMBER: Final = re.compile(r"[0-9]{1,5}")
SECRET_OPTION: Final = re.compile(r"--?[a-z0-9_.-]*(api[-_]key|[-_]token|password|passwd|secret)", re.IGNORECASE)


def redacted(item: Object) -> Object:
    """A copy that may be shown to others."""
    meta = {name: value for name, value in item.get("metadata", {}).items() if name != "managedFields"}
    annotations = {name: value for name, value in (meta.get("annotations") or {}).items() if name not in DROPPED_ANNOTATIONS}
    if annotations:
        meta["annotations"] = {name: HIDDEN if name in HIDDEN_ANNOTATIONS else value for name, value in annotations.items()}
    else:
        meta.pop("annotations", None)
    return {**{name: _hide(value) for name, value in item.items() if name != "metadata"}, "metadata": meta}


def _hide(value: Any) -> Any:
    """Containers and roles, wherever they are, have their environment and their arguments looked through."""
    if isinstance(value, list):
        return [_hide(each) for each in value]
    if not isinstance(value, dict):
        return value
    arguments = [token for name in ("command", "args", "extraArgs") for token in value.get(name) or () if isinstance(token, str)]
    hidden = {}
    for name, inner in value.items():
        if name == "env" and isinstance(inner, list):
            hidden[name] = [_variable(each, arguments) for each in inner]
        elif name in ("command", "args", "extraArgs") and isinstance(inner, list):
            hidden[name] = _arguments(inner)
        else:
            hidden[name] = _hide(inner)
    return hidden


def _variable(variable: Any, arguments: Sequence[str]) -> Any:
    if not isinstance(variable, dict) or not isinstance(variable.get("value"), str):
        return variable
    name, value = variable.get("name", ""), variable["value"]
    read = READ_BY_ENGINES.fullmatch(name) or any(f"$({name})" in token for token in arguments)
    if not value or (read and SMALL_NUMBER.fullmatch(value)):
        return variable
    return {**variable, "value": HIDDEN}


def _arguments(tokens: Sequence[Any]) -> list[Any]:
    shown: list[Any] = []
    hiding = False
    for token in tokens:
        if not isinstance(token, str):
            shown.append(token)
            continue
        name, equals, _ = token.partition("=")
        if token.startswith("-"):
            secret = SECRET_OPTION.fullmatch(name) is not None
            hiding = secret and not equals
            shown.append(f"{name}={HIDDEN}" if secret and equals else token)
        else:
            shown.append(HIDDEN if hiding else token)
    return shown
