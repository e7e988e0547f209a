"""The five criteria of a replica's eligibility, and what they make of `endpoints.eligible`.

A criterion is verified, failed or unknown. A failed one revokes at once whatever the others say; an unknown one neither revokes nor
restores. A replica is eligible when every criterion is verified.

Source: seed "Endpoint eligibility", status facts 6.1, lesson F110.
"""

from collections.abc import Mapping
from enum import StrEnum
from functools import lru_cache
from typing import Final

import msgspec

from api.objects import EngineSpec, Role
from api.status import Retirement
from controller.snapshot import Observations, Rollout
from controller.status.replicas import Fleet, Ready, Replica, Shape
from controller.status.roles import took_over

MEMBER_SET_COMPLETE: Final = "MemberSetComplete"
MEMBERS_READY: Final = "MembersReady"
GROUP_FORWARD: Final = "GroupForward"
NO_PLANNED_RETIREMENT: Final = "NoPlannedRetirement"
NO_PENDING_REPLACEMENT: Final = "NoPendingReplacement"
ORDER: Final = (MEMBER_SET_COMPLETE, MEMBERS_READY, GROUP_FORWARD, NO_PLANNED_RETIREMENT, NO_PENDING_REPLACEMENT)

# Engine releases whose forward probe was proved to carry and bind a request (status facts 6.1).
VERIFIED_VERSIONS: Final[Mapping[str, frozenset[str]]] = {
    "vLLM": frozenset({"0.25.1", "0.29.0"}),
    "SGLang": frozenset({"0.5.18", "0.5.21"}),
}


class Leg(StrEnum):
    """How one criterion stands. `UNSUPPORTED` reads as unknown and is told apart only in the condition."""

    VERIFIED = "Verified"
    FAILED = "Failed"
    UNKNOWN = "Unknown"
    UNSUPPORTED = "Unsupported"


class Standing(msgspec.Struct, frozen=True):
    """One replica with its criteria, in the order in which they are asked.

    `failed` and `unknown` name the criteria that definitely fail and that could not be evaluated, in that order. `observed`: some member
    has a definite readiness.
    """

    replica: Replica
    legs: Mapping[str, Leg]
    failed: tuple[str, ...]
    unknown: tuple[str, ...]
    observed: bool

    @property
    def eligible(self) -> bool:
        """Whether every criterion is verified."""
        return not self.failed and not self.unknown

    @property
    def held(self) -> tuple[str, ...]:
        """Every criterion that is not verified, by name."""
        return tuple(sorted((*self.failed, *self.unknown)))

    @property
    def inconclusive(self) -> bool:
        """Whether the replica can neither be counted nor be left out."""
        return not self.failed and bool(self.unknown)


@lru_cache(maxsize=4096)
def _amiss(legs: tuple[Leg, ...]) -> tuple[Mapping[str, Leg], tuple[str, ...], tuple[str, ...]]:
    """Criteria by name, and which of them fail and which are not known. There are few combinations and many replicas."""
    by_name = dict(zip(ORDER, legs, strict=True))
    failed = tuple([name for name, leg in by_name.items() if leg is Leg.FAILED])
    return by_name, failed, tuple([name for name, leg in by_name.items() if leg not in (Leg.FAILED, Leg.VERIFIED)])


def standing(replica: Replica, *legs: Leg) -> Standing:
    """A replica's standing under its criteria, which come in their order."""
    by_name, failed, unknown = _amiss(legs)
    observed = replica.ready or any(member.ready is not Ready.UNKNOWN for member in replica.members)
    return Standing(replica, by_name, failed, unknown, observed)


def standings_of(
    fleet: Fleet,
    engine: EngineSpec,
    observations: Observations | None,
    retirement: Retirement | None,
) -> dict[str, tuple[Standing, ...]]:
    """Every supervised replica's standing, by role name in spec order."""
    forward = {entry.pod_uid: entry.outcome for entry in observations.forward} if observations else {}
    replacing = slots(observations.rollout if observations else None)
    found = {}
    for name, role in fleet.roles.items():
        found[name] = tuple(
            standing(
                replica,
                _complete(replica),
                _ready(replica),
                _forward(replica, engine, role, forward),
                _not_retiring(replica, retirement),
                Leg.FAILED if (name, replica.ordinal) in replacing else Leg.VERIFIED,
            )
            for replica in fleet.role(name)
        )
    return found


def slots(rollout: Rollout | None) -> frozenset[tuple[str, int]]:
    """The replica positions that the rollout of this pass selected for replacement."""
    return frozenset((slot.role, slot.ordinal) for slot in rollout.replacing) if rollout else frozenset()


def eligible_of(standings: tuple[Standing, ...]) -> int | None:
    """`endpoints.eligible`: None while the list is not complete, an observed zero otherwise possible."""
    if not any(found.observed for found in standings) or any(found.inconclusive for found in standings):
        return None
    return sum(found.eligible for found in standings)


_BY_SHAPE: Final = {Shape.COMPLETE: Leg.VERIFIED, Shape.INCOMPLETE: Leg.FAILED, Shape.UNREADABLE: Leg.UNKNOWN}


def _complete(replica: Replica) -> Leg:
    return _BY_SHAPE[replica.shape]


def _ready(replica: Replica) -> Leg:
    if replica.ready:
        return Leg.VERIFIED
    reports = {member.ready for member in replica.members}
    if Ready.FALSE in reports:
        return Leg.FAILED
    return Leg.UNKNOWN if Ready.UNKNOWN in reports else Leg.VERIFIED


def _not_retiring(replica: Replica, retirement: Retirement | None) -> Leg:
    named = retirement is not None and (retirement.role_name, retirement.replica_ordinal) == (replica.role, replica.ordinal)
    return Leg.FAILED if named else Leg.VERIFIED


def _forward(replica: Replica, engine: EngineSpec, role: Role, outcomes: Mapping[str, str]) -> Leg:
    if replica.single:
        return Leg.VERIFIED  # one member has no group path, whatever the engine, version and kind
    supported = engine.version in VERIFIED_VERSIONS.get(engine.name, frozenset()) and role.effective_kind == "Server"
    if not supported or took_over(replica):
        return Leg.UNSUPPORTED
    seen = {outcomes.get(member.uid, "Unanswered") for member in replica.members}
    if "Failed" in seen:
        return Leg.FAILED
    if "Unsupported" in seen:
        return Leg.UNSUPPORTED
    return Leg.VERIFIED if seen == {"Bound"} else Leg.UNKNOWN
