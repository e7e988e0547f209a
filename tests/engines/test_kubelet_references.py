"""`$(VAR)` is expanded as the kubelet does it."""

import pytest

from api.objects import EnvVar
from engines.facade import read_argv
from engines.kubelet import Expanded, environment, expand

VARIABLES = {"A": Expanded("1"), "EMPTY": Expanded(""), "REF": Expanded("$(B)", ("B",))}

TEXTS = {
    "a reference": ("$(A)", "1", ()),
    "inside a longer text": ("x$(A)y$(A)", "x1y1", ()),
    "a doubled dollar escapes": ("$$(A)", "$(A)", ()),
    "a tripled dollar escapes and refers": ("$$$(A)", "$1", ()),
    "a dollar alone stays": ("cost$", "cost$", ()),
    "a dollar before another letter stays": ("$A", "$A", ()),
    "an unclosed reference stays": ("$(A", "$(A", ()),
    "an unknown name stays and is told": ("$(NOBODY)", "$(NOBODY)", ("NOBODY",)),
    "an empty value is a value": ("$(EMPTY)", "", ()),
    "a value is not expanded a second time": ("$(REF)", "$(B)", ("B",)),
    "an empty name is a name": ("$()", "$()", ("",)),
}


@pytest.mark.parametrize(("text", "expanded", "unresolved"), TEXTS.values(), ids=TEXTS.keys())
def test_expansion(text: str, expanded: str, unresolved: tuple[str, ...]) -> None:
    """One pass, left to right."""
    assert expand(text, VARIABLES) == Expanded(expanded, unresolved)


def test_a_variable_sees_what_stands_before_it_only() -> None:
    """The kubelet expands the environment in order."""
    known = environment([EnvVar(name="A", value="1"), EnvVar(name="B", value="$(A)$(C)"), EnvVar(name="C", value="3")])
    assert known["B"] == Expanded("1$(C)", ("C",))


def test_the_last_entry_of_a_name_wins() -> None:
    """Also when it is empty: no value is an empty one."""
    assert environment([EnvVar(name="A", value="1"), EnvVar(name="A", value="2")])["A"] == Expanded("2")
    assert environment([EnvVar(name="A", value="1"), EnvVar(name="A")])["A"] == Expanded("")


def test_variables_that_double_each_other_do_not_fill_the_memory() -> None:
    """Fifty doublings would be a petabyte; the expansion stops instead."""
    bomb = [EnvVar(name="V0", value="x" * 1000)] + [EnvVar(name=f"V{i}", value=f"$(V{i - 1})$(V{i - 1})") for i in range(1, 50)]
    known = environment(bomb)
    assert all(value is not None and len(value.text) <= 1 << 18 for value in known.values())
    reading = read_argv("vLLM", None, ["--host", "$(V40)", "$(V5)"] * 2000, bomb)
    assert sum(len(token) for token in reading.reading.argv) < 4 << 20


def test_an_unresolved_degree_is_unreadable_and_never_refused() -> None:
    """The cluster may define it; admission warns."""
    reading = read_argv("vLLM", "0.33.0", ["-tp", "$(GPUS)"])
    assert "$(GPUS)" in (reading.parallelism.source.unreadable_reason or "")
    assert reading.refusals == ()


@pytest.mark.parametrize("flag", ["--data-parallel-rank", "-dpn"])
def test_an_unresolved_rank_counts_as_assigned(flag: str) -> None:
    """`$(GPUSTACK_MEMBER_INDEX)` is the usual rank: it votes, nothing is refused, but its number is not claimed to be known."""
    reading = read_argv("vLLM", "0.33.0", ["-dp", "4", flag, "$(GPUSTACK_MEMBER_INDEX)"])
    parallelism = reading.parallelism
    assert parallelism.load_balance == "External"
    assert parallelism.declared == {"dataParallel": 4}
    assert parallelism.source.kind == "ExtraArgs"
    assert not parallelism.source.complete
    assert "--data-parallel-rank" in (parallelism.source.unreadable_reason or "")
    assert "$(GPUSTACK_MEMBER_INDEX)" in (parallelism.source.unreadable_reason or "")
    assert reading.refusals == ()


def test_a_text_left_to_the_cluster_leaves_the_reading_whole() -> None:
    """An address decides no fact of the reading."""
    source = read_argv("vLLM", "0.33.0", ["--data-parallel-address", "$(GPUSTACK_REPLICA_LEADER_ADDRESS)"]).parallelism.source
    assert source.complete
    assert source.unreadable_reason is None
