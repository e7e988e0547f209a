"""Elastic expert parallelism: each sentence is a write, and what the rules say about it."""

from typing import Any

import pytest
from reviewing import Deployment, deployment, found, mutate, role

ARGS, WIDTH = "spec.roles[0].extraArgs", "spec.roles[0].elasticEp.width"
RESOURCES = "spec.roles[0].resources"


def elastic(*tokens: str, width: int = 4, cards: int | str | None = 1, more: dict[str, Any] | None = None, **fields: Any) -> Deployment:
    """A deployment of one elastic role on vLLM 0.33.0."""
    made = role(elasticEp={"width": width}, **fields).args(*tokens)
    if cards is not None:
        made = made.cards(cards, **(more or {}))
    return deployment(made).engine("vLLM", "0.33.0")


CREATES: dict[str, tuple[Deployment, set[str]]] = {
    "the narrowest": (elastic(width=2), set()),
    "the widest": (elastic(width=64), set()),
    "too narrow": (elastic(width=1), {f"MD403 {WIDTH}"}),
    "too wide": (elastic(width=65), {f"MD403 {WIDTH}"}),
    "at the maximum": (elastic("--elastic-ep-max-dp-size=4"), set()),
    "above the maximum": (elastic("--elastic-ep-max-dp-size=3"), {f"MD403 {WIDTH}"}),
    "above the last maximum": (elastic("--elastic-ep-max-dp-size=9", "--elastic-ep-max-dp-size=3"), {f"MD403 {WIDTH}"}),
    "a maximum behind two dashes": (elastic("--", "--elastic-ep-max-dp-size=3"), set()),
    "a maximum of zero": (elastic("--elastic-ep-max-dp-size=0"), {f"MD404 {ARGS}", "MD302 spec.roles[0]"}),
    "another role beside it": (
        deployment(role("a", elasticEp={"width": 2}).cards(1), role("b")).engine("vLLM", "0.33.0"),
        {"MD402 spec.roles"},
    ),
    "another elastic role beside it": (
        deployment(role("a", elasticEp={"width": 2}).cards(1), role("b", elasticEp={"width": 2}).cards(1)).engine("vLLM", "0.33.0"),
        {"MD402 spec.roles"},
    ),
    "a tensor size with its cards": (elastic("-tp", "2", cards=2), set()),
    "a tensor size without its cards": (elastic("-tp", "2", cards=4), {f"MD405 {RESOURCES}.accelerator"}),
    "a pipeline": (elastic("-pp", "2", cards=1), {f"MD404 {ARGS}", f"MD303 {RESOURCES}.accelerator"}),
    "a pipeline of one": (elastic("-pp", "1"), set()),
    "prefill context": (elastic("-pcp", "2"), {f"MD404 {ARGS}", f"MD303 {RESOURCES}.accelerator"}),
    "a tensor size that is no number": (
        elastic("-tp", "x"),
        {f"MD404 {ARGS}", "MD301 spec.roles[0].extraArgs[0]", "MD302 spec.roles[0]"},
    ),
    "a tensor size that only the cluster knows": (elastic("-tp", "$(NOBODY)"), set()),
    "a maximum that only the cluster knows": (elastic("--elastic-ep-max-dp-size", "$(NOBODY)"), set()),
    "a tensor size that is no number, in a version without a table": (elastic("-tp", "x").engine("vLLM", "0.31.0"), set()),
    "a maximum of zero, in a version without a table": (elastic("--elastic-ep-max-dp-size=0").engine("vLLM", "0.31.0"), set()),
    "slices": (
        elastic(more={"acceleratorSlicedMemoryPercentage": 50, "acceleratorSlicedCoresPercentage": 50}),
        {
            f"MD405 {RESOURCES}.acceleratorSlicedMemoryPercentage",
            f"MD405 {RESOURCES}.acceleratorSlicedCoresPercentage",
            f"MD713 {RESOURCES}.acceleratorSlicedMemoryPercentage",
        },
    ),
    "an interface": (elastic(more={"interface": "1"}), {f"MD405 {RESOURCES}.interface"}),
    "an interface of zero": (elastic(more={"interface": "0"}), set()),
    "two replicas": (elastic(replicas=2), {"MD406 spec.roles[0].replicas"}),
    "two Pods": (elastic(size=2), {"MD406 spec.roles[0].size"}),
    "a decode": (elastic(kind="Decode"), {"MD406 spec.roles[0].kind"}),
    "a command": (elastic(command=["x"]), {"MD406 spec.roles[0].command"}),
    "the size of data parallelism": (elastic("-dp=8", cards=8), {f"MD407 {ARGS}", f"MD405 {RESOURCES}.accelerator"}),
    "a backend": (elastic("--data-parallel-backend=mp"), {f"MD407 {ARGS}"}),
    "a backend with underscores is not compared": (elastic("--data_parallel_backend=mp"), set()),
    "an executor": (elastic("--distributed-executor-backend", "mp"), {f"MD407 {ARGS}"}),
    "other arguments": (elastic("--max-model-len", "4096"), set()),
}


@pytest.mark.parametrize("name", CREATES)
async def test_create(name: str) -> None:
    """Exactly these rules at exactly these fields."""
    new, said = CREATES[name]
    assert await found(new) == said


VARIABLES = (
    "VLLM_DATA_PARALLEL_SIZE_LOCAL",
    "VLLM_ENABLE_ELASTIC_EP",
    "VLLM_ENABLE_EPLB",
    "VLLM_TENSOR_PARALLEL_SIZE",
    "VLLM_PIPELINE_PARALLEL_SIZE",
    "VLLM_RAY_ADDRESS",
    "RAY_ADDRESS",
    "GPUSTACK_ELASTIC_POD_UID",
    "GPUSTACK_ELASTIC_POD_IP",
    "VLLM_RAY_DP_PACK_STRATEGY",
    "RAY_OVERRIDE_LABELS",
)


@pytest.mark.parametrize("variable", VARIABLES)
async def test_owned_variable(variable: str) -> None:
    """Refused on an elastic role only."""
    wanted = elastic()
    wanted.body["spec"]["roles"][0]["env"] = [{"name": "RAY_BACKEND_LOG_LEVEL", "value": "x"}, {"name": variable, "value": "1"}]
    assert await found(wanted) == {"MD408 spec.roles[0].env[1].name"}
    del wanted.body["spec"]["roles"][0]["elasticEp"]
    assert await found(wanted) == set()


async def test_sglang_has_no_elastic_profile() -> None:
    """The engine is at fault."""
    assert "MD401 spec.engine.name" in await found(elastic().engine("SGLang", "0.5.18"))


PLAIN = deployment(role().cards(1)).engine("vLLM", "0.33.0")

UPDATES: dict[str, tuple[Deployment, Deployment, set[str]]] = {
    "wider": (elastic(width=2), elastic(width=4), set()),
    "narrower": (elastic(width=4), elastic(width=2), {f"MD410 {WIDTH}"}),
    "the profile added": (PLAIN, elastic(), {"MD409 spec.roles.elasticEp"}),
    "the profile removed": (elastic(), PLAIN, {"MD409 spec.roles.elasticEp"}),
    "the profile moved": (
        deployment(role("a", elasticEp={"width": 2}).cards(1), role("b").cards(1)).engine("vLLM", "0.33.0"),
        deployment(role("a").cards(1), role("b", elasticEp={"width": 2}).cards(1)).engine("vLLM", "0.33.0"),
        {"MD402 spec.roles", "MD409 spec.roles[1].name"},
    ),
    "a width that was above the maximum already": (
        elastic("--elastic-ep-max-dp-size=8", width=9),
        elastic("--elastic-ep-max-dp-size=8", width=9, image="engine:2"),
        set(),
    ),
    "a width further above the maximum": (
        elastic("--elastic-ep-max-dp-size=8", width=9),
        elastic("--elastic-ep-max-dp-size=8", width=10),
        {f"MD403 {WIDTH}"},
    ),
    "a maximum lowered below the width": (
        elastic("--elastic-ep-max-dp-size=9", width=9),
        elastic("--elastic-ep-max-dp-size=8", width=9),
        {f"MD403 {WIDTH}", f"MD410 {ARGS}"},
    ),
    "cards that were not the tensor size already": (elastic(cards=2), elastic(cards=2, image="engine:2"), set()),
    "the tensor size said": (elastic(), elastic("-tp=1"), set()),
    "the tensor size in another spelling": (elastic("-tp=2", cards=2), elastic("--tensor_parallel_size", "+2", cards=2), set()),
    "another tensor size": (
        elastic("-tp=2", cards=2),
        elastic("-tp=4", cards=4),
        {f"MD410 {ARGS}", f"MD410 {RESOURCES}"},
    ),
    "a maximum added": (elastic(), elastic("--elastic-ep-max-dp-size=8"), {f"MD410 {ARGS}"}),
    "a maximum removed": (elastic("--elastic-ep-max-dp-size=8"), elastic(), {f"MD410 {ARGS}"}),
    "another maximum": (elastic("--elastic-ep-max-dp-size=8"), elastic("--elastic-ep-max-dp-size=9"), {f"MD410 {ARGS}"}),
    "the maximum in another spelling": (elastic("--elastic-ep-max-dp-size=8"), elastic("--elastic-ep-max-dp-size", "08"), set()),
    "another instance type": (
        elastic(),
        elastic(instanceType="h21"),
        {"MD410 spec.roles[0].instanceType", "MD711 spec.roles[0].instanceType"},
    ),
    "resources that were left open": (elastic(cards=None), elastic(cards="1"), set()),
    "resources in another spelling": (elastic(cards="1"), elastic(cards="1000m"), set()),
}


@pytest.mark.parametrize("name", UPDATES)
async def test_update(name: str) -> None:
    """The shape stays; the width grows."""
    old, new, said = UPDATES[name]
    assert await found(new, old) == said


async def test_the_default_is_the_tensor_size() -> None:
    """One rank per Pod; a size that cannot be read defaults to nothing and is refused by the rules."""
    assert (await mutate(elastic("-tp=2", cards=None))).patched["spec"]["roles"][0]["resources"] == {"accelerator": "2"}
    assert (await mutate(elastic(cards=None))).patched["spec"]["roles"][0]["resources"] == {"accelerator": "1"}
    assert (await mutate(elastic("-tp=x", cards=None))).patch == []
    assert (await mutate(elastic("-tp", cards=None))).patch == []
    assert (await mutate(elastic("-tp", "$(NOBODY)", cards=None))).patch == []
