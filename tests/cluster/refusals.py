"""Ten refusals as a person meets them: real kubectl as real users against the embedded cluster with the service, written down as a page."""

import asyncio
import os
import re
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from fencekit import BINDING, MASTERS, Fence, binding, body_of, scaler_body

JSON = dict[str, Any]
SPACE = "team-a"
WIDTH = 100

HEADER = """\
# Refusals

<!-- Generated: `WRITE_PAGES=1 python -m pytest tests/cluster/test_refusals_page.py`. A test runs every command again and compares. -->

What admission says no to, as `kubectl` shows it. The deployment `chat` is bound to the Active scaler `chat-queue`; `lone` has no scaler.
Every command is run by `alice`, a cluster administrator: the fence looks at the name of the writer and never at groups. A refusal
leaves nothing behind, and a dry-run is refused as the write itself.

Lines that are long in the terminal are folded here.
"""


@dataclass(frozen=True)
class Scene:
    """A refusal: what it shows, the files it needs, the command line after `kubectl`, and what has to stand in the answer."""

    title: str
    why: str
    command: str
    says: str
    files: dict[str, JSON] = field(default_factory=dict)


def _changed(name: str, *roles: JSON, **spec: Any) -> JSON:
    body = body_of(name, {"server": 2})
    body["metadata"]["namespace"] = SPACE
    body["spec"] |= spec
    for number, fields in enumerate(roles):
        body["spec"]["roles"][number] |= fields
    return body


def _backup() -> JSON:
    body = _changed("restored")
    body["metadata"]["annotations"] = {BINDING: binding("6f2c1e9a-0000-4000-8000-000000000000", "chat-queue", 3)}
    return body


def _second_scaler() -> JSON:
    body = scaler_body("second", "chat", {"server": 2})
    body["metadata"]["namespace"] = SPACE
    return body


_PATCH = """--type=json -p '[{"op":"replace","path":"/spec/roles/0/replicas","value":7}]'"""

SCENES = (
    Scene(
        "Scaling what a scaler owns",
        "The message names the owner, what stands, what was tried, and the ways out, among them the ignore rules of Argo CD and Flux. "
        "(An API server as old as 1.20 takes the roles for one value in a server-side apply: there an apply that leaves the count out is "
        "refused too.)",
        f"patch md chat {_PATCH}",
        "ReplicasOwnedByScaler",
    ),
    Scene(
        "The same as a dry-run",
        "Nothing is used up by asking first.",
        f"patch md chat --dry-run=server {_PATCH}",
        "ReplicasOwnedByScaler",
    ),
    Scene(
        "Taking the binding off while its scaler lives",
        "Suspend the scaler, set it to Shadow or delete it first; then the same command passes.",
        f"annotate md chat {BINDING}-",
        "ScalerAlive",
    ),
    Scene(
        "Restoring a backup that carries a binding",
        "Take the two annotations out of the manifest; the scaler binds anew.",
        "create -f backup.yaml",
        "ScalerAnnotationForged",
        {"backup.yaml": _backup()},
    ),
    Scene(
        "Forging a binding",
        "Only a scaler writes these annotations, however much the writer may do otherwise.",
        f"annotate md lone {BINDING}=mine",
        "ScalerAnnotationForged",
    ),
    Scene(
        "There is no scale subresource",
        "Counts belong to roles, so there is nothing for `kubectl scale` or an autoscaler of Pods to write to.",
        "scale md chat --replicas=7",
        "the server could not find the requested resource",
    ),
    Scene(
        "An argument that belongs to the operator",
        "Every spelling that the engine itself would accept is recognised.",
        "apply -f owned.yaml",
        "MD201",
        {"owned.yaml": _changed("owned", {"extraArgs": ["--kv_transfer_config", "{}"]})},
    ),
    Scene(
        "Everything that is wrong comes at once",
        "One answer names each field.",
        "apply -f faults.yaml",
        "MD101",
        {"faults.yaml": _changed("faults", {"shmSize": "0", "instanceType": "h900", "extraArgs": ["--tensor-parallel-size", "many"]})},
    ),
    Scene(
        "Another engine for a deployment that exists",
        "What says which deployment this is does not change; how it is run does. The definition itself says "
        "so, also while the webhook is away.",
        """patch md lone --type=merge -p '{"spec":{"engine":{"name":"SGLang"}}}'""",
        "spec.engine.name",
    ),
    Scene(
        "A second Active scaler on one deployment",
        "Two owners of one count would undo each other's work.",
        "apply -f second.yaml",
        "MD",
        {"second.yaml": _second_scaler()},
    ),
)


async def page(fence: Fence, folder: Path) -> str:
    """The whole page."""
    parts = [HEADER]
    kubeconfig = fence.cluster.kubeconfig_for("alice", MASTERS)
    for number, scene in enumerate(SCENES, 1):
        for name, obj in scene.files.items():
            (folder / name).write_text(yaml.safe_dump(obj, sort_keys=False), encoding="utf-8")
        code, output = await _kubectl(f"kubectl {scene.command}", kubeconfig, folder)
        if code == 0 or scene.says not in output:
            raise AssertionError(f"kubectl {scene.command} was to say {scene.says!r}, but ended with {code} and said: {output}")
        told = [f"## {number}. {scene.title}", "", *_folded(scene.why, 140), ""]
        for name, obj in scene.files.items():
            told += [f"`{name}`:", "", "```yaml", yaml.safe_dump(obj, sort_keys=False).strip(), "```", ""]
        told += ["```console", f"$ kubectl {scene.command}", *_folded(normalised(output), WIDTH), "```", ""]
        parts.append("\n".join(told))
    return "\n".join(parts)


def normalised(text: str) -> str:
    """Without what differs from run to run."""
    text = re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:6443", text)
    text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "2026-01-01T00:00:00Z", text)
    text = re.sub(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "00000000-0000-4000-8000-000000000000", text)
    return text.strip()


def _folded(text: str, width: int) -> list[str]:
    lines: list[str] = []
    for line in text.splitlines():
        rest = line
        while len(rest) > width:
            cut = rest.rfind(" ", 0, width)
            cut = cut if cut > 0 else rest.find(" ", width)
            if cut < 0:
                break
            lines.append(rest[:cut])
            rest = rest[cut + 1 :]
        lines.append(rest)
    return lines


async def _kubectl(command: str, kubeconfig: Path, folder: Path) -> tuple[int, str]:
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder), "KUBECONFIG": str(kubeconfig), "KUBECACHEDIR": str(folder / "cache")}
    process = await asyncio.create_subprocess_shell(
        f"{command} -n {SPACE}", cwd=folder, env=environ, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    async with asyncio.timeout(60):
        output, _ = await process.communicate()
    return process.returncode or 0, output.decode()


async def prepare(fence: Fence) -> None:
    """The two deployments and the scaler that the page speaks of, by the users who may make them."""
    (await fence.admin("POST", "/api/v1/namespaces", {"metadata": {"name": SPACE}})).ok()
    fence.space = SPACE
    for name in ("chat", "lone"):
        (await fence.alice("POST", fence.path(), body_of(name, {"server": 2}))).ok()
    made = (await fence.alice("POST", fence.scaler_path(), scaler_body("chat-queue", "chat", {"server": 2}))).ok()
    fence.uids["chat"] = made["metadata"]["uid"]
    (await fence.write(fence.scaler, "chat", lambda w: w.bind(1, scaler="chat-queue"), "json")).ok()


def has_kubectl() -> bool:
    """Whether there is a kubectl to run."""
    return shutil.which("kubectl") is not None
