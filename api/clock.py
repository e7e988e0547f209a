"""Time as a thing that is handed in. Judgement gets `now` as a value; loops get a Clock, so that tests can own it."""

from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """What a loop may ask of time."""

    def now(self) -> datetime:
        """Wall clock, timezone-aware UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds that never run backwards."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Let that many seconds pass."""
        ...


def parse_time(text: str) -> datetime:
    """An RFC 3339 instant as aware UTC. Raises ValueError when it is none."""
    value = datetime.fromisoformat(text.replace("Z", "+00:00") if text.endswith("Z") else text)
    try:
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).astimezone(UTC)
    except OverflowError as error:
        raise ValueError(f"{text!r} lies outside the calendar") from error


def format_time(value: datetime) -> str:
    """RFC 3339 with whole seconds, the form of `metav1.Time`."""
    return f"{value.astimezone(UTC).replace(tzinfo=None).isoformat(timespec='seconds')}Z"
