"""vLLM's launch rules (engine facts, sections 4, 6, 7 and 8; confirmed with its own launch code).

What depends on the model, the hardware or installed packages is not judged.
"""

from typing import Final

from engines.launch import Facts, ports
from engines.launch_balance import conflict, ends_hybrid, multi_port
from engines.parallelism import MULTI_PORT_FLAG, SIZE_VARIABLE, Parallelism

_PARALLEL: Final = frozenset(
    {
        "data_parallel_size_local",
        "data_parallel_rank",
        "data_parallel_start_rank",
        "data_parallel_external_lb",
        "data_parallel_hybrid_lb",
        "data_parallel_multi_port_external_lb",
        "data_parallel_backend",
        "prefill_context_parallel_size",
        "decode_context_parallel_size",
        "nnodes",
        "node_rank",
        "headless",
        "api_server_count",
        "enable_elastic_ep",
        "elastic_ep_max_dp_size",
        "enable_eplb",
    }
)
_LISTENING: Final = frozenset(
    {
        "host",
        "port",
        "uds",
        "grpc",
        "headless",
        "api_server_count",
        "ssl_certfile",
        "ssl_keyfile",
        "ssl_ca_certs",
        "ssl_cert_reqs",
        "ssl_ciphers",
        "enable_ssl_refresh",
        "master_port",
        "data_parallel_rpc_port",
    }
)


def judge(facts: Facts, parallelism: Parallelism) -> None:
    """Every launch rule, on a readable line."""
    names = facts.last.keys()
    size = parallelism.provenance.get("dataParallel", ())
    if not names.isdisjoint(_PARALLEL) or (size and size[0].variable is not None):
        _parallel(facts, parallelism)
    if not names.isdisjoint(_LISTENING):
        _listening(facts)


def _parallel(facts: Facts, parallelism: Parallelism) -> None:
    size = parallelism.declared.get("dataParallel", 1)
    where = parallelism.provenance.get("dataParallel", ())
    from_environment = bool(where) and where[0].variable == SIZE_VARIABLE
    if from_environment:
        facts.say("EA112", f"the data-parallel size {size} comes from {SIZE_VARIABLE}")
        if "data_parallel_rank" in facts.last:
            facts.say("EA113", "with the size from the environment, the environment's rank replaces the assigned one", "data_parallel_rank")
    backend = facts.text("data_parallel_backend")
    if backend is not None and backend not in {"mp", "ray"}:
        facts.say("EA114", f"{facts.name('data_parallel_backend')} {backend}: vLLM knows mp and ray", "data_parallel_backend")
    if facts.on(MULTI_PORT_FLAG):
        multi_port(facts)
    if not conflict(facts) and not facts.on(MULTI_PORT_FLAG):
        hybrid = ends_hybrid(facts, size, parallelism.load_balance)
        _elastic(facts, size, hybrid is True, parallelism)
    _contexts(facts, size)


def _elastic(facts: Facts, size: int, hybrid: bool, parallelism: Parallelism) -> None:
    tensor = facts.degree("tensor_parallel_size")
    prefill = facts.degree("prefill_context_parallel_size")
    if facts.on("enable_eplb"):
        if not facts.on("enable_expert_parallel"):
            facts.say("EA205", "expert-parallel load balancing needs --enable-expert-parallel", "enable_eplb")
        if tensor * (prefill if facts.version >= (0, 26) else 1) * size <= 1:
            facts.say("EA205", "expert-parallel load balancing needs tensor, prefill-context or data parallelism", "enable_eplb")
    most = facts.number("elastic_ep_max_dp_size")
    if most is not None and most < 1:
        facts.say("EA207", f"{facts.name('elastic_ep_max_dp_size')} {most} is below 1", "elastic_ep_max_dp_size")
        return
    if not facts.on("enable_elastic_ep"):
        return
    if not facts.on("enable_eplb"):
        facts.say("EA205", "elastic expert parallelism needs --enable-eplb", "enable_elastic_ep")
    pipeline = facts.number("pipeline_parallel_size", 1)
    if pipeline is not None and pipeline > 1:
        facts.say("EA206", "elastic expert parallelism does not go with pipeline parallelism", "enable_elastic_ep")
    if hybrid or (facts.version < (0, 30) and parallelism.load_balance != "Internal"):
        facts.say("EA206", "elastic expert parallelism does not go with this load balancing", "enable_elastic_ep")
    if most is not None and most < size:
        facts.say("EA207", f"the elastic maximum {most} is below the data-parallel size {size}", "elastic_ep_max_dp_size")


def _contexts(facts: Facts, size: int) -> None:
    tensor, prefill = facts.degree("tensor_parallel_size"), facts.degree("prefill_context_parallel_size")
    decode = facts.degree("decode_context_parallel_size")
    if prefill > 1 and size > 1 and (0, 26) <= facts.version < (0, 30):
        facts.say("EA202", "this release has no prefill context parallelism beside data parallelism", "prefill_context_parallel_size")
    # Before 0.26 prefill context parallelism changed nothing about the decode-context size.
    if prefill == 1 or facts.version < (0, 26):
        if tensor % decode:
            facts.say("EA201", f"decode-context size {decode} does not divide the tensor size {tensor}", "decode_context_parallel_size")
    elif decode not in (1, prefill, tensor * prefill):
        allowed = ", ".join(str(n) for n in sorted({1, prefill, tensor * prefill}))
        facts.say(
            "EA201", f"decode-context size {decode} beside prefill context parallelism: one of {allowed}", "decode_context_parallel_size"
        )


def _listening(facts: Facts) -> None:
    ports(facts, "port")
    if facts.degree("nnodes") > 1:
        ports(facts, "master_port")
    # At first it was looked at by nobody but distant engines.
    if facts.version >= (0, 26):
        ports(facts, "data_parallel_rpc_port", low=1)
    certificate, key = facts.given("ssl_certfile"), facts.given("ssl_keyfile")
    if key and not certificate:
        facts.say("EA301", "a key without a certificate: the server does not start", "ssl_keyfile")
    reqs = facts.number("ssl_cert_reqs")
    if (certificate or key) and reqs is not None and not 0 <= reqs <= 2:
        facts.say("EA303", f"{facts.name('ssl_cert_reqs')} {reqs}: Python knows 0, 1 and 2", "ssl_cert_reqs")
    if not certificate and not key:
        idle = [d for d in ("ssl_ca_certs", "ssl_cert_reqs", "ssl_ciphers", "enable_ssl_refresh") if facts.given(d) or facts.number(d)]
        if idle:
            facts.say("EA306", f"{facts.name(idle[0])} has no effect without a certificate or key: plain HTTP", *idle)
    if facts.given("uds"):
        facts.say("EA304", "with --uds the engine listens on a socket file: host and port are unused and no probe can answer", "uds")
    if facts.headless and not facts.on(MULTI_PORT_FLAG):
        facts.say("EA304", "a headless engine opens no HTTP port: no probe can answer", "headless", "api_server_count")
    if facts.on("grpc"):
        facts.say("EA304", "with --grpc the engine serves gRPC: GET /health is not answered", "grpc")
