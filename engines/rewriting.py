"""What stands between a role's arguments and argparse in both engines: a rewritten line, and the configuration file taken out of it.

Only the exact token `--config` names a file, at most one. Its entries go in front of the line; they are known to the file alone.
"""

from typing import Final

import msgspec

from engines.findings import Finding
from engines.tokens import Fault, Line

CONFIG: Final = "--config"


class Rewritten(msgspec.Struct, frozen=True):
    """The line for argparse, and what the rewriting found on its way. `config` is the position of an exact `--config`."""

    line: Line
    faults: tuple[Fault, ...] = ()
    findings: tuple[Finding, ...] = ()
    config: int | None = None


def pull_config(tokens: list[str], at: list[int], faults: list[Fault]) -> int | None:
    """Take every `--config` and the token behind it out of the line. Returns the position of the first, None when there is none."""
    if CONFIG not in tokens:
        return None
    index = tokens.index(CONFIG)
    position = at[index]
    if tokens.count(CONFIG) > 1:
        message = "--config is given more than once: the engine takes one configuration file"
        faults.append(Fault("unwanted-value", message, position, CONFIG, "config"))
    elif index + 1 == len(tokens):
        faults.append(Fault("missing-value", "--config expects a file and has none", position, CONFIG, "config"))
    kept = [i for i, token in enumerate(tokens) if token != CONFIG and (i == 0 or tokens[i - 1] != CONFIG)]
    tokens[:] = [tokens[i] for i in kept]
    at[:] = [at[i] for i in kept]
    return position
