"""Real reviews with their bytes mangled: cut, doubled, nested, repeated, made no text. An answer with a uid leaves, and it is bounded."""

import json
import re
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from budget import EXAMPLES, LONG
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from webhooks.lookups import ObjectLookup
from webhooks.server import MUTATE_POD, PATHS, VALIDATE_DEPLOYMENT, VALIDATE_SCALER, ReviewServer
from webhooks.settings import AdmissionSettings, default_scaler_usernames
from webhooks.wire import MOST_VALUES

UID = "5b0c9c1e-0000-4000-8000-00000000000a"
BINDING = '{"version":1,"scaler":"s","uid":"u","term":3,"acquiredAt":"2026-01-01T00:00:00Z"}'
DEPLOYMENT: dict[str, Any] = {
    "apiVersion": "worker.gpustack.ai/v1",
    "kind": "ModelDeployment",
    "metadata": {
        "name": "qwen",
        "namespace": "n",
        "uid": "md",
        "generation": 7,
        "labels": {"team": "a"},
        "annotations": {"modeldeployment.gpustack.ai/scaler-binding": BINDING, "note": "größe \u2028 <b>"},
        "managedFields": [{"manager": "kubectl", "operation": "Update", "fieldsV1": {"f:spec": {"f:roles": {}}}}],
    },
    "spec": {
        "model": {"name": "Qwen/Qwen3-8B"},
        "engine": {"name": "vLLM", "version": "0.29.0"},
        "router": {"name": "vllm-router", "replicas": 2},
        "kvCache": {"poolRef": {"name": "pool"}},
        "roles": [
            {
                "name": "server",
                "kind": "Server",
                "replicas": 2,
                "size": 2,
                "instanceType": "h20",
                "image": "engine:1",
                "resources": {"accelerator": "2"},
                "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "$(A)"}],
                "extraArgs": ["--tensor-parallel-size", "4", "--additional-config.a=1", "-dp=1"],
                "ports": [{"port": 8000, "protocol": "TCP"}],
            }
        ],
    },
    "status": {"phase": "Ready"},
}
POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "p",
        "labels": {
            "app.kubernetes.io/name": "model-deployment",
            "app.kubernetes.io/instance": "qwen",
            "app.kubernetes.io/component": "server",
        },
    },
    "spec": {"containers": [{"name": "main", "args": ["--max-model-len", "8"]}]},
}
SCALER: dict[str, Any] = {
    "apiVersion": "worker.gpustack.ai/v1",
    "kind": "ModelDeploymentScaler",
    "metadata": {"name": "s", "namespace": "n", "uid": "u"},
    "spec": {
        "targetRef": {"name": "qwen"},
        "mode": "Active",
        "roles": [{"name": "server", "minReplicas": 1, "maxReplicas": 4}],
        "algorithm": {"type": "Proportional", "proportional": {"metric": "QueueDepth", "roleTargets": [{"name": "server", "target": "8"}]}},
    },
}
SERVER = ReviewServer(
    ObjectLookup(
        [
            {"kind": "InstanceType", "metadata": {"name": "h20"}, "spec": {"acceleratable": True}},
            DEPLOYMENT,
            SCALER,
        ]
    ),
    AdmissionSettings(),
)


def body_of(new: Any, old: Any, user: str) -> bytes:
    """The bytes of a review."""
    request = {
        "uid": UID,
        "operation": "UPDATE" if old else "CREATE",
        "name": "qwen",
        "namespace": "n",
        "userInfo": {"username": user, "groups": ["a"]},
        "object": new,
        "oldObject": old,
        "dryRun": False,
    }
    review = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}
    return json.dumps(review, separators=(",", ":"), ensure_ascii=False).encode()


SCALED = json.loads(json.dumps(DEPLOYMENT))
SCALED["spec"]["roles"][0]["replicas"] = 5
REAL = {
    "a deployment that is bound": (VALIDATE_DEPLOYMENT, body_of(SCALED, DEPLOYMENT, "alice")),
    "the scaler's own write": (VALIDATE_DEPLOYMENT, body_of(SCALED, DEPLOYMENT, default_scaler_usernames()[0])),
    "a new deployment": ("/mutate-modeldeployment", body_of(DEPLOYMENT, None, "alice")),
    "a scaler": (VALIDATE_SCALER, body_of(SCALER, SCALER, "alice")),
    "a Pod": (MUTATE_POD, body_of(POD, None, "alice")),
}
FRAGMENTS = st.sampled_from(
    [
        b"",
        b"\xff\xfe",
        b"\xed\xa0\x80",
        b"\x00",
        b"null",
        b"[]",
        b"{}",
        b'""',
        b"1e400",
        b"-0",
        b"NaN",
        b"9" * 400,
        b"\\u0000",
        b"\\ud800",
        b'"replicas":3,',
        b'"uid":"x",',
        b'"roles":[],',
        b'"name":"server",',
        b"[" * 3000,
        b'{"a":' * 3000,
        b"[" * 900 + b"]" * 900,
        b'"' + b"a" * 70_000 + b'"',
        b",",
        b"}",
        b'"',
    ]
)
CUTS = st.lists(st.tuples(st.integers(0, 4000), st.integers(0, 60), FRAGMENTS | st.binary(max_size=8)), min_size=1, max_size=4)


async def ask(path: str, body: bytes) -> tuple[int, dict[str, Any]]:
    """The answer, which is a whole review with a uid, and no crash behind it."""
    with capture_logs() as logs:
        status, answer = await SERVER.review(path, body)
    assert [entry for entry in logs if entry["event"] == "a rule crashed"] == []
    response: dict[str, Any] = json.loads(answer)["response"]
    assert status in {200, 400, 413}
    assert isinstance(response["uid"], str)
    assert isinstance(response["allowed"], bool)
    return status, response


@given(st.sampled_from(sorted(REAL)), CUTS)
@EXAMPLES
async def test_a_mangled_review(name: str, cuts: list[tuple[int, int, bytes]]) -> None:
    """Whatever was cut out and put in, there is an answer, and what is allowed was said about this review and no other."""
    path, body = REAL[name]
    for start, length, fragment in cuts:
        at = start % len(body)
        body = body[:at] + fragment + body[at + length :]
    status, response = await ask(path, body)
    if status == 200:
        assert response["uid"] == json.loads(body.decode("utf-8", "surrogateescape"))["request"]["uid"]


@given(st.sampled_from(sorted(REAL)), st.integers(0, 10_000), st.sampled_from([b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf8\x88\x80\x80\x80"]))
@EXAMPLES
async def test_bytes_that_are_no_text(name: str, at: int, bad: bytes) -> None:
    """Anywhere in the review."""
    path, body = REAL[name]
    at %= len(body)
    await ask(path, body[:at] + bad + body[at:])


def _read(obj: dict[str, Any]) -> dict[str, Any]:
    """An object without the parts that no rule of its kind reads."""
    meta = {name: value for name, value in obj["metadata"].items() if name not in {"managedFields", "labels"} or obj["kind"] == "Pod"}
    return {name: value for name, value in obj.items() if name != "status"} | {"metadata": meta}


WHOLLY_READ = (
    (VALIDATE_DEPLOYMENT, body_of(_read(SCALED), _read(DEPLOYMENT), "alice")),
    (VALIDATE_SCALER, body_of(_read(SCALER), _read(SCALER), "alice")),
    (MUTATE_POD, body_of(POD, None, "alice")),
)


@given(st.sampled_from(WHOLLY_READ), st.integers(0, 10_000))
@EXAMPLES
async def test_a_key_that_comes_twice(review: tuple[str, bytes], which: int) -> None:
    """Any member that a rule could read, repeated with another value before it: 400, never one of the two."""
    path, body = review
    text = body.decode()
    starts = [match.start(1) for match in re.finditer(r'[{,]("(?:[^"\\]|\\.)*"):', text)]
    at = starts[which % len(starts)]
    key = text[at : text.index('"', at + 1) + 1]
    status, _ = await ask(path, f"{text[:at]}{key}:null,{text[at:]}".encode())
    assert status == 400, key


@given(st.sampled_from(sorted(PATHS)), st.integers(1, 20_000), st.sampled_from(["[", '{"a":', '[{"a":']))
@EXAMPLES
async def test_depth(path: str, depth: int, opening: str) -> None:
    """Closed or not, of any depth, as spec, as label, as annotation, as the whole."""
    closing = "".join({"[": "]", "{": "}"}[sign] for sign in reversed(opening) if sign in "[{")
    bomb = opening * depth + "1" + closing * depth
    spec = body_of(DEPLOYMENT, None, "alice").replace(b'"spec":{', b'"spec":{"x":' + bomb.encode() + b",", 1)
    labels = body_of(DEPLOYMENT, None, "alice").replace(b'"team":"a"', b'"team":' + bomb.encode(), 1)
    for body in (spec, labels, bomb.encode(), (opening * depth).encode()):
        await ask(path, body)


SIZE = (8 << 20) if LONG else (1 << 20)
# Values by the number; each also says how many bytes one of them takes.
HOSTILE: dict[str, tuple[int, Callable[[int], bytes]]] = {
    "empty objects": (3, lambda count: b'{"a":[' + b"{}," * count + b"{}]}"),
    "empty lists": (3, lambda count: b'{"a":[' + b"[]," * count + b"[]]}"),
    "numbers": (2, lambda count: b'{"a":[' + b"1," * count + b"1]}"),
    "different keys": (11, lambda count: b"{" + b",".join(b'"%x":1' % n for n in range(count)) + b"}"),
    "keys that differ at their end": (50, lambda count: b"{" + b",".join(b'"%s%x":1' % (b"k" * 40, n) for n in range(count)) + b"}"),
    "a text of escapes": (6, lambda count: b'{"a":"' + b"\\u0041" * count + b'"}'),
    "one number": (1, lambda count: b'{"a":' + b"9" * count + b"}"),
    "blanks": (1, lambda count: b'{"a":' + b" " * count + b"1}"),
    "roles": (13, lambda count: b'{"roles":[' + b'{"name":"a"},' * count + b'{"name":"a"}]}'),
    "arguments": (11, lambda count: b'{"roles":[{"name":"a","extraArgs":[' + b'"--enable",' * count + b'"x"]}]}'),
    "variables": (
        32,
        lambda count: (
            b'{"roles":[{"name":"a","env":['
            + b'{"name":"A","value":"$(A)$(A)"},' * (count // 2)  # two values each
            + b'{"name":"B","value":""}],"extraArgs":["$(A)"]}]}'
        ),
    ),
    "mounts": (
        26,
        lambda count: (
            b'{"roles":[{"name":"a","additionalVolumes":[' + b",".join(b'{"mountPath":"/a/%d"}' % n for n in range(count)) + b"]}]}"
        ),
    ),
    "ports": (
        14,
        lambda count: b'{"roles":[{"name":"a","ports":[' + b",".join(b'{"port":%d}' % (n % 65535 + 1) for n in range(count)) + b"]}]}",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("most", [MOST_VALUES - 10, None], ids=["as many as are judged", "as many as a body holds"])
@pytest.mark.parametrize("name", HOSTILE)
async def test_a_big_spec_costs_what_it_weighs(name: str, most: int | None) -> None:
    """A spec of the most values that are judged, or of the largest body there is: answered within seconds of CPU and a hundred MiB."""
    bytes_each, build = HOSTILE[name]
    text = build(SIZE // bytes_each if most is None else most)
    body = body_of({"kind": "ModelDeployment", "metadata": {"name": "a"}, "spec": 0}, None, "alice").replace(b'"spec":0', b'"spec":' + text)
    started = time.process_time()
    status, _ = await ask(VALIDATE_DEPLOYMENT, body)
    assert most is None or status != 413
    assert time.process_time() - started < 6
    tracemalloc.start()
    try:
        await ask(VALIDATE_DEPLOYMENT, body)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 100 << 20
