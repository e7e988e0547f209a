"""Scenario files: what they may say, and what the players of the packaged ones do to a cluster."""

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import yaml
from local_world import HastyClock, running

from kube.config import connect
from kube.resources import PODS, Resource
from local.scenario import Scenario, Step, load, play

ROOT = Path(__file__).parents[2]
PACKAGED = sorted(
    entry.name.removesuffix(".yaml") for entry in files("local").joinpath("scenarios").iterdir() if entry.name.endswith(".yaml")
)
MODEL_DEPLOYMENTS = Resource("worker.gpustack.ai", "v1", "modeldeployments", "ModelDeployment")
WORKLOADS = Resource("kueue.x-k8s.io", "v1beta2", "workloads", "Workload")

FAULTS: dict[str, tuple[Any, str]] = {
    "no mapping": ([1], "a list of steps"),
    "no steps": ({"name": "x"}, "a list of steps"),
    "a step without a time": ({"steps": [{"apply": []}]}, "has a time"),
    "a step at no time": ({"steps": [{"at": float("nan"), "apply": []}]}, "has a time"),
    "a step before the start": ({"steps": [{"at": -1, "apply": []}]}, "not before it"),
    "an unknown word": ({"steps": [{"at": 0, "aply": []}]}, "unknown aply"),
    "two acts in one step": ({"steps": [{"at": 0, "apply": [], "converge": {}}]}, "exactly one"),
    "no act": ({"steps": [{"at": 0, "say": "x"}]}, "exactly one"),
    "apply of no list": ({"steps": [{"at": 0, "apply": {}}]}, "a list of objects"),
    "an act without its mapping": ({"steps": [{"at": 0, "ready": []}]}, "takes a mapping"),
    "an object without a name": ({"steps": [{"at": 0, "apply": [{"kind": "Pod"}]}]}, "step 1: apply: entry 1 is no object with a name"),
    "a kind that nobody knows": (
        {"steps": [{"at": 0, "apply": [{"apiVersion": "v1", "kind": "Pot", "metadata": {"name": "a"}}]}]},
        "does not know v1 Pot",
    ),
    "a patch of nothing": ({"steps": [{"at": 0, "patch": {"kind": "Pod", "name": "a"}}]}, "merge or json is missing"),
    "a deletion without a name": ({"steps": [{"at": 0, "delete": {"kind": "Pod"}}]}, "name is missing"),
    "an act without its deployment": ({"steps": [{"at": 0, "converge": {}}]}, "converge: deployment is missing"),
    "an act with a word too many": (
        {"steps": [{"at": 0, "ready": {"deployment": "a", "role": "b"}}]},
        "unknown role; it takes deployment, ready, roles, ordinals, members, message",
    ),
    "what Kueue does not say": ({"steps": [{"at": 0, "quota": {"deployment": "a", "why": "b"}}]}, "unknown why"),
    "an act with a word too few": ({"steps": [{"at": 0, "lose": {"deployment": "a", "role": "b"}}]}, "lose: ordinal is missing"),
    "steps out of order": ({"steps": [{"at": 2, "apply": []}, {"at": 1, "apply": []}]}, "order of their times"),
}


@pytest.mark.parametrize(("document", "words"), FAULTS.values(), ids=FAULTS)
def test_what_is_no_scenario_is_said_with_its_place(tmp_path: Path, document: Any, words: str) -> None:
    """A ValueError that a person can act on."""
    path = tmp_path / "s.yaml"
    path.write_text(yaml.safe_dump(document))
    with pytest.raises(ValueError, match=words):
        load(path)


@pytest.mark.parametrize("name", PACKAGED)
def test_packaged_scenarios_load_by_name_and_say_something_in_every_step(name: str) -> None:
    """They are what a person sees first."""
    scenario = load(name)
    assert scenario.name == name
    assert scenario.description
    assert all(step.say != step.act for step in scenario.steps)


async def _played(folder: Path, scenario: Scenario) -> tuple[list[Step], dict[str, Any], list[Any], list[Any], HastyClock]:
    clock = HastyClock()
    told: list[Step] = []
    async with running(folder) as (cluster, client):
        for name in ("companions", "modelwarden"):
            for definition in yaml.safe_load_all((ROOT / "deploy" / "crds" / f"{name}.yaml").read_text()):
                answer = await client.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", json=definition)
                assert answer.status_code == 201, answer.text
        async with await connect(str(cluster.kubeconfig)) as talker:

            async def become(user: str) -> Any:
                return talker

            await play(scenario, talker, clock, told.append, become=become)
            deployments = [json.loads(bytes(raw)) async for page in talker.pages(MODEL_DEPLOYMENTS) for raw in page.items]
            pods = [json.loads(bytes(raw)) async for page in talker.pages(PODS) for raw in page.items]
            workloads = [json.loads(bytes(raw)) async for page in talker.pages(WORKLOADS) for raw in page.items]
    return told, deployments[0], pods, workloads, clock


def _ready(pod: Any) -> str:
    return next((entry["status"] for entry in pod.get("status", {}).get("conditions", []) if entry["type"] == "Ready"), "")


async def test_prefill_decode_ends_with_every_member_ready(tmp_path: Path) -> None:
    """Three Pods on their seats, owned and labelled, each replica's Workload admitted; the lost member is another Pod than before."""
    told, deployment, pods, workloads, clock = await _played(tmp_path, load("prefill-decode"))
    assert [step.at for step in told] == sorted(step.at for step in told)
    assert clock.seconds == pytest.approx(told[-1].at)
    assert {pod["metadata"]["name"] for pod in pods} == {"chat-prefill-0", "chat-decode-r0-m0", "chat-decode-r0-m1"}
    assert {_ready(pod) for pod in pods} == {"True"}
    assert {pod["metadata"]["ownerReferences"][0]["uid"] for pod in pods} == {deployment["metadata"]["uid"]}
    assert len(workloads) == 2
    for workload in workloads:
        held = {entry["type"]: entry["status"] for entry in workload["status"]["conditions"]}
        assert held["QuotaReserved"] == "True"
        assert workload["status"]["admission"]["podSetAssignments"][0]["flavors"]["credits.gpustack.ai/nvidia"] == "a100"
    members = {ref["uid"] for workload in workloads for ref in workload["metadata"]["ownerReferences"]}
    assert members == {pod["metadata"]["uid"] for pod in pods}


async def test_partial_preemption_takes_and_gives_back_one_replica(tmp_path: Path) -> None:
    """At the end all three hold quota and are ready."""
    _, _, pods, workloads, _ = await _played(tmp_path, load("partial-preemption"))
    assert sorted(pod["metadata"]["name"] for pod in pods) == ["embed-server-0", "embed-server-1", "embed-server-2"]
    assert {_ready(pod) for pod in pods} == {"True"}
    assert len(workloads) == 3


async def test_a_write_that_must_be_refused_and_is_not_ends_the_play(tmp_path: Path) -> None:
    """Without webhooks nobody refuses the person's edit of a bound deployment."""
    with pytest.raises(ValueError, match="did not refuse"):
        await _played(tmp_path, load("scaler-bound"))


async def test_a_refusal_is_told_with_its_words(tmp_path: Path) -> None:
    """The schema refuses; the step carries what the API server said."""
    patch = {"apiVersion": "worker.gpustack.ai/v1", "kind": "ModelDeployment", "name": "chat", "merge": {"spec": {"engine": {"name": "X"}}}}
    start = load("prefill-decode")
    step = Step(1.0, "a person names an engine that is none", "patch", patch, refused=True)
    told, *_ = await _played(tmp_path, Scenario("x", "", start.namespace, (*start.steps[:2], step)))
    assert "Unsupported value" in told[-1].told
    assert "refused:" in str(told[-1])


MISTAKES: dict[str, tuple[str, Any, str]] = {
    "a deployment that is not there": ("converge", {"deployment": "nobody"}, "which is not there"),
    "a role that the deployment lacks": ("ready", {"deployment": "chat", "roles": ["nobody"]}, "lacks: nobody"),
    "a kind that nobody knows": ("delete", {"apiVersion": "x/v1", "kind": "Y", "name": "z"}, "does not know x/v1 Y"),
}


@pytest.mark.parametrize(("act", "what", "words"), MISTAKES.values(), ids=MISTAKES)
async def test_a_mistake_in_a_step_is_said(tmp_path: Path, act: str, what: Any, words: str) -> None:
    """A ValueError, not a stack of HTTP."""
    start = load("prefill-decode")
    with pytest.raises(ValueError, match=words):
        await _played(tmp_path, Scenario("x", "", start.namespace, (*start.steps[:2], Step(1.0, "x", act, what))))


async def test_a_step_that_cannot_be_done_as_it_is_written_is_named(tmp_path: Path) -> None:
    """With its time and its sentence, and not in a traceback."""

    class OneDeployment:
        """Whatever is asked for is this."""

        async def get(self, resource: Any, name: str, namespace: str | None = None) -> bytes:
            """The deployment."""
            return b'{"spec":{"roles":[{"name":"server"}]}}'

    path = tmp_path / "s.yaml"
    path.write_text("steps: [{at: 1, say: all are ready, ready: {deployment: a, ordinals: 5}}]")
    with pytest.raises(ValueError, match="t=1s: all are ready: ready cannot be done as it is written: TypeError"):
        await play(load(path), OneDeployment(), HastyClock())  # type: ignore[arg-type]
