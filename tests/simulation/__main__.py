"""`python -m tests.simulation`: many seeds over two processes; what fails is shrunk and told so that it can be played again.

--seeds N [--first N]      run N seeds
--seed N [--steps 1,4,7]   play one, told in full
--fleets N                 run N storms over a sharded fleet of five replicas (--seeds 0 --awaits 0 runs nothing else)
--fleet N                  play one of them, told in full
"""

import argparse
import os
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import partial


def _settle() -> None:
    """Strings hash alike in every run, or sets of them would not keep one order."""
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "tests.simulation", *sys.argv[1:]])


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation")
    parser.add_argument("--seeds", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--steps", help="indexes of the steps to take, by commas; all of them when left out")
    parser.add_argument("--awaits", type=int, default=1)
    parser.add_argument("--most-steps", type=int, default=99, help="take only the first steps of each scenario")
    parser.add_argument("--fleets", type=int, default=300)
    parser.add_argument("--fleet", type=int)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--no-shrink", action="store_true")
    parser.add_argument("--most", type=int, default=3, help="failures after which no more seeds are run")
    parser.add_argument("--tell", type=int, default=3, help="failures that are told in full")
    options = parser.parse_args()
    if options.seed is not None:
        return _one(options.seed, options.steps)
    if options.fleet is not None:
        return _fleet(options.fleet)
    broken = _awaits(options.awaits) if options.awaits else 0
    broken |= _fleets(options.fleets, options.workers) if options.fleets else 0
    return _many(options) or broken


def _one(seed: int, steps: str | None) -> int:
    from tests.simulation.running import play, replay_log

    chosen = None if steps is None else tuple(int(part) for part in steps.split(",") if part)
    outcome = play(seed, chosen, verbose=True)
    print(replay_log(outcome))
    return 1 if outcome.broken else 0


def _awaits(every: int) -> int:
    from tests.simulation.awaits import sweep

    broken = 0
    for size in (1, 2):
        ends, failed = sweep(size, every)
        print(f"killed at every {every}. await, replicas of {size}: {dict(sorted(ends.items()))}")
        for at, what in failed[:5]:
            print(f"    at await {at}: {what}")
        broken |= bool(failed)
    return broken


def _fleet(seed: int) -> int:
    from tests.simulation.fleets import play

    fate = play(seed)
    print("\n".join([*fate.log, fate.broken or "every invariant held"]))
    return 1 if fate.broken else 0


def _fleets(number: int, workers: int) -> int:
    from tests.simulation.fleets import GAP, REST, batch

    began = time.perf_counter()
    chunks = [range(at, min(at + 10, number)) for at in range(0, number, 10)]
    totals: Counter[str] = Counter()
    worst: dict[str, float] = {}
    failures = []
    with ProcessPoolExecutor(workers) as pool:
        for counts, broken, longest in pool.map(batch, chunks):
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
    seeds = range(options.first, options.first + options.seeds)
    size = 20
    chunks = [tuple(seeds[at : at + size]) for at in range(0, len(seeds), size)]
    play_batch = partial(batch, most_steps=options.most_steps)
    totals: Counter[str] = Counter()
    failures = []
    if options.workers == 1:
        results = map(play_batch, chunks)
        pool = None
    else:
        pool = ProcessPoolExecutor(options.workers)
        results = pool.map(play_batch, chunks)
    for counts, failed in results:
        totals.update(counts)
        if failed or totals["seeds"] % 500 == 0:
            print(f"{totals['seeds']} seeds, {time.perf_counter() - began:.0f} s; failing: {failed or 'none'}", file=sys.stderr, flush=True)
        failures += failed
        if len(failures) >= options.most:
            break
    if pool is not None:
        pool.shutdown(cancel_futures=True)
    print(report(totals, time.perf_counter() - began))
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
