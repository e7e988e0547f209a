"""`mdctl serve` as a child process against a cluster of the test's: it serves, logs JSON, and leaves on SIGTERM with 0."""

import asyncio
import json
import os
import signal
import socket
import sys
from pathlib import Path

import pytest
from app_world import EXAMPLES, SYSTEM, WORKER, documents

from app.planting import plant
from kube.config import connect
from kube.errors import Invalid
from kube.resources import LEASES
from local.cluster import EmbeddedCluster

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.timeout(110)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


async def test_serve(tmp_path):
    """Admission by service reference, a status's worth of caches, and the Lease given back."""
    cluster = EmbeddedCluster(state_dir=tmp_path)
    await cluster.start()
    port = free_port()
    cluster.webhook_services[SYSTEM, "modelwarden"] = ("127.0.0.1", port)
    environment = {key: value for key, value in os.environ.items() if not key.startswith("MODELWARDEN_") and key != "POD_NAMESPACE"}
    process = None
    try:
        async with asyncio.timeout(100), await connect(str(cluster.kubeconfig)) as client:
            await plant(client, SYSTEM)
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "app.cli", "serve", "--kubeconfig", str(cluster.kubeconfig), "--kueue", "absent"),
                *("--serve-host", "127.0.0.1", "--serve-port", str(port), "--serve-drain-seconds", "0", "--no-observers-enabled"),
                cwd=ROOT,
                env=environment | {"MODELWARDEN_SERVICE_HOST": "10.0.0.1"},
                stderr=asyncio.subprocess.PIPE,
            )
            assert process.stderr is not None
            lines = []
            while not lines or lines[-1]["msg"] != "serving certificate loaded":
                line = await process.stderr.readline()
                assert line, lines
                lines.append(json.loads(line))
            (namespace,) = (d for d in documents(EXAMPLES / "00-prerequisites.yaml") if d["kind"] == "Namespace")
            await client.create(WORKER["Namespace"], json.dumps(namespace).encode())
            (refused,) = documents(EXAMPLES / "refused" / "owned-flag.yaml")
            with pytest.raises(Invalid, match="MD201"):
                await client.create(WORKER["ModelDeployment"], json.dumps(refused).encode(), "team-a")
            process.send_signal(signal.SIGTERM)
            rest = await process.stderr.read()
            assert await process.wait() == 0, rest
            lines += [json.loads(line) for line in rest.splitlines()]
            assert lines[-1]["msg"] == "stopped"
            assert not [line for line in lines if line["level"] in {"error", "critical"}]
            assert not json.loads(await client.get(LEASES, "modelwarden", SYSTEM))["spec"]["holderIdentity"]
    finally:
        if process is not None and process.returncode is None:
            process.kill()
            await process.wait()
        await cluster.stop()


async def test_serve_without_a_cluster_says_so(tmp_path):
    """Exit code 1 and a sentence, not a traceback."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "app.cli", "serve", "--kubeconfig", str(tmp_path / "absent"), "--log-format", "json"),
        cwd=ROOT,
        stderr=asyncio.subprocess.PIPE,
    )
    _, stderr = await process.communicate()
    assert process.returncode == 1
    assert b"no cluster to serve" in stderr
    assert b"Traceback" not in stderr
