"""Builders of what the actors put into the world, as the documents of status facts 2 describe them."""

import hashlib
import json
from typing import Any

from api import keys
from tests.simulation.store import Object, meta

NAMESPACE = "serving"
HEAD_SUFFIX = "-elastic-head"
EVENT_PORTS = (keys.KV_EVENTS_PORT, keys.KV_REPLAY_PORT)
CREDITS = "credits.gpustack.ai/nvidia"


def spec_hash(spec: Object, role: Object, cache: Object | None) -> str:
    """The explicit spec hash of decision D9, written a second time on purpose."""
    kept = {k: v for k, v in role.items() if k not in ("name", "kind", "replicas")}
    basis = {"model": spec["model"], "engine": spec["engine"], "kvTransfer": spec.get("kvTransfer"), "role": kept, "kvCache": cache}
    basis = {k: v for k, v in basis.items() if v is not None or k == "kvCache"}
    return hashlib.sha256(json.dumps(basis, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()).hexdigest()[:16]


def group_name(owner: Object, role: str, ordinal: int) -> str:
    """The opaque Pod group of a replica."""
    text = f"{meta(owner)['namespace']}/{meta(owner)['name']}/{role}/{ordinal}"
    return f"gpustack-fnv64-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def owned_by(owner: Object, *, controller: bool = True) -> Object:
    """An owner reference."""
    reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": meta(owner)["name"], "uid": meta(owner)["uid"]}
    return {**reference, "controller": True} if controller else reference


def pod(owner: Object, role: Object, ordinal: int, member: int, hashed: str) -> Object:
    """A replica's Pod as the operator renders it."""
    name, size = meta(owner)["name"], role.get("size", 1)
    kind = (role.get("kind") or "Server").lower()
    named = {"generateName": f"{name}-{role['name']}-"} if size == 1 else {"name": f"{name}-{role['name']}-r{ordinal}-m{member}"}
    managed = {} if role.get("command") else {keys.PROMETHEUS_PORT: "8000"}
    main: Object = {"name": keys.MAIN_CONTAINER, "ports": [{"containerPort": 8000}]}
    if publishes(owner["spec"], kind):
        main |= {"args": ["--kv-events-config", "{}"], "ports": [{"containerPort": port} for port in (8000, *EVENT_PORTS)]}
    return {
        "metadata": {
            **named,
            "namespace": meta(owner)["namespace"],
            "labels": {
                keys.NAME: keys.NAME_VALUE,
                keys.INSTANCE: name,
                keys.COMPONENT: role["name"],
                keys.ROLE_KIND: kind,
                keys.POD_ORDINAL: str(ordinal),
                keys.MEMBER_INDEX: str(member),
                keys.POD_GROUP_NAME: group_name(owner, role["name"], ordinal),
            },
            "annotations": {
                keys.POD_GROUP_TOTAL_COUNT: str(size),
                keys.EXPLICIT_SPEC_HASH: hashed,
                keys.RENDER_VERSION: "0",
                **managed,
            },
            "ownerReferences": [owned_by(owner)],
        },
        "spec": {
            "containers": [main],
            "nodeName": f"node-{(ordinal + member) % 3}",
            "terminationGracePeriodSeconds": 30,
        },
        "status": {"phase": "Pending"},
    }


def publishes(spec: Object, kind: str) -> bool:
    """Whether a Pod of that kind is rendered to publish what its cache does."""
    router = spec.get("router") or {}
    return router.get("name") == "llm-d-router" and spec["engine"]["name"] == "vLLM" and kind not in ("decode", "encode")


def elastic_head(owner: Object) -> Object:
    """The role under which the Ray head of an elastic deployment runs; it is in no spec."""
    return {"name": f"{meta(owner)['name']}{HEAD_SUFFIX}", "kind": "Server", "size": 1}


def positions(role: Object) -> int:
    """How many ordinals of a role are to be occupied: an elastic role's workers each have one."""
    count: int = role["elasticEp"]["width"] if "elasticEp" in role else role.get("replicas", 1)
    return count


def router_pod(owner: Object, deployment: Object, replica_set: Object) -> Object:
    """A Pod of the managed router."""
    name = meta(deployment)["name"]
    return {
        "metadata": {
            "generateName": f"{meta(replica_set)['name']}-",
            "namespace": meta(owner)["namespace"],
            "labels": {
                keys.NAME: keys.NAME_VALUE,
                keys.INSTANCE: meta(owner)["name"],
                keys.ROUTER: owner["spec"]["router"]["name"],
                "app": name,
            },
            "ownerReferences": [owned_by(replica_set)],
        },
        "spec": {"containers": [{"name": "router", "ports": [{"containerPort": keys.ROUTER_PORT}]}]},
        "status": {"phase": "Pending"},
    }


def workload(group: str, role: str, pods: list[Object]) -> Object:
    """Kueue's Workload of a Pod group: plain references to its Pods."""
    first = meta(pods[0])
    return {
        "metadata": {
            "name": group,
            "namespace": first["namespace"],
            "ownerReferences": [owned_by(item, controller=False) for item in pods],
            "labels": {"role": role},
        },
        "spec": {"active": True},
        "status": {"conditions": []},
    }


def assignment(role: str, flavor: str) -> Object:
    """`status.admission`."""
    return {"clusterQueue": "cq", "podSetAssignments": [{"name": role, "flavors": {CREDITS: flavor, "cpu": "plain"}}]}


def condition(kind: str, *, holds: bool, at: str, reason: str = "", message: str = "") -> Object:
    """A condition entry."""
    return {"type": kind, "status": "True" if holds else "False", "reason": reason, "message": message, "lastTransitionTime": at}


def with_condition(item: Object, entry: Object) -> list[Object]:
    """The object's conditions with that one replaced."""
    found = (item.get("status") or {}).get("conditions") or []
    return [*(c for c in found if c["type"] != entry["type"]), entry]


def reported(item: Object, kind: str) -> str:
    """The status of a condition, empty when nobody reported it."""
    found = (item.get("status") or {}).get("conditions") or []
    return next((str(c["status"]) for c in found if c["type"] == kind), "")


def is_leaving(item: Object) -> bool:
    """Whether it has a deletion timestamp."""
    return "deletionTimestamp" in meta(item)


def controller_uid(item: Object) -> str:
    """The UID of the controlling owner."""
    found: list[Any] = meta(item).get("ownerReferences") or []
    return next((str(ref["uid"]) for ref in found if ref.get("controller")), "")
