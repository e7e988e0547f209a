"""What may go wrong between a client and the world, as rules that hold for a while or for a number of requests.

A rule names the requests that it befalls and what befalls them. The API server itself never lies: a request is refused, slow, lost before
or after it was carried out, or its watch is ended, repeats itself, lags or falls silent.
"""

import asyncio
from dataclasses import dataclass, field
from typing import Final

from tests.simulation.timing import VirtualClock

# What can befall a request. `lost` was carried out and its answer never came; `unsent` never reached the server.
OUTCOMES: Final = ("429", "500", "503", "409", "lost", "unsent", "hang")


@dataclass
class Rule:
    """`methods` and `plurals` empty: all. `left` None: any number until `until`."""

    outcome: str
    until: float
    methods: tuple[str, ...] = ()
    plurals: tuple[str, ...] = ()
    who: str = ""
    left: int | None = None

    def befalls(self, method: str, plural: str, who: str) -> bool:
        """Whether the request is one of these."""
        return (not self.methods or method in self.methods) and (not self.plurals or plural in self.plurals) and self.who in ("", who)


@dataclass
class Faults:
    """The rules in force. Times are seconds of the loop."""

    clock: VirtualClock
    rules: list[Rule] = field(default_factory=list)
    slow: dict[str, tuple[float, float]] = field(default_factory=dict)  # plural -> until, seconds a list takes
    lag: dict[str, tuple[float, float]] = field(default_factory=dict)  # plural -> until, seconds an event takes
    repeated: dict[str, int] = field(default_factory=dict)  # plural -> events still to be sent twice
    silent: dict[str, float] = field(default_factory=dict)  # plural -> until; nothing comes, not even the end
    cleared: asyncio.Event = field(default_factory=asyncio.Event)  # what hangs is let go

    def outcome(self, method: str, plural: str, who: str) -> str:
        """What befalls this request, or nothing."""
        now = self.clock.monotonic()
        self.rules = [rule for rule in self.rules if rule.until > now and rule.left != 0]
        for rule in self.rules:
            if rule.befalls(method, plural, who):
                if rule.left is not None:
                    rule.left -= 1
                return rule.outcome
        return ""

    def list_seconds(self, plural: str) -> float:
        """How long a page of a list takes."""
        until, seconds = self.slow.get(plural, (0.0, 0.0))
        return seconds if self.clock.monotonic() < until else 0.0

    def lag_seconds(self, plural: str) -> float:
        """How late an event comes."""
        until, seconds = self.lag.get(plural, (0.0, 0.0))
        return seconds if self.clock.monotonic() < until else 0.0

    def is_silent(self, plural: str) -> float:
        """Until when the watches of a kind say nothing; 0 when they speak."""
        until = self.silent.get(plural, 0.0)
        return until if until > self.clock.monotonic() else 0.0

    def repeat(self, plural: str) -> bool:
        """Whether this event is sent twice."""
        left = self.repeated.get(plural, 0)
        self.repeated[plural] = max(left - 1, 0)
        return left > 0

    def clear(self) -> None:
        """All is well from now on."""
        self.rules.clear()
        self.cleared.set()
        for part in (self.slow, self.lag, self.repeated, self.silent):
            part.clear()
