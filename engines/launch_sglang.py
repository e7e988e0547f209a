"""SGLang's launch rules (engine facts, sections 5 and 8; confirmed with its own argument hooks).

What depends on the model or hardware is not judged.
"""

from engines.launch import Facts, ports


def judge(facts: Facts) -> None:
    """Every launch rule, on a readable line."""
    if facts.uses("model_path"):
        facts.say("EA017", f"{facts.name('model_path')} stands behind the operator's own: SGLang serves this model", "model_path")
    _attention(facts)
    _contexts(facts)
    _experts(facts)
    _nodes(facts)
    ports(facts, "port")
    _encryption(facts)


def _encryption(facts: Facts) -> None:
    """Unlike vLLM, SGLang refuses every TLS option that stands without the pair."""
    certificate, key = facts.given("ssl_certfile"), facts.given("ssl_keyfile")
    if certificate and not key:
        facts.say("EA301", "a certificate without a key: SGLang refuses to start", "ssl_certfile")
    if key and not certificate:
        facts.say("EA301", "a key without a certificate: SGLang refuses to start", "ssl_keyfile")
    if certificate or key:
        return
    idle = next((d for d in ("ssl_ca_certs", "ssl_keyfile_password", "enable_ssl_refresh") if facts.given(d)), None)
    if idle is not None:
        facts.say("EA301", f"{facts.name(idle)} without a certificate and key: SGLang refuses to start", idle)


def _attention_width(facts: Facts) -> tuple[int, int]:
    """Data parallelism and attention data parallelism in the end: distributed weights set both, the older switch moves one to the other."""
    data, attention, distributed = facts.degree("dp_size"), facts.degree("attn_dp_size"), facts.degree("dwdp_size")
    if distributed > 1:
        return 1, distributed
    return (1, data) if facts.on("enable_dp_attention") and attention == 1 else (data, attention)


def _attention(facts: Facts) -> None:
    tensor = facts.degree("tp_size")
    data, attention = _attention_width(facts)
    if attention > 1 and data > 1:
        facts.say("EA208", f"attention data parallelism {attention} beside data parallelism {data}", "attn_dp_size", "dp_size")
    if facts.on("enable_dp_attention") and attention == 1:
        facts.say("EA210", "--enable-dp-attention has no effect without a data-parallel size above 1", "enable_dp_attention")
    if tensor % attention:
        facts.say("EA209", f"attention data-parallel size {attention} does not divide the tensor size {tensor}", "attn_dp_size", "dp_size")


def _contexts(facts: Facts) -> None:
    tensor, context = facts.degree("tp_size"), facts.degree("attn_cp_size")
    prefill = facts.last.get("enable_prefill_cp")
    if facts.on("enable_prefill_cp"):
        if facts.degree("dcp_size") > 1 and facts.version >= (0, 5, 20):
            facts.say("EA208", "decode context parallelism does not go with --enable-prefill-cp", "dcp_size", "enable_prefill_cp")
        # The older name of the switch brings a strategy of its own.
        if prefill is not None and prefill.registered == "--enable-prefill-cp" and "cp_strategy" not in facts.last:
            facts.say("EA208", "--enable-prefill-cp needs --cp-strategy", "enable_prefill_cp")
    if context == 1:
        return
    # Releases that have no attention data-parallel size of their own count the data-parallel one, with the switch or without.
    data, attention = _attention_width(facts)
    share = attention if facts.version >= (0, 5, 20) else data * attention
    if tensor % context:
        facts.say("EA209", f"attention context size {context} does not divide the tensor size {tensor}", "attn_cp_size")
    elif tensor % (context * share):
        facts.say("EA209", f"attention context size {context} times {share} does not divide the tensor size {tensor}", "attn_cp_size")


def _experts(facts: Facts) -> None:
    tensor, distributed = facts.degree("tp_size"), facts.degree("dwdp_size")
    if distributed > 1:
        if distributed != tensor:
            facts.say("EA209", f"--dwdp-size {distributed} has to equal the tensor size {tensor}", "dwdp_size")
        if facts.degree("pp_size") > 1:
            facts.say("EA208", "--dwdp-size does not go with pipeline parallelism", "dwdp_size")
        return
    dense = facts.number("moe_dense_tp_size")
    if dense not in (None, 1, tensor):
        facts.say("EA209", f"--moe-dense-tp-size {dense} has to be 1 or the tensor size {tensor}", "moe_dense_tp_size")
    experts, expert, context = facts.degree("moe_dp_size"), facts.degree("ep_size"), facts.degree("attn_cp_size")
    if experts == 1:
        return
    if tensor % experts:
        facts.say("EA209", f"MoE data-parallel size {experts} does not divide the tensor size {tensor}", "moe_dp_size")
    elif expert > 1 and expert * experts != tensor:
        facts.say("EA208", f"expert size {expert} times MoE data-parallel size {experts} is not the tensor size {tensor}", "moe_dp_size")
    if facts.degree("pp_size") > 1:
        facts.say("EA208", "MoE data parallelism does not go with pipeline parallelism", "moe_dp_size")
    # With prefill context parallelism some models set the attention context size themselves.
    if context != experts and not facts.on("enable_prefill_cp"):
        facts.say("EA208", f"attention context size {context} is not the MoE data-parallel size {experts}", "moe_dp_size", "attn_cp_size")


def _nodes(facts: Facts) -> None:
    nodes, node = facts.number("nnodes"), facts.number("node_rank", 0)
    if nodes is None:
        return
    ranks = facts.degree("tp_size") * facts.degree("pp_size")
    # A node that joins a running elastic group is not counted among them.
    joins = facts.text("ep_join_mode") == "scale"
    if nodes < 1 or (ranks % nodes and not joins):
        facts.say("EA203", f"{facts.name('nnodes')} {nodes} does not divide the {ranks} ranks of one replica", "nnodes")
    elif nodes > 1 and node is not None and not 0 <= node < nodes:
        facts.say("EA204", f"node rank {node} is outside 0..{nodes - 1}", "node_rank", "nnodes")
    data = _attention_width(facts)[0]
    if nodes > 1 and data > 1:
        facts.say("EA208", f"data parallelism {data} works on one node only, {nodes} are declared", "nnodes", "dp_size")
