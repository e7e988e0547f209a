"""Cold start: what `mdctl serve` costs from its birth to its first ready answer, against an empty cluster.

The figure is the CPU of the whole process, all of its threads, from exec on, read from the kernel when `/readyz` first answers 200: the
interpreter, every import, settings, the credential, the certificate made and stored, caBundles written, caches listed, the probe itself.
Bytecode is there, as in every installation (the image compiles all of it): ours is brought up to date first, for an environment may forbid
to write it, and a start that compiles our sources measures the compiler.

The cluster is an embedded one in this process, with the definitions, the Service and the webhook configurations of an installation in it
and nothing else; before each start its Secret of certificates and its Lease are taken away again.
"""

import asyncio
import contextlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.fleet.process import cpu_seconds, memory_mib

STARTS = 5
READY_SECONDS = 60.0
LOOK_SECONDS = 0.01


ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("api", "app", "certs", "controller", "deploy", "engines", "kube", "local", "webhooks")


def compiled() -> None:
    """Bring the bytecode of every room up to date."""
    subprocess.run([sys.executable, "-m", "compileall", "-q", *ROOMS], check=True, cwd=ROOT)


def child(*command: str) -> tuple[float, float]:
    """CPU seconds of a child and its children, and its peak resident MiB (the largest child so far)."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, after.ru_maxrss / 1024


async def _ready(port: int) -> bool:
    """One plain request, as a kubelet's probe makes it."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    try:
        writer.write(b"GET /readyz HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n\r\n")
        return (await reader.read(64)).startswith(b"HTTP/1.1 200")
    except OSError:
        return False
    finally:
        writer.close()


async def _one(kubeconfig: Path) -> dict[str, float]:
    """One start and its end. Raises RuntimeError with the log where it does not become ready."""
    from bench.__main__ import free_port

    port = free_port()
    words = ("serve", "--kubeconfig", str(kubeconfig), "--serve-host", "127.0.0.1", "--serve-port", "0", "--serve-health-port", str(port))
    with tempfile.TemporaryFile() as log:
        begun = time.monotonic()
        process = await asyncio.create_subprocess_exec(sys.executable, "-m", "app.cli", *words, "--serve-drain-seconds", "0", stderr=log)
        try:
            while not await _ready(port):
                if process.returncode is not None or time.monotonic() - begun > READY_SECONDS:
                    log.seek(0)
                    raise RuntimeError(log.read().decode(errors="replace"))
                await asyncio.sleep(LOOK_SECONDS)
            return {"cpu": cpu_seconds(process.pid), "wall": time.monotonic() - begun, "mib": memory_mib(process.pid)[0]}
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
            await process.wait()


async def starts(count: int = STARTS) -> list[dict[str, float]]:
    """That many starts, one after the other, each on a cluster that has never been served."""
    from app.planting import plant
    from kube.config import connect
    from kube.errors import NotFound
    from kube.resources import LEASES, SECRETS
    from local.cluster import EmbeddedCluster

    with tempfile.TemporaryDirectory() as folder:
        cluster = EmbeddedCluster(state_dir=Path(folder))
        await cluster.start()
        try:
            async with await connect(str(cluster.kubeconfig)) as client:
                await plant(client, "modelwarden-system")
                measured = []
                for _ in range(count):
                    for resource_, name in ((SECRETS, "modelwarden-certs"), (LEASES, "modelwarden")):
                        with contextlib.suppress(NotFound):
                            await client.delete(resource_, name, "modelwarden-system")
                    measured.append(await _one(cluster.kubeconfig))
                return measured
        finally:
            await cluster.stop()


def measure() -> dict[str, Any]:
    """CPU seconds of a whole cold start, of an interpreter alone, of the service's imports, and of a verb."""
    compiled()
    measured = asyncio.run(starts())
    cpu = sorted(one["cpu"] for one in measured)
    python, _ = child(sys.executable, "-c", "pass")
    service, _ = child(sys.executable, "-c", "import app.verbs.serve; from app import lean; lean.prepare(); import app.serving")
    verb, _ = child(sys.executable, "-m", "app.cli", "args", "--engine", "vllm", "--", "--tensor-parallel-size", "2")
    return {
        f"cold start to /readyz, CPU s, median of {len(cpu)}": statistics.median(cpu),
        "cold start to /readyz, CPU s, least and most": f"{cpu[0]:.2f} {cpu[-1]:.2f}",
        "cold start to /readyz, wall s, median": statistics.median(one["wall"] for one in measured),
        "resident when ready, MiB, most": max(one["mib"] for one in measured),
        "interpreter alone, CPU s": python,
        "service imported, CPU s": service,
        "mdctl args, CPU s": verb,
    }
