"""Shape, names, kinds and identity: each sentence is a write, and what the rules say about it."""

import pytest
from reviewing import Deployment, deployment, found, review, role

from api.objects import ObjectMeta
from webhooks.validation.names import expected_name

ONE = deployment()
PAIR = (role("pre", "Prefill"), role("dec", "Decode"))
TRIO = (role("enc", "Encode"), *PAIR)

CREATES: dict[str, tuple[Deployment, set[str]]] = {
    "a server": (ONE, set()),
    "shared memory of 16Gi": (deployment(role(shmSize="16Gi")), set()),
    "shared memory of zero": (deployment(role(shmSize="0")), {"MD101 spec.roles[0].shmSize"}),
    "shared memory below zero": (deployment(role(shmSize="-1Gi")), {"MD101 spec.roles[0].shmSize"}),
    "shared memory as a number": (deployment(role(shmSize=1024)), set()),
    "ten roles": (deployment(*(role(f"r{i}") for i in range(10))), set()),
    "eleven roles": (deployment(*(role(f"r{i}") for i in range(11))), {"MD102 spec.roles"}),
    "a role's name twice": (
        deployment(role("a"), role("a")),
        {"MD103 spec.roles[1].name", "MD112 spec.roles[1].name"},
    ),
    "no version, every role has an image": (ONE.engine("vLLM"), set()),
    "no version, a role without an image": (ONE.engine("vLLM").roles(role("a"), role("b", image="")), {"MD104 spec.engine.version"}),
    "no version, two roles without an image": (
        ONE.engine("vLLM").roles(role("a", image=""), role("b", image="")),
        {"MD104 spec.engine.version"},
    ),
    "a cache that names no binding": (ONE.cache(""), {"MD105 spec.kvCache.poolRef.name"}),
    "a Service name of 63 characters": (deployment(role("d" * 58)), set()),
    "a Service name of 64 characters": (deployment(role("d" * 59)), {"MD111 spec.roles[0].name"}),
    "a deployment whose name has a dot": (ONE.named("a.b"), {"MD111 spec.roles[0].name"}),
    "a deployment whose name begins with a digit": (ONE.named("7b"), {"MD111 spec.roles[0].name"}),
    "a role named router without a router": (deployment(role("router")), set()),
    "a role named router beside a router": (deployment(role("router")).router("llm-d-router"), {"MD112 spec.roles[0].name"}),
    "a role with another's instance name": (
        deployment(role("gen", size=2, replicas=3), role("gen-r2")),
        {"MD112 spec.roles[1].name"},
    ),
    "the same, the other way round": (
        deployment(role("gen-r2"), role("gen", size=2, replicas=3)),
        {"MD112 spec.roles[1].name"},
    ),
    "an instance name one too high": (deployment(role("gen", size=2, replicas=3), role("gen-r3")), set()),
    "an instance name of a role of single Pods": (deployment(role("gen", replicas=3), role("gen-r2")), set()),
    "an instance name with a leading zero": (deployment(role("gen", size=2, replicas=3), role("gen-r02")), set()),
    "a member name of 63 characters": (deployment(role("d" * 52, size=2, replicas=1)), set()),
    "a member name of 64 characters": (deployment(role("d" * 53, size=2, replicas=1)), {"MD113 spec.roles[0]"}),
    "a member name that ten replicas lengthen": (deployment(role("d" * 52, size=2, replicas=11)), {"MD113 spec.roles[0]"}),
    "the same name on single Pods": (deployment(role("d" * 53, replicas=11)), set()),
    "two servers": (deployment(role("a"), role("b")), set()),
    "a lone prefill": (deployment(role("p", "Prefill")), set()),
    "a lone decode": (deployment(role("d", "Decode")), set()),
    "a pair without a router": (deployment(*PAIR), set()),
    "a server beside a prefill": (
        deployment(role("s"), role("p", "Prefill")),
        {"MD121 spec.roles[0].kind", "MD121 spec.roles[1].kind"},
    ),
    "an unset kind beside a decode": (
        deployment(role("s", ""), role("d", "Decode")),
        {"MD121 spec.roles[0].kind", "MD121 spec.roles[1].kind"},
    ),
    "a server beside two decodes: other kind rules are silent": (
        deployment(role("s"), role("d", "Decode"), role("e", "Decode")),
        {"MD121 spec.roles[0].kind", "MD121 spec.roles[1].kind", "MD121 spec.roles[2].kind"},
    ),
    "two decodes": (deployment(role("a", "Decode"), role("b", "Decode")), {"MD122 spec.roles[1].kind"}),
    "a kind that nobody knows": (deployment(role("a", "Draft")), {"MD123 spec.roles[0].kind"}),
    "an engine that nobody knows": (ONE.engine("TGI", "1"), {"MD123 spec.roles[0].kind"}),
    "an encoder, a prefill and a decode behind a router": (deployment(*TRIO).router("llm-d-router"), set()),
    "two encoders": (deployment(*TRIO, role("enc2", "Encode")).router("llm-d-router"), {"MD122 spec.roles[3].kind"}),
    "an encoder without a decode": (deployment(*TRIO[:2]).router("llm-d-router"), {"MD124 spec.roles[0].kind"}),
    "an encoder alone": (deployment(TRIO[0]).router("llm-d-router"), {"MD124 spec.roles[0].kind"}),
    "the trio without a router": (deployment(*TRIO), {"MD125 spec.router"}),
    "an encoder that replaces the command": (
        deployment(role("enc", "Encode", command=["x"]), *PAIR).router("llm-d-router"),
        {"MD126 spec.roles[0].command"},
    ),
}


@pytest.mark.parametrize("name", CREATES)
async def test_create(name: str) -> None:
    """Exactly these rules at exactly these fields."""
    new, said = CREATES[name]
    assert await found(new) == said


TWO = deployment(role("a").cards(1), role("b").cards(1))
LONG = deployment(role("d" * 59).cards(1))

UPDATES: dict[str, tuple[Deployment, Deployment, set[str]]] = {
    "nothing": (ONE, ONE, set()),
    "another model": (ONE, ONE.model("other"), {"MD801 spec.model"}),
    "an artifact added": (ONE, ONE.model("Qwen/Qwen3-8B", "a"), {"MD801 spec.model"}),
    "another artifact": (ONE.model("m", "a"), ONE.model("m", "b"), {"MD801 spec.model"}),
    "another engine": (ONE, ONE.engine("SGLang", "0.5.18"), {"MD802 spec.engine.name"}),
    "another version": (ONE, ONE.engine("vLLM", "0.33.0"), set()),
    "a cache added": (ONE, ONE.cache(), {"MD803 spec.kvCache"}),
    "a cache removed": (ONE.cache(), ONE, {"MD803 spec.kvCache"}),
    "another binding": (ONE.cache("a"), ONE.cache("b"), {"MD803 spec.kvCache"}),
    "a transfer added": (ONE, ONE.transfer("TCP"), set()),
    "a role added": (ONE, deployment(role(), role("b")), {"MD804 spec.roles[1].name"}),
    "a role removed": (TWO, TWO.roles(role("a").cards(1)), {"MD804 spec.roles"}),
    "a role renamed": (ONE, deployment(role("b")), {"MD804 spec.roles[0].name", "MD804 spec.roles"}),
    "roles in another order": (TWO, TWO.roles(role("b").cards(1), role("a").cards(1)), set()),
    "another kind": (deployment(role("a", "Prefill")), deployment(role("a", "Decode")), {"MD805 spec.roles[0].kind"}),
    "an unset kind becomes Server": (deployment(role("a", "")), deployment(role("a")), set()),
    "another router": (ONE.router("llm-d-router"), ONE.router("vllm-router"), {"MD806 spec.router.name"}),
    "a router added": (ONE, ONE.router("llm-d-router"), set()),
    "a router removed": (ONE.router("llm-d-router"), ONE, set()),
    "a router's replicas": (ONE.router("llm-d-router"), ONE.router("llm-d-router", replicas=3), set()),
    "size, type, image, command and arguments": (
        ONE,
        deployment(role(size=2, image="engine:2", command=["x"]).args("--x")),
        set(),
    ),
    "identity and shape are said together": (
        ONE,
        ONE.model("other").roles(role(shmSize="0")),
        {"MD801 spec.model", "MD101 spec.roles[0].shmSize"},
    ),
    "a stored name that is too long is let be": (LONG, LONG.scaled(2), set()),
    "replicas that make a member name too long": (
        deployment(role("d" * 52, size=2, replicas=1)),
        deployment(role("d" * 52, size=2, replicas=11)),
        {"MD113 spec.roles[0]"},
    ),
    "replicas that take another role's Service name": (
        deployment(role("gen", size=2, replicas=2), role("gen-r2")),
        deployment(role("gen", size=2, replicas=3), role("gen-r2")),
        {"MD112 spec.roles[1].name"},
    ),
    "a deployment on its way out is not judged": (ONE.deleting(), ONE.deleting().model("other").roles(role(shmSize="0")), set()),
}


@pytest.mark.parametrize("name", UPDATES)
async def test_update(name: str) -> None:
    """What identifies a deployment is frozen; what says how it is run is not."""
    old, new, said = UPDATES[name]
    assert await found(new, old) == said


UNNAMED = {
    "qwen-": set(),
    "q" * 50 + "-": set(),
    "q" * 51 + "-": {"MD111 spec.roles[0].name"},
    "7b-": {"MD111 spec.roles[0].name"},
}


@pytest.mark.parametrize("base", UNNAMED)
async def test_a_name_that_is_not_given_yet(base: str) -> None:
    """Before an API server made one of `generateName`, names are judged by one of its form; 58 characters of the base stay."""
    unnamed = ONE._with("metadata", "name", value=None)._with("metadata", "generateName", value=base)
    assert await found(unnamed) == UNNAMED[base]
    assert expected_name(ObjectMeta(generate_name=base)) == f"{base}xxxxx"
    assert expected_name(ObjectMeta(name="a", generate_name=base)) == "a"
    assert expected_name(ObjectMeta(generate_name=f"{'a' * 58}{base}")) == f"{'a' * 58}xxxxx"


async def test_the_objects_own_name_counts() -> None:
    """An API server leaves the request's name empty where it made the name itself."""
    assert await found(ONE.named("7b"), name="") == {"MD111 spec.roles[0].name"}
    assert '"7b"' in (await review(ONE.named("7b"), name="")).message
    nameless = ONE._with("metadata", "name", value=None)
    assert await found(nameless, name="7b") == {"MD111 spec.roles[0].name"}
    assert '"7b"' in (await review(nameless, name="7b")).message
