"""Which load balancing a vLLM launch ends in, and what it refuses on the way there (engine facts, sections 4 and 7).

The order is the engine's own: the serve command's vote, the node rules, then the configuration of the ranks. Each step that refuses ends
the launch, so nothing is said about the steps behind it. Releases differ where a version is compared.
"""

from typing import Final

import msgspec

from engines.launch import Facts
from engines.parallelism import EXTERNAL_FLAG, HYBRID_FLAG, MULTI_PORT_FLAG, RANK, LoadBalance

START: Final = "data_parallel_start_rank"
LOCAL: Final = "data_parallel_size_local"
SIZE: Final = "data_parallel_size"


class Group(msgspec.Struct, frozen=True):
    """The figures of one launch.

    `line_size` is the data-parallel size of the line, `size` that of line and environment; `local` the local size, declared or told by the
    nodes; `node_first` the rank that this node's place would give it.
    """

    line_size: int
    size: int
    local: int | None
    nodes: int
    node_first: int
    headless: bool


def ends_hybrid(facts: Facts, size: int, flagged: LoadBalance) -> bool | None:
    """Whether a launch without the multi-port flag ends in hybrid balancing; None when it is refused. `flagged` is what the flags say."""
    line_size = facts.number(SIZE, 1)
    if line_size is None or _refuses_nodes(facts, line_size) or _refuses_headless(facts):
        return None
    group = _group(facts, line_size, size)
    if facts.on(EXTERNAL_FLAG) or facts.uses(RANK):
        return None if _refuses_external(facts, group) else False
    return _inner_balance(facts, group, flagged)


def conflict(facts: Facts) -> bool:
    """The serve command's own vote: a start rank votes hybrid unless a hybrid or multi-port flag stands beside it."""
    multi, hybrid = facts.on(MULTI_PORT_FLAG), facts.on(HYBRID_FLAG)
    external = [dest for dest, votes in ((EXTERNAL_FLAG, facts.on(EXTERNAL_FLAG)), (RANK, facts.uses(RANK))) if votes]
    started = facts.uses(START) and not multi and not hybrid
    if bool(external) + multi + (hybrid or started) < 2:
        return False
    voters = [*external, *(dest for dest, votes in ((MULTI_PORT_FLAG, multi), (HYBRID_FLAG, hybrid), (START, started)) if votes)]
    flags = " and ".join(sorted(facts.name(dest) for dest in voters))
    facts.say("EA101", f"{flags} ask for different load balancing: vLLM refuses", MULTI_PORT_FLAG, HYBRID_FLAG, START)
    return True


def multi_port(facts: Facts) -> None:
    """What the supervisor of the multi-port mode demands of the line."""
    size, local, count = facts.number(SIZE, 1), facts.number(LOCAL), facts.number("api_server_count")
    faults: list[str] = []
    if facts.on("grpc"):
        faults.append("does not go with --grpc")
    if facts.given("uds"):
        faults.append("does not go with --uds")
    if facts.given("ssl_certfile") != facts.given("ssl_keyfile"):
        faults.append("takes a certificate and a key only together")
    if count not in (None, 1):
        faults.append(f"needs one API server, {count} are asked for")
    if size is not None and size < 2:
        faults.append("needs a data-parallel size above 1")
    elif size is not None and (local is None or local < 2):
        faults.append("needs --data-parallel-size-local of at least 2")
    elif size is not None and local is not None:
        node = facts.number("node_rank", 0)
        first = facts.number(START, None if node is None else node * local)
        if local > size or size % local:
            faults.append(f"needs a local size that divides the data-parallel size: {local} and {size}")
        elif first is not None and first + local > size:
            faults.append(f"would serve the ranks {first} to {first + local - 1} of {size}")
    for fault in faults:
        facts.say("EA109", f"{facts.name(MULTI_PORT_FLAG)} {fault}", MULTI_PORT_FLAG)


def _within(facts: Facts) -> int:
    """The ranks of one data-parallel member; before 0.30 the node rules left prefill context parallelism out."""
    prefill = facts.degree("prefill_context_parallel_size") if facts.version >= (0, 30) else 1
    return facts.degree("tensor_parallel_size") * facts.degree("pipeline_parallel_size") * prefill


def _refuses_nodes(facts: Facts, size: int) -> bool:
    nodes, node = facts.number("nnodes", 1), facts.number("node_rank", 0)
    if node is not None and node < 0:
        facts.say("EA204", f"{facts.name('node_rank')} {node}: node ranks begin at 0", "node_rank")
    elif nodes is not None and nodes < 1:
        facts.say("EA203", f"{facts.name('nnodes')} {nodes}: there is at least one node", "nnodes")
    elif nodes is None or nodes == 1:
        return False
    elif facts.text("data_parallel_backend") == "ray":
        facts.say("EA114", f"{facts.name('nnodes')} {nodes} needs the mp data-parallel backend", "nnodes")
    elif (world := size * _within(facts)) % nodes:
        facts.say("EA203", f"{facts.name('nnodes')} {nodes} does not divide the world of {world} ranks", "nnodes")
    elif node is not None and node >= nodes:
        facts.say("EA204", f"node rank {node} is outside 0..{nodes - 1}", "node_rank", "nnodes")
    else:
        return False
    return True


def _refuses_headless(facts: Facts) -> bool:
    count = facts.number("api_server_count")
    if facts.on("headless") and count is not None and count > 0:
        facts.say("EA108", f"--headless starts no API server, {count} {'is' if count == 1 else 'are'} asked for", "headless")
    elif facts.headless and facts.on(HYBRID_FLAG):
        facts.say("EA108", f"{facts.name(HYBRID_FLAG)} does not go with a headless engine", "headless", "api_server_count")
    else:
        return False
    return True


def _group(facts: Facts, line_size: int, size: int) -> Group:
    nodes, node = facts.degree("nnodes"), facts.number("node_rank", 0) or 0
    within = _within(facts)
    share = line_size * within // nodes
    local = facts.number(LOCAL)
    if local is None and nodes > 1 and not (line_size > 1 and facts.on(EXTERNAL_FLAG)):
        local = max(share // within, 1)
    return Group(line_size, size, local, nodes, node * share // within if nodes > 1 else 0, facts.headless)


def _refuses_external(facts: Facts, group: Group) -> bool:
    rank = facts.number(RANK)
    if group.nodes > 1 and group.line_size > 1 and facts.on(EXTERNAL_FLAG):
        newer = facts.version >= (0, 30)
        if newer and not facts.uses(RANK) and group.nodes % group.line_size:
            apart = f"{group.nodes} nodes do not tell {group.line_size} ranks apart: assign --data-parallel-rank"
            facts.say("EA105", apart, EXTERNAL_FLAG)
            return True
        # Before 0.30 the node's place overrides an assigned rank.
        if not newer or not facts.uses(RANK):
            rank = group.node_first
    elif not facts.uses(RANK):
        facts.say("EA105", f"{facts.name(EXTERNAL_FLAG)} needs --data-parallel-rank", EXTERNAL_FLAG)
        return True
    if group.local not in (1, None):
        whence = "is declared" if facts.uses(LOCAL) else f"follows from {group.nodes} nodes"
        facts.say("EA111", f"an assigned rank allows a local size of 1, {group.local} {whence}", LOCAL, RANK)
        return True
    if group.size <= 1:
        facts.say("EA104", "external balancing needs a data-parallel size above 1", RANK, EXTERNAL_FLAG)
        return True
    return _refuses_rank(facts, rank, group, RANK)


def _inner_balance(facts: Facts, group: Group, flagged: LoadBalance) -> bool | None:
    """The balancing of a launch whose ranks are not assigned from outside."""
    local, headless, start = group.local, group.headless, facts.number(START)
    if local is None:
        if facts.on(HYBRID_FLAG):
            facts.say("EA106", f"{facts.name(HYBRID_FLAG)} needs --data-parallel-size-local", HYBRID_FLAG)
            return None
        if facts.uses(START) and not headless:
            facts.say("EA110", f"{facts.name(START)} is dropped without a local size", START)
        return False
    if local > group.size:
        facts.say("EA102", f"local size {local} exceeds the data-parallel size {group.size}", LOCAL, SIZE)
        return None
    if local == 0 and headless:
        facts.say("EA108", "a headless engine needs a local data-parallel size above 0", "headless", "api_server_count")
        return None
    # Before 0.26 a start rank of 0 said nothing.
    started = facts.uses(START) and not headless and (facts.version >= (0, 26) or start != 0)
    mode: LoadBalance = "Internal"
    if facts.on(HYBRID_FLAG) or started:
        mode = "External" if local == 1 else "Internal" if local == group.line_size else "Hybrid"
    if mode == "External" and group.size <= 1:
        facts.say("EA104", "external balancing needs a data-parallel size above 1", START, HYBRID_FLAG)
        return None
    if _refuses_rank(facts, start if facts.uses(START) else group.node_first, group, START):
        return None
    if mode != flagged:
        ends = f"with local size {local} of {group.line_size} vLLM ends in {mode} balancing, the flags say {flagged}"
        facts.say("EA107", ends, HYBRID_FLAG, START)
    return mode == "Hybrid"


def _refuses_rank(facts: Facts, rank: int | None, group: Group, dest: str) -> bool:
    """No rank is negative; it has to be below the size where that is the line's own."""
    bounded = group.line_size > 1 or group.local == 0
    if rank is None or (rank >= 0 and not (bounded and rank >= group.size)):
        return False
    facts.say("EA103", f"data-parallel rank {rank} is outside 0..{group.size - 1}", dest, "node_rank")
    return True
