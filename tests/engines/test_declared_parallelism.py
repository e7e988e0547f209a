"""Degrees, modes, load balance and the environment, as the seed's "Parallelism" says them."""

import pytest

from api.objects import EnvVar
from engines.facade import RoleReading, read_argv
from engines.parallelism import Provenance


def read(*argv: str, env: dict[str, str | None] | None = None, engine: str = "vLLM", version: str | None = None) -> RoleReading:
    """A line with its environment."""
    return read_argv(engine, version, argv, [EnvVar(name=k, value=v) for k, v in (env or {}).items()])


BALANCE = {
    "nothing": (read(), "Internal"),
    "the external flag": (read("-dpe"), "External"),
    "an assigned rank, zero included": (read("-dpn", "0"), "External"),
    "the hybrid flag": (read("-dph"), "Hybrid"),
    "the multi-port flag": (read("-dpm"), "MultiPort"),
    "two flags of one mind": (read("-dpe", "-dpn", "1"), "External"),
    "two flags that disagree": (read("-dpe", "-dph"), "Unknown"),
    "a withdrawn flag does not vote": (read("-dpe", "--no-data-parallel-external-lb"), "Internal"),
    "a flag given again votes": (read("--no-data-parallel-hybrid-lb", "-dph"), "Hybrid"),
    "a start rank says nothing": (read("-dp", "4", "-dpl", "2", "-dpr", "2"), "Internal"),
    "SGLang has no such flags": (read("--load-balance-method", "auto", engine="SGLang"), "Internal"),
}


@pytest.mark.parametrize(("reading", "mode"), BALANCE.values(), ids=BALANCE.keys())
def test_the_load_balance_follows_the_seed(reading: RoleReading, mode: str) -> None:
    """One vote decides, several disagree, none is Internal."""
    assert reading.parallelism.load_balance == mode


def test_disagreeing_flags_are_named_and_the_reading_stays_complete() -> None:
    """Only the derived fact is unknown."""
    source = read("-dpn", "0", "-dpm").parallelism.source
    assert source.complete
    assert source.unreadable_reason is not None
    assert "--data-parallel-multi-port-external-lb and --data-parallel-rank" in source.unreadable_reason


SIZES: dict[str, tuple[RoleReading, object]] = {
    "the environment gives the size": (read(env={"VLLM_DP_SIZE": "4"}), {"dataParallel": 4}),
    "an explicit 1 does not outrank it": (read("-dp", "1", env={"VLLM_DP_SIZE": "4"}), {"dataParallel": 4}),
    "a size above 1 keeps it unread": (read("-dp", "2", env={"VLLM_DP_SIZE": "x"}), {"dataParallel": 2}),
    "a local size of 0 keeps it unread": (read("-dpl", "0", env={"VLLM_DP_SIZE": "x"}), {"dataParallelLocal": 0}),
    "another local size does not": (read("-dpl", "2", env={"VLLM_DP_SIZE": "4"}), {"dataParallel": 4, "dataParallelLocal": 2}),
    "it converts as int() does": (read(env={"VLLM_DP_SIZE": " 1_0 "}), {"dataParallel": 10}),
    "a reference in it is resolved": (read(env={"N": "3", "VLLM_DP_SIZE": "$(N)"}), {"dataParallel": 3}),
    "SGLang reads none": (read("--tp-size", "8", env={"VLLM_DP_SIZE": "x"}, engine="SGLang"), {"tensorParallel": 8}),
    "nothing is defaulted": (read(), {}),
}


@pytest.mark.parametrize(("reading", "declared"), SIZES.values(), ids=SIZES.keys())
def test_the_declared_degrees(reading: RoleReading, declared: object) -> None:
    """What is not declared is absent."""
    assert reading.parallelism.declared == declared


BROKEN = {
    "a size that is no integer": (read(env={"VLLM_DP_SIZE": "four"}), "VLLM_DP_SIZE"),
    "an empty size": (read(env={"VLLM_DP_SIZE": ""}), "VLLM_DP_SIZE"),
    "a size of zero": (read(env={"VLLM_DP_SIZE": "0"}), "VLLM_DP_SIZE"),
    "a rank that is no integer, without a size": (read(env={"VLLM_DP_RANK": "x"}), "VLLM_DP_RANK"),
    "a local rank that is no integer": (read(env={"VLLM_DP_RANK_LOCAL": "x"}), "VLLM_DP_RANK_LOCAL"),
    "a port that is no integer, with a size above 1": (read("-dp", "2", env={"VLLM_DP_MASTER_PORT": "x"}), "VLLM_DP_MASTER_PORT"),
    "a port that is no integer, with a local size of 0": (read("-dpl", "0", env={"VLLM_DP_MASTER_PORT": "x"}), "VLLM_DP_MASTER_PORT"),
    "a size without a value": (read(env={"VLLM_DP_SIZE": None}), "VLLM_DP_SIZE: ''"),
    "a size that only the cluster knows": (read(env={"VLLM_DP_SIZE": "$(SIZE)"}), "VLLM_DP_SIZE is $(SIZE)"),
}


@pytest.mark.parametrize(("reading", "names"), BROKEN.values(), ids=BROKEN.keys())
def test_an_effective_variable_that_cannot_be_read(reading: RoleReading, names: str) -> None:
    """The variable is named, its index told, no degree claimed."""
    assert names in (reading.parallelism.source.unreadable_reason or "")
    assert reading.reading.faults[0].variable == 0
    assert reading.parallelism.declared == {}


def test_a_rank_variable_left_to_the_cluster_is_let_be() -> None:
    """`$(GPUSTACK_MEMBER_INDEX)` is expanded when the Pod starts."""
    assert read(env={"VLLM_DP_SIZE": "2", "VLLM_DP_RANK": "$(GPUSTACK_MEMBER_INDEX)"}).parallelism.declared == {"dataParallel": 2}


def test_every_fact_says_where_it_comes_from() -> None:
    """The position and spelling of the effective use, or the variable."""
    parallelism = read("-tp", "1", "--te=2", "-ep", "-dpe", env={"VLLM_DP_SIZE": "4"}).parallelism
    assert parallelism.provenance == {
        "tensorParallel": (Provenance(2, "--te", "2"),),
        "expertParallel": (Provenance(3, "-ep", None),),
        "loadBalance": (Provenance(4, "-dpe", None),),
        "dataParallel": (Provenance(variable="VLLM_DP_SIZE", value="4"),),
    }


@pytest.mark.parametrize("version", ["0.5.13.post1", "0.5.18", "0.5.23"])
def test_sglang_degrees_are_found_whatever_the_release_calls_them(version: str) -> None:
    """0.5.13 stores them under other names."""
    parallelism = read("--tp-size", "8", "--data-parallel-size", "2", "--ep", "4", engine="SGLang", version=version).parallelism
    assert parallelism.declared == {"tensorParallel": 8, "dataParallel": 2, "expertParallel": 4}


@pytest.mark.parametrize("version", ["0.5.13.post1", "0.5.18"])
def test_the_older_name_of_prefill_context_parallelism_is_the_same_mode(version: str) -> None:
    """0.5.18 folds it into the newer flag before anything reads it."""
    assert read("--enable-prefill-context-parallel", engine="SGLang", version=version).parallelism.modes == {"prefillContextParallel": True}


REFUSALS = {
    "an own table refuses": (read("-tp", version="0.33.0"), True),
    "another release's table only warns": (read("-tp", version="0.32.0"), False),
    "no version only warns": (read("-tp"), False),
    "a local version is the release": (read("-tp", version="v0.33.0+cu129"), True),
    "a demand that is no number only warns": (read("--ssl-cert-reqs=x", version="0.33.0"), False),
    "a demand without its value only warns": (read("--ssl-cert-reqs", version="0.33.0"), False),
    "a token that the families read differently only warns": (read("-t=2", version="0.33.0"), False),
    "a switch that one family walks through only warns": (read("-dpe=n2", version="0.33.0"), False),
    "a build of a release is the release": (read("-tp", version="0.29.0-cu129"), True),
    "an open reference only warns": (read("-tp", "$(X)", version="0.33.0"), False),
}


@pytest.mark.parametrize(("reading", "refuses"), REFUSALS.values(), ids=REFUSALS.keys())
def test_what_admission_may_refuse(reading: RoleReading, refuses: bool) -> None:
    """D5: only under a table of the version's own, and never for what nobody can know."""
    assert bool(reading.refusals) is refuses
