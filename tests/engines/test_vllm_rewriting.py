"""What `vllm serve` does to its line before argparse sees it."""

import pytest

from engines.facade import RoleReading, read_argv


def read(*argv: str) -> RoleReading:
    """A line of the newest vLLM."""
    return read_argv("vLLM", None, argv)


STORES = {
    "underscores of a name are dashes": (read("--tensor_parallel-size", "2"), "tensor_parallel_size", 2),
    "a value keeps its underscores": (read("--served_model_name=a_b"), "served_model_name", ("a_b",)),
    "a prefix may have underscores": (read("--pipeline_par", "2"), "pipeline_parallel_size", 2),
    "-O with a glued level": (read("-O3"), "optimization_level", "3"),
    "-O= with a level": (read("-O=2"), "optimization_level", "2"),
    "-O with a level of its own token": (read("-O", "1"), "optimization_level", "1"),
    "anything glued to -O is a level": (read("-Otp"), "optimization_level", "tp"),
    "a dotted member becomes JSON": (read("--kv-transfer-config.kv_role", "kv_both"), "kv_transfer_config", '{"kv_role": "kv_both"}'),
    "members of one option are merged": (
        read("--compilation-config.a=1", "--compilation-config.b.c", "true"),
        "compilation_config",
        '{"a": 1, "b": {"c": true}}',
    ),
    "a trailing + splits at commas": (read("--additional-config.x+=a,b"), "additional_config", '{"x": ["a", "b"]}'),
    "lists of one member grow": (
        read("--additional-config.x+=a", "--additional-config.x+", "b"),
        "additional_config",
        '{"x": ["a", "b"]}',
    ),
    "a member's underscores stay": (read("--additional_config.a_b", "1"), "additional_config", '{"a_b": 1}'),
    "a member's size may have a suffix": (read("--additional-config.a", "1k"), "additional_config", '{"a": 1000}'),
    "an earlier JSON of the option is overridden": (
        read("--additional-config.a=1", "--additional-config", '{"b": 2}'),
        "additional_config",
        '{"a": 1}',
    ),
    "a one-dash name may be dotted": (read("-cc.mode=3"), "compilation_config", '{"mode": 3}'),
}


@pytest.mark.parametrize(("reading", "dest", "stored"), STORES.values(), ids=STORES.keys())
def test_the_rewritten_line_stores(reading: RoleReading, dest: str, stored: object) -> None:
    """The value after the engine's own rewriting."""
    found = reading.option(dest)
    assert found is not None
    assert found.stored == stored


def test_a_dotted_member_swallows_the_next_token_whatever_it_is() -> None:
    """The tensor size is gone, and the word behind it strays."""
    reading = read("--additional-config.a", "--tensor-parallel-size", "2")
    assert reading.parallelism.declared == {}
    assert [stray.token for stray in reading.reading.strays] == ["2"]


def test_a_dotted_degree_cannot_declare_it() -> None:
    """It becomes a JSON text, which is no integer."""
    assert "--data-parallel-size" in (read("--data-parallel-size.x", "2").parallelism.source.unreadable_reason or "")


def test_members_are_collected_behind_a_bare_terminator() -> None:
    """With a bare -- the merged option lands behind it and is ignored."""
    assert read("--kv-transfer-config.kv_role", "kv_both", "--").option("kv_transfer_config") is None


def test_two_dashes_do_not_reach_the_short_alias_of_a_dotted_option() -> None:
    """`--cc.mode` is unknown: -cc is no prefix of a two-dash spelling."""
    assert next(stray.token for stray in read("--cc.mode=none").reading.strays) == "--cc"


def test_an_own_model_moves_to_the_front_and_makes_the_given_one_stray() -> None:
    """The engine refuses to start; the finding points at the argument."""
    reading = read("-tp", "2", "--model", "other")
    assert reading.parallelism.declared == {"tensorParallel": 2}
    assert [(f.id, f.position) for f in reading.findings] == [("EA009", 2)]


def test_the_value_of_an_own_model_may_take_over_the_line() -> None:
    """`--model -tp` makes -tp the first token, and the served model its value."""
    assert "MODEL" in (read("--model", "-tp").parallelism.source.unreadable_reason or "")


def test_a_configuration_file_leaves_the_reading_incomplete() -> None:
    """The line's own degrees stand; only the file knows the rest."""
    reading = read("-dp", "4", "--config", "/etc/vllm.yaml")
    assert reading.parallelism.declared == {"dataParallel": 4}
    assert not reading.parallelism.source.complete
    assert reading.parallelism.source.kind == "ExtraArgs"
    assert "--config" in (reading.parallelism.source.unreadable_reason or "")


FILES = {
    "without a file": (read("--config"), False),
    "twice": (read("--config", "a.yaml", "--config", "b.yaml"), False),
    "with its value inline the file is not read": (read("--config=a.yaml", "-tp", "2"), True),
}


@pytest.mark.parametrize(("reading", "complete"), FILES.values(), ids=FILES.keys())
def test_a_configuration_file_otherwise(reading: RoleReading, complete: bool) -> None:
    """Only the exact token with a file behind it reads one."""
    assert reading.parallelism.source.complete is complete
    assert reading.findings


NAMES = {
    "a YAML file": ("vLLM", "/etc/a.yml", ["EA006"]),
    "another file": ("vLLM", "/etc/a.json", ["EA006", "EA016"]),
    "an extension in capitals": ("vLLM", "/etc/a.YAML", ["EA006", "EA016"]),
    "an extension in capitals, for SGLang": ("SGLang", "/etc/a.YAML", ["EA006"]),
    "a file that only the cluster knows": ("vLLM", "$(FILE)", ["EA006"]),
    "an option's name": ("SGLang", "--tp", ["EA006", "EA016"]),
}


@pytest.mark.parametrize(("engine", "file", "found"), NAMES.values(), ids=NAMES.keys())
def test_the_name_of_a_configuration_file_is_looked_at(engine: str, file: str, found: list[str]) -> None:
    """Both engines refuse one that does not end as YAML does, each by its own look."""
    assert [f.id for f in read_argv(engine, None, ["--config", file]).findings] == found


def test_a_configuration_file_that_the_model_swallowed_raises_nothing() -> None:
    """`--model --config` makes --config the first token of the line."""
    assert not read("--model", "--config").parallelism.source.complete


def test_help_is_said_to_end_the_process() -> None:
    """Both forms."""
    for argv in (["--help"], ["--help=all"], ["-h"]):
        assert any(f.id == "EA010" for f in read(*argv).findings)


@pytest.mark.parametrize("depth", range(900, 1010, 3))
def test_a_member_nested_to_the_edge_of_recursion_does_not_raise(depth: int) -> None:
    """Where the JSON reader still gets through, the writer may not."""
    reading = read(f"--additional-config.{'.'.join('abcdefgh')}={'[' * depth}{']' * depth}", "-tp", "2")
    assert reading.parallelism.declared == {"tensorParallel": 2}


def test_an_own_model_at_the_end_has_no_value() -> None:
    """The engine falls over."""
    assert "--model" in (read("-tp", "2", "--model").parallelism.source.unreadable_reason or "")


def test_an_own_model_with_its_value_inline_moves_too() -> None:
    """It is the served model then."""
    assert [f.id for f in read("--model=other", "-tp", "2").findings] == ["EA009"]


def test_members_given_as_json_are_merged_with_the_others() -> None:
    """Dictionaries merge, lists grow, anything else is replaced."""
    found = read("--additional-config.x", '{"a": {"b": 1}, "l": [1]}', "--additional-config.x", '{"a": {"c": 2}, "l": [2], "b": 0}')
    option = found.option("additional_config")
    assert option is not None
    assert option.stored == '{"x": {"a": {"b": 1, "c": 2}, "l": [1, 2], "b": 0}}'
