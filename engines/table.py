"""The option tables: every spelling that an engine release registers, with its arity, type and choices.

One packaged file per release, taken from the release's own parser (`tools/extract_options.py`). A table is loaded on first use and kept;
which one reads a declared version is decided here (D6): its own, else the nearest older one, else the oldest, and the newest when no
version is declared. Nothing here interprets an option: what a destination means is the readers' business.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal

import msgspec

from engines.values import CONVERTERS, Stored, check

VLLM: Final = "vLLM"
SGLANG: Final = "SGLang"
ENGINES: Final = (VLLM, SGLANG)

TABLES: Final = Path(__file__).with_name("tables")

Choice = Literal["exact", "older", "oldest", "newest"]
NONE: Final = "0"
ONE: Final = "1"
OPTIONAL: Final = "?"
ANY: Final = "*"
SOME: Final = "+"


class Option(msgspec.Struct, frozen=True, gc=False):
    """One registered option.

    `arity` is the number of values as argparse counts them: "0", "1", "?", "*", "+" or a decimal number. `type` names the converter
    (`engines.values`), empty for a switch. `choices` are what the converted value is compared with. `off` are the spellings that store
    false. `deprecated`: the engine warns when it is used. `appends`: every use counts, not the last one alone. `plain`: a value is
    stored as its text.
    """

    dest: str
    spellings: tuple[str, ...]
    arity: str
    type: str
    choices: tuple[str | int | None, ...]
    off: tuple[str, ...]
    deprecated: bool
    appends: bool
    plain: bool
    converter: Callable[[str], Stored] | None

    @property
    def canonical(self) -> str:
        """The first two-dash spelling: how messages name the option."""
        return next((s for s in self.spellings if s.startswith("--")), self.spellings[0])

    def store(self, text: str) -> Stored:
        """What the engine stores for one value. Raises RefusedError; a value of a type without a known rule is stored as its text."""
        value = text if self.converter is None else self.converter(text)
        return check(value, self.choices, text) if self.choices else value


# Destinations that an older release calls by another name; the readers know the newest one. (The last is a deprecated flag that the engine
# folds into the newer one before anything reads it.)
RENAMED: Final[Mapping[str, Mapping[str, str]]] = {
    VLLM: {},
    SGLANG: {
        "tensor_parallel_size": "tp_size",
        "pipeline_parallel_size": "pp_size",
        "data_parallel_size": "dp_size",
        "expert_parallel_size": "ep_size",
        "attention_context_parallel_size": "attn_cp_size",
        "moe_data_parallel_size": "moe_dp_size",
        "enable_prefill_context_parallel": "enable_prefill_cp",
    },
}


class _Row(msgspec.Struct, frozen=True, array_like=True):
    """One line of a table's file; trailing members that are empty are left out there."""

    dest: str
    spellings: tuple[str, ...]
    arity: str = ONE
    type: str = ""
    choices: tuple[str | int | None, ...] = ()
    off: tuple[str, ...] = ()
    deprecated: bool = False
    appends: bool = False

    def option(self, renamed: Mapping[str, str]) -> Option:
        """The row as the readers use it."""
        converter = None if self.type in {"", "str"} else CONVERTERS.get(self.type)
        plain = converter is None and not self.choices
        dest = renamed.get(self.dest, self.dest)
        return Option(dest, self.spellings, self.arity, self.type, self.choices, self.off, self.deprecated, self.appends, plain, converter)


class _File(msgspec.Struct, frozen=True):
    engine: str
    version: str
    options: tuple[_Row, ...]


class Table:
    """The options of one release, indexed for a parser. Immutable after construction."""

    __slots__ = ("_long", "deprecated", "engine", "options", "release", "short", "spellings", "version")

    def __init__(self, engine: str, version: str, options: tuple[Option, ...]) -> None:
        self.engine = engine
        self.version = version
        self.options = options
        self.deprecated = frozenset(spelling for option in options if option.deprecated for spelling in option.spellings)
        spellings: dict[str, Option] = {}
        for option in options:
            for spelling in option.spellings:
                spellings[spelling] = option
        # A plain dict, not a proxy of one: this look-up is the reader's innermost step.
        self.spellings: Mapping[str, Option] = spellings
        self.release = (order(version) or ((0,), 0, 0))[0]
        self.short: tuple[str, ...] = tuple(s for s in spellings if not s.startswith("--"))
        self._long = sorted(s for s in spellings if s.startswith("--"))

    def begun_by(self, prefix: str, limit: int = 7) -> list[str]:
        """The two-dash spellings that begin with `prefix`, at most `limit` of them (two are enough to call it ambiguous)."""
        at = bisect_left(self._long, prefix)
        return [spelling for spelling in self._long[at : at + limit] if spelling.startswith(prefix)]

    def __iter__(self) -> Iterator[Option]:
        return iter(self.options)

    def __repr__(self) -> str:
        return f"Table({self.engine} {self.version}, {len(self.options)} options)"


class Chosen(msgspec.Struct, frozen=True):
    """The table that reads a declared version, and how it was chosen."""

    table: Table
    choice: Choice


# A phase is a whole word: the tag of a build (0.29.0-cu129, 0.5.18-rocm700) is none.
_VERSION = re.compile(
    r"v?(\d+(?:\.\d+)*)(?:[._-]?(dev|alpha|a|beta|b|preview|pre|rc|c|post|rev|r)(?![a-z])[._-]?(\d*))?(.*)", re.IGNORECASE
)
_PHASE = {"dev": -4, "a": -3, "alpha": -3, "b": -2, "beta": -2, "c": -1, "rc": -1, "pre": -1, "preview": -1, "post": 1, "rev": 1, "r": 1}


def order(version: str) -> tuple[tuple[int, ...], int, int] | None:
    """A key that orders release names as PEP 440 does, None for a text that names no release (`latest`).

    What tells the builds of one release apart is ignored.
    """
    match = _VERSION.fullmatch(version.strip()[:64])
    if match is None:
        return None
    numbers = [int(part) for part in match[1].split(".")]
    while len(numbers) > 1 and numbers[-1] == 0:
        numbers.pop()
    phase = _PHASE[match[2].lower()] if match[2] else 0
    return tuple(numbers), phase, int(match[3] or 0)


@cache
def _names() -> Mapping[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {engine: [] for engine in ENGINES}
    for path in TABLES.glob("*.json"):
        engine, _, version = path.stem.partition("-")
        found[VLLM if engine == "vllm" else SGLANG].append(version)
    return MappingProxyType({engine: tuple(sorted(names, key=lambda v: order(v) or ((), 0, 0))) for engine, names in found.items()})


def versions(engine: str) -> tuple[str, ...]:
    """The releases that have a table, oldest first. Raises KeyError for an engine nobody knows."""
    return _names()[engine]


@cache
def load(engine: str, version: str) -> Table:
    """The table of exactly that release. Raises KeyError when there is none."""
    if version not in versions(engine):
        raise KeyError(f"no option table for {engine} {version}")
    raw = (TABLES / f"{engine.lower()}-{version}.json").read_bytes()
    file = msgspec.json.decode(raw, type=_File)
    return Table(file.engine, file.version, tuple(row.option(RENAMED[engine]) for row in file.options))


@cache
def _pick(engine: str, version: str | None) -> tuple[str, Choice]:
    names = versions(engine)
    wanted = order(version) if version else None
    if wanted is None:
        return names[-1], "newest"
    older = [name for name in names if (order(name) or ((), 0, 0)) <= wanted]
    if not older:
        return names[0], "oldest"
    return older[-1], "exact" if order(older[-1]) == wanted else "older"


def choose(engine: str, version: str | None) -> Chosen:
    """The table for a declared version (D6). Raises KeyError for an engine nobody knows."""
    name, choice = _pick(engine, version if version is None else version[:64])
    return Chosen(load(engine, name), choice)


def engine_name(text: str) -> str | None:
    """The engine's proper name for any case of letters, or None."""
    return next((name for name in ENGINES if name.lower() == text.strip().lower()), None)
