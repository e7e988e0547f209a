"""What `/debug/state` shows: how large each cache is and why it cannot be relied on, and what the queue holds.

For people who look at one process. Off unless `serve.debug` is set, and then told to loopback only (`kubectl port-forward` comes from
there): it names every deployment that waits.
"""

from collections.abc import Mapping
from ipaddress import ip_address
from itertools import islice
from typing import Any, Final

from controller.service import Controller
from controller.sharding import ShardElection
from controller.store import Key

SHOWN: Final = 1000


def debug_state(controller: Controller) -> dict[str, Any]:
    """The state as JSON: counts are whole, lists of keys end after `SHOWN`."""
    contents = [term.queue.contents() for term in controller.terms]
    return {
        "leading": controller.leading(),
        **shard_state(controller),
        "kinds": {
            str(name): {
                "objects": len(controller.cache.stores[name].objects),
                "readable": reflector.readable,
                "reason": reflector.reason,
                "served": reflector.served,
            }
            for name, reflector in controller.reflectors.items()
        },
        "queue": {
            "waiting": _keys({key: figure for each in contents for key, figure in each.waiting.items()}),
            "working": _keys({key: figure for each in contents for key, figure in each.working.items()}),
            "later": _keys({key: figure for each in contents for key, figure in each.later.items()}),
            "failures": _keys({key: figure for each in contents for key, figure in each.failures.items()}),
        },
    }


def shard_state(controller: Controller) -> dict[str, Any]:
    """Which shards are held here; nothing where the fleet is not split."""
    election = controller.election
    if not isinstance(election, ShardElection):
        return {}
    held, wanted = sorted(election.held), sorted(election.wanted)
    return {"shards": {"of": election.layout.shards, "held": held, "wanted": wanted, "otherNumberInForce": election.rival}}


def from_here(host: str | None) -> bool:
    """Whether a peer is this machine itself. A name, or no address at all, is not."""
    try:
        address = ip_address(host or "")
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


def _keys(held: Mapping[Key, float]) -> dict[str, Any]:
    shown = {f"{key.namespace}/{key.name}": round(figure, 3) for key, figure in islice(held.items(), SHOWN)}
    return {"count": len(held), "keys": shown}
