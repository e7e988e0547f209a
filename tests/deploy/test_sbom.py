"""The bill of materials lists what runs, at the versions that are pinned, and nothing that only builds or tests."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from fetching import fetched
from manifest_reading import DEPLOY

ROOT = DEPLOY.parent

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.fixture(name="tool", scope="module")
def _tool(tmp_path_factory: pytest.TempPathFactory) -> str:
    """cyclonedx-py, from an environment of its own; CYCLONEDX_PY names one that is there."""
    if given := os.environ.get("CYCLONEDX_PY"):
        return given
    folder = tmp_path_factory.mktemp("cyclonedx")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    fetched([folder / "bin" / "pip", "install", "-q", "cyclonedx-bom>=7,<8"], "cyclonedx-bom, which writes the bill")
    return str(folder / "bin" / "cyclonedx-py")


def test_the_bill_lists_what_runs(tool: str, tmp_path: Path) -> None:
    """Every dependency of the project at its pinned version; no installer, no test tool, no path of the machine it was made on."""
    output = tmp_path / "sbom.json"
    environment = os.environ | {"PYTHON": sys.executable}
    fetched(["sh", ROOT / "scripts" / "sbom.sh", tool, output], "an installation to list", seconds=800, environ=environment)
    text = output.read_text(encoding="utf-8")
    bill = json.loads(text)
    listed = {_canonical(component["name"]): component["version"] for component in bill["components"]}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = {_canonical(name): version for name, _, version in (line.split(";")[0].strip().partition("==") for line in lines) if version}
    for requirement in project["project"]["dependencies"]:
        name = _canonical(re.split(r"[><=;\[ ]", requirement)[0])
        assert listed[name] == pinned[name]
    assert not {"pip", "setuptools", "pytest", "ruff", "mypy"} & listed.keys()
    assert (bill["bomFormat"], bill["metadata"]["component"]["name"]) == ("CycloneDX", project["project"]["name"])
    assert "file://" not in text
