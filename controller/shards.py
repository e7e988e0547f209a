"""How a fleet is split: by a hash of a deployment's UID into shards, each with a Lease of its own.

The hash and the names are the contract between replicas of any release: two that disagreed about either would write beside each other. So
the number of shards is itself something to be held. The Lease by the plain name, which a replica without shards holds as its only one, is
held by all replicas of one number of shards together, under a name that says that number; who has another number waits until it is free.
"""

from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

from api import keys

# On a shard's Lease: who asks its holder for it, and that the holder was started to prefer it.
CLAIM: Final = f"{keys.GROUP}/shard-claim"
PREFERRED: Final = f"{keys.GROUP}/shard-preferred"
MOST: Final = 128


def shard_of(uid: str, shards: int) -> int:
    """The shard of the deployment with that UID, from 0. The first 8 bytes of BLAKE2b of its text, big-endian, modulo the number."""
    if shards == 1:
        return 0
    return int.from_bytes(blake2b(uid.encode(), digest_size=8).digest(), "big") % shards


@dataclass(frozen=True, slots=True)
class Layout:
    """So many shards under that base name; `preferred` is the shard that this replica asks for whoever holds it."""

    base: str
    shards: int
    preferred: int | None = None

    @property
    def holder(self) -> str:
        """What stands in the base Lease as its holder while this number of shards is in force."""
        return f"{self.base}-shards-of-{self.shards}"

    def lease(self, shard: int) -> str:
        """The name of a shard's Lease."""
        return f"{self.base}-shard-{shard}-of-{self.shards}"


def parse_shard(text: str) -> tuple[int, int]:
    """`i/n`, i from 0. Raises ValueError with what is wrong."""
    first, slash, second = text.partition("/")
    if not (slash and first.isascii() and first.isdigit() and second.isascii() and second.isdigit()):
        raise ValueError(f"{text!r} is not i/n, as 0/4 is the first of four shards")
    shard, shards = int(first), int(second)
    if not 1 <= shards <= MOST:
        raise ValueError(f"{text!r} has {shards} shards; there may be 1 to {MOST}")
    if shard >= shards:
        raise ValueError(f"{text!r} is beyond the last of {shards} shards, which is {shards - 1}/{shards}: they count from 0")
    return shard, shards
