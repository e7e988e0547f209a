"""Who writes which shard: one Lease a shard, by the rules of `controller.election`, and one that all replicas of a number of shards hold.

A round reads every Lease by one list, renews what is ours, takes what is free, gives what is rightly asked for and asks for what is due
(`controller.balance`). A term is what runs while a shard is held; it ends before anybody else can have taken the shard: at the renew
deadline of its own Lease or of the common one, whichever comes first, on sight of another holder, and before its Lease is given away.
"""

import asyncio
import random
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import structlog

from api.clock import Clock
from controller import metrics
from controller.balance import Claim, Seat, to_claim, to_grant, to_take
from controller.leasebook import LeaseBook
from controller.settings import ControllerSettings
from controller.shards import CLAIM, PREFERRED, Layout
from controller.waiting import first_of, within
from kube.client import Client
from kube.errors import KubeError

# Between two rounds: this share of the retry period, and up to half as much again.
PAUSE: Final = 0.8
# Of the renew deadline: what is left of it when we renew the common Lease though nobody was seen to.
DUE: Final = 0.75
# A free shard that its rightful taker left alone for so many retry periods is anybody's.
PATIENCE: Final = 2.0

SOON: Final = 0.01

ForShard = Callable[[int], Coroutine[Any, Any, None]]

log = structlog.get_logger("controller.sharding")
_claim_of: Final = msgspec.json.Decoder(Claim).decode


@dataclass(slots=True, eq=False)
class _Term:
    """What runs while a shard is held. `ending` forbids every further write."""

    renewed_at: float
    over: asyncio.Event = field(default_factory=asyncio.Event)
    ending: bool = False
    task: asyncio.Task[None] | None = None
    handover: asyncio.Task[None] | None = None


async def _nothing(_: int) -> None:
    """No writes to finish."""


class ShardElection:
    """One replica.

    `covers` tells whether the caches hold what these shards need, `drain` lets a shard's writes finish, `on_change` hears of a new `kept`.
    """

    def __init__(
        self,
        client: Client,
        settings: ControllerSettings,
        clock: Clock,
        *,
        covers: Callable[[frozenset[int]], bool] = lambda _: True,
        drain: ForShard = _nothing,
        on_change: Callable[[], None] = lambda: None,
        rng: random.Random | None = None,
    ) -> None:
        self.layout = Layout(settings.lease_name, settings.shards, settings.preferred_shard)
        self._me = settings.identity
        self._settings = settings
        self._clock = clock
        self._covers = covers
        self._drain = drain
        self._on_change = on_change
        self._rng = rng or random.Random()  # noqa: S311 - spreads requests, guards nothing
        self._book = LeaseBook(client, settings, clock, [self.layout.base, *map(self.layout.lease, range(settings.shards))])
        self._free_since: dict[int, float] = {}
        self._looked_at: float | None = None
        self._layout_at: float | None = None
        self._terms: dict[int, _Term] = {}
        self._kept: frozenset[int] = frozenset()
        self.wanted: frozenset[int] = frozenset()
        self.rival = ""
        self.problem = "the Leases were not read yet"
        self.settled = asyncio.Event()
        metrics.SHARDS.set(settings.shards)

    # -------------------------------------------------------------------------------------------------------- what holds

    @property
    def leading(self) -> bool:
        """Whether any shard is held."""
        return bool(self.held)

    @property
    def held(self) -> frozenset[int]:
        """The shards whose terms run."""
        return frozenset(shard for shard, term in self._terms.items() if not term.ending)

    @property
    def kept(self) -> frozenset[int]:
        """The shards whose objects are needed here: those held, those on their way out, and those about to be asked for."""
        return self.wanted | self._terms.keys()

    def may_write(self, shard: int) -> bool:
        """Whether both Leases are certainly still ours: each was renewed within the renew deadline, which ends before a take-over may."""
        term = self._terms.get(shard)
        return term is not None and not term.ending and self._left(term, self._settings.renew_deadline) > 0

    # ------------------------------------------------------------------------------------------------------------ rounds

    async def run(self, lead: ForShard) -> None:
        """Hold what is due until cancelled; `lead` runs for each shard while it is held and is cancelled when it no longer is."""
        async with asyncio.TaskGroup() as group:
            try:
                while True:
                    began = self._clock.monotonic()
                    await self._round(group, lead)
                    self.settled.set()
                    # From the round's start, not its end: where answers are slow they leave no time for a pause.
                    pause = self._pause() - (self._clock.monotonic() - began)
                    await self._clock.sleep(max(pause, self._settings.retry_period / 8))
            finally:
                await self._leave()

    def _pause(self) -> float:
        hurry = 0.25 if self.wanted and self._covers(self.wanted) else 1.0
        return self._settings.retry_period * hurry * PAUSE * (1 + 0.5 * self._rng.random())

    async def _round(self, group: asyncio.TaskGroup, lead: ForShard) -> None:
        started = self._clock.monotonic()
        renewed: set[int] = set()
        looked, *_ = await asyncio.gather(self._look(), self._renew_common(), *(self._renew(shard, renewed) for shard in self.held))
        if not looked:
            return
        rival = await self._keep_layout(started)
        self._looked_at = started
        if rival != self.rival:
            self.rival = rival
            log.warning("another number of shards is in force; waiting" if rival else "our number of shards is in force", holder=rival)
        if rival or self._layout_left(self._patience) <= 0:
            await self._end(self._terms, "layout")
            self._want(frozenset())
        else:
            await self._keep_shards(group, lead, renewed)

    async def _look(self) -> bool:
        try:
            await self._book.look()
        except (KubeError, TimeoutError, msgspec.MsgspecError) as error:
            self.problem = self.problem and f"the Leases cannot be read: {error}"
            log.debug("leases not read", error=str(error))
            return False
        self.problem = ""
        return True

    async def _renew(self, shard: int, renewed: set[int]) -> None:
        """Renew what we hold over what we last saw, without waiting to read it. Whoever touched it meanwhile is met by a conflict."""
        term, sight, began = self._terms[shard], self._book.get(self.layout.lease(shard)), self._clock.monotonic()
        if sight is None or sight.holder != self._me or CLAIM in sight.notes:
            return
        if await self._book.put(self.layout.lease(shard), self._me, within_seconds=self._left(term, self._patience)):
            term.renewed_at = began
            renewed.add(shard)

    async def _renew_common(self) -> None:
        """The same of the common Lease, when nobody seems to."""
        base, began = self._book.get(self.layout.base), self._clock.monotonic()
        due = self._layout_left(self._settings.renew_deadline) < self._settings.renew_deadline * DUE
        if due and base is not None and base.holder == self.layout.holder and await self._book.put(self.layout.base, base.holder):
            self._layout_at = began

    async def _keep_layout(self, started: float) -> str:
        """Keep our number of shards in force; the holder's name where another is.

        Any of us may renew the common Lease. Who sees that it was renewed since the last look knows that it held then, and need not.
        """
        base, began = self._book.get(self.layout.base), self._clock.monotonic()
        if base is not None and base.holder != self.layout.holder and not self._book.takeable(base):
            return base.holder
        if base is not None and base.holder == self.layout.holder and base.changed and self._looked_at is not None:
            self._layout_at = max(self._layout_at or 0.0, self._looked_at)
        if self._layout_at is not None and started - self._layout_at < self._settings.renew_deadline / 2:
            return ""
        if await self._book.put(self.layout.base, self.layout.holder):
            self._layout_at = began
        return ""

    async def _keep_shards(self, group: asyncio.TaskGroup, lead: ForShard, renewed: set[int]) -> None:
        preferred, seats = self.layout.preferred, self._seats()
        await self._end([shard for shard in self._terms if seats[shard].holder != self._me], "lost")
        granted = to_grant(self._me, seats, preferred)
        taken = to_take(self._me, seats, preferred, PATIENCE * self._settings.retry_period, self._shuffled)
        jobs: list[Coroutine[Any, Any, object]] = []
        for seat in seats:
            term = self._terms.get(seat.shard)
            if seat.shard in granted:
                if term is None:
                    jobs.append(self._release(seat.shard))
                elif not term.ending:
                    term.ending = True
                    term.handover = group.create_task(self._hand_over(seat.shard, term), name=f"hand over shard {seat.shard}")
            elif seat.shard in taken or (seat.holder == self._me and seat.shard not in renewed and (term is None or not term.ending)):
                jobs.append(self._take(group, lead, seat))
        await asyncio.gather(*jobs)
        claims = frozenset(to_claim(self._me, seats, preferred, self.wanted, self._shuffled))
        self._want(claims - self._terms.keys())
        if self._covers(self.wanted):
            await asyncio.gather(*(self._claim(shard) for shard in self.wanted if not _asks(self._me, seats[shard])))

    def _seats(self) -> list[Seat]:
        now, seats = self._clock.monotonic(), []
        for shard in range(self.layout.shards):
            sight = self._book.get(self.layout.lease(shard))
            held = sight is not None and (sight.holder == self._me or not self._book.takeable(sight))
            since = self._free_since.pop(shard, now) if held else self._free_since.setdefault(shard, now)
            notes = sight.notes if sight is not None else {}
            holder = sight.holder if sight is not None and held else ""
            seats.append(Seat(shard, holder, _claimed(notes.get(CLAIM)), held and PREFERRED in notes, now - since))
        return seats

    def _shuffled(self, seats: Iterable[Seat]) -> list[Seat]:
        mixed = list(seats)
        self._rng.shuffle(mixed)
        return mixed

    # ------------------------------------------------------------------------------------------------------------- terms

    async def _take(self, group: asyncio.TaskGroup, lead: ForShard, seat: Seat) -> None:
        """Acquire or renew. A claim that was not granted is answered by its absence."""
        shard, began = seat.shard, self._clock.monotonic()
        term = self._terms.get(shard)
        notes: dict[str, str | None] = {CLAIM: None, PREFERRED: "true" if shard == self.layout.preferred else None}
        left = self._left(term, self._patience) if term is not None else self._settings.renew_deadline
        if not await self._book.put(self.layout.lease(shard), self._me, notes, within_seconds=left):
            return
        term = self._terms.get(shard)
        if term is not None:
            term.renewed_at = began
            return
        self._free_since.pop(shard, None)
        term = self._terms[shard] = _Term(began)
        term.task = group.create_task(self._serve(shard, term, lead), name=f"shard {shard}")
        cause = "resumed" if seat.holder else "claimed" if _asks(self._me, seat) else "free"
        metrics.SHARDS_TAKEN.labels(cause).inc()
        log.info("shard taken", shard=shard, of=self.layout.shards, cause=cause)
        self._changed()

    async def _serve(self, shard: int, term: _Term, lead: ForShard) -> None:
        master = metrics.MASTER.labels(self.layout.lease(shard))
        master.set(1)
        try:
            await first_of(lead(shard), self._spent(term), term.over.wait())
        finally:
            master.set(0)
            if self._left(term, self._patience) <= 0 and not term.ending:
                metrics.SHARDS_GIVEN.labels("expired").inc()
                log.warning("the lease of a shard was not renewed in time", shard=shard, of=self.layout.shards)
            term.ending = True
            del self._terms[shard]
            self._changed()

    async def _spent(self, term: _Term) -> None:
        while (left := self._left(term, self._patience)) > 0:
            await self._clock.sleep(max(left, SOON))  # what is left may be less than a clock can tell

    async def _hand_over(self, shard: int, term: _Term) -> None:
        """Let the writes under way finish, for a while, then end the term, then free the Lease. The claim stays: it says for whom."""
        try:
            await within(self._clock, self._settings.renew_deadline / 4, self._drain(shard))
        except TimeoutError:
            log.warning("writes of a shard cut off", shard=shard)
        if self._terms.get(shard) is term:
            await self._end([shard], "granted")
            await self._release(shard)

    async def _end(self, shards: Iterable[int], cause: str) -> None:
        """End terms, and be sure that they ended."""
        ended = [term for shard in list(shards) if (term := self._terms.get(shard)) is not None]
        for term in ended:
            metrics.SHARDS_GIVEN.labels(cause).inc()
            term.ending = True
            term.over.set()
        await asyncio.gather(*(term.task for term in ended if term.task is not None), return_exceptions=True)

    async def _leave(self) -> None:
        """A clean exit: end every term, then free every Lease, so that nobody has to wait it out. The common Lease is left to run out."""
        handovers = [term.handover for term in self._terms.values() if term.handover is not None]
        for handover in handovers:
            handover.cancel()
        await asyncio.gather(*handovers, return_exceptions=True)
        await self._end(self._terms, "left")
        await asyncio.gather(*(self._release(seat.shard) for seat in self._seats() if seat.holder == self._me))

    async def _release(self, shard: int) -> None:
        await self._book.put(self.layout.lease(shard), "")

    async def _claim(self, shard: int) -> None:
        claim = Claim(self._me, preferred=shard == self.layout.preferred)
        await self._book.put(self.layout.lease(shard), None, {CLAIM: msgspec.json.encode(claim).decode()})

    # ------------------------------------------------------------------------------------------------------------ figures

    def _want(self, shards: frozenset[int]) -> None:
        self.wanted = shards
        self._changed()

    def _changed(self) -> None:
        metrics.SHARDS_HELD.set(len(self.held))
        if self._kept != self.kept:
            self._kept = self.kept
            self._on_change()

    @property
    def _patience(self) -> float:
        """Seconds after the last renewal at which a term is given up. Past the renew deadline it writes nothing, but an answer may come."""
        return (self._settings.renew_deadline + self._settings.lease_duration) / 2

    def _left(self, term: _Term, seconds: float) -> float:
        """How many of those seconds after the last renewal of its own Lease and of the common one are left to a term."""
        return min(seconds - (self._clock.monotonic() - term.renewed_at), self._layout_left(seconds))

    def _layout_left(self, seconds: float) -> float:
        return -1.0 if self._layout_at is None else seconds - (self._clock.monotonic() - self._layout_at)


def _asks(me: str, seat: Seat) -> bool:
    return seat.claim is not None and seat.claim.by == me


def _claimed(text: str | None) -> Claim | None:
    """The claim in an annotation; one that cannot be read is none."""
    try:
        return _claim_of(text.encode()) if text else None
    except msgspec.MsgspecError:
        return None
