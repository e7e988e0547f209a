"""How a review server bears bad clients: `python -m bench.robust [NAME…]` prints one line for each, a table, and bench/out/robust.json.

The server is a process of its own, the bad clients are another, and the good ones are this one: four kept connections that send reviews of
4 KiB all the while, and now and then a new connection. What is printed is how long the good ones wait, how many were not answered, and how
large the server grew. Loopback only.
"""

import asyncio
import json
import os
import resource
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from bench.fleet.process import memory_mib
from bench.load import FRESH, read_response, render
from bench.reviews import update_review
from bench.trust import certificate

OUT = Path(__file__).parent / "out" / "robust.json"
PATH = "/validate-modeldeployment"
SECONDS = float(os.environ.get("ROBUST_SECONDS", "6"))
MANY = 10_000


def client_context() -> ssl.SSLContext:
    """Trusts anybody: the certificate is of this very run."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def head_of(length: int | None, path: str = PATH) -> bytes:
    """The head of a review of that length, or of one in chunks."""
    size = f"Content-Length: {length}" if length is not None else "Transfer-Encoding: chunked"
    return f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n{size}\r\n\r\n".encode()


# ----------------------------------------------------------------------------------------------------------- bad clients

Report = Callable[..., None]


def say(**figures: Any) -> None:
    """One line for the process that started this one."""
    print(json.dumps(figures), flush=True)


async def nobody(port: int) -> None:
    """No bad client at all: the figures to compare with."""
    del port
    say(ready=True, said="nobody")
    await asyncio.sleep(3600)


async def slow(port: int) -> None:
    """Five hundred senders of one byte a second, half of them within the head, half within the body."""

    async def one(number: int) -> None:
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
            except OSError:
                await asyncio.sleep(1)
                continue
            try:
                text = head_of(4096) + b" " * 4096 if number % 2 else head_of(4096)
                if number % 2:
                    writer.write(text[: len(head_of(4096))])
                    text = text[len(head_of(4096)) :]
                for byte in text:
                    writer.write(bytes([byte]))
                    await writer.drain()
                    await asyncio.sleep(1)
            except OSError:
                counts["cut"] += 1
            finally:
                writer.close()

    counts, context = {"cut": 0}, client_context()
    tasks = [asyncio.create_task(one(number)) for number in range(500)]
    await asyncio.sleep(3)
    say(ready=True, said="500 senders of a byte a second")
    await asyncio.gather(*tasks)


async def half_open(port: int) -> None:
    """As many connections as files allow, up to ten thousand, on which nothing is ever sent."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    wanted = MANY if hard == resource.RLIM_INFINITY else min(MANY, hard - 200)
    held: list[asyncio.StreamWriter] = []
    for start in range(0, wanted, 100):
        opened = await asyncio.gather(
            *(asyncio.open_connection("127.0.0.1", port) for _ in range(min(100, wanted - start))), return_exceptions=True
        )
        held += [each[1] for each in opened if not isinstance(each, BaseException)]
    say(ready=True, said=f"{len(held)} connections without a word (files allow {hard})")
    await asyncio.sleep(3600)


async def big(port: int) -> None:
    """Eight senders of bodies of 100 MiB, announced and in chunks: how soon each is told 413, and how much was taken from it."""
    block = b"x" * 65_536
    taken: list[int] = []
    codes: list[str] = []
    context = client_context()

    async def one(number: int) -> None:
        while True:
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
            sent = 0
            answer = asyncio.create_task(reader.read(64))
            try:
                writer.write(head_of(100 << 20 if number % 2 else None))
                while sent < 100 << 20 and not answer.done():
                    writer.write(block if number % 2 else b"10000\r\n" + block + b"\r\n")
                    await writer.drain()
                    sent += len(block)
                    await asyncio.sleep(0)
                codes.append((await answer)[9:12].decode())
            except OSError:
                codes.append("cut")
                answer.cancel()
            taken.append(sent)
            writer.close()

    tasks = [asyncio.create_task(one(number)) for number in range(8)]
    await asyncio.sleep(2)
    say(ready=True, said=f"100 MiB bodies: {len(codes)} told {sorted(set(codes))}, most sent before that {max(taken, default=0) >> 10} KiB")
    await asyncio.gather(*tasks)


async def hoard(port: int) -> None:
    """Two hundred bodies just under the limit that stop one byte before their end: 1.6 GiB if all were kept."""
    size = (8 << 20) - 1
    codes: dict[str, int] = {}
    context = client_context()

    async def one() -> None:
        while True:
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
            except OSError:
                await asyncio.sleep(1)
                continue
            answer = asyncio.create_task(reader.read(64))
            try:
                writer.write(head_of(size))
                for _ in range(size // 65_536):
                    if answer.done():
                        break
                    writer.write(b" " * 65_536)
                    await writer.drain()
                code = (await answer)[9:12].decode() or "cut"
            except OSError:
                answer.cancel()
                code = "cut"
            codes[code] = codes.get(code, 0) + 1
            writer.close()
            await asyncio.sleep(1)

    tasks = [asyncio.create_task(one()) for _ in range(200)]
    await asyncio.sleep(5)
    say(ready=True, said=f"200 bodies of 8 MiB that never end; told so far {codes}")
    await asyncio.gather(*tasks)


async def handshakes(port: int) -> None:
    """Thirty-two clients that shake hands and leave, as fast as they can."""
    count = 0
    context = client_context()

    async def one() -> None:
        nonlocal count
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
                writer.transport.abort()
                count += 1
            except OSError:
                await asyncio.sleep(0.01)

    tasks = [asyncio.create_task(one()) for _ in range(32)]
    await asyncio.sleep(4)
    say(ready=True, said=f"about {count // 4} handshakes a second")
    await asyncio.gather(*tasks)


ATTACKS: dict[str, Callable[[int], Awaitable[None]]] = {
    "nobody": nobody,
    "slow": slow,
    "half-open": half_open,
    "big": big,
    "hoard": hoard,
    "handshakes": handshakes,
}


# ---------------------------------------------------------------------------------------------------------- good clients


async def good(port: int, seconds: float) -> dict[str, Any]:
    """Four kept connections and, ten times a second at most, a new one; milliseconds, and what went unanswered."""
    context = client_context()
    request = render(PATH, update_review(4096))
    waits: list[float] = []
    fresh: list[float] = []
    failed = 0
    end = time.perf_counter() + seconds

    async def kept(number: int) -> None:
        nonlocal failed
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, limit=1 << 22)
        turn = number
        while time.perf_counter() < end:
            began = time.perf_counter()
            try:
                async with asyncio.timeout(10):
                    writer.write(request.replace(FRESH, b"%06d" % (turn % 1_000_000)))
                    await read_response(reader)
            except (OSError, RuntimeError, TimeoutError, asyncio.IncompleteReadError):
                failed += 1
                return
            waits.append(time.perf_counter() - began)
            turn += 4
            await asyncio.sleep(0.002)
        writer.close()

    async def renewed() -> None:
        nonlocal failed
        while time.perf_counter() < end:
            began = time.perf_counter()
            try:
                async with asyncio.timeout(10):
                    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, limit=1 << 22)
                    writer.write(request)
                    await read_response(reader)
                    writer.close()
            except (OSError, RuntimeError, TimeoutError, asyncio.IncompleteReadError):
                failed += 1
            fresh.append(time.perf_counter() - began)
            await asyncio.sleep(0.1)

    await asyncio.gather(*(kept(number) for number in range(4)), renewed())

    def at(values: list[float], share: float) -> float:
        ordered = sorted(values)
        return round(ordered[min(len(ordered) - 1, int(len(ordered) * share))] * 1000, 2) if ordered else -1.0

    return {
        "reviews": len(waits),
        "p50_ms": at(waits, 0.5),
        "p99_ms": at(waits, 0.99),
        "new_p50_ms": at(fresh, 0.5),
        "new_p99_ms": at(fresh, 0.99),
        "unanswered": failed,
    }


async def round_of(name: str, seconds: float = SECONDS) -> dict[str, Any]:
    """One attack on a fresh server."""
    from bench.serve import listen

    with tempfile.TemporaryDirectory() as folder:
        cert, key = certificate(Path(folder))
        with listen(0) as probe:
            port = probe.getsockname()[1]
        me = [sys.executable, "-m"]
        server = subprocess.Popen(  # noqa: ASYNC220 - started before anything is measured
            [*me, "bench.serve", "ours", str(port), str(cert), str(key), "-1"]
        )
        attacker: subprocess.Popen[str] | None = None
        try:
            await _up(port)
            attacker = subprocess.Popen(  # noqa: ASYNC220 - the same
                [*me, "bench.robust", "--attack", name, str(port)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            )
            assert attacker.stdout is not None
            async with asyncio.timeout(120):
                said = json.loads(await asyncio.to_thread(attacker.stdout.readline))["said"]
            figures = await good(port, seconds)
            return {"attack": name, "said": said, **figures, "server_peak_mib": round(memory_mib(server.pid)[1])}
        finally:
            for process in (attacker, server):
                if process is not None:
                    process.kill()
                    process.wait()
                    if process.stdout is not None:
                        process.stdout.close()


async def _up(port: int) -> None:
    for _ in range(300):
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client_context())
        except OSError:
            await asyncio.sleep(0.1)
        else:
            writer.close()
            return
    raise RuntimeError("the server does not come up")


def main() -> None:
    """Every attack, or those that are named."""
    if sys.argv[1:2] == ["--attack"]:
        asyncio.run(ATTACKS[sys.argv[2]](int(sys.argv[3])))
        return
    rows = []
    for name in sys.argv[1:] or ATTACKS:
        row = asyncio.run(round_of(name))
        rows.append(row)
        print(
            f"{name:<11} p50 {row['p50_ms']:>8} ms  p99 {row['p99_ms']:>8} ms  new connection p50 {row['new_p50_ms']:>8} ms  "
            f"p99 {row['new_p99_ms']:>8} ms  unanswered {row['unanswered']}  peak {row['server_peak_mib']} MiB  ({row['said']})",
            flush=True,
        )
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps(rows, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
