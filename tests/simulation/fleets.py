"""A sharded fleet under random misfortune, and what must hold in it at every step.

* No deployment has two replicas that may write it, whatever their numbers of shards.
* A shard that nobody may write is taken again within `GAP` seconds of the last misfortune, while anybody is sound.
* Left alone for `REST` seconds, the shares are even: at most one apart among the living replicas of the number in force.
* What a sound replica sends lands while nobody else may write the same.
"""

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import structlog

from controller.settings import ControllerSettings
from controller.shards import shard_of
from tests.simulation import timing
from tests.simulation.replicas import COMMON, LeaseServer, Replica

FIGURES: Final = ControllerSettings()
GAP: Final = FIGURES.lease_duration + 6 * FIGURES.retry_period
REST: Final = GAP + 20 * FIGURES.retry_period
# A request that a fault held up may still be on its way for so long after it.
AFTERMATH: Final = FIGURES.renew_deadline / 2
DEEDS: Final = ("kill", "stop", "pause", "pause", "birth", "birth", "birth", "birth", "cut", "slow", "lossy", "outage")
UIDS: Final = tuple(f"0f6c2e1a-7b0d-4c55-9d3e-{number:012x}" for number in range(48))


@dataclass
class Fate:
    """What came of a seed. The longest gap after a misfortune and the longest handover, in seconds."""

    broken: str = ""
    gap: float = 0.0
    handover: float = 0.0
    handovers: int = 0
    steps: int = 0
    seconds: float = 0.0
    deeds: dict[str, int] = field(default_factory=dict)
    writes: int = 0
    lease_writes: int = 0
    lease_reads: int = 0
    rest: float = 0.0
    log: list[str] = field(default_factory=list)


class Fleet:
    """One run."""

    def __init__(self, seed: int, *, storm: float, replicas: int = 5) -> None:
        self.rng = random.Random(f"shards/{seed}")
        self.most = replicas
        self.storm = storm
        self.server = LeaseServer()
        self.replicas: list[Replica] = []
        self.fate = Fate()
        self.shards = self.rng.choice((2, 3, 4, 8, 8, 13))
        self.updates = self.rng.random() < 0.4  # whether other numbers of shards come in
        self.disturbed_at = 0.0
        self._born = 0
        self._unowned: dict[tuple[int, int], float] = {}
        self._handed: set[tuple[int, int]] = set()
        self._places: dict[int, tuple[int, ...]] = {}
        self._even_at: float | None = None
        self._running: list[Replica] = []
        self._writers: list[tuple[Replica, frozenset[int]]] = []
        self._checked_at = 0.0

    @property
    def now(self) -> float:
        """Seconds since the run began."""
        return asyncio.get_running_loop().time()

    def tell(self, what: str) -> None:
        """Into the log."""
        self.fate.log.append(f"{self.now:8.2f}  {what}")

    def breach(self, what: str) -> None:
        """The first counts."""
        if not self.fate.broken:
            self.fate.broken = what
            self.tell(f"BROKEN {what}")

    # ------------------------------------------------------------------------------------------------------- what happens

    def watch(self) -> None:
        """Look at every step of the loop."""
        loop = asyncio.get_running_loop()
        once = loop._run_once  # type: ignore[attr-defined]  # every step of the loop

        def stepped() -> None:
            once()
            self.check()

        loop._run_once = stepped  # type: ignore[attr-defined]

    async def run(self) -> Fate:
        """The storm, then the rest."""
        self.watch()
        for _ in range(self.most):
            self.birth()
        while self.now < self.storm and not self.fate.broken:
            await asyncio.sleep(self.rng.expovariate(1 / 9))
            self.misfortune()
        await self.peace()
        return await self.end()

    async def end(self) -> Fate:
        """Nothing of it goes on."""
        for replica in self.replicas:
            replica.kill()
        await asyncio.gather(*(replica.task for replica in self.replicas), return_exceptions=True)
        self.fate.seconds = self.now
        self.fate.lease_writes, self.fate.lease_reads = self.server.writes, self.server.reads
        return self.fate

    async def peace(self) -> None:
        """Nothing more happens; everything has to come right."""
        self.server.down = False
        for replica in self.living():
            replica.fault = ""
            replica.paused.set()
        while len(self.living()) < 2:
            self.birth()
        self.disturb("peace")
        self._even_at = None
        began = self.now
        await asyncio.sleep(REST)
        if self._even_at is None:
            self.breach(f"the shares are even after {REST:g} s: {self.shares()}")
        else:
            self.fate.rest = self._even_at - began

    def misfortune(self) -> None:
        """One thing goes wrong, or right again."""
        rng, living = self.rng, self.living()
        deed = rng.choice(DEEDS + (("other", "partial", "partial", "kill") if self.updates else ()))
        self.fate.deeds[deed] = self.fate.deeds.get(deed, 0) + 1
        victim = rng.choice(living) if living else None
        if deed == "birth" or victim is None:
            if len(living) < self.most:
                self.birth()
        elif deed == "other":
            self.shards = rng.choice((1, 2, 3, 4, 8))  # whoever is born from now on has another number: an update is rolled out
            self.tell(f"from now on {self.shards} shards")
        elif deed == "outage":
            self.server.down = True
            self.later(rng.random() * 45, lambda: setattr(self.server, "down", False), "the server answers")
        elif deed in ("kill", "stop"):
            getattr(victim, deed)()
        elif deed == "pause":
            victim.paused.clear()
            self.later(rng.random() * 40, victim.paused.set, f"{victim.name} goes on", victim)
        elif deed in ("cut", "slow", "lossy", "partial"):
            victim.fault = deed
            self.later(rng.random() * 30, lambda: setattr(victim, "fault", ""), f"{victim.name} recovers", victim)
        self.disturb(f"{deed} {victim.name if victim else ''}", victim)

    def birth(self) -> None:
        """A new replica."""
        self._born += 1
        rng = random.Random(self.rng.random())
        preferred = rng.randrange(self.shards) if self.shards > 1 and rng.random() < 0.3 else None
        born = Replica(self.server, f"r{self._born}", self.shards, rng, preferred)
        born.on_write = self.landed
        self.replicas.append(born)
        self._running = [*(replica for replica in self._running if replica.alive and not replica.task.done()), born]
        self.tell(f"born {born.name} of {self.shards} shards, prefers {preferred}")
        self.disturb("birth", born)

    def later(self, seconds: float, act: object, what: str, who: Replica | None = None) -> None:
        """The end of a misfortune is one too."""

        def happen() -> None:
            act()  # type: ignore[operator]
            self.disturb(what, who)

        asyncio.get_running_loop().call_later(seconds, happen)

    def disturb(self, what: str, who: Replica | None = None) -> None:
        """Gaps are counted from here."""
        self.disturbed_at = self.now + AFTERMATH
        for replica in (who,) if who is not None else self.replicas:
            replica.disturbed_at = self.now + AFTERMATH
        self.tell(what)

    def living(self) -> list[Replica]:
        """Those that run."""
        return [replica for replica in self.replicas if replica.alive and not replica.task.done()]

    def sound(self) -> list[Replica]:
        """Those that nothing ails."""
        return [r for r in self.living() if not r.fault and r.paused.is_set() and not self.server.down and r.task.cancelling() == 0]

    # ------------------------------------------------------------------------------------------------------ what must hold

    def check(self) -> None:
        """At every step of the loop; what follows from who may write, when that changed or a second passed."""
        self.fate.steps += 1
        writers = [(replica, writes) for replica in self._running if (writes := replica.writes())]
        if writers == self._writers and self.now < self._checked_at + 1.0:
            return
        self._writers, self._checked_at = writers, self.now
        for at, (one, its) in enumerate(writers):
            for other, others in writers[at + 1 :]:
                both = its & others if one.shards == other.shards else self.shared(one.shards, its, other.shards, others)
                if both:
                    self.breach(f"one writer a deployment: {one.name} and {other.name} may both write {sorted(both)}")
        self.check_gaps({(replica.shards, shard) for replica, writes in writers for shard in writes})

    def shared(self, shards: int, its: frozenset[int], others_shards: int, others: frozenset[int]) -> set[int]:
        """Deployments that both may write."""
        one, two = self.placed(shards), self.placed(others_shards)
        return {number for number in range(len(UIDS)) if one[number] in its and two[number] in others}

    def placed(self, shards: int) -> tuple[int, ...]:
        """The shard of each sample deployment."""
        if shards not in self._places:
            self._places[shards] = tuple(shard_of(uid, shards) for uid in UIDS)
        return self._places[shards]

    def check_gaps(self, owned: set[tuple[int, int]]) -> None:
        """Of the number of shards in force."""
        shards = self.in_force(owned)
        now, sound = self.now, self.sound()
        for shard in range(shards):
            where = (shards, shard)
            if where in owned:
                began = self._unowned.pop(where, None)
                if began is not None:
                    self.fate.gap = max(self.fate.gap, now - max(began, self.disturbed_at - AFTERMATH))
                    if where in self._handed and began > self.disturbed_at - AFTERMATH:
                        self.fate.handover = max(self.fate.handover, now - began)
                        self.fate.handovers += 1
                continue
            if where not in self._unowned:
                self._handed.discard(where)
                if any(replica.handing(shard) for replica in self._running if replica.shards == shards):
                    self._handed.add(where)
            began = self._unowned.setdefault(where, now)
            if sound and now - max(began, self.disturbed_at) > GAP:
                self.breach(f"a gap ends within {GAP:g} s: shard {shard} of {shards} has no writer since {began:.2f}")
        shares = self.shares()
        even = bool(shares) and sum(shares) == shards and max(shares) - min(shares) <= 1
        self._even_at = (self._even_at if self._even_at is not None else now) if even else None

    def in_force(self, owned: set[tuple[int, int]]) -> int:
        """The number of shards that writers have, else the one that the common Lease tells."""
        for shards, _ in owned:
            return shards
        holder = (self.server.leases.get(COMMON) or {}).get("spec", {}).get("holderIdentity") or ""
        told = holder.rpartition("-")[2] if "-shards-of-" in holder else "1"
        living = {replica.shards for replica in self.living()}
        return int(told) if int(told) in living else min(living, default=1)

    def shares(self) -> list[int]:
        """How many shards each living replica of the number in force may write."""
        counts = [(replica.shards, len(replica.writes())) for replica in self.living()]
        force = next((shards for shards, count in counts if count), 0)
        return [count for shards, count in counts if shards == force]

    def landed(self, replica: Replica, shard: int) -> None:
        """A write arrived."""
        self.fate.writes += 1
        if replica.disturbed_at > self.now - GAP:
            return
        for other in self._running:
            if other is not replica and other.shards == replica.shards and shard in other.writes():
                self.breach(f"a sound replica's write lands in its term: {replica.name}'s after {other.name} took shard {shard}")


def play(seed: int, storm: float = 240.0) -> Fate:
    """One seed."""
    return quietly(lambda: Fleet(seed, storm=storm).run())


def quietly(run: Callable[[], Coroutine[Any, Any, Fate]]) -> Fate:
    """A run on virtual time, without the lines that elections log."""
    kept = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        return timing.run(run)
    finally:
        structlog.configure(**kept)


def batch(seeds: Sequence[int], storm: float = 240.0) -> tuple[Counter[str], list[tuple[int, str]], dict[str, float]]:
    """Several seeds: what happened, what broke, and the longest gaps in seconds."""
    counts: Counter[str] = Counter()
    broken: list[tuple[int, str]] = []
    worst = {"gap after a misfortune": 0.0, "gap of a handover": 0.0, "until shares were even": 0.0}
    for seed in seeds:
        fate = play(seed, storm)
        counts.update({"storms": 1, "virtual seconds": int(fate.seconds), "writes": fate.writes, "handovers": fate.handovers})
        counts.update(
            {
                "lease writes": fate.lease_writes,
                "lease lists": fate.lease_reads,
                "steps checked": fate.steps,
                **{f"deed {k}": n for k, n in fate.deeds.items()},
            }
        )
        for name, seconds in zip(worst, (fate.gap, fate.handover, fate.rest), strict=True):
            worst[name] = max(worst[name], seconds)
        if fate.broken:
            broken.append((seed, fate.broken))
    return counts, broken, worst
