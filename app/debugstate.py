"""What `/debug/state` shows: how large each cache is and why it cannot be relied on, and what the queue holds.

For people who look at one process. Off unless `serve.debug` is set, and then told to loopback only (`kubectl port-forward` comes from
there): it names every deployment that waits.
"""

from collections.abc import Mapping
from ipaddress import ip_address
from itertools import islice
from typing import Any, Final

from controller.cache import Key
from controller.service import Controller

SHOWN: Final = 1000


def debug_state(controller: Controller) -> dict[str, Any]:
    """The state as JSON: counts are whole, lists of keys end after `SHOWN`."""
    contents = controller.queue.contents()
    return {
        "leading": controller.leading(),
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
            "waiting": _keys(contents.waiting),
            "working": _keys(contents.working),
            "later": _keys(contents.later),
            "failures": _keys(contents.failures),
        },
    }


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
