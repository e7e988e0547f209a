"""Argument vectors through the webhooks: whatever a person writes into extraArgs, env and a Pod's args is judged, and judged alike."""

import json
from typing import Any

from budget import EXAMPLES
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from engines.table import ENGINES, load, versions
from webhooks.lookups import ObjectLookup
from webhooks.server import MUTATE_POD, VALIDATE_DEPLOYMENT, ReviewServer
from webhooks.settings import AdmissionSettings

SPELLINGS = sorted({spelling for engine in ENGINES for option in load(engine, versions(engine)[-1]) for spelling in option.spellings})
CARDS = {"kind": "InstanceType", "metadata": {"name": "h20"}, "spec": {"acceleratable": True}}

names = st.sampled_from(SPELLINGS)
abbreviated = st.builds(lambda name, cut: name[: max(3, len(name) - cut)], names, st.integers(0, 12))
underscored = st.builds(lambda name: "--" + name.lstrip("-").replace("-", "_"), names)
values = st.sampled_from(
    ["1", "2", "0", "-1", "", " ", "x", "2147483648", "9" * 50, "None", "٤", "1e3", "$(X)", "$(", "$$(X)", "{}", "[" * 2000]
)
joined = st.builds(lambda name, value: f"{name}={value}", names | abbreviated | underscored, values | st.text(max_size=8))
dotted = st.builds(
    lambda name, path, value: f"{name}.{path}={value}", names, st.sampled_from(["a", "a.b", "a+", "", ".", "a" * 300]), values
)
tokens = (
    names | abbreviated | underscored | joined | dotted | values | st.text(max_size=10) | st.sampled_from(["--", "-", "-tp", "-tp2", "-O3"])
)
argvs = st.lists(tokens, max_size=14)
variables = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from(["X", "Y", "VLLM_DP_SIZE", "VLLM_DP_RANK"]), "value": values | st.just("$(Y)") | st.just("$(X)")}
    ),
    max_size=4,
)
engines = st.sampled_from([("vLLM", "0.29.0"), ("vLLM", None), ("vLLM", "0.1"), ("SGLang", None), ("SGLang", "0.5.18"), ("SGLang", "main")])


def deployment(engine: tuple[str, str | None], argv: list[str], env: Any, kind: str) -> dict[str, Any]:
    """One role with that line."""
    name, version = engine
    role = {
        "name": "a",
        "kind": kind,
        "instanceType": "h20",
        "image": "e:1",
        "extraArgs": argv,
        "env": env,
        "resources": {"accelerator": "8"},
    }
    spec = {"model": {"name": "m"}, "engine": {"name": name} | ({"version": version} if version else {}), "roles": [role]}
    return {"kind": "ModelDeployment", "metadata": {"name": "d", "namespace": "n", "uid": "md"}, "spec": spec}


async def ask(server: ReviewServer, path: str, new: Any, old: Any = None) -> dict[str, Any]:
    """The response; never a crash, and never longer than an answer may be."""
    request = {"uid": "u-1", "operation": "UPDATE" if old else "CREATE", "namespace": "n", "object": new, "oldObject": old}
    with capture_logs() as logs:
        status, answer = await server.review(path, json.dumps({"kind": "AdmissionReview", "request": request}).encode())
    assert logs == []
    assert status == 200, answer
    assert len(answer) < 256 * 1024
    response: dict[str, Any] = json.loads(answer)["response"]
    assert response["uid"] == "u-1"
    warnings = response.get("warnings", [])
    assert len(warnings) <= 8
    assert all(len(warning) <= 256 for warning in warnings)
    return response


@given(engines, argvs, variables, st.sampled_from(["Server", "Prefill", "Decode"]))
@EXAMPLES
async def test_a_line_is_judged_and_its_pod_is_completed_once(engine: Any, argv: list[str], env: Any, kind: str) -> None:
    """The verdict is the same twice, an unchanged line is never refused on an update, and a completed Pod needs nothing more."""
    made = deployment(engine, argv, env, kind)
    server = ReviewServer(ObjectLookup([CARDS, made]), AdmissionSettings())
    first = await ask(server, VALIDATE_DEPLOYMENT, made)
    assert await ask(server, VALIDATE_DEPLOYMENT, made) == first
    labels = {
        "app.kubernetes.io/name": "model-deployment",
        "app.kubernetes.io/instance": "d",
        "app.kubernetes.io/component": "a",
    }
    pod: dict[str, Any] = {
        "kind": "Pod",
        "metadata": {"name": "p", "labels": labels},
        "spec": {"containers": [{"name": "main", "args": argv}]},
    }
    completed = await ask(server, MUTATE_POD, pod)
    if "patch" in completed:
        import base64

        from webhooks.patch import Operation, apply_patch

        patch = [Operation(**operation) for operation in json.loads(base64.b64decode(completed["patch"]))]
        assert "patch" not in await ask(server, MUTATE_POD, apply_patch(pod, patch))
