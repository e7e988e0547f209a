"""A load generator for HTTPS POSTs over keep-alive: pre-rendered requests, raw TLS streams, no client library in the way.

It runs as a process of its own (`python -m bench.load`), pinned to a core other than the server's, and prints one JSON line.
"""

import asyncio
import json
import os
import ssl
import sys
import time
from pathlib import Path

FRESH = b"@@@@@@"  # stands for a number (bench.reviews)


def render(path: str, body: bytes) -> bytes:
    """One HTTP/1.1 request as the API server would send it."""
    head = (
        f"POST {path}?timeout=10s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        f"Accept: application/json, */*\r\nUser-Agent: kube-apiserver-admission\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def read_response(reader: asyncio.StreamReader) -> bytes:
    """The body of one response; raises when the status is not 200."""
    head = await reader.readuntil(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200"):
        raise RuntimeError(head.split(b"\r\n", 1)[0].decode())
    lowered = head.lower()
    start = lowered.index(b"content-length:") + 15
    length = int(lowered[start : lowered.index(b"\r\n", start)])
    return await reader.readexactly(length)


async def drive(port: int, requests: list[tuple[str, Path]], connections: int, count: int, *, warm: int, kinds: int) -> dict[str, float]:
    """Send `count` requests over `connections` keep-alive connections; latencies in milliseconds. Of each request there are `kinds`
    different ones, which come in turn."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # a throw-away certificate of this very run
    rendered = [render(path, file.read_bytes()) for path, file in requests]
    latencies: list[float] = []
    left = count + warm
    began = 0.0

    async def worker(number: int) -> None:
        nonlocal left, began
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, limit=1 << 24)
        turn = number
        while left > 0:
            left -= 1
            if left == count:
                began = time.perf_counter()
            started = time.perf_counter()
            writer.write(rendered[turn % len(rendered)].replace(FRESH, b"%06d" % (left % kinds)))
            await writer.drain()
            await read_response(reader)
            latencies.append(time.perf_counter() - started)
            turn += 1
        writer.close()

    began = time.perf_counter()
    await asyncio.gather(*(worker(number) for number in range(connections)))
    seconds = time.perf_counter() - began
    kept = sorted(latencies[warm:])
    return {
        "requests": len(kept),
        "seconds": seconds,
        "rate": len(kept) / seconds,
        "p50_ms": kept[len(kept) // 2] * 1000,
        "p99_ms": kept[min(len(kept) - 1, int(len(kept) * 0.99))] * 1000,
    }


def main() -> None:
    """`python -m bench.load PORT CONNECTIONS COUNT CORE KINDS PATH=FILE…`."""
    port, connections, count, core, kinds = (int(value) for value in sys.argv[1:6])
    if core >= 0 and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {core})
    requests = [(spec.partition("=")[0], Path(spec.partition("=")[2])) for spec in sys.argv[6:]]
    print(json.dumps(asyncio.run(drive(port, requests, connections, count, warm=min(count // 5, 200), kinds=kinds))))


if __name__ == "__main__":
    main()
