"""Some hundred random scenarios hold every invariant; `make simulate` runs the thousands.

They run in a process of their own, because the order of a set of strings follows a hash that a process draws at its start.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def simulate(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The command with these arguments, from the top of the project."""
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    command = [sys.executable, "-m", "tests.simulation", *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.timeout(600)
def test_every_invariant_holds() -> None:
    """300 seeds, their first steps each; a failure prints the smallest scenario that still fails, and how to play it again."""
    done = simulate("--seeds", "300", "--jobs", "1", "--most-steps", "3", "--most", "1", "--tell", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Settling>-" in done.stdout  # operations were brought to their end
    assert "Aborted" in done.stdout


@pytest.mark.timeout(300)
def test_a_retirement_survives_a_crash_at_any_await() -> None:
    """Stopped at every 60th of its awaits, the leader leaves what another brings to an end; `make simulate ARGS=--sweep` takes each."""
    done = simulate("--sweep", "60", "--jobs", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "'finished'" in done.stdout


@pytest.mark.timeout(120)
def test_a_seed_plays_the_same_twice() -> None:
    """What a seed does depends on nothing but the seed."""
    first, second = (simulate("--seed", "3") for _ in range(2))
    assert first.returncode == 0, first.stdout + first.stderr
    assert first.stdout == second.stdout
