"""The engines' own parsers, asked live: forged argument vectors read here as they read there (`make test-engines`).

ORACLE_HOME names a folder that holds the engines' environments (docs/engines.md says how to make them). ARGV_COUNT sets how many vectors
each release is asked (20,000), ARGV_SEED the seed. A disagreement is shrunk to the shortest vector that still shows it.
"""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from argv_forge import Forge
from parser_answers import Case, Open, disagreement

from engines.table import ENGINES, load, versions

HOME = os.environ.get("ORACLE_HOME", "")
COUNT = int(os.environ.get("ARGV_COUNT", "20000"))
SEED = int(os.environ.get("ARGV_SEED", "20250701"))
TOOLS = Path(__file__).parents[2] / "tools"
RELEASES = [(engine, version) for engine in ENGINES for version in reversed(versions(engine))]

# Small enough for both pipes to hold: the asker answers line by line.
BATCH = 64

pytestmark = [
    pytest.mark.engines,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(not HOME, reason="ORACLE_HOME names no folder with the engines' environments (docs/engines.md)"),
]


class Parser:
    """One engine's own parser in a process of its own."""

    def __init__(self, engine: str, version: str, argparse: Path | None = None) -> None:
        home, short = Path(HOME), engine.lower()
        line = [str(home / f"venv-{short}" / "bin" / "python"), str(TOOLS / "ask_parser.py"), short]
        source = home / "src" / f"{short}-{version}"
        if source.is_dir():
            line += ["--source", str(source)]
            if short == "sglang":
                line += ["--site", str(home / "site-tf5121")]
        elif version != versions(engine)[-1]:
            pytest.skip(f"{HOME} holds no {engine} {version}")
        if argparse is not None:
            line += ["--argparse", str(argparse)]
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
        self.process = subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment)

    def ask(self, vectors: Sequence[Sequence[str]]) -> list[dict[str, Any]]:
        """The answers to some vectors, in order."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        for argv in vectors:
            self.process.stdin.write(json.dumps({"argv": argv}).encode() + b"\n")
        self.process.stdin.flush()
        answers = [self.process.stdout.readline() for _ in vectors]
        assert all(answers), "the engine's environment fell over"
        return [json.loads(answer) for answer in answers]

    def close(self) -> None:
        """End the process."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait(timeout=60)


class Pair:
    """A release's parser under both argparse families; under one where the other family's module is not at hand."""

    def __init__(self, engine: str, version: str) -> None:
        self.engine, self.version = engine, version
        self.old = Parser(engine, version)
        newer = Path(HOME) / "argparse-variants" / "new" / "argparse.py"
        self.new = Parser(engine, version, newer) if newer.is_file() else None

    def cases(self, vectors: Sequence[Sequence[str]]) -> list[Case]:
        """The vectors with both answers."""
        old = self.old.ask(vectors)
        new: Sequence[dict[str, Any] | None] = self.new.ask(vectors) if self.new else [None] * len(old)
        return [
            Case(self.engine, self.version, tuple(argv), answer, argparse_new=twin)
            for argv, answer, twin in zip(vectors, old, new, strict=True)
        ]

    def wrong(self, argv: Sequence[str]) -> str | None:
        """The disagreement about one vector, None when there is none."""
        try:
            return disagreement(self.cases([argv])[0])
        except Open:
            return None

    def shrink(self, argv: Sequence[str]) -> list[str]:
        """The shortest vector, by leaving tokens out, that is still read otherwise."""
        argv = list(argv)
        at = 0
        while at < len(argv):
            shorter = argv[:at] + argv[at + 1 :]
            if self.wrong(shorter) is not None:
                argv, at = shorter, 0
            else:
                at += 1
        return argv

    def close(self) -> None:
        """End both processes."""
        self.old.close()
        if self.new:
            self.new.close()


@pytest.fixture(scope="module", params=RELEASES, ids="-".join)
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    """A release's parsers."""
    parsers = Pair(*request.param)
    yield parsers
    parsers.close()


def test_forged_vectors_read_as_the_engine_reads_them(pair: Pair, capsys: pytest.CaptureFixture[str]) -> None:
    """No disagreement among all that can be compared; what is left open is counted and named."""
    forge = Forge(load(pair.engine, pair.version), SEED)
    lines = forge.lines(COUNT)
    compared = 0
    left_open: Counter[str] = Counter()
    wrong: dict[str, str] = {}
    while batch := list(islice(lines, BATCH)):
        for case in pair.cases(batch):
            try:
                found = disagreement(case)
            except Open as reason:
                left_open[str(reason)] += 1
                continue
            compared += 1
            if found is not None and len(wrong) < 10:
                shortest = pair.shrink(case.argv)
                wrong[json.dumps(shortest)] = pair.wrong(shortest) or found
    families = "both argparse families" if pair.new else "one argparse family"
    opened = ", ".join(f"{n} {reason}" for reason, n in left_open.most_common())
    told = f"{pair.engine} {pair.version}, {families}, seed {SEED}: {COUNT} vectors, {compared} compared, {len(wrong)} disagreements"
    with capsys.disabled():
        sys.stdout.write(f"\n{told}\n  left open: {opened}\n")
    assert not wrong
    assert compared > COUNT // 2


def test_the_packaged_table_is_what_the_release_registers(pair: Pair) -> None:
    """Every spelling of the packaged table is known to the parser: it never calls one of them unrecognised."""
    table = load(pair.engine, pair.version)
    spellings = [spelling for spelling, option in table.spellings.items() if option.dest not in {"help", "config", "model"}]
    for at in range(0, len(spellings), BATCH):
        some = spellings[at : at + BATCH]
        for spelling, answer in zip(some, pair.old.ask([[spelling] for spelling in some]), strict=True):
            assert answer["kind"] != "unrecognized", spelling
