"""The packaged option tables: which one reads a version, what they hold, what they weigh."""

import tracemalloc

import pytest

from engines import table as tables
from engines.table import ENGINES, choose, load, order, versions
from engines.values import CONVERTERS

VERSIONS: dict[str, tuple[str, str | None, str, str]] = {
    "its own": ("vLLM", "0.29.0", "0.29.0", "exact"),
    "its own, with a v in front": ("vLLM", "v0.29.0", "0.29.0", "exact"),
    "its own, with a local part": ("vLLM", "0.29.0+cu128", "0.29.0", "exact"),
    "its own, with the tag of a build": ("vLLM", "0.29.0-cu129", "0.29.0", "exact"),
    "its own, with another": ("SGLang", "v0.5.18-rocm700-mi30x", "0.5.18", "exact"),
    "its own, with an architecture": ("vLLM", "0.29.0-aarch64", "0.29.0", "exact"),
    "a preview comes before its release": ("vLLM", "0.33.0-preview", "0.29.0", "older"),
    "its own, a zero left out": ("vLLM", "0.29", "0.29.0", "exact"),
    "its own, a post release": ("SGLang", "0.5.13.post1", "0.5.13.post1", "exact"),
    "between two, the older": ("vLLM", "0.30.1", "0.29.0", "older"),
    "above all, the newest": ("SGLang", "0.6.0", "0.5.23", "older"),
    "below all, the oldest": ("vLLM", "0.9.2", "0.25.1", "oldest"),
    "a release candidate comes before its release": ("vLLM", "0.33.0rc1", "0.29.0", "older"),
    "a post release comes after its release": ("vLLM", "0.29.0.post1", "0.29.0", "older"),
    "before the post release": ("SGLang", "0.5.13", "0.5.13.post1", "oldest"),
    "none, the newest": ("vLLM", None, "0.33.0", "newest"),
    "a word, the newest": ("vLLM", "nightly", "0.33.0", "newest"),
    "an empty text, the newest": ("SGLang", "", "0.5.23", "newest"),
    "numbers are compared as numbers": ("SGLang", "0.5.9", "0.5.13.post1", "oldest"),
}


@pytest.mark.parametrize(("engine", "version", "table", "choice"), VERSIONS.values(), ids=VERSIONS.keys())
def test_the_table_of_a_version(engine: str, version: str | None, table: str, choice: str) -> None:
    """Exact, else the nearest older one, else the oldest; the newest when none is declared."""
    chosen = choose(engine, version)
    assert (chosen.table.version, chosen.choice) == (table, choice)


@pytest.mark.parametrize(("engine", "version"), [(e, v) for e in ENGINES for v in versions(e)])
def test_a_table_is_complete_light_and_made_of_types_that_are_known(engine: str, version: str) -> None:
    """Under 1 MiB resident; every spelling of one option only; each type has a converter."""
    load.cache_clear()
    tracemalloc.start()
    table = load(engine, version)
    # What other threads of the test run allocate meanwhile is none of the table's.
    kept = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(True, tables.__file__)])
    tracemalloc.stop()
    resident = sum(trace.size for trace in kept.traces)
    assert 1 << 15 < resident < 1 << 20
    assert len(table.options) > 250
    assert sum(len(option.spellings) for option in table) == len(table.spellings)
    for option in table:
        assert option.type == "" or option.type in CONVERTERS
        assert set(option.off) < set(option.spellings)
        assert option.spellings[0].startswith("-")
        assert option.arity in {"0", "1", "?", "*", "+"}


def test_a_table_is_loaded_once() -> None:
    """Two readers share it."""
    assert load("vLLM", "0.33.0") is load("vLLM", "0.33.0")


def test_an_engine_nobody_knows_is_a_key_error() -> None:
    """The schema admits two."""
    with pytest.raises(KeyError):
        choose("llama", None)
    with pytest.raises(KeyError):
        load("vLLM", "0.1")


def test_versions_order_as_releases_do() -> None:
    """Development, alpha, beta and candidate releases in front, post releases behind."""
    texts = ["0.9", "1.0.dev1", "1.0a1", "1.0b2", "1.0rc1", "1.0", "1.0.post1", "1.0.1", "1.10"]
    assert [order(text) for text in texts] == sorted(order(text) or ((), 0, 0) for text in texts)
    assert order("latest") is None
