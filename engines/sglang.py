"""What `sglang.launch_server` does to its line before argparse, and which of its options are watched (engine facts, section 5).

Little: the exact token `--config FILE` is replaced by the file's entries in front of the line. Underscores, dots and `None` mean
nothing special.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from engines.rewriting import CONFIG, Rewritten, pull_config
from engines.table import Option
from engines.tokens import Fault, Line

WATCHED: Final = frozenset(
    {
        "tp_size",
        "pp_size",
        "dp_size",
        "ep_size",
        "dcp_size",
        "attn_cp_size",
        "attn_dp_size",
        "moe_dp_size",
        "dwdp_size",
        "nnodes",
        "node_rank",
        "host",
        "port",
        "ssl_certfile",
        "ssl_keyfile",
    }
)


def rewrite(argv: Sequence[str], unresolved: Mapping[int, tuple[str, ...]], _spellings: Mapping[str, Option]) -> Rewritten:
    """Take an exact `--config FILE` out of the line."""
    if CONFIG not in argv:
        return Rewritten(Line(list(argv), range(len(argv)), argv, False, unresolved))
    tokens = list(argv)
    at = list(range(len(argv)))
    faults: list[Fault] = []
    config = pull_config(tokens, at, faults)
    return Rewritten(Line(tokens, at, argv, False, unresolved), tuple(faults), (), config)
