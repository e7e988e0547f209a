"""Print the option table of the inference engine that this Python can import.

Runs inside an engine's own environment, never in ours, and needs nothing but that engine. With its image:

    docker run --rm -i --entrypoint python3 vllm/vllm-openai:v0.33.0 - < tools/extract_options.py > engines/tables/vllm-0.33.0.json
    docker run --rm -i --entrypoint python3 lmsysorg/sglang:v0.5.23 - < tools/extract_options.py > engines/tables/sglang-0.5.23.json

Without an image: a virtual environment that holds the engine's wheel does (docs/engines.md). An argument names the engine (vllm or sglang)
where both can be imported; a second one the version to write where the package does not know its own.

One line an option, so that two releases can be compared with diff: destination, spellings, arity ("0" none, "1" one, "?", "*", "+"), type,
choices, spellings that store false, whether the engine calls it deprecated, and whether every use counts instead of the last. Trailing
members that are empty are left out.
"""

import argparse
import importlib.metadata
import importlib.util
import json
import logging
import os
import sys

ENGINES = {"vllm": "vLLM", "sglang": "SGLang"}
TYPES = {
    "str": "str",
    "int": "int",
    "float": "float",
    "loads": "json",
    "json_list_type": "json",
    "parse_dataclass": "object",
    "human_readable_int": "count",
    "human_readable_int_or_auto": "count-or-auto",
}


def vllm_parser():
    """The parser of `vllm serve`, and the one in front of it that knows the subcommands."""
    os.environ.setdefault("VLLM_TARGET_DEVICE", "cpu")
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    from vllm import platforms
    from vllm.platforms.cpu import CpuPlatform

    # Some defaults ask which accelerator is there. None is, and the spellings do not depend on it.
    platforms.current_platform = CpuPlatform()
    from vllm.entrypoints.cli import serve
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    front = FlexibleArgumentParser(prog="vllm")
    front.add_argument("-v", "--version", action="version", version="")
    commands = front.add_subparsers(required=False, dest="subparser")
    parsers = [command.subparser_init(commands) for command in serve.cmd_init()]
    return front, parsers[-1]


def sglang_parser():
    """The parser of `sglang.launch_server`, twice: it has no subcommands."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    from sglang.srt.server_args import ServerArgs

    logging.disable(logging.CRITICAL)
    parser = argparse.ArgumentParser(prog="sglang")
    ServerArgs.add_cli_args(parser)
    return parser, parser


def build(engine):
    """Both parsers of an engine: the front one that is called, and the one that holds the options."""
    return vllm_parser() if engine == "vllm" else sglang_parser()


def type_name(engine, action):
    """Our name for an option's converter; `other` where its rule is not one that we know."""
    if action.nargs == 0:
        return ""
    convert = action.type
    if convert is None:
        return "str"
    name = getattr(convert, "__name__", "")
    if name in ("_optional_type", "_parse_type"):
        # vLLM wraps the real converter; what it closes over tells which.
        inner = next((cell.cell_contents for cell in convert.__closure__ or () if callable(cell.cell_contents)), None)
        known = TYPES.get(getattr(inner, "__name__", ""))
        if name == "_parse_type":
            return known or "other"
        return "optional" if known in (None, "str") else f"optional {known}"
    known = TYPES.get(name, "other")
    return "si-count" if known == "count" and engine == "sglang" else known


def off_spellings(action, spellings):
    """The spellings of a two-way switch that store false."""
    if action.nargs != 0:
        return []
    told = getattr(action, "negative_option_strings", None)
    if told is not None:
        return [s for s in spellings if s in told]
    if isinstance(action, argparse.BooleanOptionalAction):
        return [s for s in spellings if s.startswith("--no-")]
    return []


def row(engine, action, spellings, warned):
    """One option. `warned` are the actions that the parser warns about."""
    choices = [] if action.choices is None else [c if c is None or isinstance(c, str | int) else str(c) for c in action.choices]
    if isinstance(action.choices, set | frozenset):
        choices.sort(key=str)
    arity = {None: "1", 0: "0"}.get(action.nargs, str(action.nargs))
    deprecated = type(action).__name__.startswith("Deprecated") or getattr(action, "deprecated", False) or action in warned
    appends = isinstance(action, argparse._AppendAction)
    out = [action.dest, spellings, arity, type_name(engine, action), choices, off_spellings(action, spellings), bool(deprecated), appends]
    while out[-1] in ([], "", False):
        out.pop()
    return out


def table(engine, version):
    """The whole table, as text."""
    leaf = build(engine)[1]
    # On older Pythons vLLM's parser, or its class, keeps a list of what it calls deprecated.
    warned = getattr(leaf, "_deprecated", ())
    by_action = {}
    for spelling, action in leaf._option_string_actions.items():
        by_action.setdefault(id(action), (action, []))[1].append(spelling)
    rows = [json.dumps(row(engine, action, spellings, warned), separators=(",", ":")) for action, spellings in by_action.values()]
    head = json.dumps({"engine": ENGINES[engine], "version": version}, separators=(",", ":")).removesuffix("}")
    return head + ',"options":[\n' + ",\n".join(rows) + "\n]}"


def main(words):
    """Find the engine, print its table."""
    engine = words[0] if words else next((name for name in ENGINES if importlib.util.find_spec(name)), None)
    if engine not in ENGINES:
        raise SystemExit("no engine found: this runs inside an environment that holds vllm or sglang")
    version = words[1] if len(words) > 1 else importlib.metadata.version(engine).partition("+")[0]
    # Engines talk while they are imported; what they say must not end up in the table.
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    sys.argv = ["extract_options"]
    print(table(engine, version), file=out, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
