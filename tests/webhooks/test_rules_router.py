"""Routers and ports: each sentence is a write, and what the rules say about it."""

import pytest
from reviewing import Deployment, Role, deployment, found, role

ONE = deployment()
ROUTER, NAME = "spec.router", "spec.router.name"


def pair(pre: Role | None = None, dec: Role | None = None) -> Deployment:
    """A prefill and a decode."""
    return deployment(pre or role("pre", "Prefill"), dec or role("dec", "Decode"))


def prefill(**more: object) -> Role:
    return role("pre", "Prefill", **more)


def decode(**more: object) -> Role:
    return role("dec", "Decode", **more)


SGLANG = ("SGLang", "0.5.18")

CREATES: dict[str, tuple[Deployment, set[str]]] = {
    "llm-d-router": (ONE.router("llm-d-router"), set()),
    "an owned argument of llm-d-router": (
        ONE.router("llm-d-router", extraArgs=["--v=4", "--secure-serving=true"]),
        {"MD501 spec.router.extraArgs[1]"},
    ),
    "an owned argument of vllm-router": (ONE.router("vllm-router", extraArgs=["--port", "1"]), {"MD501 spec.router.extraArgs[0]"}),
    "an owned argument of another router": (ONE.router("llm-d-router", extraArgs=["--port", "1"]), set()),
    "an abbreviation of an owned argument": (ONE.router("vllm-router", extraArgs=["--por", "1"]), set()),
    "a policy": (ONE.router("vllm-router", extraArgs=["--policy", "x", "--cache-threshold=0.5"]), set()),
    "vLLM's connector on sglang-gateway": (
        ONE.engine(*SGLANG).router("sglang-gateway", extraArgs=["--kv-connector=x"]),
        set(),
    ),
    "disaggregation on sglang-gateway": (
        ONE.engine(*SGLANG).router("sglang-gateway", extraArgs=["--pd-disaggregation"]),
        {"MD501 spec.router.extraArgs[0]"},
    ),
    "a threshold of llm-d-router": (ONE.router("llm-d-router", disaggregationThresholdTokens=0), set()),
    "a threshold of vllm-router": (
        ONE.router("vllm-router", disaggregationThresholdTokens=0),
        {"MD502 spec.router.disaggregationThresholdTokens"},
    ),
    "vllm-router before SGLang": (ONE.engine(*SGLANG).router("vllm-router"), {f"MD503 {NAME}"}),
    "sglang-gateway before vLLM": (ONE.router("sglang-gateway"), {f"MD503 {NAME}"}),
    "llm-d-router before SGLang": (ONE.engine(*SGLANG).router("llm-d-router"), set()),
    "llm-d-router before an engine it has no metrics of": (
        ONE.engine("TGI", "1").router("llm-d-router"),
        {f"MD503 {NAME}", "MD504 spec.engine", "MD123 spec.roles[0].kind"},
    ),
    "a role that serves UDP": (deployment(role().ports(8000, protocol="UDP")).router("llm-d-router"), {f"MD505 {ROUTER}"}),
    "a role that serves UDP without a router": (deployment(role().ports(8000, protocol="UDP")), set()),
    "a role with a certificate": (deployment(role().args("--ssl-certfile=/c")).router("vllm-router"), {f"MD506 {ROUTER}"}),
    "a role with a key, underscored": (deployment(role().args("--ssl_keyfile", "/k")).router("vllm-router"), {f"MD506 {ROUTER}"}),
    "a role whose certificate is withdrawn": (
        deployment(role().args("--ssl-certfile=/c", "--ssl-certfile=None")).router("vllm-router"),
        set(),
    ),
    "a role with other TLS flags": (deployment(role().args("--ssl-ca-certs=/c", "--ssl-cert-reqs=2")).router("vllm-router"), set()),
    "a replaced command with a certificate": (
        deployment(role(command=["vllm", "serve", "--ssl-certfile=/c"])).router("vllm-router"),
        {f"MD506 {ROUTER}"},
    ),
    "one port for all": (pair(prefill().ports(9000), decode().ports(9000)).router("llm-d-router"), set()),
    "two ports": (pair(prefill().ports(8000), decode().ports(9000)).router("llm-d-router"), {f"MD507 {ROUTER}"}),
    "a declared port beside the default": (pair(prefill().ports(9000)).router("llm-d-router"), {f"MD507 {ROUTER}"}),
    "two ports without a router": (pair(prefill().ports(8000), decode().ports(9000)), set()),
    "a direct decoder on the published port": (pair(dec=decode().args("--port", "8000")).router("llm-d-router"), {f"MD508 {ROUTER}"}),
    "a direct decoder on its own port": (pair(dec=decode().args("--port=8200")).router("llm-d-router"), set()),
    "a decoder on the published port behind vllm-router": (pair(dec=decode().args("--port", "8000")).router("vllm-router"), set()),
    "a decoder's command on the published port": (
        pair(dec=decode(command=["vllm", "--port", "8000"])).router("llm-d-router"),
        set(),
    ),
    # ports
    "the declared port passed": (deployment(role().ports(9000).args("--port", "9000")), set()),
    "another port passed": (deployment(role().ports(8000).args("--port=9000")), {"MD511 spec.roles[0].extraArgs"}),
    "another port passed, abbreviated": (deployment(role().ports(8000).args("--por=9000")), {"MD511 spec.roles[0].extraArgs"}),
    "another port through a variable": (
        deployment(role().ports(8000).args("$(PORT)").env(PORT="--port=9000")),
        {"MD511 spec.roles[0].extraArgs"},
    ),
    "a certificate through a variable": (
        deployment(role().args("$(TLS)").env(TLS="--ssl-certfile=/c")).router("vllm-router"),
        {f"MD506 {ROUTER}"},
    ),
    "a certificate of a command through a variable": (
        deployment(role(command=["vllm", "$(TLS)"]).env(TLS="--ssl-certfile=/c")).router("vllm-router"),
        {f"MD506 {ROUTER}"},
    ),
    "another port in a command": (
        deployment(role(command=["vllm", "serve", "--port", "9000"]).ports(8000)),
        {"MD511 spec.roles[0].command"},
    ),
    "a port passed, none declared": (deployment(role().args("--port=9000")), set()),
    "a direct decoder passes another port": (
        pair(prefill().ports(8000), decode().ports(8000).args("--port=8200")).router("llm-d-router"),
        set(),
    ),
    "the events' port declared": (deployment(role().ports(5557)).router("llm-d-router"), {f"MD512 {ROUTER}"}),
    "the replay's port declared second": (deployment(role().ports(8000, 5558)).router("llm-d-router"), {f"MD512 {ROUTER}"}),
    "the events' port declared behind vllm-router": (deployment(role().ports(5557)).router("vllm-router"), set()),
    "the events' port declared by a decoder": (
        pair(prefill().ports(8000), decode().ports(8000, 5557)).router("llm-d-router"),
        set(),
    ),
    "the events' port declared by an encoder": (
        deployment(role("enc", "Encode").ports(8000, 5557), prefill(), decode()).router("llm-d-router"),
        set(),
    ),
    "the events' port of a command": (deployment(role(command=["x"]).ports(5557)).router("llm-d-router"), set()),
    "the bootstrap port of a prefill in a pair": (pair(prefill().ports(8000, 8998)).router("vllm-router"), {f"MD512 {ROUTER}"}),
    "the bootstrap port of a lone prefill": (deployment(prefill().ports(8000, 8998)).router("vllm-router"), set()),
    "the bootstrap port of a decode": (pair(dec=decode().ports(8000, 8998)).router("vllm-router"), set()),
    "the bootstrap port of a vLLM pair without a router": (pair(prefill().ports(8000, 8998)), set()),
    "the bootstrap port of an SGLang pair without a router or cache": (pair(prefill().ports(8998)).engine(*SGLANG), set()),
    "the bootstrap port of an SGLang pair with a cache": (
        pair(prefill().ports(8998)).engine(*SGLANG).cache(),
        {"MD512 spec.roles[0].ports"},
    ),
    "the events' port passed": (deployment(role().args("--port=5557")).router("llm-d-router"), {f"MD513 {ROUTER}"}),
    "the bootstrap port passed by an SGLang prefill with a cache": (
        pair(prefill().args("--port=8998")).engine(*SGLANG).cache(),
        {"MD513 spec.roles[0].extraArgs"},
    ),
    "the events' port passed behind vllm-router": (deployment(role().args("--port=5557")).router("vllm-router"), set()),
}


@pytest.mark.parametrize("name", CREATES)
async def test_create(name: str) -> None:
    """Exactly these rules at exactly these fields."""
    new, said = CREATES[name]
    assert await found(new) == said


TLS = deployment(role().args("--ssl-certfile=/c"))
MISMATCH = deployment(role().ports(8000).args("--port=9000"))
EVENTS = deployment(role().args("--port=5557"))

UPDATES: dict[str, tuple[Deployment, Deployment, set[str]]] = {
    "a stored owned router argument": (
        ONE.router("vllm-router", extraArgs=["--port=1"]),
        ONE.router("vllm-router", extraArgs=["--port=1"], replicas=2),
        set(),
    ),
    "stored TLS behind a router": (TLS.router("vllm-router"), TLS.router("vllm-router").scaled(2), set()),
    "a router before stored TLS": (TLS, TLS.router("vllm-router"), {f"MD506 {ROUTER}"}),
    "a stored port mismatch": (MISMATCH, MISMATCH.scaled(2), set()),
    "a stored port mismatch with other arguments": (
        MISMATCH,
        deployment(role().ports(8000).args("--port=9000", "--x")),
        {"MD511 spec.roles[0].extraArgs"},
    ),
    "a stored mismatch of other ports": (
        MISMATCH,
        deployment(role().ports(8001).args("--port=9000")),
        {"MD511 spec.roles[0].extraArgs"},
    ),
    "a stored reserved port": (
        deployment(role().ports(5557)).router("llm-d-router"),
        deployment(role(replicas=2).ports(5557)).router("llm-d-router"),
        {f"MD512 {ROUTER}"},
    ),
    "a router that reserves a stored port": (
        deployment(role().ports(5557)),
        deployment(role().ports(5557)).router("llm-d-router"),
        {f"MD512 {ROUTER}"},
    ),
    "a stored reserved --port": (EVENTS.router("llm-d-router"), EVENTS.router("llm-d-router", replicas=2), set()),
    "a stored reserved --port with other arguments": (
        EVENTS.router("llm-d-router"),
        deployment(role().args("--port=5557", "--x")).router("llm-d-router"),
        set(),
    ),
    "a router that reserves a stored --port": (EVENTS, EVENTS.router("llm-d-router"), {f"MD513 {ROUTER}"}),
}


@pytest.mark.parametrize("name", UPDATES)
async def test_update(name: str) -> None:
    """An unchanged offence is let be; a router that makes one is refused."""
    old, new, said = UPDATES[name]
    assert await found(new, old) == said
