"""Launch-time rules: what makes a line that parses impossible to start, or end in something else than it says.

The rules of each engine live in a module of their own; here is what they share. They look only at a readable line, and a rule whose
figures are not all known (a rank left to `$(VAR)`) stays silent.
"""

from collections.abc import Mapping

from engines.findings import Finding, finding
from engines.parallelism import given, on, whole
from engines.tokens import Occurrence
from engines.values import show


class Facts:
    """The effective figures of a line, by the engine's own destination names."""

    __slots__ = ("found", "last", "version")

    def __init__(self, last: Mapping[str, Occurrence], release: tuple[int, ...]) -> None:
        self.last = last
        self.version = release
        self.found: list[Finding] = []

    def number(self, dest: str, default: int | None = None) -> int | None:
        """The stored integer, `default` when the line does not use the option, None when it is not known or beyond any machine's."""
        occurrence = self.last.get(dest)
        if occurrence is None:
            return default
        value = whole(occurrence)
        return value if value is not None and value.bit_length() < 64 else None

    def degree(self, dest: str) -> int:
        """A degree as rules count it: 1 where the line does not say or nobody knows."""
        return self.number(dest, 1) or 1

    def uses(self, dest: str) -> bool:
        """Whether the line uses the option at all."""
        return dest in self.last

    def on(self, dest: str) -> bool:
        """Whether the switch is on in the end."""
        return on(self.last.get(dest))

    def text(self, dest: str) -> str | None:
        """The stored text, or None when it is unset or not known."""
        occurrence = self.last.get(dest)
        stored = None if occurrence is None else occurrence.stored
        return stored if isinstance(stored, str) else None

    def given(self, dest: str) -> bool:
        """Whether an option is set to something in the end, references included."""
        return given(self.last.get(dest))

    @property
    def headless(self) -> bool:
        """Whether vLLM starts no API server: told, or by their number."""
        count = self.number("api_server_count", 1)
        return self.on("headless") or (count is not None and count < 1)

    def say(self, id: str, message: str, *dests: str) -> None:  # noqa: A002 - the wire's own word
        """Record a finding at the last use of the first destination that the line uses."""
        occurrence = next((self.last[dest] for dest in dests if dest in self.last), None)
        self.found.append(finding(id, message, None if occurrence is None else occurrence.position))

    def name(self, dest: str) -> str:
        """How the line spells a destination."""
        return self.last[dest].spelling


def ports(facts: Facts, *dests: str, low: int = 0) -> None:
    """TCP ports have 16 bits; the parsers do not look. `low` is 1 where the engine does not let the system choose one."""
    for dest in dests:
        occurrence = facts.last.get(dest)
        port = whole(occurrence)
        if occurrence is not None and port is not None and not low <= port <= 65535:
            facts.say("EA305", f"{facts.name(dest)} {show(occurrence.value or '')} is no TCP port", dest)
