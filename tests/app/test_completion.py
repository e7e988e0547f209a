"""What kubectl offers behind `kubectl md`."""

import subprocess
import sys
from pathlib import Path

import pytest

from app.cli import VERBS
from app.completion import candidates


def test_every_verb_is_offered_with_its_sentence() -> None:
    """And no file: a verb is none."""
    *lines, directive = candidates([""])
    assert {line.partition("\t")[0] for line in lines} == VERBS.keys()
    assert all(line.partition("\t")[2] for line in lines)
    assert directive == ":4"


def test_verbs_are_offered_without_being_loaded() -> None:
    """Whoever presses Tab does not wait for a server's imports."""
    code = "import sys; from app.completion import candidates; candidates(['']); sys.exit('app.verbs' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2])


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        pytest.param(["exp"], {"explain"}, id="a verb that is begun"),
        pytest.param(["explain", "--kueue", ""], {"required", "absent"}, id="the values of an option"),
        pytest.param(["explain", "--kube"], {"--kubeconfig"}, id="an option that is begun"),
        pytest.param(["fence", ""], {"explain", "ignore-rules"}, id="a verb below a verb"),
        pytest.param(["--he"], {"--help"}, id="an option of them all"),
    ],
)
def test_what_is_offered(words: list[str], offered: set[str]) -> None:
    """By the words so far."""
    assert {line.partition("\t")[0] for line in candidates(words)[:-1]} == offered


def test_a_file_is_the_shell_s_affair() -> None:
    """Where an option takes one."""
    assert candidates(["status", "-f", "du"]) == [":0"]
