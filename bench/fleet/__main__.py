"""`python -m bench.fleet`: the product and its peers over fleets of growing size; a table on the terminal and JSON in `--out`.

The stand-in has the last core to itself and every subject the first, so CPU figures do not hang on who else runs; times on the wall do.
"""

import argparse
import json
import os
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.fleet import figures, kept
from bench.fleet.drive import Bench, Plan
from bench.fleet.subjects import PEERS, Subject, ours
from bench.trust import certificate

OUT = Path(__file__).resolve().parent.parent / "out" / "fleet.json"


def options() -> argparse.Namespace:
    """What may be said on the command line."""
    plan = Plan()
    parser = argparse.ArgumentParser(prog="bench.fleet", description="The controller over an API server stand-in, at growing fleet sizes.")
    parser.add_argument("--sizes", default="100,1000,10000", help="deployments, comma-separated (%(default)s)")
    parser.add_argument("--peers", default="kopf,informer", help=f"who else: {', '.join(PEERS)}, or none (%(default)s)")
    parser.add_argument("--peer-sizes", default="100,1000", help="their sizes (%(default)s)")
    parser.add_argument("--out", type=Path, default=OUT, help="where the JSON goes (%(default)s)")
    parser.add_argument("--singles", type=int, default=plan.singles, help="single changes (%(default)s)")
    parser.add_argument("--quiet", type=float, default=plan.quiet, help="seconds of the quiet window (%(default)s)")
    parser.add_argument("--patience", type=float, default=plan.patience, help="seconds that a phase may take (%(default)s)")
    parser.add_argument("--unpinned", action="store_true", help="leave the cores to the scheduler")
    return parser.parse_args()


def measure(console: Console, given: argparse.Namespace) -> dict[str, Any]:
    """Every run, and who was left out with the reason."""
    plan = Plan(singles=given.singles, quiet=given.quiet, patience=given.patience)
    pinned = not given.unpinned and (os.cpu_count() or 1) > 1
    cores = (0, (os.cpu_count() or 1) - 1) if pinned else (-1, -1)
    sizes = _numbers(given.sizes)
    wanted: list[tuple[Subject, list[int]]] = [(ours(), sizes)]
    left_out = []
    for name in (each for each in given.peers.split(",") if each not in ("", "none")):
        peer = PEERS[name]()
        if peer.reason:
            left_out.append(f"{name}: {peer.reason}")
        else:
            wanted.append((peer, _numbers(given.peer_sizes)))
    runs: list[dict[str, Any]] = []
    idle: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as temporary:
        bench = Bench(plan, *certificate(Path(temporary)), cores)
        for subject, over in wanted:
            try:
                idle[subject.name] = bench.run(subject, 0)["idle"]["resident"]
                for size in over:
                    console.print(f"{subject.name} at {size} …", style="dim")
                    runs.append({**bench.run(subject, size), "idle_resident": idle[subject.name]})
                    _save(given.out, {"runs": runs, "idle": idle, "left_out": left_out})
            except RuntimeError as fault:
                left_out.append(str(fault))
    return {"runs": runs, "idle": idle, "kept": kept.measure(), "left_out": left_out}


def _save(out: Path, found: dict[str, Any]) -> None:
    """After every run: the largest may take longer than anybody waits."""
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(found, indent=1) + "\n")


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",") if part]


def show(console: Console, found: dict[str, Any]) -> None:
    """The tables."""
    runs: list[dict[str, Any]] = found["runs"]
    table = Table("", *(f"{run['subject']} {run['size']:,}" for run in runs))
    for name, read, form in figures.ROWS:
        table.add_row(name, *(form.format(value) if (value := read(run)) is not None else "–" for run in runs))
    verbs = sorted({verb for run in runs for phase in ("start", "singles", "storm") for verb in run[phase]["requests"]})
    for verb in verbs:
        counts = (sum(run[phase]["requests"].get(verb, 0) for phase in ("start", "singles", "storm")) for run in runs)
        table.add_row(f"requests: {verb}", *(str(count) for count in counts))
    console.print(table)
    growth = Table("grows with exponent", "subject", "from", "to", "exponent")
    for small, large in pairwise(runs):
        if small["subject"] == large["subject"] and small["size"] < large["size"]:
            for name, read in figures.GROWTH:
                value = figures.exponent(small, large, read)
                row = (name, large["subject"], f"{small['size']:,}", f"{large['size']:,}")
                growth.add_row(*row, "–" if value is None else f"{value:.2f}")
    console.print(growth)
    goals = Table("goal", "at most", "measured", "")
    for goal in figures.goals([each for each in runs if each["subject"] == "modelwarden"], found["idle"].get("modelwarden")):
        goals.add_row(goal.text, f"{goal.bound:g}", "–" if goal.measured is None else f"{goal.measured:.2f}", goal.verdict)
    console.print(goals)
    for name, value in found["kept"].items():
        console.print(f"{name}: {value:.0f}")
    for line in found["left_out"]:
        console.print(f"left out: {line}")


def main() -> None:
    """Measure, write, show."""
    given = options()
    console = Console(width=160)
    found = measure(console, given)
    _save(given.out, found)
    show(console, found)


if __name__ == "__main__":
    main()
