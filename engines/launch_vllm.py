"""vLLM's launch rules (engine facts, sections 4, 6, 7 and 8; confirmed with its own launch code).

What depends on the model, the hardware or installed packages is not judged.
"""

from typing import Final

from engines.launch import Facts, ports
from engines.parallelism import SIZE_VARIABLE, Parallelism

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

EXTERNAL: Final = "--data-parallel-external-lb"


def judge(facts: Facts, parallelism: Parallelism) -> None:
    """Every launch rule, on a readable line."""
    names = facts.last.keys()
    size = parallelism.provenance.get("dataParallel", ())
    if not names.isdisjoint(_PARALLEL) or (size and size[0].variable is not None):
        _parallel(facts, parallelism)
    if not names.isdisjoint(_LISTENING):
        _listening(facts)


def _parallel(facts: Facts, parallelism: Parallelism) -> None:
    line_size = facts.number("data_parallel_size", 1)
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
    if facts.on("data_parallel_multi_port_external_lb"):
        _multi_port(facts)
    if not _conflict(facts) and not facts.on("data_parallel_multi_port_external_lb") and line_size is not None:
        hybrid = _nodes(facts, line_size) and _balance(facts, line_size, size, parallelism)
        _elastic(facts, size, hybrid is True, parallelism)
    _contexts(facts, size)


def _conflict(facts: Facts) -> bool:
    """The serve command's own vote: a start rank votes hybrid unless a hybrid or multi-port flag stands beside it."""
    flags: list[str] = []
    hybrid, multi = facts.on("data_parallel_hybrid_lb"), facts.on("data_parallel_multi_port_external_lb")
    modes = 0
    external = [d for d in ("data_parallel_external_lb", "data_parallel_rank") if facts.on(d) or (d in facts.last and d.endswith("rank"))]
    if external:
        modes += 1
        flags += [facts.name(d) for d in external]
    if multi:
        modes += 1
        flags.append(facts.name("data_parallel_multi_port_external_lb"))
    if hybrid:
        modes += 1
        flags.append(facts.name("data_parallel_hybrid_lb"))
    elif "data_parallel_start_rank" in facts.last and not multi:
        modes += 1
        flags.append(facts.name("data_parallel_start_rank"))
    if modes > 1:
        facts.say(
            "EA101",
            f"{' and '.join(sorted(flags))} ask for different load balancing: vLLM refuses",
            "data_parallel_multi_port_external_lb",
            "data_parallel_hybrid_lb",
            "data_parallel_start_rank",
        )
    return modes > 1


def _multi_port(facts: Facts) -> None:
    dest = "data_parallel_multi_port_external_lb"
    size, local = facts.number("data_parallel_size", 1), facts.number("data_parallel_size_local")
    count = facts.number("api_server_count")
    name = facts.name(dest)
    if facts.on("grpc"):
        facts.say("EA109", f"{name} does not go with --grpc", dest)
    if facts.given("uds"):
        facts.say("EA109", f"{name} does not go with --uds", dest)
    if facts.given("ssl_certfile") != facts.given("ssl_keyfile"):
        facts.say("EA109", f"{name} takes a certificate and a key only together", dest)
    if count not in (None, 1):
        facts.say("EA109", f"{name} needs one API server, {count} are asked for", dest)
    if size is None:
        return
    if size < 2:
        facts.say("EA109", f"{name} needs a data-parallel size above 1", dest)
    elif local is None or local < 2:
        facts.say("EA109", f"{name} needs --data-parallel-size-local of at least 2", dest)
    elif local > size or size % local:
        facts.say("EA109", f"{name} needs a local size that divides the data-parallel size: {local} and {size}", dest)
    else:
        node = facts.number("node_rank", 0)
        first = facts.number("data_parallel_start_rank", None if node is None else node * local)
        if first is not None and first + local > size:
            facts.say("EA109", f"{name} would serve the ranks {first} to {first + local - 1} of {size}", dest)


def _nodes(facts: Facts, size: int) -> bool:
    """The node rules. False when the launch ends here."""
    nodes, node = facts.number("nnodes", 1), facts.number("node_rank", 0)
    if node is not None and node < 0:
        facts.say("EA204", f"{facts.name('node_rank')} {node}: node ranks begin at 0", "node_rank")
        return False
    if nodes is None or nodes <= 1:
        if nodes is not None and nodes < 1:
            facts.say("EA203", f"{facts.name('nnodes')} {nodes}: there is at least one node", "nnodes")
            return False
        return True
    backend = facts.text("data_parallel_backend")
    if backend == "ray":
        facts.say("EA114", f"{facts.name('nnodes')} {nodes} needs the mp data-parallel backend", "nnodes")
        return False
    tensor, pipeline, prefill = _inner(facts)
    world = size * tensor * pipeline * prefill
    if world % nodes:
        facts.say("EA203", f"{facts.name('nnodes')} {nodes} does not divide the world of {world} ranks", "nnodes")
        return False
    if node is not None and node >= nodes:
        facts.say("EA204", f"node rank {node} is outside 0..{nodes - 1}", "node_rank", "nnodes")
        return False
    return True


def _inner(facts: Facts) -> tuple[int, int, int]:
    """Tensor, pipeline and prefill-context size; before 0.30 the node rules left the last one out."""
    prefill = facts.number("prefill_context_parallel_size", 1) or 1
    return (
        facts.number("tensor_parallel_size", 1) or 1,
        facts.number("pipeline_parallel_size", 1) or 1,
        prefill if facts.version >= (0, 30) else 1,
    )


def _balance(facts: Facts, line_size: int, size: int, parallelism: Parallelism) -> bool | None:
    """The mode the engine ends in, against the flags. Returns whether that is Hybrid, None when the launch is refused."""
    local, start = facts.number("data_parallel_size_local"), facts.number("data_parallel_start_rank")
    local_given = local is not None
    nodes, node = facts.number("nnodes", 1) or 1, facts.number("node_rank", 0) or 0
    assigned = "data_parallel_rank" in facts.last
    started = "data_parallel_start_rank" in facts.last
    external_flag = facts.on("data_parallel_external_lb")
    count = facts.number("api_server_count")
    headless = facts.on("headless") or (count is not None and count < 1)
    hybrid = facts.on("data_parallel_hybrid_lb")
    if facts.on("headless") and count is not None and count > 0:
        facts.say("EA108", f"--headless starts no API server, {count} {'is' if count == 1 else 'are'} asked for", "headless")
        return None
    if headless and hybrid:
        facts.say("EA108", f"{facts.name('data_parallel_hybrid_lb')} does not go with a headless engine", "headless", "api_server_count")
        return None
    tensor, pipeline, prefill = _inner(facts)
    within = tensor * pipeline * prefill
    share = line_size * within // nodes
    inferred = node * share // within if nodes > 1 else 0
    if local is None and nodes > 1 and not (line_size > 1 and external_flag):
        local = max(share // within, 1)
    if external_flag or assigned:
        rank = _external(facts, line_size, local, nodes, inferred)
        if rank is None and not (assigned and facts.last["data_parallel_rank"].unresolved):
            return None
        if size <= 1:
            facts.say("EA104", "external balancing needs a data-parallel size above 1", "data_parallel_rank", "data_parallel_external_lb")
            return None
        return False if _rank(facts, rank, size, line_size > 1, "data_parallel_rank") else None
    if local is None:
        if hybrid:
            facts.say("EA106", f"{facts.name('data_parallel_hybrid_lb')} needs --data-parallel-size-local", "data_parallel_hybrid_lb")
            return None
        if started and not headless:
            facts.say("EA110", f"{facts.name('data_parallel_start_rank')} is dropped without a local size", "data_parallel_start_rank")
        return False
    if local > size:
        facts.say("EA102", f"local size {local} exceeds the data-parallel size {size}", "data_parallel_size_local", "data_parallel_size")
        return None
    if local == 0 and headless and local_given:
        facts.say("EA108", "a headless engine needs a local data-parallel size above 0", "headless", "api_server_count")
        return None
    # Before 0.26 a start rank of 0 said nothing.
    if started and not headless and (facts.version >= (0, 26) or start != 0):
        hybrid = True
    mode = "Internal"
    if hybrid and local == 1:
        mode = "External"
    elif hybrid and local != line_size:
        mode = "Hybrid"
    if mode == "External" and size <= 1:
        facts.say("EA104", "external balancing needs a data-parallel size above 1", "data_parallel_start_rank", "data_parallel_hybrid_lb")
        return None
    if not _rank(facts, start if started else inferred, size, line_size > 1 or local == 0, "data_parallel_start_rank"):
        return None
    if mode != parallelism.load_balance:
        facts.say(
            "EA107",
            f"with local size {local} of {line_size} vLLM ends in {mode} balancing, the flags say {parallelism.load_balance}",
            "data_parallel_hybrid_lb",
            "data_parallel_start_rank",
        )
    return mode == "Hybrid"


def _external(facts: Facts, size: int, local: int | None, nodes: int, inferred: int) -> int | None:
    """The rank of external balancing, assigned or inferred; None when it is unknown or the launch is refused."""
    rank = facts.number("data_parallel_rank")
    assigned = "data_parallel_rank" in facts.last
    inferable = nodes > 1 and size > 1 and facts.on("data_parallel_external_lb")
    if inferable and not assigned:
        if facts.version >= (0, 30) and nodes % size:
            facts.say("EA105", f"{nodes} nodes do not tell {size} ranks apart: assign --data-parallel-rank", "data_parallel_external_lb")
            return None
        rank = inferred
    elif inferable and facts.version < (0, 30):
        rank = inferred
    elif not assigned:
        facts.say("EA105", f"{facts.name('data_parallel_external_lb')} needs --data-parallel-rank", "data_parallel_external_lb")
        return None
    if local not in (1, None):
        whence = "is declared" if "data_parallel_size_local" in facts.last else f"follows from {nodes} nodes"
        facts.say("EA111", f"an assigned rank allows a local size of 1, {local} {whence}", "data_parallel_size_local", "data_parallel_rank")
        return None
    return rank


def _rank(facts: Facts, rank: int | None, size: int, below: bool, dest: str) -> bool:
    """Whether a rank will do. None is negative; one that counts against the line's own size (`below`) has to be below it."""
    fits = rank is None or (rank >= 0 and not (below and rank >= size))
    if not fits:
        facts.say("EA103", f"data-parallel rank {rank} is outside 0..{size - 1}", dest, "node_rank")
    return fits


def _elastic(facts: Facts, size: int, hybrid: bool, parallelism: Parallelism) -> None:
    tensor = facts.number("tensor_parallel_size", 1) or 1
    prefill = facts.number("prefill_context_parallel_size", 1) or 1
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
    tensor, prefill = facts.number("tensor_parallel_size", 1) or 1, facts.number("prefill_context_parallel_size", 1) or 1
    decode = facts.number("decode_context_parallel_size", 1) or 1
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
    ports(facts, "port", "master_port")
    ports(facts, "data_parallel_rpc_port", low=1 if facts.version >= (0, 26) else 0)
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
    servers = facts.number("api_server_count", 1)
    if (facts.on("headless") or (servers is not None and servers < 1)) and not facts.on("data_parallel_multi_port_external_lb"):
        facts.say("EA304", "a headless engine opens no HTTP port: no probe can answer", "headless", "api_server_count")
    if facts.on("grpc"):
        facts.say("EA304", "with --grpc the engine serves gRPC: GET /health is not answered", "grpc")
