"""A process looked at from outside: its CPU time and memory."""

import os
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


def sample(pid: int, moment: float) -> dict[str, Any]:
    """CPU seconds, resident and peak MiB at that moment (seconds of a monotonic clock)."""
    resident, peak = memory_mib(pid)
    return {"at": moment, "cpu": cpu_seconds(pid), "resident": resident, "peak": peak}
