"""Bounded fuzzing of reviews: whatever arrives, an answer leaves, with the uid where it could be read, and never a crash."""

import json
from contextlib import suppress
from typing import Any

from budget import EXAMPLES
from hypothesis import given
from hypothesis import strategies as st

from webhooks.fence import InvalidPayloadError, read_binding, read_decision
from webhooks.lookups import ObjectLookup
from webhooks.server import PATHS, ReviewServer
from webhooks.settings import AdmissionSettings, default_scaler_usernames

BINDING = "modeldeployment.gpustack.ai/scaler-binding"
DECISION = "modeldeployment.gpustack.ai/scaler-decision"

SERVER = ReviewServer(
    ObjectLookup([{"kind": "InstanceType", "metadata": {"name": "h20"}, "spec": {"acceleratable": True}, "status": {"detail": {"a": 1}}}]),
    AdmissionSettings(),
)

texts = st.text(max_size=12) | st.sampled_from(
    ["--", "-tp", "2", "$(X)", "$(", "--kv-transfer-config={}", "--port=5557", "-t=2", "--config", "٤"]
)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**65), 2**65) | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)
small = st.integers(0, 5)
roles = st.fixed_dictionaries(
    {"name": st.sampled_from(["a", "b", "a-r0", "router"]), "instanceType": st.sampled_from(["h20", "gone"])},
    optional={
        "kind": st.sampled_from(["Server", "Prefill", "Decode", "Encode", ""]),
        "replicas": small,
        "size": small,
        "image": texts,
        "privileged": st.booleans(),
        "shmSize": texts | small,
        "extraArgs": st.lists(texts, max_size=6),
        "command": st.lists(texts, max_size=4),
        "env": st.lists(st.fixed_dictionaries({"name": st.sampled_from(["X", "VLLM_DP_SIZE"]), "value": texts}), max_size=3),
        "ports": st.lists(st.fixed_dictionaries({"port": st.integers(1, 65535), "protocol": st.sampled_from(["TCP", "UDP"])}), max_size=2),
        "resources": st.dictionaries(st.sampled_from(["accelerator", "interface"]), texts | small, max_size=2),
        "elasticEp": st.fixed_dictionaries({"width": st.integers(-1, 70)}),
        "additionalVolumes": st.lists(
            st.fixed_dictionaries({"mountPath": texts}, optional={"subPath": texts, "hostPath": values}), max_size=2
        ),
        "topology": st.fixed_dictionaries({"requiredLevel": texts}),
    },
)
payloads = texts | st.builds(json.dumps, values)
deployments = st.builds(
    lambda spec, notes, gone: {
        "kind": "ModelDeployment",
        "metadata": {"name": "qwen", "namespace": "n", "annotations": notes}
        | ({"deletionTimestamp": "2026-01-01T00:00:00Z"} if gone else {}),
        "spec": spec,
    },
    st.fixed_dictionaries(
        {
            "roles": st.lists(roles, max_size=3),
            "engine": st.fixed_dictionaries(
                {"name": st.sampled_from(["vLLM", "SGLang", "x"])}, optional={"version": st.sampled_from(["0.29.0", "0.5.18", "9"])}
            ),
            "model": st.fixed_dictionaries({"name": texts}, optional={"artifactRef": st.fixed_dictionaries({"name": texts})}),
        },
        optional={
            "router": st.fixed_dictionaries(
                {"name": st.sampled_from(["llm-d-router", "vllm-router", "x"]), "extraArgs": st.lists(texts, max_size=3)}
            ),
            "kvCache": st.fixed_dictionaries({"poolRef": st.fixed_dictionaries({"name": texts})}),
        },
    ),
    st.dictionaries(st.sampled_from([BINDING, DECISION, "other"]), payloads, max_size=3),
    st.booleans(),
)
users = st.sampled_from(["alice", "", default_scaler_usernames()[0]])


async def ask(path: str, body: bytes) -> tuple[int, dict[str, Any]]:
    """One answer, which has to be a review whatever was asked."""
    status, answer = await SERVER.review(path, body)
    review = json.loads(answer)
    assert review["kind"]
    assert isinstance(review["response"]["uid"], str)
    assert isinstance(review["response"]["allowed"], bool)
    assert status in {200, 400}, answer
    return status, review["response"]


@given(st.sampled_from(sorted(PATHS)), st.binary(max_size=400))
@EXAMPLES
async def test_any_bytes(path: str, body: bytes) -> None:
    """Bytes that are no review."""
    assert (await ask(path, body))[0] == 400


@given(st.sampled_from(sorted(PATHS)), values, values, st.sampled_from(["CREATE", "UPDATE", "DELETE", "CONNECT", ""]))
@EXAMPLES
async def test_any_objects(path: str, new: Any, old: Any, operation: str) -> None:
    """A review of anything at all: its uid comes back."""
    request = {"uid": "u-1", "operation": operation, "object": new, "oldObject": old, "resource": {"resource": "x"}}
    body = json.dumps({"kind": "AdmissionReview", "request": request}, ensure_ascii=True).encode()
    assert (await ask(path, body))[1]["uid"] == "u-1"


@given(st.sampled_from(sorted(PATHS)), deployments, deployments | st.none(), users)
@EXAMPLES
async def test_deployments(path: str, new: Any, old: Any, user: str) -> None:
    """Deployments of the right shape and of any content: judged without a crash, and twice the same."""
    request = {
        "uid": "u-1",
        "operation": "UPDATE" if old else "CREATE",
        "userInfo": {"username": user},
        "object": new,
        "oldObject": old,
        "namespace": "n",
    }
    body = json.dumps({"kind": "AdmissionReview", "request": request}).encode()
    status, first = await ask(path, body)
    assert first["uid"] == "u-1" or status == 400
    assert (await ask(path, body)) == (status, first)


@given(payloads)
@EXAMPLES
def test_payloads(text: str) -> None:
    """An annotation's text is read, or refused as what it is."""
    for read in (read_binding, read_decision):
        with suppress(InvalidPayloadError):
            read(text)
