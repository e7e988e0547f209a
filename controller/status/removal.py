"""Which removal of capacity the spec asks for next: the three that pay for a retirement, in a fixed order.

An ordinal that `replicas` no longer declares, surplus members at one ordinal (the whole set at once), and a replica of a role that the spec
dropped. Rollout turn-over, Pods that ended by themselves, departing and unseated Pods are none. An elastic role's workers and its head are
the elastic path's own.

Source: seed "Retirement", decision D7 (the lower ordinal first), status facts 5.2.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from api import keys
from controller.status.replicas import HEAD_SUFFIX, Fleet, Member, Ready, Replica, terminal
from controller.status.rollout import render_version

# What one reservation can name; a larger surplus is shed in several operations.
TARGETS_BOUND: Final = 128


@dataclass(frozen=True, slots=True)
class Removal:
    """One intent: the members to retire at a position, and why."""

    role: str
    ordinal: int
    members: tuple[Member, ...]
    cause: str

    @property
    def uids(self) -> tuple[str, ...]:
        """The members' UIDs, sorted."""
        return tuple(sorted(member.uid for member in self.members))

    @property
    def where(self) -> str:
        """How messages name the position."""
        return f"{self.role} ordinal {self.ordinal}"


def removals(fleet: Fleet, wanted: Mapping[str, str], name: str) -> Iterator[Removal]:
    """Every removal that the spec asks for, first to retire first: roles in spec order, then dropped roles by name; lower ordinals first.

    `wanted` are the desired hashes by role (an outdated surplus member goes before a current one), `name` the deployment's.
    """
    for role_name, role in fleet.roles.items():
        if role.elastic_ep is not None:
            continue
        for replica in fleet.role(role_name):
            if replica.ordinal >= role.replicas:
                yield from _whole(replica, f"replicas is {role.replicas}")
            elif extra := surplus(replica, wanted.get(role_name, "")):
                yield Removal(role_name, replica.ordinal, extra, "several members at one position")
    for role_name in sorted(fleet.of_role):
        if role_name not in fleet.roles and role_name != name + HEAD_SUFFIX:
            for replica in fleet.role(role_name):
                yield from _whole(replica, "the spec no longer declares the role")


def _whole(replica: Replica, cause: str) -> Iterator[Removal]:
    if not all(terminal(member.pod) for member in replica.members):
        yield Removal(replica.role, replica.ordinal, replica.members[:TARGETS_BOUND], cause)


def surplus(replica: Replica, wanted: str) -> tuple[Member, ...]:
    """The members at a position beyond one per declared seat; the one kept is the current, ready, eldest."""
    if len(replica.members) < 2:
        return ()
    seats: dict[int, list[Member]] = {}
    for member in replica.members:
        claimed = member.pod.metadata.labels.get(keys.MEMBER_INDEX)
        seat = member.seat if claimed is not None else 0 if replica.total == 1 else None
        if seat is not None and not terminal(member.pod):
            seats.setdefault(seat, []).append(member)
    extra: list[Member] = []
    for seat, members in seats.items():
        declared = replica.total is None or seat < replica.total
        extra += sorted(members, key=lambda m: _worth(m, wanted))[1 if declared else 0 :]
    return tuple(sorted(extra, key=lambda m: m.uid))[:TARGETS_BOUND]


def _worth(member: Member, wanted: str) -> tuple[bool, int, bool, str, str]:
    metadata = member.pod.metadata
    outdated = metadata.annotations.get(keys.EXPLICIT_SPEC_HASH) != wanted
    return (
        outdated,
        -render_version(metadata.annotations),
        member.ready is not Ready.TRUE,
        metadata.creation_timestamp or "",
        metadata.uid,
    )
