"""A dump: everything a status reads, nothing that has to stay in the cluster, and the same verdict from the file as from the cluster."""

from typing import Any

import pytest
import yaml
from cluster import FakeCluster
from things import Thing, deployment, pod, router_pod, workload
from virtual import START

from api.status import encode_status
from app.verbs.dump import prepared, rendered, short_name
from controller.capture import capture
from controller.dump import parse, snapshots
from controller.redaction import redacted
from controller.status.judge import judge
from kube.errors import Forbidden, KubeError, NotFound


def scene(api: FakeCluster) -> None:
    env = [{"name": "HF_TOKEN", "value": "hush"}, {"name": "VLLM_DP_SIZE", "value": "2"}]
    roles = [{"name": "server", "replicas": 1, "instanceType": "h100", "env": env, "extraArgs": ["--api-key", "hush", "-tp", "2"]}]
    made = deployment(roles=roles, kvCache={"poolRef": {"name": "bind"}}, router={"name": "vllm-router"})
    made["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"] = "hush"
    made["metadata"]["managedFields"] = [{"manager": "hush"}]
    made = api.put(made)
    member = pod(made, "chat-0").ready().annotated("kvcache.gpustack.ai/client-config", "hush").json
    member["spec"]["containers"][0]["env"] = [{"name": "X", "value": "hush"}, {"name": "Y", "valueFrom": {"secretKeyRef": {"name": "s"}}}]
    member = api.put(member)
    api.put(pod(deployment("other"), "other-0").json)
    api.put(workload(member, name="mine"))
    api.put(workload(pod(deployment("other"), "other-0").json, name="theirs"))
    api.put(router_pod(made).json)
    api.put(Thing("apps/v1", "Deployment", "chat-router").owned_by(made).json)
    api.put(Thing("apps/v1", "Deployment", "stranger").json)
    api.put(Thing("v1", "Service", "chat").owned_by(made).json)
    api.put(Thing("worker.gpustack.ai/v1", "InstanceType", "h100", "").json)
    binding = Thing("worker.gpustack.ai/v1", "KVCachePoolBinding", "bind").json
    api.put({**binding, "spec": {"poolRef": {"name": "pool"}}})
    api.put(Thing("worker.gpustack.ai/v1", "KVCachePool", "pool", "").json)


async def captured(api: FakeCluster) -> list[dict[str, Any]]:
    return await capture(api, "team", "chat")  # type: ignore[arg-type]


async def test_everything_that_is_read_and_nothing_else() -> None:
    """The deployment's own parts and what they refer to, in a fixed order; other deployments' parts stay out."""
    api = FakeCluster()
    scene(api)
    assert [(item["kind"], item["metadata"]["name"]) for item in prepared(await captured(api), START)] == [
        ("ModelDeployment", "chat"),
        ("Observations", "chat"),
        ("Pod", "chat-0"),
        ("Pod", "chat-router-abc-1"),
        ("Workload", "mine"),
        ("Deployment", "chat-router"),
        ("Service", "chat"),
        ("InstanceType", "h100"),
        ("KVCachePoolBinding", "bind"),
        ("KVCachePool", "pool"),
    ]


async def test_pods_that_the_controller_never_sees_are_not_in_the_dump() -> None:
    """It lists by the name label: what lacks it would be judged from the file and not in the cluster."""
    api = FakeCluster()
    scene(api)
    stray = pod(api.get_object("ModelDeployment", "chat"), "chat-9", 9).json
    del stray["metadata"]["labels"]["app.kubernetes.io/name"]
    api.put(stray)
    assert [item["metadata"]["name"] for item in await captured(api) if item["kind"] == "Pod"] == ["chat-0", "chat-router-abc-1"]


async def test_nothing_secret_leaves() -> None:
    """No environment value, no key, no client document, no last-applied copy."""
    api = FakeCluster()
    scene(api)
    text = rendered(prepared(await captured(api), START), "yaml")
    assert "hush" not in text
    assert "secretKeyRef" in text  # a reference is no secret
    assert 'value: "2"' in text or "value: '2'" in text  # a degree is none either


async def test_the_file_gives_the_verdict_of_the_cluster() -> None:
    """What was hidden decides nothing that the dump does not say."""
    api = FakeCluster()
    scene(api)
    objects = await captured(api)
    (fresh,) = snapshots(objects, START)
    (again,) = snapshots(parse(rendered(prepared(objects, START), "yaml")))
    assert encode_status(judge(again)) == encode_status(judge(fresh))
    (again,) = snapshots(parse(rendered(prepared(objects, START), "json")))
    assert encode_status(judge(again)) == encode_status(judge(fresh))


async def test_the_same_cluster_gives_the_same_bytes() -> None:
    """Order and form depend on the objects alone."""
    texts = set()
    for _ in range(2):
        api = FakeCluster()
        scene(api)
        texts.add(rendered(prepared(await captured(api), START), "yaml"))
    assert len(texts) == 1
    assert len(list(yaml.safe_load_all(texts.pop()))) == 10


async def test_kinds_that_are_not_served_have_no_objects() -> None:
    """A cluster without Kueue and gpustack kinds can be captured too."""
    api = FakeCluster()
    scene(api)
    api.unserved |= {"workloads", "instancetypes", "kvcachepoolbindings", "kvcachepools", "modeldeploymentscalers"}
    assert [item["kind"] for item in await captured(api)] == ["ModelDeployment", "Pod", "Pod", "Deployment", "Service"]


@pytest.mark.parametrize(("kind", "error"), [("Pod", Forbidden(403)), ("Workload", Forbidden(403)), ("ModelDeployment", NotFound(404))])
async def test_half_a_dump_is_none(kind: str, error: KubeError) -> None:
    """A failed read fails the capture."""
    api = FakeCluster()
    scene(api)
    api.fail = lambda request: error if request.kind == kind else None
    with pytest.raises(type(error)):
        await captured(api)


@pytest.mark.parametrize(
    ("tokens", "shown"),
    [
        pytest.param(["--api-key", "k"], ["--api-key", "REDACTED"], id="a spaced value"),
        pytest.param(["--api_key=k"], ["--api_key=REDACTED"], id="an equals value"),
        pytest.param(
            ["--api-key", "a", "b", "-tp", "2"], ["--api-key", "REDACTED", "REDACTED", "-tp", "2"], id="several values, then another option"
        ),
        pytest.param(["--hf-token", "t"], ["--hf-token", "REDACTED"], id="a token"),
        pytest.param(["--api-k", "k", "--api_ke=k"], ["--api-k", "REDACTED", "--api_ke=REDACTED"], id="an abbreviation"),
        pytest.param(["--hf-t", "t", "--admin", "k"], ["--hf-t", "REDACTED", "--admin", "REDACTED"], id="abbreviations of others"),
        pytest.param(["--x.token", "t"], ["--x.token", "REDACTED"], id="a member of a dotted option"),
        pytest.param(
            ["--tp", "8", "--ssl-keyfile", "/k", "--host", "h"],
            ["--tp", "8", "--ssl-keyfile", "/k", "--host", "h"],
            id="options that begin as a secret one does, and are options of their own",
        ),
        pytest.param(
            ["--tokenizer", "t", "--max-num-batched-tokens", "9"],
            ["--tokenizer", "t", "--max-num-batched-tokens", "9"],
            id="words that only look so",
        ),
    ],
)
def test_arguments(tokens: list[str], shown: list[str]) -> None:
    """Values of secret options are hidden, everything else is kept for the reader."""
    assert redacted({"metadata": {}, "spec": {"roles": [{"extraArgs": tokens}]}})["spec"]["roles"][0]["extraArgs"] == shown


def test_headers_of_probes() -> None:
    """Whoever asks an engine with a key in a probe's header has not shown it to the readers of a dump."""
    probe = {"httpGet": {"path": "/health", "port": 8000, "httpHeaders": [{"name": "Authorization", "value": "Bearer hush"}]}}
    shown = redacted({"metadata": {}, "spec": {"containers": [{"name": "main", "livenessProbe": probe}]}})
    assert "hush" not in str(shown)
    assert shown["spec"]["containers"][0]["livenessProbe"]["httpGet"]["httpHeaders"][0]["name"] == "Authorization"


@pytest.mark.parametrize(
    ("name", "short"), [("md/qwen", "qwen"), ("qwen", "qwen"), ("modeldeployments.worker.gpustack.ai/q", "q"), (None, None)]
)
def test_names(name: str | None, short: str | None) -> None:
    """As kubectl would take them."""
    assert short_name(name) == short


async def test_an_object_of_another_shape_is_in_the_dump_and_told(capsys: pytest.CaptureFixture[str]) -> None:
    """A definition of another release may hold what no projection reads: the capture goes on, the deployment is still judged."""
    api = FakeCluster()
    scene(api)
    objects = await captured(api)
    strange = next(item for item in objects if item["kind"] == "InstanceType")
    strange["spec"] = {"acceleratable": "perhaps"}
    kinds = [item["kind"] for item in prepared(objects, START)]
    assert kinds.count("Observations") == 1
    assert "InstanceType" in kinds
    assert "Warning: InstanceType" in capsys.readouterr().err
