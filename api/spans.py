"""What a room needs of a tracer, and no more: a span with a name and facts. Who makes one, and of what, is the composition root's affair.

Facts are ids, keys and verdicts. Never what an object carries: a trace goes to a store with other readers than the cluster's.
"""

from contextlib import AbstractContextManager
from typing import Protocol

Fact = str | int | bool | tuple[str, ...]


class Span(Protocol):
    """A piece of work under way."""

    def say(self, **facts: Fact) -> None:
        """Add facts; dots in their names are written as double underscores."""
        ...

    def failed(self, error: str) -> None:
        """The work did not come to its end. `error` is a type's name: an error's own words may hold what it stumbled over."""
        ...


class Spans(Protocol):
    """Makes spans. Where there is none (None), nothing is traced and nothing is paid."""

    def work(self, name: str, **facts: Fact) -> AbstractContextManager[Span]:
        """A span over a `with` block."""
        ...
