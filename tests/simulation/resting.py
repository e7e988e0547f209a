"""What must hold once everything has come to rest.

The stored statuses are what a fresh look at every object gives, and what the leader observed is what there is to observe: a fact that
changed and was not seen, or was seen and not judged, is found here.
"""

from collections.abc import Iterator

import msgspec

from api import keys
from api.status import decode_status, encode_status
from controller.dump import snapshots
from controller.kinds import ARTIFACTS, BINDINGS, INSTANCE_TYPES, MODEL_DEPLOYMENTS, POOLS
from controller.observers.board import Facts
from controller.status.judge import judge
from controller.store import Key
from kube.resources import DEPLOYMENTS, PODS, SERVICES
from tests.simulation.actors import Resizer
from tests.simulation.network import Network
from tests.simulation.objects import controller_uid, is_leaving, reported
from tests.simulation.process import Process
from tests.simulation.store import Object, labels, meta
from tests.simulation.world import World

Fault = tuple[str, str]


def faults(world: World, network: Network, resizer: Resizer, leader: Process) -> Iterator[Fault]:
    """Each as (invariant, detail)."""
    store = world.store
    kinds = [MODEL_DEPLOYMENTS, PODS, SERVICES, DEPLOYMENTS, BINDINGS, POOLS, INSTANCE_TYPES, ARTIFACTS]
    kinds += [world.workloads] if world.kueue else []
    objects: list[Object] = [item for kind in kinds for item in store.list(kind)]
    for item in world.deployments():
        facts = leader.controller.board.read(Key(meta(item)["namespace"], meta(item)["name"]), meta(item)["uid"])
        if facts is not None:
            objects.append(_observations(item, facts))
        if not is_leaving(item):
            for detail in unseen(world, network, resizer, item, facts or Facts(meta(item)["uid"])):
                yield "what there is to observe is observed", f"{meta(item)['name']}: {detail}"
    for snapshot in snapshots(objects, leader.clock.now(), leader.settings.status):
        fresh = encode_status(judge(snapshot))
        stored = msgspec.json.encode(msgspec.json.decode(snapshot.deployment.status), order="sorted")
        known = decode_status(snapshot.deployment.status)
        if known is None or encode_status(known) != fresh:
            told = "; ".join(differences("", msgspec.json.decode(stored), msgspec.json.decode(fresh)))
            name = snapshot.deployment.metadata.name
            yield "status equals the judgement of a fresh list", f"{name}: stored -> fresh: {told or 'times'}"


def _observations(item: Object, facts: Facts) -> Object:
    document = msgspec.to_builtins(facts.observations())
    named = {"metadata": {"namespace": meta(item)["namespace"], "name": meta(item)["name"]}, "kind": keys.OBSERVATIONS}
    return {**document, **named, "apiVersion": keys.OBSERVATIONS_API_VERSION}


def unseen(world: World, network: Network, resizer: Resizer, item: Object, facts: Facts) -> Iterator[str]:
    """What the leader has not observed, or observes otherwise than it is."""
    spec, uid = item["spec"], meta(item)["uid"]
    labelled = world.pods(**{keys.INSTANCE: meta(item)["name"]})
    ready = [p for p in labelled if controller_uid(p) == uid and not is_leaving(p) and reported(p, "Ready") == "True"]
    if "kvCache" in spec:
        counted = {meta(p)["uid"]: network.operations[meta(p)["uid"]] for p in ready if meta(p)["uid"] in network.operations and _asked(p)}
        if spec["engine"]["name"] == "SGLang":  # counts tokens that arrived, and no failures
            counted = {pod: (64 * succeeded, 0) for pod, (succeeded, _) in counted.items() if succeeded}
        seen = {pod: (found.succeeded, found.failed) for pod, found in facts.cache_operations.items()}
        if counted != seen:
            yield f"store operations {counted} are seen as {seen}"
    elastic = any("elasticEp" in role for role in spec["roles"])
    if elastic and (told := resizer.told(uid, meta(item)["namespace"])) is not None:
        found = facts.elastic
        seen_record = (
            None if found is None else (found.record, found.desired, found.observed, bool(found.refusal and found.refusal.abandoned))
        )
        if seen_record != told:
            yield f"the elastic record {told} is seen as {seen_record}"
    for router in labelled:
        if spec.get("router") and network.views(router, item) and not is_leaving(router):
            selected = network.selected(router)
            view = next((view for view in facts.router_views if view.router_pod_uid == meta(router)["uid"]), None)
            if view is None or (not view.error and {w.pod_uid for w in view.workers if w.in_selection} != selected):
                yield f"router {meta(router)['name']} selects {sorted(selected)}, seen is {view}"


def _asked(pod: Object) -> bool:
    return keys.PROMETHEUS_PORT in meta(pod)["annotations"] and labels(pod).get(keys.ROUTER) is None and pod["status"]["phase"] == "Running"


def differences(path: str, old: object, new: object) -> Iterator[str]:
    """One line per place at which two documents differ; entries of lists are told by their name, type or ordinal."""
    if isinstance(old, dict) and isinstance(new, dict):
        for name in sorted(old.keys() | new.keys()):
            if name not in ("resourceVersion", "lastTransitionTime", "observedGeneration", "managedFields"):
                yield from differences(f"{path}.{name}", old.get(name), new.get(name))
    elif isinstance(old, list) and isinstance(new, list) and all(isinstance(item, dict) for item in [*old, *new]):
        before, after = ({_name(item, at): item for at, item in enumerate(items)} for items in (old, new))
        for name in sorted(before.keys() | after.keys()):
            yield from differences(f"{path}[{name}]", before.get(name), after.get(name))
    elif old != new:
        yield f"{path.lstrip('.')}: {_short(old)} -> {_short(new)}"


def _name(item: Object, at: int) -> str:
    return str(item.get("name", item.get("type", item.get("ordinal", item.get("uid", at)))))


def _short(value: object) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 300 else text[:300] + "…"
