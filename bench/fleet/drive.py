"""One subject over one fleet: start, all statuses written, single changes, a storm, a quiet window; and the figures of each."""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench.fleet.process import sample, turn_milliseconds
from bench.fleet.subjects import ROOT, Subject, free_port, scrape

RESTED: Final = 2.0  # seconds without a request after which a fleet counts as quiet

METRICS: Final = {
    "passes": 'controller_runtime_reconcile_total{controller="modeldeployment",result="success"}',
    "issued": 'modelwarden_status_writes_total{outcome="success"}',
    "elided": "modelwarden_status_writes_elided_total",
    "conflicts": "modelwarden_status_write_conflicts_total",
}


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run does. Seconds throughout; `patience` bounds every wait."""

    pods: int = 10
    singles: int = 200
    gap: float = 0.02
    flips: int = 2
    edited: float = 0.01
    cut: bool = True
    quiet: float = 20.0
    patience: float = 900.0


def kubeconfig_of(port: int, cert: Path) -> dict[str, Any]:
    """How a subject finds the stand-in."""
    cluster = {"server": f"https://127.0.0.1:{port}", "certificate-authority": str(cert)}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "bench", "cluster": cluster}],
        "users": [{"name": "bench", "user": {"token": "bench"}}],
        "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": "bench"}}],
        "current-context": "bench",
    }


class StandinProcess:
    """The stand-in, and the way to give it orders."""

    def __init__(self, folder: Path, arguments: Sequence[str]) -> None:
        command = [sys.executable, "-m", "bench.fleet.standin", *arguments]
        self.process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.kubeconfig = folder / "kubeconfig"
        self.port: int = self._answer()["port"]

    def introduce(self, cert: Path) -> None:
        """Write the kubeconfig that leads to it."""
        self.kubeconfig.write_text(json.dumps(kubeconfig_of(self.port, cert)))

    def order(self, do: str, **given: Any) -> dict[str, Any]:
        """Give an order and wait for what came of it. Raises RuntimeError with the stand-in's words."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"do": do, **given}) + "\n")
        self.process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError("the stand-in ended")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer

    def stop(self) -> None:
        """End it."""
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()


class Bench:
    """Runs subjects by one plan; `cores` are the subject's and the stand-in's, -1 for any."""

    def __init__(self, plan: Plan, cert: Path, key: Path, cores: tuple[int, int]) -> None:
        self._plan = plan
        self._trust = (cert, key)
        self._cores = cores

    def run(self, subject: Subject, size: int) -> dict[str, Any]:
        """The figures of that subject at that size. Raises RuntimeError when it does not do its work."""
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            world = (str(size), str(self._plan.pods))
            standin = StandinProcess(folder, (*world, *map(str, self._trust), str(self._cores[1])))
            standin.introduce(self._trust[0])
            try:
                return self._measured(subject, size, standin, folder / "words")
            finally:
                standin.stop()

    def _measured(self, subject: Subject, size: int, standin: StandinProcess, log: Path) -> dict[str, Any]:
        turns = [turn_milliseconds(self._cores[0])]
        port = free_port() if subject.metrics else 0
        began = time.perf_counter()
        process = subject.start(standin.kubeconfig, port, self._cores[0], log)
        try:
            standin.order("watch", pid=process.pid)
            figures = _phases(size, self._plan, standin, began)
            if subject.metrics and size:
                counters = scrape(port)
                figures["counters"] = {name: int(counters.get(key, 0)) for name, key in METRICS.items()}
            figures["end"] = {**sample(process.pid, time.perf_counter()), "standin_cpu": standin.order("state")["standin_cpu"]}
            figures["turn_ms"] = [*turns, turn_milliseconds(self._cores[0])]
            return {"subject": subject.name, "size": size, "pods": size * self._plan.pods, **figures}
        except RuntimeError as fault:
            words = log.read_text(errors="replace").strip().splitlines()[-3:]
            raise RuntimeError(f"{subject.name} at {size}: {fault}; its last words: {' | '.join(words) or 'none'}") from fault
        finally:
            process.terminate()
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _phases(size: int, plan: Plan, standin: StandinProcess, began: float) -> dict[str, Any]:
    start = standin.order("written", seconds=plan.patience)
    if not size:
        time.sleep(2.0)
        return {"start": _start(start, began), "idle": standin.order("state")["now"]}
    figures = {"start": _start(start, began)}
    standin.order("quiet", seconds=1.0)
    figures["settled"] = standin.order("state")["now"]
    figures["singles"] = standin.order("singles", count=plan.singles, gap=plan.gap, seconds=plan.patience)
    figures["storm"] = standin.order("storm", flips=plan.flips, edited=plan.edited, cut=plan.cut, seconds=plan.patience)
    waited = 0.0
    while waited < plan.patience and set(standin.order("quiet", seconds=RESTED)["requests"]) - {"leases", "watch"}:
        waited += RESTED  # Events are told after the statuses, one after the other
    figures["rested"] = waited
    figures["quiet"] = standin.order("quiet", seconds=plan.quiet)
    return figures


def _start(answer: dict[str, Any], began: float) -> dict[str, Any]:
    """Seconds on the wall and of CPU from the process's start to the first request, the first write and the last."""
    marks = answer.pop("marks")
    rows = {name: {"seconds": mark["at"] - began, "cpu": mark["cpu"], "resident": mark["resident"]} for name, mark in marks.items()}
    return {**answer, "marks": rows}
