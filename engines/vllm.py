"""What `vllm serve` does to its line before argparse sees it (engine facts, section 3), and which of its options are watched.

The order is the engine's: `--model` moves to the front, `--config FILE` is replaced by the file's entries, then every token is rewritten
(underscores in names, `-O<n>`), then dotted members are collected into JSON and appended at the very end. All of it happens without knowing
which tokens are values, and also behind a bare `--`.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Final

from engines.findings import Finding, finding
from engines.rewriting import CONFIG, Rewritten, pull_config
from engines.table import Option
from engines.tokens import BEFORE, Fault, Line
from engines.values import RefusedError, show, to_count

# The launcher's token in front of the role's arguments. Its text never matters, only that it is there.
MODEL: Final = "MODEL"

# Options whose value must be readable: what the reader reports, and what its verdicts rest on (D6).
WATCHED: Final = frozenset(
    {
        "tensor_parallel_size",
        "pipeline_parallel_size",
        "data_parallel_size",
        "data_parallel_size_local",
        "prefill_context_parallel_size",
        "decode_context_parallel_size",
        "data_parallel_rank",
        "data_parallel_start_rank",
        "data_parallel_rpc_port",
        "elastic_ep_max_dp_size",
        "api_server_count",
        "nnodes",
        "node_rank",
        "master_port",
        "host",
        "port",
        "ssl_certfile",
        "ssl_keyfile",
        "ssl_cert_reqs",
    }
)

# Dotted members nest; the engine's own JSON writer gives up long before this.
DEPTH: Final = 64

_REWRITES: Final = re.compile(r"-(?:O|-model\s*(?:=|$)|-help=|[^=]*[_.])")
_IS_MODEL: Final = re.compile(r"--model(=.+|$)")

Json = dict[str, "Json"] | list["Json"] | str | int | float | bool | None


def rewrite(argv: Sequence[str], unresolved: Mapping[int, tuple[str, ...]], spellings: Mapping[str, Option]) -> Rewritten:
    """Rewrite a role's arguments as `vllm serve MODEL ARGS` does."""
    # A registered spelling needs no rewriting, so most lines are done with one look at what else starts with a dash.
    odd = [token for token in argv if token[:1] == "-" and token not in spellings]
    if CONFIG not in argv and "--model" not in argv and not any(map(_REWRITES.match, odd)):
        return Rewritten(Line([MODEL, *argv], range(BEFORE, len(argv)), argv, True, unresolved))
    faults: list[Fault] = []
    findings: list[Finding] = []
    tokens = [MODEL, *argv]
    at = list(range(BEFORE, len(argv)))
    _move_model(tokens, at, faults, findings)
    config = pull_config(tokens, at, faults)
    tokens, at = _rename(tokens, at)
    if any("." in token and token[:1] == "-" for token in tokens):
        tokens, at = _collect(tokens, at, faults)
    return Rewritten(Line(tokens, at, argv, True, unresolved), tuple(faults), tuple(findings), config)


def _move_model(tokens: list[str], at: list[int], faults: list[Fault], findings: list[Finding]) -> None:
    index = next((i for i, token in enumerate(tokens) if token[:7] == "--model" and _IS_MODEL.match(token)), None)
    if index is None:
        return
    position = at[index]
    findings.append(
        finding("EA009", f"{show(tokens[index])} replaces the model that is served: the given one becomes a stray word", position)
    )
    if len(tokens[index]) == 7:
        if index + 1 == len(tokens):
            faults.append(Fault("missing-value", "--model expects a value and has none", position, "--model", "model"))
            del tokens[index], at[index]
            return
        model, where = tokens[index + 1], at[index + 1]
        del tokens[index : index + 2], at[index : index + 2]
    else:
        model, where = tokens[index].removeprefix("--model="), position
        del tokens[index], at[index]
    tokens.insert(0, model)
    at.insert(0, where)


def _rename(tokens: list[str], at: list[int]) -> tuple[list[str], list[int]]:
    """Underscores in names become dashes, `-O<n>` the optimization level, `--help=TOPIC` plain help."""
    out: list[str] = []
    where: list[int] = []
    for index, word in enumerate(tokens):
        if word[:2] == "--":
            out.append(_dashed(word) if "_" in word or word[:7] == "--help=" else word)
        elif word[:2] == "-O" and len(word) > 2:
            out += ("--optimization-level", word[3:] if word[2] == "=" else word[2:])
            where.append(at[index])
        elif word == "-O" and index + 1 < len(tokens) and tokens[index + 1] in {"0", "1", "2", "3"}:
            out.append("--optimization-level")
        else:
            out.append(word)
        where.append(at[index])
    return out, where


def _dashed(token: str) -> str:
    """Only between the dashes and the first dot, only in front of the first '='."""
    if token[:7] == "--help=":
        return "--help"
    name, equals, value = token.partition("=")
    head, dot, tail = name.partition(".")
    return f"{head.replace('_', '-')}{dot}{tail}{equals}{value}"


def _collect(tokens: list[str], at: list[int], faults: list[Fault]) -> tuple[list[str], list[int]]:
    """Move dotted members to the end, merged per key."""
    kept: list[str] = []
    where: list[int] = []
    keys: dict[str, dict[str, Json]] = {}
    first: dict[str, int] = {}
    index = 0
    while index < len(tokens):
        token = tokens[index]
        name, equals, text = token.partition("=")
        if token[:1] != "-" or "." not in name:
            kept.append(token)
            where.append(at[index])
            index += 1
            continue
        start = index
        index += 1
        if not equals:
            if index == len(tokens):
                message = f"{show(token)} is a dotted member without a value: the engine falls over"
                faults.append(Fault("missing-value", message, at[start], token))
                break
            text = tokens[index]
            index += 1
        value: Json = list(text.split(",")) if name.endswith("+") else _value(text)
        key, *path = name.removesuffix("+").split(".")
        first.setdefault(key, at[start])
        _merge(keys.setdefault(key, {}), path[:DEPTH], value)
    for key, members in keys.items():
        kept += (key, _text(members))
        where += (first[key], first[key])
    return kept, where


def _text(members: dict[str, Json]) -> str:
    try:
        return json.dumps(members)
    except (RecursionError, ValueError):
        # So deep, or with a number so long, that the engine's own writer gives up as well. That the value is an object is all that matters
        # from here on.
        return "{}"


def _value(text: str) -> Json:
    try:
        value: Json = json.loads(text)
    except (ValueError, RecursionError):
        try:
            return to_count(text)
        except RefusedError:
            return text
    return value


def _merge(members: dict[str, Json], path: list[str], value: Json) -> None:
    """Put a value at its path: dictionaries merge, lists grow, anything else is replaced."""
    for step in path[:-1]:
        below = members.get(step)
        if not isinstance(below, dict):
            below = {}
            members[step] = below
        members = below
    last = path[-1]
    present = members.get(last)
    if isinstance(present, list) and isinstance(value, list):
        present += value
    elif isinstance(present, dict) and isinstance(value, dict):
        _merge_all(present, value)
    else:
        members[last] = value


def _merge_all(into: dict[str, Json], more: dict[str, Json]) -> None:
    pending = [(into, more)]
    while pending:
        target, source = pending.pop()
        for key, value in source.items():
            present = target.get(key)
            if isinstance(present, dict) and isinstance(value, dict):
                pending.append((present, value))
            elif isinstance(present, list) and isinstance(value, list):
                present += value
            else:
                target[key] = value
