"""KV-event publishers: which roles produce cache blocks, and whether their Pods are rendered to publish.

With live Pods it is their own rendering that counts: `--kv-events-config` in the command line of `main`, and the two ports. Without any, it
is what would be rendered: llm-d-router with vLLM and the operator's own command.

Source: seed "Serving endpoints" and "KVEventsPublishing", status facts 3.9.
"""

from typing import Final

from api import keys
from api.objects import EngineSpec, Pod, Role, RouterSpec
from api.status import KVEvents
from controller.status.reading import declares
from controller.status.replicas import Fleet

TOPIC: Final = "kv@"


def produces(role: Role) -> bool:
    """Decode consumes and Encode holds no KV cache; every other kind produces cache blocks."""
    return role.effective_kind not in {"Decode", "Encode"}


def publishes(role: Role, engine: EngineSpec, router: RouterSpec | None, fleet: Fleet) -> bool:
    """Whether the role's KV events can be dialled."""
    if router is None or router.name != "llm-d-router" or engine.name != "vLLM" or role.command or not produces(role):
        return False
    replicas = fleet.role(role.name)
    return all(any(_carries(member.pod, engine) for member in replica.members) for replica in replicas)


def events_of(name: str, namespace: str, role: str) -> KVEvents:
    """The addresses of a publishing role's Service."""
    host = f"tcp://{name}-{role}.{namespace}.svc"
    return KVEvents(endpoint=f"{host}:{keys.KV_EVENTS_PORT}", replay_endpoint=f"{host}:{keys.KV_REPLAY_PORT}", topic=TOPIC)


def _carries(pod: Pod, engine: EngineSpec) -> bool:
    main = pod.main
    if main is None:
        return False
    ports = {port.container_port for port in main.ports}
    return {keys.KV_EVENTS_PORT, keys.KV_REPLAY_PORT} <= ports and declares(engine, main, "kv_events_config")
