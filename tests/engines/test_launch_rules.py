"""Lines that parse and cannot start, or end in something else than they say."""

import pytest

from api.objects import EnvVar
from engines.facade import read_argv
from engines.findings import CATALOGUE


def ids(line: str, engine: str = "vLLM", version: str | None = None, env: dict[str, str] | None = None) -> set[str]:
    """The findings of a line, by id; informative ones left out."""
    reading = read_argv(engine, version, line.split(), [EnvVar(name=k, value=v) for k, v in (env or {}).items()])
    assert not reading.reading.faults
    return {f.id for f in reading.findings if f.severity != "info" and f.id != "EA013"}


VLLM = {
    "external balancing with its rank": ("-dp 4 -dpn 1", set()),
    "a rank that the operator fills in": ("-dp 4 -dpn $(GPUSTACK_MEMBER_INDEX)", set()),
    "a rank that nobody known fills in": ("-dp 4 -dpn $(RANK)", {"EA011"}),
    "external beside hybrid": ("-dp 4 -dpl 2 -dpe -dph", {"EA101"}),
    "a start rank beside an assigned rank": ("-dp 4 -dpn 1 -dpr 1", {"EA101"}),
    "a local size above the size": ("-dp 4 -dpl 8", {"EA102"}),
    "a rank beyond the size": ("-dp 4 -dpn 4", {"EA103"}),
    "a rank without data parallelism": ("-dpn 0", {"EA104"}),
    "the external flag without a rank": ("-dp 4 -dpe", {"EA105"}),
    "the external flag with a rank from the node": ("-dp 2 -dpe --nnodes 2 --node-rank 1", set()),
    "nodes that do not tell the ranks apart": ("-dp 4 -dpe --nnodes 2 --node-rank 1", {"EA105"}),
    "the hybrid flag without a local size": ("-dp 4 -dph", {"EA106"}),
    "the hybrid flag over part of the ranks": ("-dp 4 -dpl 2 -dph", set()),
    "the hybrid flag with one local rank": ("-dp 4 -dpl 1 -dph", {"EA107"}),
    "the hybrid flag over all ranks": ("-dp 4 -dpl 4 -dph", {"EA107"}),
    "a start rank that makes it hybrid": ("-dp 4 -dpl 2 -dpr 2", {"EA107"}),
    "a start rank that makes it external": ("-dp 4 -dpl 1 -dpr 2", {"EA107"}),
    "a start rank with a local size from the nodes": ("-dp 4 --nnodes 2 --node-rank 1 -dpr 2", {"EA107"}),
    "a start rank that is dropped": ("-dp 4 -dpr 2", {"EA110"}),
    "a headless start rank": ("-dp 4 -dpl 2 -dpr 2 --headless", {"EA304"}),
    "headless with API servers": ("--headless --api-server-count 2", {"EA108", "EA304"}),
    "headless beside hybrid": ("-dp 4 -dpl 2 -dph --headless", {"EA108", "EA304"}),
    "multi-port as it should be": ("-dp 4 -dpl 2 -dpm", set()),
    "multi-port with one local rank": ("-dp 4 -dpl 1 -dpm", {"EA109"}),
    "multi-port with half a pair": ("-dp 4 -dpl 2 -dpm --ssl-certfile c", {"EA109"}),
    "multi-port over a socket file": ("-dp 4 -dpl 2 -dpm --uds s", {"EA109", "EA304"}),
    "multi-port beside gRPC": ("-dp 4 -dpl 2 -dpm --grpc", {"EA109", "EA304"}),
    "multi-port with two API servers": ("-dp 4 -dpl 2 -dpm -asc 2", {"EA109"}),
    "multi-port without data parallelism": ("-dpl 2 -dpm", {"EA109"}),
    "multi-port with ranks left over": ("-dp 4 -dpl 3 -dpm", {"EA109"}),
    "multi-port from a start rank on": ("-dp 4 -dpl 2 -dpm -dpr 2", set()),
    "multi-port beyond the size": ("-dp 4 -dpl 2 -dpm -dpr 3", {"EA109"}),
    "multi-port on a node too many": ("-dp 4 -dpl 2 -dpm --node-rank 2", {"EA109"}),
    "a headless engine without local ranks": ("-dp 4 -dpl 0 --headless", {"EA108", "EA304"}),
    "several nodes on Ray": ("-tp 2 --nnodes 2 -dpb ray", {"EA114"}),
    "no node at all": ("--nnodes 0", {"EA203"}),
    "a start rank that would be external alone": ("-dpl 1 -dpr 0", {"EA104"}),
    "load balancing of experts without experts": ("-tp 2 --enable-eplb", {"EA205"}),
    "load balancing of experts on one rank": ("-ep --enable-eplb", {"EA205"}),
    "a TLS option alone": ("--ssl-ca-certs ca", set()),
    "an assigned rank with more local ranks": ("-dp 4 -dpn 1 -dpl 2", {"EA111"}),
    "an assigned rank with more local ranks from the nodes": ("-dp 8 -dpn 1 --nnodes 2", {"EA111"}),
    "an assigned rank with one local rank from the nodes": ("-dp 2 -dpn 1 --nnodes 2", set()),
    "a negative rank": ("-dp 4 -dpn -1", {"EA103"}),
    "a negative start rank over one rank": ("-dpl 1 -dpr -1 --headless", {"EA103", "EA304"}),
    "a start rank where the local size is 0": ("-dpl 0 -dpr 1", {"EA103"}),
    "a negative node rank": ("--node-rank -1", {"EA204"}),
    "an RPC port that the system would choose": ("-dp 2 -dpp 0", {"EA305"}),
    "a port that the system chooses": ("--port 0", set()),
    "a master port that no node looks at": ("--master-port 70000", set()),
    "a master port beyond 16 bits": ("-tp 2 --nnodes 2 --master-port 70000", {"EA305"}),
    "an unknown backend": ("-dp 2 -dpb gloo", {"EA114"}),
    "decode context that does not divide": ("-tp 4 -dcp 3", {"EA201"}),
    "decode context that spans prefill context": ("-tp 2 -pcp 2 -dcp 4", set()),
    "decode context beside prefill context": ("-tp 4 -pcp 2 -dcp 4", {"EA201"}),
    "nodes that do not divide the world": ("-tp 2 --nnodes 4", {"EA203"}),
    "a node rank beyond the nodes": ("-tp 4 --nnodes 2 --node-rank 2", {"EA204"}),
    "elastic without its load balancer": ("-dp 2 -ep --enable-elastic-ep", {"EA205"}),
    "elastic as it should be": ("-dp 2 -ep --enable-elastic-ep --enable-eplb", set()),
    "elastic beside a pipeline": ("-dp 2 -pp 2 -ep --enable-elastic-ep --enable-eplb", {"EA206"}),
    "an elastic maximum below the size": ("-dp 4 -ep --enable-elastic-ep --enable-eplb --elastic-ep-max-dp-size 2", {"EA207"}),
    "an elastic maximum of zero, elastic or not": ("--elastic-ep-max-dp-size 0", {"EA207"}),
    "no API server is headless": ("-dp 4 -dpl 2 -dph -asc 0", {"EA108", "EA304"}),
    "a key alone": ("--ssl-keyfile k", {"EA301"}),
    "a certificate alone may hold the key": ("--ssl-certfile c", set()),
    "a demand that Python does not know": ("--ssl-certfile c --ssl-cert-reqs 3", {"EA303"}),
    "a socket file": ("--uds /tmp/s", {"EA304"}),
    "a port beyond 16 bits": ("--port 70000", {"EA305"}),
}


@pytest.mark.parametrize(("line", "expected"), VLLM.values(), ids=VLLM.keys())
def test_vllm(line: str, expected: set[str]) -> None:
    """Newest release; each rule confirmed with the engine's own launch code."""
    assert ids(line) == expected


OLDER = {
    "prefill context beside data parallelism": ("-dp 2 -pcp 2", "0.29.0", {"EA202"}),
    "the same in the newest": ("-dp 2 -pcp 2", "0.33.0", set()),
    "and before anybody forbade it": ("-dp 2 -pcp 2", "0.25.1", set()),
    "decode context beside prefill context, at first": ("-tp 4 -pcp 2 -dcp 4", "0.25.1", set()),
    "elastic beside external balancing": ("-dp 2 -dpn 0 -ep --enable-elastic-ep --enable-eplb", "0.29.0", {"EA206"}),
    "the same in the newest, elastic": ("-dp 2 -dpn 0 -ep --enable-elastic-ep --enable-eplb", "0.33.0", set()),
    "the node's rank overrides the assigned one": ("-dp 2 -dpe -dpn 9 --nnodes 2 --node-rank 1", "0.29.0", set()),
    "a start rank of 0 said nothing at first": ("-dp 4 -dpl 2 -dpr 0", "0.25.1", set()),
    "a start rank of 0 since": ("-dp 4 -dpl 2 -dpr 0", "0.29.0", {"EA107"}),
    "any RPC port at first": ("-dp 2 -dpp 70000", "0.25.1", set()),
    "the assigned rank counts in the newest": ("-dp 2 -dpe -dpn 9 --nnodes 2 --node-rank 1", "0.33.0", {"EA103"}),
}


@pytest.mark.parametrize(("line", "version", "expected"), OLDER.values(), ids=OLDER.keys())
def test_rules_that_changed_between_releases(line: str, version: str, expected: set[str]) -> None:
    """A rule is the release's own."""
    assert ids(line, version=version) == expected


def test_the_environment_replaces_an_assigned_rank() -> None:
    """Size and rank come from the same place; a negative rank is refused before."""
    assert ids("-dpn 1", env={"VLLM_DP_SIZE": "4"}) == {"EA113"}
    assert ids("-dpn -1", env={"VLLM_DP_SIZE": "4"}) == {"EA103", "EA113"}


SGLANG = {
    "a model path of its own": ("--model m", {"EA017"}),
    "a lone certificate": ("--ssl-certfile c", {"EA301"}),
    "a lone key": ("--ssl-keyfile k", {"EA301"}),
    "a pair": ("--ssl-certfile c --ssl-keyfile k", set()),
    "a CA alone": ("--ssl-ca-certs ca", {"EA301"}),
    "a password alone": ("--ssl-keyfile-password p", {"EA301"}),
    "a refresh of no certificate": ("--enable-ssl-refresh", {"EA301"}),
    "a CA beside a pair": ("--ssl-certfile c --ssl-keyfile k --ssl-ca-certs ca", set()),
    "attention size that does not divide": ("--tp-size 4 --attn-dp-size 3", {"EA209"}),
    "attention beside plain data parallelism": ("--tp-size 4 --attn-dp-size 2 --dp-size 2", {"EA208"}),
    "the older spelling beside the newer": ("--tp-size 4 --attn-dp-size 2 --dp-size 2 --enable-dp-attention", {"EA208"}),
    "attention data parallelism without effect": ("--enable-dp-attention --tp-size 4", {"EA210"}),
    "attention data parallelism that does not divide": ("--enable-dp-attention --dp-size 3 --tp-size 4", {"EA209"}),
    "decode context beside prefill context": ("--dcp-size 2 --tp-size 2 --enable-prefill-cp --cp-strategy zigzag", {"EA208"}),
    "prefill context without a strategy": ("--enable-prefill-cp", {"EA208"}),
    "attention context that does not divide": ("--tp-size 4 --attn-cp-size 3", {"EA209"}),
    "attention context times attention size": ("--tp-size 4 --attn-cp-size 2 --attn-dp-size 4", {"EA209"}),
    "MoE data parallelism as it should be": ("--tp-size 4 --moe-dp-size 2 --attn-cp-size 2 --ep-size 2", set()),
    "MoE data parallelism without its context size": ("--tp-size 4 --moe-dp-size 2", {"EA208"}),
    "MoE data parallelism beside a pipeline": ("--tp-size 4 --moe-dp-size 2 --attn-cp-size 2 --pp-size 2", {"EA208"}),
    "MoE data parallelism beside another context size": ("--tp-size 4 --moe-dp-size 2 --attn-cp-size 4", {"EA208"}),
    "a dense size that is neither 1 nor the tensor size": ("--tp-size 4 --moe-dense-tp-size 2", {"EA209"}),
    "a dense size of 1": ("--tp-size 4 --moe-dense-tp-size 1", set()),
    "MoE data parallelism that does not divide": ("--tp-size 4 --moe-dp-size 3 --attn-cp-size 4", {"EA208", "EA209"}),
    "MoE and expert sizes that do not multiply": ("--tp-size 8 --moe-dp-size 2 --attn-cp-size 2 --ep-size 2", {"EA208"}),
    "dwdp that is not the tensor size": ("--tp-size 4 --dwdp-size 2", {"EA209"}),
    "dwdp as it should be, whatever the other sizes": ("--tp-size 4 --dwdp-size 4 --moe-dp-size 3 --dp-size 2 --attn-dp-size 2", set()),
    "dwdp beside a pipeline": ("--tp-size 4 --pp-size 2 --dwdp-size 4", {"EA208"}),
    "dwdp beside attention context": ("--tp-size 4 --dwdp-size 4 --attn-cp-size 2", {"EA209"}),
    "nodes that do not divide one replica": ("--tp-size 4 --nnodes 3", {"EA203"}),
    "a node rank beyond the nodes": ("--tp-size 4 --nnodes 2 --node-rank 2", {"EA204"}),
    "data parallelism over nodes": ("--tp-size 4 --dp-size 2 --nnodes 2", {"EA208"}),
    "attention data parallelism over nodes": ("--tp-size 4 --dp-size 2 --enable-dp-attention --nnodes 2", set()),
    "a node that joins an elastic group": ("--tp-size 1 --nnodes 2 --node-rank 1 --elastic-ep-join-mode scale", set()),
}


@pytest.mark.parametrize(("line", "expected"), SGLANG.values(), ids=SGLANG.keys())
def test_sglang(line: str, expected: set[str]) -> None:
    """Newest release, read in its own argument hooks."""
    assert ids(line, "SGLang") == expected


OLDER_SGLANG = {
    "prefill context without a strategy": ("--enable-prefill-cp", {"EA208"}),
    "the older name brings its strategy": ("--enable-prefill-context-parallel", set()),
    "decode context beside prefill context": ("--dcp-size 2 --enable-prefill-cp --cp-strategy zigzag", set()),
    "context times data parallelism, attention or not": ("--tp-size 4 --attn-cp-size 2 --dp-size 4", {"EA209"}),
    "data parallelism over nodes": ("--tp-size 4 --dp-size 2 --nnodes 2", {"EA208"}),
}


@pytest.mark.parametrize(("line", "expected"), OLDER_SGLANG.values(), ids=OLDER_SGLANG.keys())
def test_sglang_before_it_had_an_attention_size(line: str, expected: set[str]) -> None:
    """As 0.5.18 has the rules."""
    assert ids(line, "SGLang", "0.5.18") == expected


def test_every_finding_is_in_the_catalogue_under_its_own_id() -> None:
    """Ids are stable: lint output, docs and dashboards use them."""
    assert all(kind.id == key and kind.title for key, kind in CATALOGUE.items())
    assert len({kind.title for kind in CATALOGUE.values()}) == len(CATALOGUE)
