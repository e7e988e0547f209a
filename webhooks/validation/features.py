"""What a deployment has and a write touches, found in one pass: a rule about anything else is not even called.

A feature may be present for nothing, never absent for something: `tests/webhooks/test_registry.py` asks every rule beside its gate.
"""

import re
from typing import TYPE_CHECKING

from webhooks.validation.findings import Feature

if TYPE_CHECKING:
    from api.objects import ModelDeploymentSpec
    from webhooks.validation.subject import RoleView, Subject

KINDS = frozenset({"Server", "Prefill", "Decode", "Encode"})

BALANCING = frozenset({"--d", "--n", "-dp"})
"""How the tokens begin that speak of load balancing: --data…, --no-data…, -dp…"""

WIRING = frozenset({"--k", "--h", "--d"})
"""How the tokens begin that wire the KV cache and its transfer."""

GLUED = re.compile(r"-(?:tp?|[pd]p|dpl|pcp?|dcp|ep?)[0-9]+")
"""vLLM's short spellings of a degree or of expert parallelism, and their abbreviations, with digits glued on: no engine knows them so."""

_ROUTER = "router"


def features_of(subject: "Subject") -> frozenset[Feature]:
    """The features of one write."""
    found: set[Feature] = {"always"}
    _of_deployment(subject, found)
    names = [view.role.name for view in subject.roles]
    if len(names) > 1:
        found.add("several")
        if len(set(names)) < len(names):
            found.update(("namesakes", "crossed"))
        if len(subject.kinds) < len(names):
            found.add("kindred")
    if subject.spec.router is not None and _ROUTER in names:
        found.add("crossed")
    for view in subject.roles:
        _of_role(subject, view, found)
    return frozenset(found)


def _of_deployment(subject: "Subject", found: set[Feature]) -> None:
    spec, old = subject.spec, subject.old_spec
    if old is not None:
        if _moved(subject, old):
            found.add("moved")
        if any(role.elastic_ep is not None for role in old.roles):
            found.add("elastic")
    router = spec.router
    if router is not None:
        found.add("router")
        if router.extra_args:
            found.add("router-arguments")
    if spec.model.artifact_ref is not None:
        found.add("artifact")
    if spec.kv_cache is not None:
        found.add("cache")
    if not spec.engine.version:
        found.add("unversioned")
    if not subject.known_engine or not KINDS.issuperset(subject.kinds):
        found.add("strange")
    if len(subject.kinds) > 1 or "Server" not in subject.kinds:
        found.add("kinds")
        if "Encode" in subject.kinds:
            found.add("encode")


def _moved(subject: "Subject", old: "ModelDeploymentSpec") -> bool:
    """Whether anything differs of what an update has to leave alone, or its writing does."""
    spec = subject.spec
    return (
        spec.model != old.model
        or spec.engine != old.engine
        or spec.kv_cache != old.kv_cache
        or not subject.router_kept
        or len(spec.roles) != len(old.roles)
        or any(view.old is None or view.role.kind != view.old.kind for view in subject.roles)
    )


def _of_role(subject: "Subject", view: "RoleView", found: set[Feature]) -> None:
    role, heads = view.role, view.heads
    if view.old is None:
        found.add("new-role")
    if view.judges_line and subject.known_engine and _faulty(subject, view):
        found.add("faulty")
    if role.size > 1:
        found.update(("members", "crossed"))  # its instances have Services of their own, whose names another role may have
    if role.ports:
        found.add("declared")
    if role.env:
        found.add("env")
    if not WIRING.isdisjoint(heads):
        found.add("wiring")
    if not BALANCING.isdisjoint(heads):
        found.add("balance")
    if "--s" in heads:
        found.add("s-flags")
    if "--p" in heads:
        found.add("p-flags")
    if role.additional_volumes:
        found.add("volumes")
    if role.shm_size is not None:
        found.add("shm")
    if role.privileged:
        found.add("privileged")
    if role.topology is not None:
        found.add("topology")
    if role.elastic_ep is not None:
        found.add("elastic")
    resources = role.resources
    if resources is not None:
        found.add("cards")
        if resources.interface is not None:
            found.add("interface")
        if (
            resources.accelerator_sliced_memory_percentage
            or resources.accelerator_sliced_cores_percentage
            or resources.accelerator_partitioned_profile
        ):
            found.add("parts")


def _faulty(subject: "Subject", view: "RoleView") -> bool:
    """Whether the reading of a line leaves anything to complain about."""
    reading = view.reading(subject.spec).reading
    return bool(reading.faults or reading.strays) or "--e" in view.heads
