"""SGLang's launch rules (engine facts, sections 5 and 8; read in its own argument hooks). What depends on the model or hardware is not
judged."""

from engines.launch import Facts, ports


def judge(facts: Facts) -> None:
    """Every launch rule, on a readable line."""
    _parallel(facts)
    ports(facts, "port")
    certificate, key = facts.given("ssl_certfile"), facts.given("ssl_keyfile")
    if certificate and not key:
        facts.say("EA301", "a certificate without a key: SGLang refuses to start", "ssl_certfile")
    if key and not certificate:
        facts.say("EA301", "a key without a certificate: SGLang refuses to start", "ssl_keyfile")
    if not certificate and not key:
        if facts.given("ssl_ca_certs"):
            facts.say("EA306", "--ssl-ca-certs has no effect without a certificate and key: plain HTTP", "ssl_ca_certs")
        elif facts.given("ssl_keyfile_password"):
            facts.say("EA306", "--ssl-keyfile-password has no effect without a certificate and key: plain HTTP", "ssl_keyfile_password")


def _parallel(facts: Facts) -> None:
    tensor, pipeline = facts.number("tp_size", 1) or 1, facts.number("pp_size", 1) or 1
    data, attention = facts.number("dp_size", 1) or 1, facts.number("attn_dp_size", 1) or 1
    decode, expert = facts.number("dcp_size", 1) or 1, facts.number("ep_size", 1) or 1
    experts, context = facts.number("moe_dp_size", 1) or 1, facts.number("attn_cp_size", 1) or 1
    nodes, node = facts.number("nnodes", 1), facts.number("node_rank", 0)
    new = facts.version >= (0, 5, 20)
    with_attention = facts.on("enable_dp_attention")
    if attention > 1 and data > 1 and not with_attention:
        facts.say("EA208", f"attention data parallelism {attention} beside data parallelism {data}", "attn_dp_size", "dp_size")
    if with_attention and data == 1 and attention == 1:
        facts.say("EA210", "--enable-dp-attention has no effect without a data-parallel size above 1", "enable_dp_attention")
    if with_attention and data > 1 and tensor % data:
        facts.say(
            "EA209", f"with attention data parallelism {data} has to divide the tensor size {tensor}", "dp_size", "enable_dp_attention"
        )
    if attention > 1 and tensor % attention:
        facts.say("EA209", f"attention data-parallel size {attention} does not divide the tensor size {tensor}", "attn_dp_size")
    if decode > 1 and facts.on("enable_prefill_cp"):
        facts.say("EA208", "decode context parallelism does not go with --enable-prefill-cp", "dcp_size", "enable_prefill_cp")
    if new and facts.on("enable_prefill_cp") and "cp_strategy" not in facts.last:
        facts.say("EA208", "--enable-prefill-cp needs --cp-strategy", "enable_prefill_cp")
    if context > 1 and tensor % context:
        facts.say("EA209", f"attention context size {context} does not divide the tensor size {tensor}", "attn_cp_size")
    if experts > 1:
        if tensor % experts:
            facts.say("EA209", f"MoE data-parallel size {experts} does not divide the tensor size {tensor}", "moe_dp_size")
        elif expert > 1 and expert * experts != tensor:
            facts.say(
                "EA208", f"expert size {expert} times MoE data-parallel size {experts} is not the tensor size {tensor}", "moe_dp_size"
            )
    dwdp = facts.number("dwdp_size", 1) or 1
    if dwdp > 1 and dwdp != tensor:
        facts.say("EA209", f"--dwdp-size {dwdp} has to equal the tensor size {tensor}", "dwdp_size")
    if nodes is not None and "nnodes" in facts.last:
        if nodes < 1 or (tensor * pipeline) % nodes:
            facts.say("EA203", f"{facts.name('nnodes')} {nodes} does not divide the {tensor * pipeline} ranks of one replica", "nnodes")
        elif nodes > 1 and node is not None and not 0 <= node < nodes:
            facts.say("EA204", f"node rank {node} is outside 0..{nodes - 1}", "node_rank", "nnodes")
        if new and nodes > 1 and data > 1 and not with_attention:
            facts.say("EA208", f"data parallelism {data} works on one node only, {nodes} are declared", "nnodes", "dp_size")
