"""A fluent builder of a replica's Pod: live, running and ready unless a test says otherwise."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Self

from api import keys

NOW = datetime(2026, 1, 1, 0, 10, tzinfo=UTC)
NAMESPACE = "team-a"
NAME = "qwen"
UID = "md-uid"
CURRENT = "current"  # stands for the desired hash until the snapshot is made


def ago(seconds: float) -> str:
    """RFC 3339, that many seconds before the pass."""
    return (NOW - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def entries(**statuses: str) -> list[dict[str, str]]:
    """Conditions by type; `True:Reason:message` carries a reason and a message."""
    found = []
    for kind, text in statuses.items():
        status, _, rest = text.partition(":")
        reason, _, message = rest.partition(":")
        found.append({"type": kind, "status": status, "reason": reason, "message": message})
    return found


class PodBuilder:
    """A Pod of a replica: live, running and ready unless told otherwise."""

    def __init__(self, role: str, ordinal: int | str | None, uid: str) -> None:
        self.uid, self.name = uid, f"{NAME}-{uid}"
        self.labels = {keys.NAME: keys.NAME_VALUE, keys.INSTANCE: NAME, keys.COMPONENT: role, keys.ROLE_KIND: "server"}
        if ordinal is not None:
            self.labels[keys.POD_ORDINAL] = str(ordinal)
        self.annotations = {keys.PROMETHEUS_PORT: "8000", keys.EXPLICIT_SPEC_HASH: CURRENT, keys.POD_GROUP_TOTAL_COUNT: "1"}
        self.owner: dict[str, Any] | None = {
            "apiVersion": keys.API_VERSION,
            "kind": "ModelDeployment",
            "name": NAME,
            "uid": UID,
            "controller": True,
        }
        self.conditions = {"Ready": "True", "PodReadyToStartContainers": "True"}
        self.status: dict[str, Any] = {"phase": "Running"}
        self.main: dict[str, Any] = {"name": "main", "args": [], "ports": [{"containerPort": 8000}]}
        self.main_ready = True
        self.departure: str | None = None
        self.finalizers: list[str] = []

    def seat(self, seat: int | str, of: int | str) -> Self:
        """A member of a replica of several Pods."""
        self.labels[keys.MEMBER_INDEX] = str(seat)
        return self.total(of)

    def total(self, total: int | str | None) -> Self:
        """What the Pod declares as the group's size."""
        self.annotations.pop(keys.POD_GROUP_TOTAL_COUNT, None)
        if total is not None:
            self.annotations[keys.POD_GROUP_TOTAL_COUNT] = str(total)
        return self

    def unready(self) -> Self:
        """The engine does not answer."""
        self.conditions["Ready"], self.main_ready = "False", False
        return self

    def unreported(self) -> Self:
        """Nobody has reported on the Pod."""
        del self.conditions["Ready"]
        return self

    def departing(self, *finalizers: str) -> Self:
        """On its way out."""
        self.departure, self.finalizers = ago(5), list(finalizers)
        return self

    def phase(self, phase: str, **status: str) -> Self:
        """Another phase, such as Pending or Failed."""
        self.status = {"phase": phase, **status}
        return self if phase == "Running" else self.unready()

    def taken_over(self) -> Self:
        """The command was replaced: nothing was stamped for scraping."""
        del self.annotations[keys.PROMETHEUS_PORT]
        return self

    def publishing(self, flag: str = "--kv-events-config") -> Self:
        """Rendered to publish KV events."""
        self.main["args"] = [flag, "{}"]
        self.main["ports"] = [{"containerPort": port} for port in (8000, 5557, 5558)]
        return self

    def hash(self, value: str | None) -> Self:
        """The explicit spec hash that rendered the Pod."""
        self.annotations.pop(keys.EXPLICIT_SPEC_HASH)
        if value is not None:
            self.annotations[keys.EXPLICIT_SPEC_HASH] = value
        return self

    def annotated(self, key: str, value: str) -> Self:
        """One more annotation."""
        self.annotations[key] = value
        return self

    def labelled(self, key: str, value: str) -> Self:
        """One more label."""
        self.labels[key] = value
        return self

    def eligible_label(self) -> Self:
        """Labelled as an eligible endpoint."""
        return self.labelled(keys.ENDPOINT_ELIGIBLE, "true")

    def owned_by(self, uid: str | None) -> Self:
        """Controlled by somebody else, or by nobody."""
        self.owner = None if uid is None or self.owner is None else {**self.owner, "uid": uid}
        return self

    def build(self, hashes: dict[str, str]) -> dict[str, Any]:
        """The Pod's JSON."""
        annotations = dict(self.annotations)
        if annotations.get(keys.EXPLICIT_SPEC_HASH) == CURRENT:
            annotations[keys.EXPLICIT_SPEC_HASH] = hashes.get(self.labels.get(keys.COMPONENT, ""), "0" * 16)
        metadata: dict[str, Any] = {
            "name": self.name,
            "namespace": NAMESPACE,
            "uid": self.uid,
            "labels": self.labels,
            "annotations": annotations,
            "ownerReferences": [self.owner] if self.owner else [],
            "creationTimestamp": ago(600),
            "finalizers": self.finalizers,
        }
        if self.departure:
            metadata["deletionTimestamp"] = self.departure
        status = {
            **self.status,
            "conditions": entries(**self.conditions),
            "containerStatuses": [{"name": "main", "ready": self.main_ready}],
        }
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [self.main]}, "status": status}
