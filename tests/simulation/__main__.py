"""`python -m tests.simulation`: seeds, sweeps and mutants over some processes; a failing seed is shrunk and told so as to be replayed.

--seeds N [--first N]      play N seeds, whole; 10,000, and 300 storms, when nothing is said
--seed N [--steps 1,4,7]   play one, told in full
--sweep [EVERY]            stop the leader at every await of a retirement (or at every EVERY-th), dead and frozen
--fleets N                 play N storms over a sharded fleet of replicas; --fleet N plays one of them, told in full
--mutants [NAME ...]       break each guard in turn; what names it in tests/simulation/mutants.py has to catch it
"""

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any

CHUNK = 20
TOLD_EVERY = 100


def _settle() -> None:
    """Strings hash alike in every run, or sets of them would not keep one order."""
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "tests.simulation", *sys.argv[1:]])


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation")
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--steps", help="indexes of the steps to take, by commas; all of them when left out")
    parser.add_argument("--sweep", type=int, nargs="?", const=1, default=0, metavar="EVERY")
    parser.add_argument("--fleets", type=int)
    parser.add_argument("--fleet", type=int)
    parser.add_argument("--mutants", nargs="*", metavar="NAME")
    parser.add_argument("--mutant", metavar="NAME", help="break that guard for whatever else is asked")
    parser.add_argument("--table", action="store_true", help="the mutants as the README's table")
    parser.add_argument("--catch", action="store_true", help="play what has to catch that mutant")
    parser.add_argument("--most-steps", type=int, default=99, help="take only the first steps of each scenario")
    parser.add_argument("--jobs", type=int, default=2, help="processes to play in")
    parser.add_argument("--no-shrink", action="store_true")
    parser.add_argument("--most", type=int, default=3, help="failures after which no more seeds are played")
    parser.add_argument("--tell", type=int, default=3, help="failures that are told in full")
    options = parser.parse_args()
    if options.mutant is not None:
        from tests.simulation.breaking import break_guard

        break_guard(options.mutant)
    if options.table:
        from tests.simulation.breaking import table

        print(table())
        return 0
    if options.catch:
        from tests.simulation.breaking import catch

        said = catch(options.mutant)
        print(said)
        return 0 if said else 1
    if options.mutants is not None:
        from tests.simulation.breaking import hunt

        return hunt(options.mutants, options.jobs)
    if options.seed is not None:
        return _one(options.seed, options.steps)
    if options.fleet is not None:
        return _fleet(options.fleet)
    broken = _sweep(options.sweep, options.jobs) if options.sweep else 0
    if options.fleets is None and options.seeds is None and not options.sweep:
        options.fleets = 300
    elif options.seeds is None:
        options.seeds = 0
    broken |= _fleets(options.fleets, options.jobs) if options.fleets else 0
    if options.seeds == 0:
        return broken
    return _many(options) or broken


def _one(seed: int, steps: str | None) -> int:
    from tests.simulation.running import play, replay_log

    chosen = None if steps is None else tuple(int(part) for part in steps.split(",") if part)
    outcome = play(seed, chosen, verbose=True)
    print(replay_log(outcome))
    return 1 if outcome.broken else 0


@contextmanager
def _spread(jobs: int) -> Iterator[Callable[..., Iterable[Any]]]:
    """A map, over that many processes."""
    if jobs == 1:
        yield map
        return
    pool = ProcessPoolExecutor(jobs)
    try:
        yield pool.map
    finally:
        pool.shutdown(cancel_futures=True)


def _sweep(every: int, jobs: int) -> int:
    from tests.simulation.awaits import moment, resumptions

    broken = 0
    for size in (1, 2):
        moments = range(1, resumptions(size) + 1, every)
        for freezes in (False, True):
            began, ends, failed = time.perf_counter(), Counter[str](), []
            with _spread(jobs) as mapped:
                results = mapped(partial(moment, size, freezes=freezes), moments)
                for at, (end, _, what) in zip(moments, results, strict=True):
                    ends[end] += 1
                    if what:
                        failed.append((at, what))
            how = "frozen" if freezes else "killed"
            told = f"{len(moments)} of {moments.stop - 1} awaits, replicas of {size}: {dict(sorted(ends.items()))}, {len(failed)} broken"
            print(f"{how} at {told}, {time.perf_counter() - began:.0f} s", flush=True)
            for at, what in failed[:5]:
                print(f"    at await {at}: {what}")
            broken |= bool(failed)
    return broken


def _fleet(seed: int) -> int:
    from tests.simulation.fleets import play

    fate = play(seed)
    print("\n".join([*fate.log, fate.broken or "every invariant held"]))
    return 1 if fate.broken else 0


def _fleets(number: int, jobs: int) -> int:
    from tests.simulation.fleets import GAP, REST, batch

    began = time.perf_counter()
    chunks = [range(at, min(at + 10, number)) for at in range(0, number, 10)]
    totals: Counter[str] = Counter()
    worst: dict[str, float] = {}
    failures = []
    with _spread(jobs) as mapped:
        for counts, broken, longest in mapped(batch, chunks):
            totals.update(counts)
            worst = {name: max(seconds, worst.get(name, 0.0)) for name, seconds in longest.items()}
            failures += broken
    print(f"{number} storms over sharded fleets in {time.perf_counter() - began:.1f} s; bounds: gap {GAP:g} s, even within {REST:g} s")
    print(
        "\n".join([f"  {totals[name]:>10}  {name}" for name in sorted(totals)] + [f"  {worst[name]:>10.2f}  {name}, s" for name in worst])
    )
    for seed, what in failures[:20]:
        print(f"storm {seed} breaks: {what}; play it again with\n    python -m tests.simulation --fleet {seed}")
    return 1 if failures else 0


def _many(options: argparse.Namespace) -> int:
    from tests.simulation.running import batch, report

    began = time.perf_counter()
    count = 10_000 if options.seeds is None else options.seeds
    seeds = range(options.first, options.first + count)
    chunks = [tuple(seeds[at : at + CHUNK]) for at in range(0, len(seeds), CHUNK)]
    totals: Counter[str] = Counter()
    failures = []
    with _spread(options.jobs) as mapped:
        for counts, failed in mapped(partial(batch, most_steps=options.most_steps), chunks):
            totals.update(counts)
            if failed or totals["seeds"] % TOLD_EVERY == 0:
                seconds = time.perf_counter() - began
                print(f"{totals['seeds']} of {count} seeds, {seconds:.0f} s; failing: {failed or 'none'}", file=sys.stderr, flush=True)
            failures += failed
            if len(failures) >= options.most:
                break
    print(report(totals, time.perf_counter() - began))
    print(f"{totals['seeds'] - len(failures)} of {totals['seeds']} seeds hold every invariant")
    if failures:
        print("failing seeds:", ", ".join(f"{seed} ({invariant})" for seed, invariant in failures[:200]))
    for seed, _ in failures[: options.tell]:
        _tell(seed, options.most_steps, shrink=not options.no_shrink)
    return 1 if failures else 0


def _tell(seed: int, most: int, *, shrink: bool) -> None:
    from tests.simulation.running import first_steps, play, replay_log, shrunk

    steps = shrunk(seed, most) if shrink else first_steps(seed, most)
    outcome = play(seed, steps, verbose=True)
    chosen = f" --steps {','.join(map(str, steps)) or ','}"
    print(f"\nseed {seed} breaks an invariant; play it again with\n    python -m tests.simulation --seed {seed}{chosen}\n")
    print(replay_log(outcome))


if __name__ == "__main__":
    _settle()
    sys.exit(main())
