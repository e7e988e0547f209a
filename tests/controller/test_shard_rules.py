"""Which shard a deployment belongs to, and what a replica takes, asks for and gives: rules without a clock or a cluster."""

import pytest

from controller.balance import Claim, Seat, to_claim, to_grant, to_take
from controller.shards import Layout, parse_shard, shard_of


def test_the_hash_is_what_every_release_computes() -> None:
    """Replicas of two releases have to agree, so the figures stand here."""
    uids = ("", "0f6c2e1a-7b0d-4c55-9d3e-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff")
    assert [[shard_of(uid, shards) for uid in uids] for shards in (1, 2, 8, 128)] == [[0, 0, 0], [0, 1, 1], [4, 7, 1], [52, 39, 105]]


def test_shards_are_of_like_size() -> None:
    """Of ten thousand UIDs each of eight shards gets an eighth, give or take a tenth of it."""
    counts = [0] * 8
    for number in range(10_000):
        counts[shard_of(f"0f6c2e1a-7b0d-4c55-9d3e-{number:012x}", 8)] += 1
    assert all(1125 <= count <= 1375 for count in counts), counts


def test_the_names_of_leases_tell_shard_and_number() -> None:
    """Two numbers of shards never share a shard's Lease, and share the common one."""
    four, eight = Layout("modelwarden", 4), Layout("modelwarden", 8)
    assert four.lease(0) == "modelwarden-shard-0-of-4"
    assert {four.lease(n) for n in range(4)}.isdisjoint(eight.lease(n) for n in range(8))
    assert (four.base, four.holder, eight.holder) == ("modelwarden", "modelwarden-shards-of-4", "modelwarden-shards-of-8")


@pytest.mark.parametrize(("text", "found"), [("0/4", (0, 4)), ("3/4", (3, 4)), ("0/1", (0, 1))])
def test_a_shard_is_named_by_i_of_n(text: str, found: tuple[int, int]) -> None:
    """i counts from 0."""
    assert parse_shard(text) == found


@pytest.mark.parametrize("text", ["4/4", "x", "1", "1/", "/4", "-1/4", "1/0", "1/129", "1/4/2", "¹/4"])
def test_what_is_not_i_of_n_is_refused(text: str) -> None:
    """With a sentence."""
    with pytest.raises(ValueError, match=r"shard|i/n"):
        parse_shard(text)


def seats(*told: str) -> list[Seat]:
    """`a` is held by a, `a>b` is claimed by b, `a!` is preferred by a, `.` is free, `.9` has been for 9 s, `.>b` waits for b."""
    found = []
    for shard, text in enumerate(told):
        held, _, claimant = text.partition(">")
        free = held.startswith(".")
        claim = Claim(claimant.removesuffix("!"), claimant.endswith("!")) if claimant else None
        found.append(Seat(shard, "" if free else held.removesuffix("!"), claim, held.endswith("!"), float(held[1:] or 0) if free else 0.0))
    return found


TAKEN: dict[str, tuple[list[Seat], int | None, list[int]]] = {
    "a lone replica takes all": (seats(".", ".", "."), None, [0, 1, 2]),
    "of what is free an even share is taken": (seats(".", ".", "a", "b"), None, [0, 1]),
    "at its share a replica leaves the rest to others": (seats(".", "me", "a"), None, [0]),
    "over its share nothing is taken at once": (seats(".", "me", "me", "a"), None, []),
    "what nobody takes for a while is taken by whoever sees it": (seats(".9", "me", "me", "a"), None, [0]),
    "what waits for another is left to it": (seats(".>a", "a"), None, []),
    "what waited in vain is taken": (seats(".9>a", "b"), None, [0]),
    "what waits for us is taken beyond the share": (seats(".>me", "me", "me", "a"), None, [0]),
    "a free preferred shard is taken beyond the share": (seats("me", "me", ".", "a"), 2, [2]),
}


@pytest.mark.parametrize("told", TAKEN)
def test_what_is_taken(told: str) -> None:
    """The key says it."""
    given, preferred, expected = TAKEN[told]
    assert sorted(to_take("me", given, preferred, 4.0)) == expected


CLAIMED: dict[str, tuple[list[Seat], int | None, frozenset[int], list[int]]] = {
    "half the difference to the richest is asked for": (seats("a", "a", "a", "a", "b"), None, frozenset(), [0, 1]),
    "one apart is even": (seats("a", "a", "me"), None, frozenset(), []),
    "one question at a time": (seats("a>me", "a", "a", "a"), None, frozenset(), [0]),
    "what others asked for is counted as theirs": (seats("a>b", "a>b", "a", "a"), None, frozenset(), [2]),
    "nothing new while a shard is free": (seats(".", "a", "a", "a"), None, frozenset(), []),
    "a leaning outlives a free shard": (seats(".", "a", "a", "a"), None, frozenset({2}), [2]),
    "of equal shards those it leans to": (seats("a", "a", "a", "a"), None, frozenset({2, 3}), [2, 3]),
    "a shard that its holder prefers is not asked for": (seats("a!", "a", "a"), None, frozenset(), [1]),
    "a preferred shard is asked for whatever the shares": (seats("a", "me", "me"), 0, frozenset(), [0]),
    "unless its holder prefers it as well": (seats("a!", "me"), 0, frozenset(), []),
}


@pytest.mark.parametrize("told", CLAIMED)
def test_what_is_asked_for(told: str) -> None:
    """The key says it."""
    given, preferred, leaning, expected = CLAIMED[told]
    assert sorted(to_claim("me", given, preferred, leaning)) == expected


GRANTED: dict[str, tuple[list[Seat], int | None, list[int]]] = {
    "what leaves us no poorer than the claimant is given": (seats("me>a", "me>a", "me>a", "me"), None, [0, 1]),
    "one apart nothing is given": (seats("me>a", "me", "a"), None, []),
    "our preferred shard is never given": (seats("me>a", "me", "me"), 0, []),
    "a shard is given to whoever prefers it": (seats("me>a!", "a", "a"), None, [0]),
    "another's shards are not ours to give": (seats("a>b", "me"), None, []),
    "two claimants are counted apart": (seats("me>a", "me>b", "me", "me>b"), None, [0, 1]),
}


@pytest.mark.parametrize("told", GRANTED)
def test_what_is_given(told: str) -> None:
    """The key says it."""
    given, preferred, expected = GRANTED[told]
    assert to_grant("me", given, preferred) == expected
