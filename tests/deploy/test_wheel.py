"""What an image does without a container engine: a wheel, a clean environment, another user, a tree that nobody may write."""

import hashlib
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from fetching import fetched
from manifest_reading import DEPLOY

ROOT = DEPLOY.parent
SOURCES = ("api", "app", "certs", "controller", "deploy", "engines", "kube", "local", "webhooks")
USER = 65532
EPOCH = 1_760_000_000

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def _run(*words: str | Path, **more: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False, timeout=500, **more)  # type: ignore[call-overload, no-any-return]


@pytest.fixture(name="place", scope="module")
def _place() -> Iterator[Path]:
    """A folder that other users can enter, unlike pytest's own."""
    folder = Path(tempfile.mkdtemp(prefix="modelwarden-wheel-"))
    folder.chmod(0o755)
    yield folder
    for path in [folder, *folder.rglob("*")]:
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o755)
    shutil.rmtree(folder)


def _copied(origin: Path, target: Path, age: float = 0) -> Path:
    # A copy, so that the build leaves nothing in the checkout and takes nothing that is not tracked beside it.
    target.mkdir()
    for room in SOURCES:
        shutil.copytree(origin / room, target / room, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ("pyproject.toml", "README.md", "LICENSE", "constraints.txt"):
        shutil.copy(origin / file, target / file)
    for path in target.rglob("*"):
        os.utime(path, (EPOCH + age, EPOCH + age))
    return target


def _built(source: Path) -> Path:
    out = source.parent / f"wheels-{source.name}"
    environment = os.environ | {"SOURCE_DATE_EPOCH": str(EPOCH)}
    fetched([sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--wheel-dir", out, source], "a wheel", environ=environment)
    (wheel,) = out.glob("*.whl")
    return wheel


@pytest.fixture(name="wheel", scope="module")
def _wheel(place: Path) -> Path:
    return _built(_copied(ROOT, place / "source"))


def _interpreter() -> Path:
    """A Python that another user can start: ours may live in a home directory."""
    for candidate in (Path(sys.executable).resolve(), Path("/usr/bin/python3").resolve()):
        open_to_all = candidate.exists() and all(folder.stat().st_mode & stat.S_IXOTH for folder in [candidate, *candidate.parents])
        if open_to_all and _run(candidate, "-c", "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))").returncode == 0:
            return candidate
    pytest.skip("no Python 3.11 with venv that another user can start")


@pytest.fixture(name="mdctl", scope="module")
def _mdctl(place: Path, wheel: Path) -> Path:
    environment = place / "environment"
    assert _run(_interpreter(), "-m", "venv", environment).returncode == 0
    fetched(
        [environment / "bin" / "pip", "install", "-q", "-c", ROOT / "constraints.txt", wheel], "the wheel and what it needs", seconds=500
    )
    for path in [environment, *environment.rglob("*")]:
        if not path.is_symlink():
            path.chmod(path.stat().st_mode & ~(stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH) | stat.S_IRGRP | stat.S_IROTH)
    return environment / "bin" / "mdctl"


def _as_nobody(mdctl: Path, *words: str) -> subprocess.CompletedProcess[str]:
    identity = {"user": USER, "group": USER, "extra_groups": []} if os.getuid() == 0 else {}
    environment = {"PATH": "/usr/bin:/bin", "HOME": "/tmp", "PYTHONDONTWRITEBYTECODE": "1"}
    return _run(mdctl, *words, cwd="/", env=environment, **identity)


def test_the_wheel_carries_its_data_and_no_tests(wheel: Path) -> None:
    """Manifests, definitions, option tables and scenarios are package data."""
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {
        "deploy/base/deployment.yaml",
        "deploy/crds/modelwarden.yaml",
        "deploy/components/pdb/pdb.yaml",
        "deploy/chart/Chart.yaml",
    } <= names
    assert any(name.startswith("engines/tables/") and name.endswith(".json") for name in names)
    assert not [name for name in names if name.startswith(("tests/", "bench/", "tools/", "scripts/"))]
    assert [name for name in names if name.endswith("licenses/LICENSE")]


def test_the_same_tree_makes_the_same_wheel(place: Path, wheel: Path) -> None:
    """Built again, elsewhere, from files of another age: byte by byte the same, so that anybody can check what was published."""
    again = _built(_copied(place / "source", place / "elsewhere", age=86_400))
    assert again.name == wheel.name
    assert hashlib.sha256(again.read_bytes()).hexdigest() == hashlib.sha256(wheel.read_bytes()).hexdigest()


def test_the_command_runs_from_a_tree_that_it_cannot_write(mdctl: Path) -> None:
    """As another user, from /, with nothing of the checkout in sight."""
    done = _as_nobody(mdctl, "version")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("modelwarden 0.")


def test_the_installation_is_printed_from_package_data(mdctl: Path) -> None:
    """All manifests are there, definitions included."""
    done = _as_nobody(mdctl, "install", "--dry-run")
    assert done.returncode == 0, done.stderr
    assert {"Deployment", "CustomResourceDefinition", "ValidatingWebhookConfiguration"} <= {
        obj["kind"] for obj in yaml.safe_load_all(done.stdout)
    }


def test_an_argument_vector_is_read_from_package_data(mdctl: Path) -> None:
    """The option tables are found."""
    done = _as_nobody(mdctl, "args", "--engine", "vllm", "--", "--tensor-parallel-size", "2")
    assert done.returncode == 0, done.stderr
    assert "2" in done.stdout
