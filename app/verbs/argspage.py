"""The page `docs/args.md`: instructive command lines with what `mdctl args` says about each. Generated, so that it cannot go stale."""

import shlex

from click.testing import CliRunner

from app.verbs.args import command
from engines.findings import CATALOGUE

INTRODUCTION = """# How a command line is read

`mdctl args` reads a role's arguments as the engine's own parser of that release does: registered spellings and their abbreviations,
underscores (vLLM), dotted members, values by the option's own arity and type. Every example below is the command's real output (`make docs`
writes this page, a test keeps it current). `-o json` and `-o yaml` carry the same as a document, `--jsonl` answers many lines for programs.
"""

EXAMPLES: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    (
        "Spellings",
        "An underscored name, an abbreviation and a short spelling are one option each; the last use wins. Values keep their underscores.",
        ("--version", "0.33.0", "--", "--tensor_parallel_size=2", "--te", "4", "-ep", "--served-model-name", "my_model"),
    ),
    (
        "An ambiguous abbreviation",
        "Uniqueness is judged against the release's whole table: the engine refuses this line, so no degree is claimed.",
        ("--engine", "sglang", "--version", "0.5.18", "--", "--tp", "8", "--pp", "2"),
    ),
    (
        "What depends on the Python in the image",
        "Older argparse calls `-t=2` unknown, newer argparse reads it as `-tp 2`. Nobody can know which one an image holds.",
        ("--version", "0.33.0", "--", "-t=2", "-pp", "2"),
    ),
    (
        "What is set aside",
        "Unknown options take no value; what stands behind a bare `--` is ignored. The engine refuses to start; what it recognised stands.",
        ("--version", "0.29.0", "--", "-tp", "2", "--disable-expert-parallel", "stray", "--", "-tp", "8"),
    ),
    (
        "Dotted members and their appetite",
        "vLLM folds dotted members into one JSON value at the end of the line. One without `=` swallows the next token, whatever it is.",
        ("--version", "0.33.0", "--", "--kv-transfer-config.kv_role", "kv_both", "--additional-config.a", "--tensor-parallel-size", "2"),
    ),
    (
        "The environment",
        "vLLM takes the data-parallel size from `VLLM_DP_SIZE` while the line's is at most 1. References are expanded as the kubelet does.",
        ("--version", "0.33.0", "--env", "RANKS=4", "--env", "VLLM_DP_SIZE=$(RANKS)", "--", "-dp", "1", "-tp", "$(RANKS)"),
    ),
    (
        "External balancing, one rank a Pod",
        "A rank that only the cluster can fill in counts as assigned.",
        ("--version", "0.33.0", "--", "-tp", "8", "-dp", "4", "--data-parallel-rank", "$(GPUSTACK_MEMBER_INDEX)"),
    ),
    (
        "The engine ends elsewhere",
        "The status says what the flags say; what this release makes of them is a finding.",
        ("--version", "0.33.0", "--", "-dp", "4", "-dpl", "1", "--data-parallel-hybrid-lb"),
    ),
    (
        "TLS, a demanded client certificate, and the gates",
        "An HTTPS probe has no client certificate to present: the gates are withdrawn rather than made to fail.",
        ("--version", "0.33.0", "--", "--ssl-certfile", "/tls/tls.crt", "--ssl_keyfile", "/tls/tls.key", "--ssl-cert-reqs", "2"),
    ),
    (
        "Before an upgrade",
        "What the next release makes of the same line.",
        ("--engine", "sglang", "--compare", "0.5.18,0.5.23", "--", "--attn", "2", "--tp", "4", "--enable-dp-attention", "--dp-size", "2"),
    ),
)


def run(arguments: tuple[str, ...]) -> str:
    """The command's output as it stands on a terminal of 140 columns."""
    result = CliRunner().invoke(command, list(arguments), catch_exceptions=False)
    lines = [line.rstrip() for line in result.output.splitlines()]
    if result.exit_code:
        lines.append(f"(exit status {result.exit_code})")
    return "\n".join(lines)


def page() -> str:
    """The whole page."""
    parts = [INTRODUCTION]
    for title, text, arguments in EXAMPLES:
        shown = shlex.join(arguments).replace("'--'", "--")
        parts.append(f"## {title}\n\n{text}\n\n```console\n$ mdctl args {shown}\n{run(arguments)}\n```\n")
    rows = "\n".join(f"| {kind.id} | {kind.severity} | {kind.title} |" for kind in CATALOGUE.values())
    parts.append(
        "## Findings\n\nerror: the engine refuses to start. warning: it starts and does something else than the line\n"
        "seems to say, or cannot be judged.\n\n"
        f"| id | severity | means |\n|---|---|---|\n{rows}\n"
    )
    return "\n".join(parts)
