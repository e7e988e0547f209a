"""`mdctl run` as a child process, as a person starts it: the scenario's end as YAML, and a quick, clean end on Ctrl-C."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from app.cli import main

MDCTL = [sys.executable, "-m", "app.cli"]
ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.timeout(110)


def environment() -> dict[str, str]:
    """No setting of the machine the tests run on."""
    return {key: value for key, value in os.environ.items() if not key.startswith("MODELWARDEN_") and key != "POD_NAMESPACE"}


def test_once_plays_the_scenario_and_prints_final_statuses(tmp_path):
    """Exit code 0, and on standard output nothing but YAML: Ready, with the summary of a router, a prefill and a decode role."""
    done = subprocess.run(
        [*MDCTL, "run", "--once", "--speed", "20", "--keep-state", str(tmp_path)],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (found,) = (d for d in yaml.safe_load_all(done.stdout) if d["kind"] == "ModelDeployment")
    status = found["status"]
    assert (status["phase"], status["roleSummary"]) == ("Ready", "1R1P1D")
    assert status["observedGeneration"] == found["metadata"]["generation"]
    assert status["endpoint"].startswith("http://")
    conditions = {c["type"]: c["status"] for c in status["conditions"]}
    for kind in ("QuotaReserved", "RouterReady", "ReplicasUpToDate"):
        assert conditions[kind] == "True", status["conditions"]
    assert "Starting" in done.stderr
    assert "Degraded" in done.stderr, "the lost member was seen"
    assert (tmp_path / "kubeconfig").exists()
    assert '"level": "error"' not in (tmp_path / "service.log").read_text(encoding="utf-8")


def test_ctrl_c_ends_it_cleanly(tmp_path):
    """The kubeconfig's path is shown, and SIGINT ends with 0 and without a traceback."""
    process = subprocess.Popen(
        [*MDCTL, "run", "--scenario", "none", "--keep-state", str(tmp_path)],
        cwd=ROOT,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        head = [process.stdout.readline() for _ in range(4)]
        assert f"kubeconfig  {tmp_path / 'kubeconfig'}\n" in head
        process.send_signal(signal.SIGINT)
        started = time.monotonic()
        _, stderr = process.communicate(timeout=60)
        assert process.returncode == 0, stderr
        assert "Traceback" not in stderr
        assert time.monotonic() - started < 30
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()


def test_an_unknown_scenario_is_named() -> None:
    """Exit code 2 and the names there are."""
    result = CliRunner().invoke(main, ["run", "--scenario", "nothing-like-it"])
    assert result.exit_code == 2
    assert "no scenario 'nothing-like-it'" in result.output
    assert "prefill-decode" in result.output
