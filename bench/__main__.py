"""`python -m bench`: every measurement, a table on the terminal and `bench/out/*.json`. Peers that are not there are named as left out.

Servers are processes of their own, pinned to the first core, the load to the last; CPU per review is the server's own user and system
time over the measured requests, the steadiest figure of all. Nothing is asserted.
"""

import argparse
import importlib
import json
import os
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.fleet.process import memory_mib
from bench.reviews import pod_review, update_review
from bench.trust import certificate

ROOT = Path(__file__).resolve().parent.parent
OUT = Path(__file__).resolve().parent / "out"
SIZES = {"4 KiB": 4096, "32 KiB": 32768, "256 KiB": 262144}
PATHS = {"validate": "/validate-modeldeployment", "validate again": "/validate-modeldeployment", "mutate": "/mutate-pod"}
KINDS = {"validate": 1_000_000, "validate again": 16, "mutate": 1}
"""How many different reviews of a kind there are. Nobody has seen the first kind before; the second are the dry runs, re-applied manifests
and scalings that make up most of what a webhook sees: sixteen writes in turn."""


def free_port() -> int:
    """A port that nobody holds just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def cpu_seconds(pid: int) -> float:
    """Time on a processor that the threads of a process have used, to the nanosecond where the kernel counts it so."""
    tasks = list(Path(f"/proc/{pid}/task").glob("*/schedstat"))
    if tasks:
        return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Server:
    """A server process that answers TLS on a port of loopback."""

    def __init__(self, name: str, command: Callable[[int], list[str]]) -> None:
        self.name = name
        self.port = free_port()
        self.process = subprocess.Popen(command(self.port), cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def wait(self, seconds: float = 20) -> None:
        """Until it takes connections; raises with its own words when it ends."""
        context = ssl._create_unverified_context()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.process.poll() is not None:
                raise RuntimeError(f"{self.name} ended: {self.process.stderr.read() if self.process.stderr else ''}")
            try:
                with socket.create_connection(("127.0.0.1", self.port), 1) as raw, context.wrap_socket(raw):
                    return
            except OSError:
                time.sleep(0.05)
        raise RuntimeError(f"{self.name} did not answer within {seconds:g} s")

    def stop(self) -> None:
        """End it."""
        self.process.terminate()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()


def load(server: Server, connections: int, count: int, core: int, requests: list[str], *, kinds: int = 1_000_000) -> dict[str, float]:
    """Drive the server and add its CPU per review, microseconds. The warm-up is in both the count and the CPU."""
    before = cpu_seconds(server.process.pid)
    command = [sys.executable, "-m", "bench.load", str(server.port), str(connections), str(count), str(core), str(kinds), *requests]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{server.name}: {done.stderr.strip().splitlines()[-1] if done.stderr.strip() else 'load failed'}")
    result: dict[str, float] = json.loads(done.stdout)
    result["cpu_us"] = (cpu_seconds(server.process.pid) - before) / (count + min(count // 5, 200)) * 1e6
    return result


def servers(cert: Path, key: Path) -> tuple[dict[str, Callable[[int], list[str]]], list[str]]:
    """Who takes part, and who is left out with the reason."""
    first = "0" if (os.cpu_count() or 1) > 1 else "-1"
    found: dict[str, Callable[[int], list[str]]] = {
        name: (lambda port, name=name: [sys.executable, "-m", "bench.serve", name, str(port), str(cert), str(key), first])  # type: ignore[misc]
        for name in ("yardstick", "ours")
    }
    left_out = []
    if kopf := os.environ.get("BENCH_KOPF_PYTHON"):
        found["kopf"] = lambda port: [kopf, str(ROOT / "bench/peers/kopf_server.py"), str(port), str(cert), str(key), first]
    else:
        left_out.append("kopf: BENCH_KOPF_PYTHON names no interpreter that has kopf and uvloop (make bench makes one)")
    if peer := os.environ.get("BENCH_PEER"):
        found["peer"] = lambda port: [peer, str(port), str(cert), str(key), first]
    else:
        left_out.append("another server: BENCH_PEER names no program that takes PORT CERT KEY CORE")
    return found, left_out


def bench_reviews(console: Console, scale: float) -> dict[str, Any]:
    """CPU per review by size, concurrency and direction, side by side."""
    core = (os.cpu_count() or 1) - 1 if (os.cpu_count() or 1) > 1 else -1
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        cert, key = certificate(folder)
        files = {}
        for label, size in SIZES.items():
            for verb, make in (("validate", update_review), ("validate again", update_review), ("mutate", pod_review)):
                files[verb, label] = folder / f"{verb.replace(' ', '-')}-{size}.json"
                files[verb, label].write_bytes(make(size))
        commands, left_out = servers(cert, key)
        for name, command in commands.items():
            server = Server(name, command)
            try:
                server.wait()
                for (verb, label), file in files.items():
                    for connections in (1, 8, 64):
                        count = max(100, int({"4 KiB": 4000, "32 KiB": 1500, "256 KiB": 300}[label] * scale))
                        result = load(server, connections, count, core, [f"{PATHS[verb]}={file}"], kinds=KINDS[verb])
                        rows.append({"server": name, "verb": verb, "size": label, "connections": connections, **result})
                alone = load(server, 8, int(3000 * scale), core, [f"{PATHS['validate']}={files['validate', '4 KiB']}"])
                beside = mixed(server, core, files["validate", "4 KiB"], files["validate", "256 KiB"], scale)
                rows.append({"server": name, "verb": "small alone", "size": "4 KiB", "connections": 8, **alone})
                rows.append({"server": name, "verb": "small beside 256 KiB", "size": "4 KiB", "connections": 8, **beside})
                rows.append(
                    {"server": name, "verb": "resident MiB", "size": "", "connections": 0, "cpu_us": memory_mib(server.process.pid)[0]}
                )
            finally:
                server.stop()
    show_reviews(console, rows)
    for line in left_out:
        console.print(f"left out: {line}")
    return {"rows": rows, "left_out": left_out}


def mixed(server: Server, core: int, small: Path, large: Path, scale: float) -> dict[str, float]:
    """Latency of small reviews while one connection streams large ones."""
    command = [
        sys.executable,
        "-m",
        "bench.load",
        str(server.port),
        "1",
        str(int(100000 * scale)),
        str(core),
        str(KINDS["validate"]),
        f"{PATHS['validate']}={large}",
    ]
    stream = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        return load(server, 8, int(2000 * scale), core, [f"{PATHS['validate']}={small}"])
    finally:
        stream.kill()
        stream.wait()


def show_reviews(console: Console, rows: list[dict[str, Any]]) -> None:
    """The table, with the ratio to the yardstick of the same run."""
    yard = {(r["verb"], r["size"], r["connections"]): r["cpu_us"] for r in rows if r["server"] == "yardstick"}
    table = Table("server", "direction", "size", "connections", "CPU µs/review", "× yardstick", "p50 ms", "p99 ms", "reviews/s")
    for row in rows:
        base = yard.get((row["verb"], row["size"], row["connections"]))
        ratio = f"{row['cpu_us'] / base:.2f}" if base else ""
        figures = [f"{row[key]:.2f}" if key in row else "" for key in ("p50_ms", "p99_ms")]
        rate = f"{row['rate']:.0f}" if "rate" in row else ""
        table.add_row(row["server"], row["verb"], row["size"], str(row["connections"] or ""), f"{row['cpu_us']:.0f}", ratio, *figures, rate)
    console.print(table)


def bench_module(name: str) -> Callable[[Console, float], dict[str, Any]]:
    """A measurement that lives in `bench/NAME.py` as `measure() -> dict`."""

    def run(console: Console, scale: float) -> dict[str, Any]:
        figures: dict[str, Any] = importlib.import_module(f"bench.{name}").measure()
        table = Table("measurement", "figure")
        for key, value in figures.items():
            table.add_row(key, f"{value:.2f}" if isinstance(value, float) else str(value))
        console.print(table)
        return figures

    return run


PARTS: dict[str, Callable[[Console, float], dict[str, Any]]] = {
    "argv": bench_module("argv"),
    "start": bench_module("start"),
    "reviews": bench_reviews,
}


def main() -> None:
    """Run the parts that were named, or all."""
    parser = argparse.ArgumentParser(prog="bench", description="Measure the product; figures go to the terminal and bench/out.")
    parser.add_argument("parts", nargs="*", help=f"which of {', '.join(PARTS)} (all)")
    parser.add_argument("--scale", type=float, default=1.0, help="how many requests, against the usual number")
    options = parser.parse_args()
    console = Console(width=140)
    OUT.mkdir(exist_ok=True)
    for part in options.parts or PARTS:
        console.rule(part)
        figures = PARTS[part](console, options.scale)
        (OUT / f"{part}.json").write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
