"""What reading an argument vector costs, without a memo: microseconds a line, resident bytes a table, milliseconds for hostile lines."""

import gc
import shlex
import time
import tracemalloc
from collections.abc import Sequence

from engines.facade import read_argv
from engines.table import ENGINES, load, versions

# Twenty tokens of a role as people write it.
VLLM = shlex.split(
    "--max-model-len 32768 --gpu-memory-utilization 0.92 --tensor-parallel-size 8 --enable-expert-parallel --served-model-name m "
    "--kv-cache-dtype fp8 --max-num-seqs 256 --enable-prefix-caching --ssl-certfile /c --ssl-keyfile /k -dp 2"
)
SGLANG = shlex.split(
    "--context-length 32768 --mem-fraction-static 0.9 --tp-size 8 --enable-dp-attention --dp-size 8 --served-model-name m "
    "--kv-cache-dtype auto --max-running-requests 256 --ssl-certfile /c --ssl-keyfile /k"
)
HOSTILE: dict[str, Sequence[str]] = {
    "10,000 words": ["x"] * 10_000,
    "10,000 repeats of one option": ["-tp", "2"] * 5_000,
    "10,000 ambiguous abbreviations": ["--enable"] * 10_000,
    "10,000 different unknown options": [f"--x{i}" for i in range(10_000)],
    "10,000 dotted members": ["--additional-config.a", "1"] * 5_000,
    "a token of 1 MiB": ["--tensor-parallel-size", "9" * (1 << 20)],
    "a dotted name of 1 MiB": ["--a" + ".b" * (1 << 19), "1"],
}


def microseconds(engine: str, argv: Sequence[str], rounds: int = 300, inner: int = 50) -> float:
    """The best mean of `inner` reads over `rounds` rounds: other work on the machine only adds."""
    version = versions(engine)[-1]
    read_argv(engine, version, argv)
    best = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(inner):
            read_argv(engine, version, argv)
        best = min(best, (time.perf_counter() - start) / inner)
    return best * 1e6


def hostile_milliseconds() -> dict[str, float]:
    """The slower engine's best of three for each hostile line."""
    found: dict[str, float] = {}
    for name, argv in HOSTILE.items():
        worst = 0.0
        for engine in ENGINES:
            best = float("inf")
            for _ in range(3):
                start = time.perf_counter()
                read_argv(engine, None, argv)
                best = min(best, time.perf_counter() - start)
            worst = max(worst, best)
        found[name] = round(worst * 1e3, 2)
    return found


def table_kibibytes() -> dict[str, int]:
    """What each table keeps in memory."""
    found: dict[str, int] = {}
    for engine in ENGINES:
        for version in versions(engine):
            load.cache_clear()
            gc.collect()
            tracemalloc.start()
            kept = load(engine, version)
            found[f"{kept.engine} {version}"] = tracemalloc.get_traced_memory()[0] // 1024
            tracemalloc.stop()
    return found


def measure() -> dict[str, object]:
    """Every figure of argument reading."""
    return {
        "microseconds, 20 tokens, vLLM": round(microseconds("vLLM", VLLM), 1),
        "microseconds, 20 tokens, SGLang": round(microseconds("SGLang", SGLANG), 1),
        "milliseconds, hostile": hostile_milliseconds(),
        "KiB resident, table": table_kibibytes(),
    }


if __name__ == "__main__":
    import json

    print(json.dumps(measure(), indent=2))
