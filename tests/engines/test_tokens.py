"""argparse's rules, token by token, on the engines' real tables: the failing key reads as the bug report."""

import pytest

from engines.facade import RoleReading, read_argv


def vllm(*argv: str, version: str | None = None) -> RoleReading:
    """A vLLM line."""
    return read_argv("vLLM", version, argv)


def sglang(*argv: str, version: str | None = None) -> RoleReading:
    """An SGLang line."""
    return read_argv("SGLang", version, argv)


READS = {
    "a registered spelling wins over longer ones that it begins": (vllm("--data-parallel-size", "2"), "data_parallel_size", 2),
    "a unique two-dash prefix resolves": (vllm("--te", "2"), "tensor_parallel_size", 2),
    "a unique prefix with its value inline resolves": (vllm("--te=2"), "tensor_parallel_size", 2),
    "a unique one-dash prefix resolves": (vllm("-t", "2"), "tensor_parallel_size", 2),
    "a one-letter option takes a glued value": (vllm("-n2"), "nnodes", 2),
    "a one-letter option takes a glued negative value": (vllm("-r-1"), "node_rank", -1),
    "a one-letter option takes a glued value with its blank": (vllm("-n 2"), "nnodes", 2),
    "only the first = splits": (vllm("--host=a=b"), "host", "a=b"),
    "an explicit empty value is a value": (sglang("--host="), "host", ""),
    "a negative number is a value": (vllm("--seed", "-1"), "seed", -1),
    "a negative fraction is a value": (sglang("--mem-fraction-static", "-.5"), "mem_fraction_static", -0.5),
    "a dash word with a blank is a value": (vllm("--host", "-a b"), "host", "-a b"),
    "a lone dash is a value": (vllm("--host", "-"), "host", "-"),
    "an empty token is a value": (sglang("--host", ""), "host", ""),
    "a repeated option stores its last use": (vllm("-tp", "2", "--tensor-parallel-size=4"), "tensor_parallel_size", 4),
    "a list option stops at the next option": (vllm("--served-model-name", "a", "b", "-tp", "2"), "served_model_name", ("a", "b")),
    "a list option stops at a bare --": (vllm("--served-model-name", "a", "--", "b"), "served_model_name", ("a",)),
    "a list option takes one inline value only": (vllm("--served-model-name=a", "b"), "served_model_name", ("a",)),
    "an optional value may be missing": (vllm("--hf-token", "-tp", "2"), "hf_token", None),
    "an optional value is taken when it is there": (vllm("--hf-token", "t"), "hf_token", "t"),
    "an any-number option may have none": (sglang("--lora-paths", "--tp", "2"), "lora_paths", ()),
    "a switch stores true": (vllm("-ep"), "enable_expert_parallel", True),
    "its negative form stores false": (vllm("--no-enable-expert-parallel"), "enable_expert_parallel", False),
    "a disable form stores false where it is registered": (vllm("--disable-expert-parallel"), "enable_expert_parallel", False),
    "an enable form of a disabling switch stores false": (vllm("--enable-sliding-window"), "disable_sliding_window", False),
    "vLLM's word None unsets an optional text": (vllm("--ssl-certfile", "None"), "ssl_certfile", None),
    "the word None is a text to SGLang": (sglang("--ssl-certfile", "None"), "ssl_certfile", "None"),
    "a large size may be written with a suffix": (vllm("--max-model-len", "25.6k"), "max_model_len", 25600),
    "SGLang counts binary thousands as Ki": (sglang("--context-length", "2Ki"), "context_length", 2048),
    "any Unicode decimal digit is a digit": (vllm("-tp", "٤"), "tensor_parallel_size", 4),
}


@pytest.mark.parametrize(("reading", "dest", "stored"), READS.values(), ids=READS.keys())
def test_the_option_stores(reading: RoleReading, dest: str, stored: object) -> None:
    """What the engine's parser stores, by the engine's own destination."""
    found = reading.option(dest)
    assert found is not None
    assert found.stored == stored
    assert found.fault is None


UNREADABLE = {
    "a prefix that several spellings begin with": (vllm("--data-parallel", "2"), "ambiguous", "--data-parallel"),
    "two spellings of one option are ambiguous with each other": (sglang("--t", "2", version="0.5.18"), "ambiguous", "--t"),
    "an unrelated option shares the prefix": (sglang("--pp", "2"), "ambiguous", "--pp-async-batch-depth"),
    "a one-dash prefix of two short spellings": (vllm("-p", "2"), "ambiguous", "-pcp"),
    "an option at the end without its value": (vllm("-tp"), "missing-value", "-tp"),
    "an option in front of another option": (vllm("--nnodes", "-tp", "2"), "missing-value", "--nnodes"),
    "a bare -- is no value": (vllm("-tp", "--", "2"), "missing-value", "-tp"),
    "a list option without an element": (vllm("--api-key", "-tp", "2"), "missing-value", "--api-key"),
    "-1e3 is an option, no number": (vllm("-tp", "-1e3"), "missing-value", "-tp"),
    "a switch with a value": (vllm("--enable-expert-parallel=true"), "unwanted-value", "true"),
    "a switch with an empty value": (vllm("--headless="), "unwanted-value", "--headless"),
    "a short switch that one family walks through": (vllm("-ep=n2"), "families-differ", "-ep"),
    "a short switch that no family walks through": (vllm("-ep=x"), "unwanted-value", "-ep"),
    "a one-dash prefix with its value inline": (vllm("-t=2"), "families-differ", "-t=2"),
    "an ambiguous one-dash prefix with its value inline": (vllm("-d=2"), "families-differ", "-d=2"),
    "a lone dash with a value": (sglang("-=x"), "families-differ", "-=x"),
    "the text -- behind = of a watched option": (sglang("--host=--"), "families-differ", "--host"),
    "a watched value that its type refuses": (vllm("--port", "http"), "invalid-value", "http"),
    "a bad use that a good one follows": (vllm("-tp", "x", "-tp", "2"), "invalid-value", "x"),
    "a degree of zero": (sglang("--tp-size", "0"), "below-minimum", "--tp-size is 0"),
    "a degree over 32 bits": (vllm("-dp", "2147483648"), "out-of-range", "2147483648"),
    "a fraction eaten by vLLM's dotted rule": (vllm("-tp", "-.5"), "missing-value", "-tp"),
}


@pytest.mark.parametrize(("reading", "kind", "names"), UNREADABLE.values(), ids=UNREADABLE.keys())
def test_the_line_is_unreadable(reading: RoleReading, kind: str, names: str) -> None:
    """No degree is claimed, the reason names the token, and the same stands as a finding."""
    assert kind in {fault.kind for fault in reading.reading.faults}
    source = reading.parallelism.source
    assert (source.kind, source.complete) == ("Unknown", False)
    assert names in (source.unreadable_reason or "")
    assert not reading.parallelism.declared
    assert any(f.id == "EA001" for f in reading.findings)


SET_ASIDE = {
    "an unknown option does not take the next token": (vllm("--foo", "1"), [("--foo", "unknown"), ("1", "word")]),
    "no glued value for a two-letter spelling": (vllm("-tp2"), [("-tp2", "unknown")]),
    "spellings are case sensitive": (vllm("--TENSOR-PARALLEL-SIZE=2"), [("--TENSOR-PARALLEL-SIZE=2", "unknown")]),
    "two dashes do not reach a one-dash spelling": (vllm("--tp", "2"), [("--tp", "unknown"), ("2", "word")]),
    "one dash does not reach a two-dash spelling": (sglang("-tp", "2"), [("-tp", "unknown"), ("2", "word")]),
    "a long option with its value behind a blank": (vllm("--port 2"), [("--port 2", "word")]),
    "SGLang rewrites no underscores": (sglang("--tp_size", "2"), [("--tp_size", "unknown"), ("2", "word")]),
    "a second word behind a one-value option": (vllm("-tp", "2", "4"), [("4", "word")]),
    "everything behind a bare --": (
        sglang("--", "--tp", "2"),
        [("--", "terminator"), ("--tp", "behind-terminator"), ("2", "behind-terminator")],
    ),
}


@pytest.mark.parametrize(("reading", "strays"), SET_ASIDE.values(), ids=SET_ASIDE.keys())
def test_the_token_is_set_aside(reading: RoleReading, strays: list[tuple[str, str]]) -> None:
    """Readable, with a finding: forks and plugins add options."""
    assert [(stray.token, stray.kind) for stray in reading.reading.strays] == strays
    assert reading.parallelism.source.complete
    assert any(f.severity == "error" for f in reading.findings)


def test_an_option_of_another_release_names_it() -> None:
    """The finding says which release has the option."""
    found = vllm("--disable-expert-parallel", version="0.29.0").findings
    assert "0.33.0 has it" in found[0].message


def test_a_bad_value_of_an_unwatched_option_does_not_hide_the_degrees() -> None:
    """The engine refuses to start; what the role declares is still known."""
    reading = vllm("--dtype", "float99", "-tp", "2")
    assert reading.parallelism.declared == {"tensorParallel": 2}
    assert "float99" in next(f.message for f in reading.findings if f.id == "EA005")


def test_a_word_that_only_the_cluster_knows_is_not_called_a_stray_word() -> None:
    """It may stand for an option."""
    assert [(f.id, f.position) for f in vllm("-tp", "2", "$(FLAGS)").findings] == [("EA011", 2)]
    assert [f.id for f in vllm("$(GPUSTACK_MEMBER_INDEX)").findings] == ["EA003"]


def test_an_option_whose_every_use_counts_is_not_called_repeated() -> None:
    """`--middleware` collects; most options keep their last use."""
    assert vllm("--middleware", "a", "--middleware", "b").findings == ()
    assert [f.id for f in vllm("--host", "a", "--host", "b").findings] == ["EA008"]


def test_a_number_beyond_every_other_is_refused_and_raises_nothing() -> None:
    """The engine falls over it."""
    assert [f.id for f in vllm("--max-model-len", "9" * 400 + "k").findings] == ["EA005"]
    assert [f.id for f in vllm("--kv-transfer-config", '{"a": ' + "9" * 400 + "k}").findings] == ["EA005"]


CONFIGURATIONS = {
    "an object": (vllm("--kv-transfer-config", '{"kv_role": "kv_both"}'), []),
    "a number with a suffix, as vLLM takes it": (vllm("--kv-transfer-config", '{"kv_buffer_size": 80m, "kv_role": "1k"}'), []),
    "vLLM's word None": (vllm("--kv-transfer-config", "None"), []),
    "a file name": (vllm("-cc", "/etc/cc.json"), ["EA005"]),
    "a list": (vllm("--kv-transfer-config", "[]"), ["EA005"]),
    "quotes of a shell that were lost": (vllm("--compilation-config", "{mode: 3}"), ["EA005"]),
    "a list where SGLang takes any JSON": (sglang("--forward-hooks", "[]"), []),
    "a word where SGLang takes JSON": (sglang("--forward-hooks", "hook"), ["EA005"]),
}


@pytest.mark.parametrize(("reading", "found"), CONFIGURATIONS.values(), ids=CONFIGURATIONS.keys())
def test_a_configuration_is_json(reading: RoleReading, found: list[str]) -> None:
    """Its members are the engine's business; what is no JSON at all is told, and the line reads."""
    assert [f.id for f in reading.findings] == found
    assert reading.parallelism.source.complete


def test_a_deprecated_spelling_is_named() -> None:
    """SGLang 0.5.23 warns about --enable-dp-attention; so do we."""
    assert any(f.id == "EA013" for f in sglang("--enable-dp-attention", "--dp-size", "2", "--tp-size", "2").findings)
    assert not any(f.id == "EA013" for f in sglang("--tp-size", "2").findings)
