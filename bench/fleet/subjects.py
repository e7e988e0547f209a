"""Who is measured: the product as `mdctl serve` runs it, a plain kopf operator, and the official client's informers.

Each is a process of its own that is told a kubeconfig and nothing else.
"""

import os
import socket
import subprocess
import sys
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent.parent
SERVE: Final = (
    "--certs-source",
    "memory",
    "--no-certs-publish",
    "--serve-host",
    "127.0.0.1",
    "--serve-port",
    "0",
    "--log-level",
    "warning",
)


@dataclass(frozen=True, slots=True)
class Subject:
    """`interpreter` None: it cannot take part, for that `reason`."""

    name: str
    command: tuple[str, ...]
    metrics: bool = False
    reason: str = ""

    def start(self, kubeconfig: Path, port: int, core: int, log: Path) -> subprocess.Popen[bytes]:
        """The process, on that core (-1: any), its words in `log`."""
        command = list(self.command) + (["--kubeconfig", str(kubeconfig), "--serve-health-port", str(port)] if self.metrics else [])
        environ = {**os.environ, "KUBECONFIG": str(kubeconfig), "MODELWARDEN_CONFIG": ""}
        with log.open("wb") as words:
            process = subprocess.Popen(command, cwd=ROOT, env=environ, stdin=subprocess.DEVNULL, stdout=words, stderr=words)
        if core >= 0 and hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(process.pid, {core})
        return process


def ours() -> Subject:
    """The product, with every part that a replica runs."""
    return Subject("modelwarden", (sys.executable, "-m", "app.cli", "serve", *SERVE), metrics=True)


def kopf() -> Subject:
    """Needs the environment that `make bench` keeps for it."""
    python = os.environ.get("BENCH_KOPF_PYTHON", "")
    command = (python, "-m", "kopf", "run", "--standalone", "--all-namespaces", "--quiet", str(ROOT / "bench/peers/kopf_operator.py"))
    return Subject("kopf", command, reason="" if python else "BENCH_KOPF_PYTHON names no interpreter that has kopf (make makes one)")


def informer() -> Subject:
    """The official client comes with the product's own dependencies."""
    return Subject("informer", (sys.executable, str(ROOT / "bench/peers/informer.py")))


PEERS: Final = {"kopf": kopf, "informer": informer}


def free_port() -> int:
    """A port that nobody holds just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def scrape(port: int) -> dict[str, float]:
    """The counters of `/metrics`, by name and labels as they are spelled there."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        text = answer.read().decode()
    found = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            name, _, value = line.rpartition(" ")
            found[name] = float(value)
    return found
