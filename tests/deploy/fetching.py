"""Installing from a package index inside a test: a network that fails is tried again, then a reason to skip; anything else is a fault."""

import os
import re
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

TRIES = 3
PAUSE_SECONDS = 5.0
# Three tries of an index that is silent have to end before the test's own time-out does.
PATIENCE = {"PIP_RETRIES": "1", "PIP_DEFAULT_TIMEOUT": "30"}

# pip's and urllib3's own words for an index that did not answer. A pin that nobody has reads otherwise, and must fail.
_NETWORK = re.compile(
    r"Retrying \(|connection (?:broken|reset|refused|aborted)|timed? ?out|Temporary failure|Name or service not known"
    r"|Max retries exceeded|(?:Connection|ConnectTimeout|ReadTimeout|Protocol|SSL)Error|IncompleteRead|Could not fetch URL"
    r"|\b50[0234] (?:Server Error|Bad Gateway|Service Unavailable|Gateway Time)",
    re.IGNORECASE,
)


def network_failed(said: str) -> bool:
    """Whether an installer's standard error tells of a network and not of a package."""
    return _NETWORK.search(said) is not None


def fetched(words: Sequence[str | Path], what: str, *, seconds: float = 240, environ: Mapping[str, str] = os.environ) -> None:
    """Run a command that needs the index. Fails where the command is at fault, skips where the index is."""
    said = ""
    for attempt in range(TRIES):
        if attempt:
            time.sleep(PAUSE_SECONDS * attempt)
        try:
            done = subprocess.run(
                [str(word) for word in words], capture_output=True, text=True, check=False, timeout=seconds, env=PATIENCE | dict(environ)
            )
        except subprocess.TimeoutExpired:
            pytest.skip(f"{what}: nothing came of it within {seconds:g} s")
        if done.returncode == 0:
            return
        said = done.stderr.strip()
        if not network_failed(said):
            pytest.fail(f"{what}:\n{said}")
    pytest.skip(f"{what}: the package index cannot be reached: {said.splitlines()[-1][:300]}")
