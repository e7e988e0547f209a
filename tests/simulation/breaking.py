"""Guards broken on purpose: a module is loaded with a text replaced, and what is named in `mutants` has to notice.

Each mutant has a process of its own, for modules are loaded once.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

from tests.simulation.mutants import MUTANTS, Cut

ROOT = Path(__file__).parents[2]


class StaleCutError(LookupError):
    """The text to be replaced does not stand in the module exactly once."""


def broken_source(module: str, cuts: Sequence[Cut]) -> str:
    """The module's text with those cuts. Raises StaleCutError."""
    text = (ROOT / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8")
    for cut in cuts:
        if cut.module == module:
            if text.count(cut.old) != 1:
                raise StaleCutError(f"{module} has {text.count(cut.old)} times {cut.old!r}")
            text = text.replace(cut.old, cut.new)
    return text


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, cuts: Sequence[Cut]) -> None:
        self._sources = {cut.module: broken_source(cut.module, cuts) for cut in cuts}

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> importlib.machinery.ModuleSpec | None:
        if fullname not in self._sources:
            return None
        return importlib.util.spec_from_file_location(fullname, ROOT / f"{fullname.replace('.', '/')}.py", loader=self)

    def exec_module(self, module: ModuleType) -> None:
        exec(compile(self._sources[module.__name__], str(module.__file__), "exec"), module.__dict__)


def break_guard(name: str) -> None:
    """From now on the modules of that mutant are loaded broken. Raises StaleCutError, or RuntimeError where one is loaded already."""
    cuts = MUTANTS[name].cuts
    if loaded := [cut.module for cut in cuts if cut.module in sys.modules]:
        raise RuntimeError(f"too late: {loaded} are loaded")
    sys.meta_path.insert(0, _Finder(cuts))


def catch(name: str) -> str:
    """What the named catcher says of the broken guard, in this process; empty when nothing notices."""
    mutant = MUTANTS[name]
    how, _, what = mutant.caught_by.partition(" ")
    if how == "test":
        import pytest

        return "the test fails" if pytest.main(["-q", "-x", "-n", "0", "-p", "no:cacheprovider", "--no-header", what]) == 1 else ""
    if how == "seed":
        from tests.simulation.running import play

        outcome = play(int(what))
    elif how == "frozen":
        from tests.simulation.awaits import frozen_at

        size, at = map(int, what.split())
        outcome = frozen_at(size, at)
    else:
        from tests.simulation.directed import play as play_directed

        outcome = play_directed(what)
    if outcome.broken is None or outcome.broken.invariant not in (mutant.tells, "time goes on"):
        print(f"instead: {outcome.broken}", file=sys.stderr)
        return ""
    return str(outcome.broken)


def hunt(names: Sequence[str], jobs: int) -> int:
    """Break each guard in turn, and tell what caught it."""
    wanted = list(names or MUTANTS)

    def one(name: str) -> tuple[str, int, str]:
        command = [sys.executable, "-m", "tests.simulation", "--mutant", name, "--catch"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        said = (done.stdout.strip() or done.stderr.strip() or "nothing was noticed").splitlines()
        return name, done.returncode, said[-1][:160]

    survived = []
    with ThreadPoolExecutor(jobs) as pool:
        for name, code, said in pool.map(one, wanted):
            print(f"{'caught  ' if code == 0 else 'SURVIVED'}  {name:20}  by {MUTANTS[name].caught_by}: {said}", flush=True)
            survived += [name] if code else []
    print(f"{len(wanted) - len(survived)} of {len(wanted)} broken guards are caught")
    return 1 if survived else 0


def table() -> str:
    """The guards and what catches each of them broken, as a table for the README."""
    rows = [f"| {mutant.guard} | `{name}` | {mutant.caught_by} | {mutant.tells} |" for name, mutant in MUTANTS.items()]
    return "\n".join(["| guard | mutant | caught by | breached |", "|---|---|---|---|", *rows])
