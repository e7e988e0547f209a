"""Reads manifests as a cluster would see them: by kind and name."""

import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

import deploy

DEPLOY = Path(deploy.__file__).parent
KUBECTL = shutil.which("kubectl")


def identity(obj: dict[str, Any]) -> tuple[str, str]:
    """Kind and name."""
    return obj["kind"], obj["metadata"]["name"]


def by_identity(objects: Iterable[dict[str, Any]]) -> dict[tuple[str, str], dict[str, Any]]:
    """The objects by kind and name; the same one twice is an error."""
    out: dict[tuple[str, str], dict[str, Any]] = {}
    for obj in objects:
        assert identity(obj) not in out, identity(obj)
        out[identity(obj)] = obj
    return out


def kustomized(folder: str) -> dict[tuple[str, str], dict[str, Any]]:
    """What kustomize makes of a folder of deploy/."""
    assert KUBECTL is not None
    done = subprocess.run([KUBECTL, "kustomize", str(DEPLOY / folder)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return by_identity(obj for obj in yaml.safe_load_all(done.stdout) if obj)
