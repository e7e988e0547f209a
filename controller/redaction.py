"""What leaves a cluster in a dump, and what does not.

Left out: field ownership, the last-applied copy of a manifest, the KV cache's client document. Hidden: values of environment variables, of
a probe's headers, and of options that name a key, a token, a password or a secret, in whatever spelling an engine takes for them. A
variable that the engine's argument reader reads, or that an argument refers to, keeps a value that is a small number: a degree is no
secret, and the parallelism could not be read without it.
"""

import re
from collections.abc import Sequence
from functools import cache
from typing import Any, Final

from engines.table import ENGINES, load, versions

Object = dict[str, Any]

HIDDEN: Final = "REDACTED"
DROPPED_ANNOTATIONS: Final = ("kubectl.kubernetes.io/last-applied-configuration",)
HIDDEN_ANNOTATIONS: Final = ("kvcache.gpustack.ai/client-config",)
READ_BY_ENGINES: Final = re.compile(r"VLLM_DP_(SIZE|RANK|RANK_LOCAL|MASTER_PORT)")
SMALL_NUMBER: Final = re.compile(r"[0-9]{1,5}")
SECRET_OPTION: Final = re.compile(r"--?[a-z0-9_.-]*(api[-_]key|[-_.]token|password|passwd|secret)", re.IGNORECASE)


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
        elif name == "httpHeaders" and isinstance(inner, list):
            hidden[name] = [{**each, "value": HIDDEN} if isinstance(each, dict) and "value" in each else each for each in inner]
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
            secret = _is_secret(name)
            hiding = secret and not equals
            shown.append(f"{name}={HIDDEN}" if secret and equals else token)
        else:
            shown.append(HIDDEN if hiding else token)
    return shown


def _is_secret(name: str) -> bool:
    """Whether an option's value is hidden: by its own name, or as an abbreviation of such a name that no release registers for itself."""
    if SECRET_OPTION.fullmatch(name):
        return True
    folded = name.lower().replace("_", "-")
    registered = _registered()
    return len(folded) > 3 and folded not in registered and any(spelling.startswith(folded) for spelling in _secret_spellings())


@cache
def _registered() -> frozenset[str]:
    tables = (load(engine, version) for engine in ENGINES for version in versions(engine))
    return frozenset(spelling for table in tables for option in table for spelling in option.spellings)


@cache
def _secret_spellings() -> tuple[str, ...]:
    return tuple(spelling for spelling in _registered() if SECRET_OPTION.fullmatch(spelling))
