"""What is worth an Event: that something turned into something else, never that it still is.

Pure: two statuses, or two sightings of a replica's Pods, in; notices out. The first status of an object is no transition, and neither
is the first sighting after this process began to lead.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import Literal, NamedTuple

from api.objects import Pod
from api.status import Condition, Status

Kind = Literal["Normal", "Warning"]


class Notice(NamedTuple):
    """One Event to be: its type, its CamelCase reason and its note. `about` is the part of the deployment whose changes form one chain."""

    type: Kind
    reason: str
    note: str
    about: str = ""


class Sighting(NamedTuple):
    """What a Pod looked like."""

    name: str
    leaving: bool
    evicted: bool
    restarts: int


def status_notices(old: Status | None, new: Status) -> list[Notice]:
    """Phase, conditions (True and False; Unknown is no news) and retirement steps that changed."""
    if old is None or not old.phase:
        return []
    notices = []
    if old.phase != new.phase:
        kind: Kind = "Warning" if new.phase == "Degraded" else "Normal"
        notices.append(Notice(kind, new.phase, new.phase_message or f"Phase changed from {old.phase} to {new.phase}."))
    before = {condition.type: condition for condition in old.conditions}
    for condition in new.conditions:
        known = before.get(condition.type)
        if known is not None and _turned(known, condition):
            kind = "Warning" if condition.status == "False" else "Normal"
            note = f"{condition.type} is {condition.status}: {condition.message}"
            notices.append(Notice(kind, condition.reason or condition.type, note, condition.type))
    was, now = old.retirement, new.retirement
    if now is not None and (was is None or was.state != now.state):
        kind = "Warning" if now.state == "Aborted" else "Normal"
        replica = f"{now.role_name}/{now.replica_ordinal}"
        notices.append(Notice(kind, f"Retirement{now.state}", f"Replica {replica}: {now.reason}", replica))
    elif was is not None and now is None:
        replica = f"{was.role_name}/{was.replica_ordinal}"
        notices.append(Notice("Normal", "RetirementEnded", f"Replica {replica}: the operation is over.", replica))
    return notices


def _turned(old: Condition, new: Condition) -> bool:
    return new.status != "Unknown" and new.reason != "NotApplicable" and (old.status, old.reason) != (new.status, new.reason)


def sight(pods: Iterable[Pod]) -> dict[str, Sighting]:
    """How the Pods look now, by UID."""
    return {
        pod.metadata.uid: Sighting(
            pod.metadata.name,
            pod.metadata.deleting,
            pod.status.reason == "Evicted",
            sum(status.restart_count for status in pod.status.container_statuses if status.name == "main"),
        )
        for pod in pods
    }


def kept(seen: dict[str, Sighting]) -> dict[str, Sighting]:
    """A sighting as it is remembered: without names, which only news are told with, so that a hundred thousand Pods share a few."""
    return {uid: _nameless(leaving, evicted, restarts) for uid, (_, leaving, evicted, restarts) in seen.items()}


@lru_cache(maxsize=1024)
def _nameless(leaving: bool, evicted: bool, restarts: int) -> Sighting:
    return Sighting("", leaving, evicted, restarts)


def pod_notices(old: dict[str, Sighting] | None, new: dict[str, Sighting]) -> list[Notice]:
    """Evictions, departures and restarts since the last sighting, each told once with all its Pods."""
    if old is None:
        return []
    evicted, leaving, restarted = [], [], []
    for uid, now in new.items():
        was = old.get(uid)
        if was is None:
            continue
        if now.evicted and not was.evicted:
            evicted.append(now.name)
        if now.leaving and not was.leaving:
            leaving.append(now.name)
        if now.restarts > was.restarts:
            restarted.append(now.name)
    found = (
        Notice("Warning", "ReplicaEvicted", _told("evicted", evicted)) if evicted else None,
        Notice("Normal", "ReplicaLeaving", _told("on their way out", leaving)) if leaving else None,
        Notice("Warning", "ReplicaRestarted", _told("restarted", restarted)) if restarted else None,
    )
    return [notice for notice in found if notice is not None]


def _told(what: str, names: list[str]) -> str:
    return f"Pods {what}: {', '.join(sorted(names))}"
