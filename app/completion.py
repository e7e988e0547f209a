"""`kubectl_complete-md`: what kubectl runs to complete the words behind `kubectl md`.

It takes the words so far, the last one unfinished, and prints one candidate a line, with a tab before its description, and a directive of
cobra's in the end. Source: kubectl's own words on plugins that complete.
"""

import sys
from collections.abc import Sequence

from click.shell_completion import ShellComplete

from app.cli import main as mdctl

# cobra's directives: complete files as the shell does, or do not.
FILES, NO_FILES = ":0", ":4"


def candidates(words: Sequence[str]) -> list[str]:
    """The lines to print; `words` ends with the unfinished one, which may be empty."""
    *before, unfinished = words or [""]
    found = ShellComplete(mdctl, {}, "kubectl md", "_KUBECTL_MD_COMPLETE").get_completions(before, unfinished)
    if any(item.type in {"file", "dir"} for item in found):
        return [FILES]
    lines = [f"{item.value}\t{' '.join(item.help.split())}" if item.help else str(item.value) for item in found]
    return [*lines, NO_FILES]


def main() -> None:
    """For kubectl."""
    print("\n".join(candidates(sys.argv[1:])))
