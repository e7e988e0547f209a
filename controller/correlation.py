"""What becomes of notices on their way to be Events: merged while they wait, taken in turns, combined where they are alike, limited.

As client-go's recorder correlates, with two differences. What waits is merged before it is sent: of a deployment's notices of one reason
the newest goes, and says what it stands for, so that a storm costs one request where it would cost one a change. And an Event's note is not
to change once it is there (events.k8s.io/v1), so the Event of a combination keeps its first note and counts on. Nothing here sends, or
knows the time.
"""

from collections import OrderedDict
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, Literal, TypeVar

from api.objects import ObjectMeta
from controller.transitions import Notice

NOTE_BYTES: Final = 1024
# How many earlier notes an Event tells beside its own.
EARLIER: Final = 4
# Of that many notes for one reason within that many seconds, the last and all that follow become one Event: client-go's numbers.
ALIKE: Final = 10
ALIKE_SECONDS: Final = 600.0
BURST: Final = 25.0
REFILL_SECONDS: Final = 300.0
REMEMBERED: Final = 2048

K = TypeVar("K")
V = TypeVar("V")
Put = Literal["added", "merged", "displaced"]


def bounded(note: str) -> str:
    """At most 1 KiB of UTF-8, cut between characters."""
    raw = note.encode()
    return note if len(raw) <= NOTE_BYTES else raw[: NOTE_BYTES - 3].decode("utf-8", "ignore") + "…"


@dataclass(frozen=True, slots=True)
class Telling:
    """One Event to be: the newest notice of its chain, when it was given, how many it stands for; what earlier ones said, newest first."""

    regarding: ObjectMeta
    notice: Notice
    at: datetime
    count: int = 1
    earlier: tuple[str, ...] = ()

    @property
    def note(self) -> str:
        """The newest note, and what was merged into it."""
        if not self.earlier:
            return self.notice.note
        return bounded(f"{self.notice.note} (before that, not told by itself: {'; '.join(self.earlier)})")

    def followed_by(self, regarding: ObjectMeta, notice: Notice, at: datetime) -> "Telling":
        """This one and a later one of its chain as one."""
        earlier = self.earlier if notice == self.notice else (self.notice.note, *self.earlier)[:EARLIER]
        return Telling(regarding, notice, at, self.count + 1, earlier)


class Backlog:
    """What waits, at most `limit`; when it is full the oldest goes. One Event of a deployment is under way at a time: their order stays."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lines: OrderedDict[str, OrderedDict[tuple[str, str], Telling]] = OrderedDict()
        self._size = 0
        self._under_way: set[str] = set()

    def __len__(self) -> int:
        return self._size

    def put(self, regarding: ObjectMeta, notice: Notice, at: datetime) -> Put:
        """Add one, to the end of its deployment's line: what is newest is told last."""
        line = self._lines.get(regarding.uid)
        chain = (notice.reason, notice.about)
        if line is not None and chain in line:
            line[chain] = line.pop(chain).followed_by(regarding, notice, at)
            return "merged"
        full = self._size >= self._limit
        if full:
            self._pop(next(iter(self._lines)))
        self._lines.setdefault(regarding.uid, OrderedDict())[chain] = Telling(regarding, notice, at)
        self._size += 1
        return "displaced" if full else "added"

    def take(self) -> Telling | None:
        """The next one whose deployment has none under way; deployments take turns. `done` has to follow."""
        uid = next((uid for uid in self._lines if uid not in self._under_way), None)
        if uid is None:
            return None
        telling = self._pop(uid)
        if uid in self._lines:
            self._lines.move_to_end(uid)
        self._under_way.add(uid)
        return telling

    def done(self, uid: str) -> None:
        """What was taken of that deployment was sent, or was not."""
        self._under_way.discard(uid)

    def _pop(self, uid: str) -> Telling:
        line = self._lines[uid]
        _, telling = line.popitem(last=False)
        if not line:
            del self._lines[uid]
        self._size -= 1
        return telling


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at: float


class Allowance:
    """25 Events of a deployment at once, then one every five minutes."""

    def __init__(self) -> None:
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def spend(self, uid: str, now: float) -> bool:
        """Whether one more may go at `now`, in monotonic seconds."""
        bucket = self._buckets.setdefault(uid, _Bucket(BURST, now))
        _refresh(self._buckets, uid)
        bucket.tokens = min(BURST, bucket.tokens + (now - bucket.at) / REFILL_SECONDS)
        bucket.at = now
        if bucket.tokens < 1:
            return False
        bucket.tokens -= 1
        return True


@dataclass(slots=True)
class _Alike:
    notes: int
    at: float


class Likeness:
    """Counts the notes that a deployment was given for one reason."""

    def __init__(self) -> None:
        self._chains: OrderedDict[tuple[str, str, str, str], _Alike] = OrderedDict()

    def combined(self, uid: str, notice: Notice, now: float) -> bool:
        """Whether one more note is one too many, and should be told by the Event of a combination."""
        chain = (uid, notice.type, notice.reason, notice.about)
        alike = self._chains.setdefault(chain, _Alike(0, now))
        _refresh(self._chains, chain)
        if now - alike.at > ALIKE_SECONDS:
            alike.notes = 0
        alike.notes, alike.at = alike.notes + 1, now
        return alike.notes >= ALIKE


def combination(telling: Telling) -> Telling:
    """The Event that stands for this and for all alike that follow."""
    return replace(telling, notice=telling.notice._replace(note=bounded(f"(combined from similar events): {telling.notice.note}")))


def _refresh(remembered: OrderedDict[K, V], key: K) -> None:
    """The newest are kept."""
    remembered.move_to_end(key)
    while len(remembered) > REMEMBERED:
        remembered.popitem(last=False)
