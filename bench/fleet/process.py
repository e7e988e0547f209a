"""A process looked at from outside: its CPU time and memory."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any


def cpu_seconds(pid: int) -> float:
    """User and system time that the process has used; 0 when it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_mib(pid: int) -> tuple[float, float]:
    """Resident now, and at its highest; zeros when the process is gone."""
    found = {"VmRSS": 0.0, "VmHWM": 0.0}
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        lines = []
    for line in lines:
        name, _, rest = line.partition(":")
        if name in found:
            found[name] = int(rest.split()[0]) / 1024
    return found["VmRSS"], found["VmHWM"]


def turn_milliseconds(core: int) -> float:
    """CPU milliseconds that a million turns of a loop take on that core now: how fast the machine is, beside whoever else runs."""
    pin = f"import os; os.sched_setaffinity(0, {{{core}}})\n" if core >= 0 and hasattr(os, "sched_setaffinity") else ""
    code = pin + "import time; b = time.process_time(); x = 0\nfor i in range(1_000_000): x += i\nprint((time.process_time() - b) * 1e3)"
    return float(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout)


def sample(pid: int, moment: float) -> dict[str, Any]:
    """CPU seconds, resident and peak MiB at that moment (seconds of a monotonic clock)."""
    resident, peak = memory_mib(pid)
    return {"at": moment, "cpu": cpu_seconds(pid), "resident": resident, "peak": peak}
