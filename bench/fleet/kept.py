"""How many bytes the cache keeps of a Pod and of its Workload, as the allocator counts them: objects, keys and indexes."""

import tracemalloc
from typing import Final

from bench.fleet.world import World
from controller.cache import Cache
from controller.kinds import KindName, kinds
from controller.store import ObjectMap

DEPLOYMENTS: Final = 200


def measure(size: int = DEPLOYMENTS, pods: int = 10) -> dict[str, float]:
    """Bytes per Pod and per Workload over a fleet of that size; what all share counts in."""
    world = World(size, pods)
    table = {kind.name: kind for kind in kinds("required")}
    cache = Cache(table.values())
    found = {}
    for name, rows in (
        (KindName.POD, (world.pod(index, True, 1) for index in range(len(world.places)))),
        (KindName.WORKLOAD, iter(world.workloads())),
    ):
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        fresh = ObjectMap()
        for raw in rows:
            item = table[name].project(raw)
            fresh.put(item)
        del raw, item
        for change in cache.stores[name].replace(fresh):
            cache.note(name, change)
        after = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        found[f"bytes kept per {name}"] = (after - before) / max(1, len(world.places))
    return found
