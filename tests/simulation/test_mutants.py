"""The table of broken guards fits the code, and the scenarios written for them hold while nothing is broken.

`make simulate ARGS=--mutants` breaks each guard in turn, in a process of its own.
"""

from pathlib import Path

import pytest

from tests.simulation import directed
from tests.simulation.breaking import broken_source, table
from tests.simulation.mutants import MUTANTS

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", MUTANTS)
def test_what_is_cut_stands_in_the_code(name: str) -> None:
    """Each text to be replaced stands once in its module, and what is left compiles."""
    cuts = MUTANTS[name].cuts
    for module in {cut.module for cut in cuts}:
        compile(broken_source(module, cuts), module, "exec")


@pytest.mark.parametrize("name", [name for name, mutant in MUTANTS.items() if mutant.caught_by.startswith(("test ", "scenario "))])
def test_what_catches_it_exists(name: str) -> None:
    """The scenario, or the test's file and function."""
    how, _, what = MUTANTS[name].caught_by.partition(" ")
    if how == "scenario":
        assert what in directed.SCENARIOS
    else:
        path, _, function = what.partition("::")
        assert f"def {function}(" in (ROOT / path).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", directed.SCENARIOS)
def test_a_directed_scenario_holds(name: str) -> None:
    """Every invariant, with every guard in place."""
    outcome = directed.play(name)
    assert outcome.broken is None, outcome.broken


def test_the_readme_has_the_table() -> None:
    """`python -m tests.simulation --table` prints it."""
    assert table() in (ROOT / "tests/simulation/README.md").read_text(encoding="utf-8")
