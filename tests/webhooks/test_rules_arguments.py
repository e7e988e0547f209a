"""Arguments and variables: what is the operator's, what cannot be read, and what the degrees ask for."""

import pytest
from reviewing import Deployment, Role, deployment, found, review, role

from webhooks.settings import AdmissionSettings

SGLANG = deployment().engine("SGLang", "0.5.18")


def vllm(*tokens: str, cards: int | str = 8, **variables: str) -> Deployment:
    """A vLLM server of that line on eight cards."""
    return deployment(role().args(*tokens).env(**variables).cards(cards))


def sglang(*tokens: str, cards: int | str = 8, **variables: str) -> Deployment:
    """An SGLang server of that line on eight cards."""
    return SGLANG.roles(role().args(*tokens).env(**variables).cards(cards))


def taken(*command: str, tokens: tuple[str, ...] = (), cards: int = 8) -> Role:
    """A role that replaces the command."""
    return role(command=list(command)).args(*tokens).cards(cards)


ARTIFACT = deployment().model("m", "weights")
ARG0, ENV0, ROLE, ARGS = "spec.roles[0].extraArgs[0]", "spec.roles[0].env[0]", "spec.roles[0]", "spec.roles[0].extraArgs"
CARDS = "spec.roles[0].resources.accelerator"

WRITES: dict[str, tuple[Deployment, set[str]]] = {
    # MD201
    "the transfer's configuration": (vllm("--kv-transfer-config", "{}"), {f"MD201 {ARG0}"}),
    "in one token": (vllm("--kv-transfer-config={}"), {f"MD201 {ARG0}"}),
    "with underscores": (vllm("--kv_transfer_config={}"), {f"MD201 {ARG0}"}),
    "a member of it": (vllm("--kv-transfer-config.kv_role", "x"), {f"MD201 {ARG0}"}),
    "abbreviated": (vllm("--kv-tr", "{}"), {f"MD201 {ARG0}"}),
    "behind a value": (vllm("--max-model-len", "1", "--kv-events-config={}"), {"MD201 spec.roles[0].extraArgs[2]"}),
    "through a variable": (vllm("$(WIRE)", WIRE="--kv-transfer-config={}"), {f"MD201 {ARG0}"}),
    "a served name through a variable": (vllm("$(NAME)", NAME="--served-model-name=x"), {f"MD206 {ARGS}"}),
    "an assigned rank through a variable": (vllm("-dp=2", "$(RANK)", RANK="-dpn=0"), {"MD305 spec.router"}),
    "beside a replaced command": (deployment(taken("x", tokens=("--kv-transfer-config={}",))), {f"MD201 {ARG0}"}),
    "a longer unknown flag of that stem": (vllm("--kv-transfer-config-x=1"), set()),
    "two dashes": (vllm("--"), set()),
    "vLLM's key on SGLang": (sglang("--kv-transfer-config={}"), set()),
    "SGLang's store": (sglang("--hicache-storage-backend=file"), {f"MD201 {ARG0}"}),
    "SGLang's store's configuration": (sglang("--hicache-storage-backend-extra-config={}"), {f"MD201 {ARG0}"}),
    "SGLang's store, abbreviated": (sglang("--hicache-storage-backend-e={}"), {f"MD201 {ARG0}"}),
    "SGLang does not rewrite underscores": (sglang("--hicache_storage_backend=file"), set()),
    "an API key": (vllm("--api-key", "k"), set()),
    # MD202
    "Mooncake's file": (vllm(MOONCAKE_CONFIG_PATH="x"), {f"MD202 {ENV0}"}),
    "Mooncake's file on SGLang": (sglang(MOONCAKE_CONFIG_PATH="x"), set()),
    "the tenant": (sglang(MOONCAKE_TENANT_ID="x"), {f"MD202 {ENV0}"}),
    "the tenant on vLLM": (vllm(MOONCAKE_TENANT_ID="x"), set()),
    "the member's index": (sglang(GPUSTACK_MEMBER_INDEX="0"), {f"MD202 {ENV0}"}),
    "the replica's size beside a command": (
        deployment(role(command=["x"]).env(GPUSTACK_REPLICA_SIZE="1")),
        {f"MD202 {ENV0}"},
    ),
    # MD203, MD204, MD205
    "a revision beside an artifact": (ARTIFACT.roles(role().args("--revision", "v")), {f"MD203 {ARG0}"}),
    "the tokenizer beside an artifact is its own option": (ARTIFACT.roles(role().args("--tokenizer", "t")), set()),
    "the tokenizer's revision beside an artifact": (ARTIFACT.roles(role().args("--tokenizer-rev", "t")), {f"MD203 {ARG0}"}),
    "a revision without an artifact": (vllm("--revision", "v"), set()),
    "SGLang's other spelling of the model": (
        ARTIFACT.engine("SGLang", "0.5.18").roles(role().args("--model", "/x")),
        {f"MD203 {ARG0}"},
    ),
    "a revision on a replaced command": (ARTIFACT.roles(taken("x", "--revision", "v")), set()),
    "a token beside an artifact": (ARTIFACT.roles(role().env(HF_TOKEN="x")), {f"MD204 {ENV0}"}),
    "a proxy beside an artifact": (ARTIFACT.roles(role().env(HTTPS_PROXY="x")), set()),
    "a token on a replaced command": (ARTIFACT.roles(role(command=["x"]).env(HF_TOKEN="x")), set()),
    "a mount around the artifact": (
        ARTIFACT.roles(role().volumes({"mountPath": "/var/lib", "configMap": {"name": "c"}})),
        {"MD205 spec.roles[0].additionalVolumes[0].mountPath"},
    ),
    "a mount inside the artifact, roundabout": (
        ARTIFACT.roles(role().volumes({"mountPath": "/data/../var/lib/gpustack/model/x", "configMap": {"name": "c"}})),
        {"MD205 spec.roles[0].additionalVolumes[0].mountPath"},
    ),
    "a mount beside the artifact": (ARTIFACT.roles(role().volumes({"mountPath": "/var/lib/gpustack/models", "secret": {}})), set()),
    "a mount at the artifact of a replaced command": (
        ARTIFACT.roles(role(command=["x"]).volumes({"mountPath": "/var/lib/gpustack/model-cache", "secret": {}})),
        {"MD205 spec.roles[0].additionalVolumes[0].mountPath"},
    ),
    # MD206
    "the model's name served": (vllm("--served-model-name", "Qwen/Qwen3-8B"), set()),
    "another name served": (vllm("--served-model-name", "x"), {f"MD206 {ARGS}"}),
    "a second name served": (vllm("--served-model-name", "Qwen/Qwen3-8B", "x"), {f"MD206 {ARGS}"}),
    "another name served, abbreviated": (vllm("--served_model", "x"), {f"MD206 {ARGS}"}),
    "another name first, the last wins": (vllm("--served-model-name=x", "--served-model-name=Qwen/Qwen3-8B"), set()),
    "another name served by a replaced command": (deployment(taken("vllm", "--served-model-name", "x")), set()),
    # MD207
    "the cache's data type": (vllm("--kv-cache-dtype", "fp8").cache(), {f"MD207 {ARG0}"}),
    "the cache's data type, abbreviated beyond what the engine takes": (
        vllm("--kv_cache_dt=fp8").cache(),
        {f"MD207 {ARG0}", f"MD301 {ARG0}"},
    ),
    "the data type without a cache": (vllm("--kv-cache-dtype", "fp8"), set()),
    "a longer option of that stem": (vllm("--kv-cache-dtype-skip-layers", "0").cache(), set()),
    "the data type on a replaced command": (deployment(taken("x", "--kv-cache-dtype=fp8")).cache(), set()),
    # MD301, MD302
    "no value": (vllm("--tensor-parallel-size"), {f"MD301 {ARG0}", f"MD302 {ROLE}"}),
    "no number": (vllm("-tp", "x"), {f"MD301 {ARG0}", f"MD302 {ROLE}"}),
    "a degree below its minimum": (vllm("-tp=0"), {f"MD301 {ARG0}", f"MD302 {ROLE}"}),
    "an elastic maximum below its minimum": (
        vllm("--elastic-ep-max-dp-size=0").engine("vLLM", "0.33.0"),
        {f"MD302 {ROLE}"},
    ),
    "a degree above int32": (vllm("-tp", "2147483648"), {f"MD301 {ARG0}", f"MD302 {ROLE}"}),
    "a local size below zero": (vllm("-dpl", "-1"), {f"MD301 {ARG0}", f"MD302 {ROLE}"}),
    "an SGLang degree below its minimum": (sglang("--ep-size=0"), {f"MD301 {ARG0}", f"MD302 {ROLE}"}),
    "an ambiguous abbreviation": (vllm("--data-parallel", "2"), {f"MD301 {ARG0}"}),
    "a bad port": (vllm("--port", "x"), {f"MD301 {ARG0}"}),
    "a size variable that is no number": (vllm(VLLM_DP_SIZE="x"), {f"MD301 {ENV0}", f"MD302 {ROLE}"}),
    "a client certificate demand that is no number": (vllm("--ssl-certfile=/c", "--ssl-cert-reqs=x"), set()),
    "a client certificate demand without a value": (vllm("--ssl-certfile=/c", "--ssl-cert-reqs"), set()),
    "a reference that nobody resolves": (vllm("-tp", "$(NOBODY)"), set()),
    "a token that argparse families read differently": (vllm("-t=2"), set()),
    "an option that nobody knows": (vllm("--fork-option", "x"), set()),
    "no number, in a version without a table": (vllm("-tp", "x").engine("vLLM", "0.30.1"), set()),
    "no number, without a version": (vllm("-tp", "x").engine("vLLM"), set()),
    "no number behind two dashes": (vllm("--", "-tp", "x"), set()),
    "no number beside a replaced command": (deployment(taken("x", tokens=("-tp", "x"))), set()),
    "no number in a replaced command": (deployment(taken("vllm", "serve", "-tp", "x")), {f"MD302 {ROLE}"}),
    "a replaced command that is no engine": (deployment(taken("bash", "-d", "--port")), set()),
    # MD303
    "as many cards as the width": (vllm("-tp", "2", "-pp", "2", cards=4), set()),
    "fewer cards than the width": (vllm("-tp", "2", "-pp", "2", cards=3), {f"MD303 {CARDS}"}),
    "prefill context counts": (vllm("-pcp", "2", cards=1), {f"MD303 {CARDS}"}),
    "decode context does not": (vllm("-tp=2", "-dcp=2", cards=2), set()),
    "a local size counts instead of the total": (vllm("-dp=8", "-dpl=2", cards=2), set()),
    "the total counts with a local size of zero": (vllm("-dp=4", "-dpl=0", cards=2), {f"MD303 {CARDS}"}),
    "wiring silences": (vllm("-tp=8", "--nnodes=2", cards=1), set()),
    "withdrawn wiring does not": (vllm("-tp=8", "--no-data-parallel-hybrid-lb", cards=1), {f"MD303 {CARDS}"}),
    "no cards are silent": (vllm("-tp=8", cards=0), set()),
    "half a card is silent": (vllm("-tp=8", cards="500m"), set()),
    "a size from the environment counts": (vllm(cards=1, VLLM_DP_SIZE="2"), {f"MD303 {CARDS}"}),
    "a degree through the role's own variable": (vllm("-tp", "$(TP)", cards=2, TP="4"), {f"MD303 {CARDS}"}),
    "SGLang multiplies data parallelism": (sglang("--tp=2", "--dp=2", cards=2), {f"MD303 {CARDS}"}),
    "SGLang's attention shares the cards": (sglang("--tp=2", "--dp-size=2", "--enable-dp-attention", cards=2), set()),
    "SGLang's experts share the cards": (sglang("--tp=2", "--dp-size=2", "--moe-dp-size=2", cards=2), set()),
    "a width beyond all bounds": (vllm("-tp=2147483647", "-pp=2147483647", "-pcp=2147483647", cards=8), {f"MD303 {CARDS}"}),
    "the width of a replaced command": (deployment(taken("vllm", "serve", "-tp=4", cards=2)), {f"MD303 {CARDS}"}),
    # MD304
    "one port per rank": (vllm("-dpm", "-dp=2"), {f"MD304 {ARGS}"}),
    "two kinds of balancing": (vllm("-dph", "-dpe"), {f"MD304 {ARGS}"}),
    "a start rank beside an external vote": (vllm("-dpn=0", "-dpr=0"), {f"MD304 {ARGS}"}),
    "a withdrawn flag does not vote": (vllm("-dph", "--no-data-parallel-external-lb", "-dp=4", "-dpl=2"), set()),
    "a start rank over nodes without a local size": (vllm("-dp=4", "-dpr=2", "--nnodes=2"), {f"MD304 {ARGS}"}),
    "a start rank on one node": (vllm("-dp=4", "-dpr=2", "--nnodes=1"), set()),
    "a headless start rank over nodes": (vllm("-dp=4", "-dpr=2", "--nnodes=2", "--headless"), set()),
    "hybrid": (vllm("-dph", "-dp=4", "-dpl=2"), set()),
    "hybrid that is internal": (vllm("-dph", "-dp=4", "-dpl=4"), set()),
    "balancing in a replaced command": (deployment(taken("vllm", "-dpm", "-dp=2")), set()),
    # MD305
    "an assigned rank without a router": (vllm("-dp=2", "-dpn=0"), {"MD305 spec.router"}),
    "a rank from the member's index": (vllm("-dp=2", "-dpn", "$(GPUSTACK_MEMBER_INDEX)"), {"MD305 spec.router"}),
    "the external flag without a router": (vllm("-dpe", "-dp=2"), {"MD305 spec.router"}),
    "hybrid with one local rank is external": (vllm("-dph", "-dp=4", "-dpl=1"), {"MD305 spec.router"}),
    "a start rank with one local rank is external": (vllm("-dp=4", "-dpl=1", "-dpr=1"), {"MD305 spec.router"}),
    "an assigned rank behind vLLM's router": (vllm("-dp=2", "-dpn=0").router("vllm-router"), set()),
    "an assigned rank behind llm-d-router": (vllm("-dp=2", "-dpn=0").router("llm-d-router"), {"MD305 spec.router.name"}),
}


@pytest.mark.parametrize("name", WRITES)
async def test_create(name: str) -> None:
    """Exactly these rules at exactly these fields."""
    new, said = WRITES[name]
    assert await found(new) == said


async def test_the_data_type_is_the_users_where_the_setting_says_so() -> None:
    """Every spelling passes then."""
    settings = AdmissionSettings(model_deployment_kv_cache_dtype_owned=False)
    assert await found(vllm("--kv_cache_dtype", "fp8").cache(), settings=settings) == set()


async def test_a_refusal_names_the_flag_as_written_the_key_the_engine_and_the_way_out() -> None:
    """The writer finds the token, and learns whose it is."""
    (cause,) = (await review(vllm("--kv_transfer_conf=x"))).causes
    for text in ("--kv_transfer_conf", "--kv-transfer-config", "vLLM", "roles[0].command"):
        assert text in cause["message"]


async def test_the_width_names_its_factors_and_that_size_does_not_help() -> None:
    """What multiplies, and what does not."""
    (cause,) = (await review(vllm("-tp=4", "-pp=2", cards=2))).causes
    for text in ("8 cards", "tensor 4", "pipeline 2", "size does not help"):
        assert text in cause["message"]


async def test_disagreeing_flags_are_named_sorted() -> None:
    """Joined by "and"."""
    (cause,) = (await review(vllm("-dph", "-dpe"))).causes
    assert "--data-parallel-external-lb and --data-parallel-hybrid-lb" in cause["message"]


RATCHETS: dict[str, tuple[Deployment, Deployment, set[str]]] = {
    "a stored owned argument": (vllm("--kv-transfer-config={}"), vllm("--kv-transfer-config={}").scaled(2), set()),
    "a stored owned argument beside a new one": (
        vllm("--kv-transfer-config={}"),
        vllm("--kv-transfer-config={}", "--x"),
        {f"MD201 {ARG0}"},
    ),
    "a stored reference that a changed variable makes an owned argument": (
        vllm("$(WIRE)", WIRE="--x"),
        vllm("$(WIRE)", WIRE="--kv-transfer-config={}"),
        {f"MD201 {ARG0}"},
    ),
    "a stored owned variable is judged again": (
        vllm(MOONCAKE_CONFIG_PATH="x"),
        vllm(MOONCAKE_CONFIG_PATH="x").scaled(2),
        {f"MD202 {ENV0}"},
    ),
    "a stored line that cannot be read": (vllm("-tp", "x"), vllm("-tp", "x").scaled(2), set()),
    "a stored line that a new variable does not mend": (vllm("-tp", "x"), vllm("-tp", "x", A="1"), {f"MD301 {ARG0}", f"MD302 {ROLE}"}),
    "a stored line under another version": (vllm("-tp", "x"), vllm("-tp", "x").engine("vLLM", "0.33.0"), set()),
    "a stored served name": (vllm("--served-model-name=x"), vllm("--served-model-name=x").scaled(2), set()),
    "a stored served name beside a new argument": (vllm("--served-model-name=x"), vllm("--served-model-name", "x", "--y"), set()),
    "a stored served name of a command that is gone": (
        deployment(taken("x", tokens=("--served-model-name=x",))),
        vllm("--served-model-name=x"),
        {f"MD206 {ARGS}"},
    ),
    "a stored data type": (vllm("--kv-cache-dtype=fp8").cache(), vllm("--kv-cache-dtype=fp8").cache().scaled(2), set()),
    "a stored width": (vllm("-tp=4", cards=2), vllm("-tp=4", cards=2).scaled(2), set()),
    "a stored width in another spelling of the cards": (vllm("-tp=4", cards=2), vllm("-tp=4", cards="2000m"), set()),
    "a stored width on other cards": (vllm("-tp=4", cards=2), vllm("-tp=4", cards=3), {f"MD303 {CARDS}"}),
    "a stored balancing": (vllm("-dpm", "-dp=2"), vllm("-dpm", "-dp=2").scaled(2), set()),
    "a stored external role": (vllm("-dpn=0", "-dp=2"), vllm("-dpn=0", "-dp=2").scaled(2), set()),
    "a stored external role whose router goes": (
        vllm("-dpn=0", "-dp=2").router("vllm-router"),
        vllm("-dpn=0", "-dp=2"),
        {"MD305 spec.router"},
    ),
}


@pytest.mark.parametrize("name", RATCHETS)
async def test_ratchet(name: str) -> None:
    """Arguments that an update leaves as they were are not judged again."""
    old, new, said = RATCHETS[name]
    new = new.scaled(new.body["spec"]["roles"][0]["replicas"] + 1)
    assert await found(new, old) == said


async def test_findings_that_do_not_refuse_are_warnings() -> None:
    """At most eight, each at most 256 characters, the last one saying how many were left out."""
    warnings = (await review(vllm(*(f"--unknown-{i}-{'x' * 300}" for i in range(12))))).warnings
    assert len(warnings) == 8
    assert all(len(warning) <= 256 for warning in warnings)
    assert all(warning.startswith("EA0") for warning in warnings[:7])
    assert "mdctl lint" in warnings[7]


async def test_an_unreadable_line_of_a_version_without_a_table_warns() -> None:
    """Not refused, but said."""
    warnings = (await review(vllm("-tp", "x").engine("vLLM", "0.30.1"))).warnings
    assert any("EA001" in warning and "extraArgs[0]" in warning for warning in warnings)


async def test_a_refused_argument_is_not_warned_about_too() -> None:
    """One place says it."""
    answer = await review(vllm("-tp", "x"))
    assert not any(ARG0 in warning for warning in answer.warnings)


async def test_an_update_that_touches_no_line_does_not_warn() -> None:
    """Nobody is told again with every replica."""
    stored = vllm("--unknown-option")
    assert (await review(stored.scaled(2), stored)).warnings == []
    assert (await review(stored.engine("vLLM", "0.33.0"), stored)).warnings != []


STRANGE_LINES = (
    "--served-model-name=x",
    "--kv-cache-dtype=fp8",
    "--port=9000",
    "-tp=2",
    "--ssl-keyfile=k",
    "--elastic-ep-max-dp-size=1",
    "$(X)",
)


@pytest.mark.parametrize("token", STRANGE_LINES)
async def test_an_engine_nobody_knows_is_a_finding_and_no_crash(token: str) -> None:
    """The schema refuses it first; where it did not look, on either side of a write, no reader is asked about its line."""
    strange = deployment(role().args(token).ports(8000).cards(8)).engine("TGI").cache()
    assert "MD123 spec.roles[0].kind" in await found(strange)
    known = deployment(role().args(token, "--x").ports(8000).cards(8)).cache()
    assert "MD802 spec.engine.name" in await found(known, strange)


GLUED = {
    "an abbreviated tensor size": (vllm("-t2"), {"MD302 spec.roles[0]"}),
    "a tensor size": (vllm("--x", "-tp2"), {"MD302 spec.roles[0]"}),
    "an abbreviated expert switch": (vllm("-e2"), {"MD302 spec.roles[0]"}),
    "a spelling of one letter, which takes it": (vllm("-n2"), set()),
    "another engine": (sglang("-tp2"), set()),
    "behind two dashes": (vllm("--", "-t2"), set()),
    "a version without a table": (vllm("-t2").engine("vLLM", "0.30.0"), set()),
    "a replaced command": (deployment(taken("run", "-t2")), set()),
}


@pytest.mark.parametrize("name", GLUED)
async def test_a_value_glued_to_a_short_degree(name: str) -> None:
    """Refused at the role where the declared version's own parser does not know it (facts 3.6)."""
    new, wanted = GLUED[name]
    assert await found(new) == wanted


async def test_a_stored_glued_value_is_let_be() -> None:
    """The ratchet of D5: arguments that an update leaves alone are not judged again."""
    assert await found(deployment(role(image="engine:2").args("-t2")), deployment(role().args("-t2"))) == set()
