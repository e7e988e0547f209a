"""Who should hold which shard: what one replica concludes from the Leases it read. Pure; no replica tells another what to do.

A replica takes what is free up to its even share of the holders it sees, and the rest when nobody else did for a while. One that holds at
least two fewer than another asks that one for half the difference, by a claim on the Lease; the holder gives only what leaves it no poorer
than the claimant becomes. So every handover makes the shares more even and they come to rest, at most one apart. A preferred shard is given
to whoever prefers it, and never asked of it.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec


class Claim(msgspec.Struct, frozen=True, omit_defaults=True):
    """What stands in a Lease's annotation: who asks for the shard, and whether it was started to prefer it."""

    by: str = ""
    preferred: bool = False


@dataclass(frozen=True, slots=True)
class Seat:
    """A shard's Lease as one replica sees it. `holder` is empty while it may be taken; `free_for` is since when, in seconds."""

    shard: int
    holder: str = ""
    claim: Claim | None = None
    preferred: bool = False
    free_for: float = 0.0


Shuffle = Callable[[Sequence[Seat]], Sequence[Seat]]
NO_ORDER: Final[Shuffle] = tuple


def to_take(me: str, seats: Iterable[Seat], preferred: int | None, patience: float, shuffled: Shuffle = NO_ORDER) -> list[int]:
    """The free shards that this replica should take now."""
    seats = tuple(seats)
    counts = Counter(seat.holder for seat in seats if seat.holder)
    share = -(-len(seats) // len(counts.keys() | {me}))
    mine = counts[me]
    taken = []
    for seat in sorted(shuffled([seat for seat in seats if not seat.holder]), key=lambda seat: not _ours(seat, me, preferred)):
        if not _ours(seat, me, preferred) and seat.free_for < patience and (seat.claim is not None or mine >= share):
            continue
        taken.append(seat.shard)
        mine += 1
    return taken


def _ours(seat: Seat, me: str, preferred: int | None) -> bool:
    """Whether it waits for this replica before any other."""
    return seat.claim.by == me if seat.claim is not None else seat.shard == preferred


def to_claim(
    me: str, seats: Iterable[Seat], preferred: int | None, leaning: frozenset[int] = frozenset(), shuffled: Shuffle = NO_ORDER
) -> list[int]:
    """The held shards that this replica should ask for: while something is free, or all else is equal, those that it leans to already."""
    seats = tuple(seats)
    standing = [seat.shard for seat in seats if seat.claim is not None and seat.claim.by == me]
    open_ = [seat for seat in seats if seat.holder not in ("", me) and seat.claim is None and not seat.preferred]
    if any(not seat.holder for seat in seats):
        return [*standing, *(seat.shard for seat in open_ if seat.shard in leaning)]
    for seat in seats:
        if seat.shard == preferred and seat.holder != me and not seat.preferred and (seat.claim is None or not seat.claim.preferred):
            return [*standing, seat.shard]
    if standing or not open_:
        return standing  # one question at a time
    counts = Counter(seat.claim.by if seat.claim is not None else seat.holder for seat in seats)
    richest = max(shuffled(open_), key=lambda seat: (counts[seat.holder], seat.shard in leaning)).holder
    asked = sorted(shuffled([seat for seat in open_ if seat.holder == richest]), key=lambda seat: seat.shard not in leaning)
    return [seat.shard for seat in asked[: max(counts[richest] - counts[me], 0) // 2]]


def to_grant(me: str, seats: Iterable[Seat], preferred: int | None) -> list[int]:
    """The shards of this replica that it should give to those who claim them."""
    seats = tuple(seats)
    counts = Counter(seat.holder for seat in seats if seat.holder)
    granted = []
    for seat in seats:
        if seat.holder != me or seat.claim is None or seat.claim.by == me or seat.shard == preferred:
            continue
        if seat.claim.preferred or counts[me] >= counts[seat.claim.by] + 2:
            granted.append(seat.shard)
            counts[me] -= 1
            counts[seat.claim.by] += 1
    return granted
