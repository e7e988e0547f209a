"""`python -m bench.fleet.shares`: what a replica keeps of a fleet of which it holds one shard of so many, measured as resident memory.

Each measurement is a fresh child: everything is projected and stored as a list would bring it, foreign objects being dropped on the way.
CPU is that of the whole list: a replica decodes what it drops.
"""

import argparse
import gc
import json
import os
import time
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from bench.fleet.world import World, digest
from controller.cache import Cache
from controller.keeping import NARROWED, Keeping
from controller.kinds import KindName, kinds
from controller.store import ObjectMap

# As large, once it is packed, as the statuses of this fleet are: 1.4 KiB.
_NOISE = b"".join(map(digest, range(36))).decode()
STATUS = json.dumps({"phase": "Ready", "observedGeneration": 1, "conditions": [{"type": "Ready", "message": _NOISE}]}).encode()


def resident() -> int:
    """Bytes."""
    return int(Path("/proc/self/statm").read_text("ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


def keep(world: World, shards: int) -> dict[str, float]:
    """A replica that holds shard 0. Figures of this process."""
    keeping = Keeping(shards)
    keeping.keep(frozenset({0}))
    table = {kind.name: keeping.narrowed(kind) for kind in kinds("required")}
    cache = Cache(table.values())
    rows: dict[KindName, Iterator[bytes]] = {
        KindName.DEPLOYMENT: (world.deployment(n, owner.spec, 1, 1, STATUS) for n, owner in enumerate(world.owners)),
        KindName.POD: (world.pod(index, True, 1) for index in range(len(world.places))),
        KindName.SERVICE: iter(world.services()),
        KindName.WORKLOAD: (place.workload for place in world.places),
    }
    gc.collect()
    gc.freeze()
    before, began = resident(), time.process_time()
    for name in NARROWED:
        fresh = ObjectMap()
        for item in map(table[name].project, chain(rows.get(name, ()))):
            if item is not None:
                fresh.put(item)
        for change in cache.stores[name].replace(fresh):
            cache.note(name, change)
    spent = time.process_time() - began
    gc.collect()
    kept = {f"{name} kept": float(len(cache.stores[name].objects)) for name in (KindName.DEPLOYMENT, KindName.POD, KindName.WORKLOAD)}
    return {"MiB": (resident() - before) / 2**20, "CPU s": spent, **kept}


def in_child(world: World, shards: int) -> dict[str, float]:
    """The same in a process of its own."""
    end, begin = os.pipe()
    if os.fork() == 0:
        os.write(begin, json.dumps(keep(world, shards)).encode())
        os._exit(0)
    os.close(begin)
    with os.fdopen(end, "rb") as answer:
        found: dict[str, float] = json.loads(answer.read())
    os.wait()
    return found


def main() -> None:
    """A table on the terminal."""
    parser = argparse.ArgumentParser(prog="bench.fleet.shares", description="Memory of one replica by number of shards.")
    parser.add_argument("--size", type=int, default=10_000, help="deployments of ten Pods (%(default)s)")
    parser.add_argument("--shards", default="1,2,4,8,16", help="comma-separated (%(default)s)")
    given = parser.parse_args()
    world = World(given.size)
    print(f"{given.size:,} deployments, {len(world.places):,} Pods and as many Workloads; one shard of n held")
    for shards in map(int, given.shards.split(",")):
        print(f"n = {shards:>3}: " + ", ".join(f"{name} {value:,.1f}" for name, value in in_child(world, shards).items()))


if __name__ == "__main__":
    main()
