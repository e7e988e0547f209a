"""What holds for every argument vector, on both engines."""

from collections.abc import Sequence

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from api.objects import EnvVar
from engines.account import account
from engines.facade import RoleReading, read_argv
from engines.table import ENGINES, load, versions

EVERY = [(engine, version) for engine in ENGINES for version in versions(engine)]
SPELLINGS = {engine: sorted({s for v in versions(engine) for s in load(engine, v).spellings}) for engine in ENGINES}
VALUES = ["1", "2", "0", "-1", "x", "", "None", "--", "-", "-.5", "$(A)", "$(B)", "{}", "a b", "٤", "99999999999"]

calm = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=150)


@st.composite
def tokens(draw: st.DrawFn, engine: str) -> str:
    """One token: a spelling, a part of one, with or without a value, or anything at all."""
    spelling = draw(st.sampled_from(SPELLINGS[engine]))
    form = draw(st.integers(0, 6))
    if form == 0:
        return draw(st.text(max_size=12))
    if form == 1:
        return draw(st.sampled_from(VALUES))
    if form == 2:
        return f"{spelling}={draw(st.sampled_from(VALUES))}"
    if form == 3:
        return spelling[: draw(st.integers(1, len(spelling)))]
    if form == 4:
        return spelling.replace("-", "_").replace("__", "--", 1)
    if form == 5:
        return f"{spelling}.{draw(st.sampled_from(['a', 'a.b', 'a+', '']))}"
    return spelling


@st.composite
def lines(draw: st.DrawFn) -> tuple[str, str, list[str], list[EnvVar]]:
    """An engine, a release, an argument vector, an environment."""
    engine, version = draw(st.sampled_from(EVERY))
    argv = draw(st.lists(tokens(engine), max_size=12))
    names = st.sampled_from(["A", "VLLM_DP_SIZE", "VLLM_DP_RANK", "VLLM_DP_MASTER_PORT"])
    env = [EnvVar(name=n, value=draw(st.sampled_from(VALUES))) for n in draw(st.lists(names, max_size=3))]
    return engine, version, argv, env


Case = tuple[str, str, list[str], list[EnvVar]]


def read(case: Case, argv: Sequence[str] | None = None) -> RoleReading:
    """The case's reading, with other arguments where some are given."""
    engine, version, own, env = case
    return read_argv(engine, version, own if argv is None else argv, env)


def facts(reading: RoleReading) -> tuple[object, ...]:
    """Everything that other rooms act on."""
    parallelism = reading.parallelism
    source = (parallelism.source.kind, parallelism.source.complete)
    return (
        parallelism.declared,
        parallelism.modes,
        parallelism.load_balance,
        source,
        reading.listener,
        reading.tls.enabled,
        reading.tls.client_cert,
        reading.gates,
    )


@calm
@given(lines())
def test_a_reading_never_raises_and_is_the_same_twice(case: Case) -> None:
    """Bytes included."""
    first, second = read(case), read(case)
    assert first == second
    assert first.to_json() == second.to_json()


@calm
@given(lines())
def test_every_place_that_a_reading_names_exists(case: Case) -> None:
    """Provenance, findings and faults point at tokens or variables of the line; every token has one fate."""
    reading = read(case)
    argv = case[2]
    spots = [where for places in reading.parallelism.provenance.values() for where in places] + list(reading.tls.provenance)
    for where in spots:
        if where.variable is not None:
            assert where.variable in {variable.name for variable in case[3]}
        else:
            assert where.position is not None
            assert 0 <= where.position < len(argv)
    for occurrence in reading.reading.occurrences:
        assert -1 <= occurrence.position < len(argv)
        assert occurrence.last < len(argv)
    for finding in reading.findings:
        assert finding.position is None or 0 <= finding.position < len(argv)
    for fault in reading.reading.faults:
        assert fault.position is None or -1 <= fault.position < len(argv)
        assert fault.variable is None or 0 <= fault.variable < len(case[3])
    assert [argument.position for argument in account(reading)] == list(range(len(argv)))


@calm
@given(lines())
def test_an_unreadable_line_claims_nothing_and_says_why(case: Case) -> None:
    """And a readable one has no fault."""
    reading = read(case)
    parallelism = reading.parallelism
    if parallelism.source.kind == "Unknown":
        assert reading.reading.faults
        assert parallelism.source.unreadable_reason
        assert (parallelism.declared, parallelism.modes, parallelism.load_balance) == ({}, {}, "Unknown")
    else:
        assert not reading.reading.faults


@calm
@given(lines(), st.lists(st.sampled_from(["-tp", "--tp-size", "8", "--port=1", "x", "--nope"]), max_size=4))
def test_what_stands_behind_a_bare_terminator_changes_no_fact(case: Case, behind: list[str]) -> None:
    """`-- anything` is set aside.

    Left out: a dotted member in front, which is collected behind it; and `--model` and `--config`, which vLLM reads everywhere.
    """
    argv = case[2]
    if any("." in token or token.startswith(("--model", "--config")) for token in argv) or (argv and argv[-1] == "-O"):
        return
    assert facts(read(case, [*argv, "--", *behind])) == facts(read(case, [*argv, "--"]))


@calm
@given(lines(), st.sampled_from(["1", "2", "8"]))
def test_the_last_use_of_an_option_wins(case: Case, value: str) -> None:
    """Appending a good use to a readable line sets the degree to it."""
    engine, _, argv, env = case
    name, spelling = ("tensorParallel", "--tensor-parallel-size")
    appended = read_argv(engine, case[1], [*argv, spelling, value], env)
    if appended.parallelism.source.kind == "Unknown" or any(token in {"--", "-O"} or "." in token for token in argv):
        return
    assert appended.parallelism.declared[name] == int(value)
    assert appended.option(load(engine, case[1]).spellings[spelling].dest).value == value  # type: ignore[union-attr]


UNRELATED = {
    "vLLM": [
        ["-tp", "2"],
        ["--pipeline-parallel-size=4"],
        ["-ep"],
        ["--host", "h"],
        ["--ssl-certfile", "/c"],
        ["--max-model-len", "1k"],
        ["--foo"],
    ],
    "SGLang": [
        ["--tp", "2"],
        ["--pp-size=1"],
        ["--enable-dp-attention"],
        ["--host", "h"],
        ["--ssl-certfile", "/c"],
        ["--dtype", "auto"],
        ["--foo"],
    ],
}


@calm
@given(st.sampled_from(ENGINES), st.permutations(range(7)))
def test_the_order_of_unrelated_flags_does_not_matter(engine: str, order: list[int]) -> None:
    """Every permutation of whole flags reads the same."""
    groups = UNRELATED[engine]
    line = [token for group in groups for token in group]
    shuffled = [token for index in order for token in groups[index]]
    assert facts(read_argv(engine, None, shuffled)) == facts(read_argv(engine, None, line))


@calm
@given(lines())
def test_a_replaced_command_claims_no_parallelism(case: Case) -> None:
    """`Unmanaged`: no degree, no gate, no fill, whatever stands in the command."""
    engine, version, argv, env = case
    reading = read_argv(engine, version, ["-tp", "2"], env, ["serve", *argv])
    source = reading.parallelism.source
    assert (source.kind, source.complete, source.unreadable_reason) == ("Unknown", False, "Unmanaged")
    assert not reading.gates.gated
    assert reading.gates.fills == ()
    assert reading.findings == ()
