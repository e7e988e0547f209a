"""Cold start: what the service costs before it can answer."""

import resource
import subprocess
import sys
from typing import Any


def child(*command: str) -> tuple[float, float]:
    """CPU seconds of a child and its children, and its peak resident MiB (the largest child so far)."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, after.ru_maxrss / 1024


def measure() -> dict[str, Any]:
    """CPU seconds of an interpreter alone, of the service's imports, and of a verb."""
    python, _ = child(sys.executable, "-c", "pass")
    service, resident = child(sys.executable, "-c", "import app.server, app.service, webhooks.server, controller.service")
    verb, _ = child(sys.executable, "-m", "app.cli", "args", "--engine", "vllm", "--", "--tensor-parallel-size", "2")
    return {
        "interpreter alone, CPU s": python,
        "service imported, CPU s": service,
        "service imported, resident MiB": resident,
        "mdctl args, CPU s": verb,
    }
