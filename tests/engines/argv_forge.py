"""Forges argument vectors from an option table.

Every arity, spelling, abbreviation and kind of junk, in proportions that keep about half of the lines readable.
"""

import random
from collections.abc import Iterator

from engines.table import Option, Table

NUMBERS = ("1", "2", "4", "8", "0", "-1", "16", " 3 ", "1_0", "+4", "٤", "2147483647", "2147483648", "02", "7")
JUNK_NUMBERS = (
    "x",
    "",
    "4.0",
    "1e3",
    "0x2",
    "1__0",
    "_1",
    "²",
    "−2",
    "- 2",
    "-x",
    "-1e3",
    "-.5",
    "-4_0",
    "99999999999999999999",
    "None",
    "true",
)
WORDS = (
    "a",
    "m-1",
    "/data/x",
    "None",
    "",
    "auto",
    "a,b",
    "x=y",
    "10.0.0.1",
    "a b",
    "{}",
    '{"a": 1}',
    "1k",
    "25.6k",
    "2K",
    "0.9",
    "http://h:1",
)
JUNK = (
    "--",
    "-",
    "stray",
    "-x",
    "--nope",
    "--nope=1",
    "---x",
    "-2",
    "-.5",
    "-1 ",
    "--x y",
    "--=x",
    "-=",
    "-h2",
    "--no-such_flag",
    "-t=2",
    "-d=2",
    "-Q",
    "é",
)
VLLM_JUNK = (
    "-O3",
    "-O",
    "-O=2",
    "-Ofoo",
    "-O 2",
    "--_x",
    "-tp.x",
    "--a.b",
    "--a.b+=1,2",
    "-cc.mode=none",
    "--additional-config.a",
    "--model",
    "--model=m",
    "-n2",
    "-r-1",
    "-ep=n2",
    "-dpe=r3",
    "-dph=x",
    "-e=x",
    "-as=2",
    "-hn2",
    "--help=x",
)
WATCHED = [
    "tensor_parallel_size",
    "pipeline_parallel_size",
    "data_parallel_size",
    "data_parallel_size_local",
    "data_parallel_rank",
    "data_parallel_start_rank",
    "prefill_context_parallel_size",
    "decode_context_parallel_size",
    "data_parallel_hybrid_lb",
    "data_parallel_external_lb",
    "enable_expert_parallel",
    "data_parallel_multi_port_external_lb",
    "enable_elastic_ep",
    "elastic_ep_max_dp_size",
    "nnodes",
    "node_rank",
    "host",
    "port",
    "ssl_keyfile",
    "ssl_certfile",
    "ssl_cert_reqs",
    "headless",
    "tp_size",
    "pp_size",
    "dp_size",
    "attn_dp_size",
    "ep_size",
    "dcp_size",
    "attn_cp_size",
    "moe_dp_size",
    "dwdp_size",
    "enable_dp_attention",
    "enable_prefill_cp",
]


class Forge:
    """A seeded source of argument vectors for one table."""

    def __init__(self, table: Table, seed: int) -> None:
        self.table = table
        self.random = random.Random(seed)
        self.watched = [option for option in table if option.dest in WATCHED]
        self.vllm = table.engine == "vLLM"

    def spelling(self, option: Option) -> str:
        """A registered spelling, an underscored one, or an abbreviation down to two letters."""
        pick = self.random
        text = pick.choice(option.spellings)
        fate = pick.random()
        if fate < 0.09 and len(text) > 4:
            text = text[: pick.randint(3, len(text) - 1)]
        elif fate < 0.12 and len(text) > 2:
            text = text[: pick.randint(2, len(text))]
        if pick.random() < (0.2 if self.vllm else 0.03):
            text = text[:2] + "".join(pick.choice("-_") if letter == "-" else letter for letter in text[2:])
        if pick.random() < 0.01:
            text += pick.choice("-xs")
        return text

    def value(self, option: Option) -> str:
        """A value that mostly fits the option's type."""
        pick = self.random
        if pick.random() < 0.02:
            return pick.choice(JUNK)
        if option.choices and pick.random() < 0.85:
            return str(pick.choice(option.choices))
        if option.type in ("int", "optional int", "float", "count"):
            return pick.choice(NUMBERS if pick.random() < 0.93 else JUNK_NUMBERS)
        return pick.choice(WORDS if pick.random() < 0.9 else NUMBERS)

    def use(self, option: Option) -> list[str]:
        """One use of an option: spaced, inline, glued, with too few or too many values."""
        pick = self.random
        spelling = self.spelling(option)
        fate = pick.random()
        if option.arity == "0":
            return [f"{spelling}={self.value(option)}"] if fate < 0.02 else [spelling]
        if fate < 0.03:
            return [spelling]
        if fate < 0.38:
            return [f"{spelling}={self.value(option)}"]
        if fate < 0.40:
            return [f"{spelling}{self.value(option)}"]
        many = option.arity in "+*"
        return [spelling, *(self.value(option) for _ in range(pick.choice((1, 1, 2, 3)) if many else 1))]

    def dotted(self) -> list[str]:
        """vLLM's dotted members."""
        pick = self.random
        option = pick.choice(self.table.options)
        name = f"{self.spelling(option)}.{pick.choice(('a', 'b_c', 'a.b', 'a+', ''))}"
        value = pick.choice((*WORDS, *NUMBERS, "[1]", "-x", "--", "-tp"))
        return [f"{name}={value}"] if pick.random() < 0.5 else [name, value]

    def line(self) -> list[str]:
        """One argument vector."""
        pick = self.random
        out: list[str] = []
        for _ in range(pick.choice((1, 1, 2, 2, 3, 4, 5, 7))):
            fate = pick.random()
            if fate < 0.60:
                out += self.use(pick.choice(self.watched))
            elif fate < 0.90:
                out += self.use(pick.choice(self.table.options))
            elif fate < 0.92 and self.vllm:
                out += self.dotted()
            elif fate < 0.94:
                out.append(pick.choice(VLLM_JUNK if self.vllm else JUNK))
            elif fate < 0.96:
                out.append(pick.choice(JUNK))
        return out

    def lines(self, count: int) -> Iterator[list[str]]:
        """`count` argument vectors."""
        for _ in range(count):
            yield self.line()
