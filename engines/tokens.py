"""argparse's rules for one line: which token is an option, what it resolves to, and which values it takes (engine facts, section 2).

The two families of argparse (OLD up to 3.12.6 and 3.13.0, NEW from 3.12.7 and 3.13.1) are read at once; where they disagree the token
carries a fault, because nobody knows which Python an image holds. The real parsers stop at the first complaint. This one goes on, so that
what stands beside a faulty token can still be said; a fault keeps any degree from being claimed.

One pass to classify and one to consume, both linear in the line.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final, Literal

import msgspec

from engines.table import ANY, NONE, ONE, OPTIONAL, SOME, Option, Table
from engines.values import RefusedError, Stored, show

FaultKind = Literal[
    "ambiguous",
    "missing-value",
    "unwanted-value",
    "invalid-value",
    "families-differ",
    "unresolved",
    "out-of-range",
    "below-minimum",
    "environment",
]
StrayKind = Literal["unknown", "word", "terminator", "behind-terminator"]

TERMINATOR: Final = "--"

# The launcher's own token in front of the role's (the model): no position in the role's arguments.
BEFORE: Final = -1


class Occurrence(msgspec.Struct, frozen=True, gc=False):
    """One use of a registered option.

    `spelling` is what was written (without an `=value`), `registered` what it resolved to; `position` indexes the role's arguments, `last`
    the last argument consumed. `stored` is what the engine's parser stores (a list option: a tuple), None where it stores nothing or
    refuses. `fault` says why the parser refuses this use; `unresolved` names `$(VAR)` references that nobody here defines.
    """

    dest: str
    spelling: str
    registered: str
    position: int
    values: tuple[str, ...]
    last: int
    stored: Stored = None
    fault: str | None = None
    unresolved: tuple[str, ...] = ()

    @property
    def value(self) -> str | None:
        """The first value as the engine sees it, or None for a switch or a missing value."""
        return self.values[0] if self.values else None


class Stray(msgspec.Struct, frozen=True, gc=False):
    """A token that the parser sets aside: both engines refuse to start with one, but what was recognised stands."""

    token: str
    position: int
    kind: StrayKind


class Fault(msgspec.Struct, frozen=True, gc=False):
    """Why a line is unreadable (D6). `position` is None for an environment variable, whose index is `variable`."""

    kind: FaultKind
    message: str
    position: int | None = None
    spelling: str = ""
    dest: str | None = None
    variable: int | None = None

    @property
    def refuses(self) -> bool:
        """Whether admission may refuse for it when the version has a table of its own (D5); the rest only warn."""
        if self.kind in {"families-differ", "unresolved"}:
            return False
        return not (self.dest == "ssl_cert_reqs" and self.kind in {"missing-value", "invalid-value"})


class Line(msgspec.Struct, frozen=True):
    """The line as an engine's parser gets it, after the engine's own rewriting.

    `tokens[i]` came from argument `at[i]` of the role, `argv` (`BEFORE` for the launcher's). `positional`: one word is the model, no stray.
    `unresolved` maps an argument's position to the references left in it.
    """

    tokens: list[str]
    at: Sequence[int]
    argv: Sequence[str]
    positional: bool = False
    unresolved: Mapping[int, tuple[str, ...]] = {}


class Consumed(msgspec.Struct, frozen=True):
    """What a line came to, in order. `bad` are values that a type refuses: a fault where the option is watched, a finding elsewhere."""

    occurrences: list[Occurrence]
    strays: list[Stray]
    faults: list[Fault]
    bad: list[Fault]


class Match(msgspec.Struct, frozen=True, gc=False):
    """A token that names an option other than by standing there exactly and alone."""

    option: Option | None
    registered: str = ""
    explicit: str | None = None
    fault: Fault | None = None


_UNKNOWN: Final = Match(None)
_NEGATIVE: Final = re.compile(r"-\d+$|-\d*\.\d+$")


def _ambiguous(token: str, names: Sequence[str]) -> Match:
    listed = ", ".join(names[:6]) + (", …" if len(names) > 6 else "")
    return Match(None, fault=Fault("ambiguous", f"{show(token)} is ambiguous: it could be {listed}", spelling=token))


def _short(table: Table, token: str) -> list[tuple[str, str | None]]:
    """One-dash candidates for a whole token: spellings that it begins, and a one-letter spelling with a glued value."""
    head = token[:2]
    return [(s, token[2:] if s == head else None) for s in table.short if s == head or s.startswith(token)]


def classify(table: Table, token: str) -> Match | None:
    """Rows 2 to 9 of the facts' table for a token that starts with a dash and is no exact spelling. None = a value."""
    if len(token) == 1:
        return None
    name, equals, rest = token.partition("=")
    if equals and (option := table.spellings.get(name)) is not None:
        return Match(option, name, rest)
    if token[1] == "-":
        names = table.begun_by(name)
        if len(names) == 1:
            return Match(table.spellings[names[0]], names[0], rest if equals else None)
        if names:
            return _ambiguous(name, names)
    else:
        old = _short(table, token)
        if equals and name == "-":
            # NEW argparse takes every spelling for a candidate, OLD takes the token for unknown.
            message = f"{show(token)} is read differently by different Python releases (ambiguous or unknown)"
            return Match(None, fault=Fault("families-differ", message, spelling=name))
        if equals:
            # NEW argparse splits at '=' before it looks for prefixes; OLD compares the whole token.
            new = [(s, token[2:] if s == token[:2] else rest) for s in table.short if s == token[:2] or s.startswith(name)]
            if new != old:
                fits = ", ".join(s for s, _ in new)
                message = f"{show(token)} is read differently by different Python releases ({fits} or unknown)"
                return Match(None, fault=Fault("families-differ", message, spelling=name))
        if len(old) == 1:
            return Match(table.spellings[old[0][0]], old[0][0], old[0][1])
        if old:
            return _ambiguous(token, [s for s, _ in old])
    if _NEGATIVE.match(token) or " " in token:
        return None
    return _UNKNOWN


_LACKING: Final = {ONE: "expects a value and has none", SOME: "expects at least one value and has none"}


class _Reader:
    """The consuming pass over one line."""

    __slots__ = ("bad", "faults", "found", "line", "strays", "table")

    def __init__(self, table: Table, line: Line) -> None:
        self.table = table
        self.line = line
        self.found: list[Occurrence] = []
        self.strays: list[Stray] = []
        self.faults: list[Fault] = []
        self.bad: list[Fault] = []

    def written(self, position: int, registered: str) -> str:
        """How the role's argument spelled the option: without a value, glued or behind an '='."""
        name = self.line.argv[position].partition("=")[0]
        return registered if len(registered) == 2 and name.startswith(registered) else name

    def run(self, marks: list[Option | Match | None], end: int) -> None:
        """Consume every token in front of `end`; `marks` are what they name."""
        tokens, at, argv, unresolved = self.line.tokens, self.line.at, self.line.argv, self.line.unresolved
        positional = self.line.positional
        keep = self.found.append
        index = 0
        while index < end:
            mark = marks[index]
            position = at[index]
            start = index
            index += 1
            if mark is None:
                if positional:
                    positional = False
                else:
                    self.strays.append(Stray(tokens[start], position, "word"))
                continue
            if isinstance(mark, Option):
                option, registered = mark, tokens[start]
                if option.arity == NONE:
                    keep(Occurrence(option.dest, argv[position], registered, position, (), position, registered not in option.off))
                    continue
                if option.arity == ONE and not unresolved and index < end and marks[index] is None:
                    text = tokens[index]
                    try:
                        stored = text if option.plain else option.store(text)
                    except RefusedError:
                        self.take(option, registered, position, at[index], (text,), ())
                    else:
                        keep(Occurrence(option.dest, argv[position], registered, position, (text,), at[index], stored))
                    index += 1
                    continue
            else:
                resolved = self.resolve(mark, tokens[start], position)
                if resolved is None:
                    continue
                option, registered = resolved
            index = self.following(option, registered, start, end, marks)

    def resolve(self, match: Match, token: str, position: int) -> tuple[Option, str] | None:
        """What a token that is no exact spelling names; None when it is dealt with already."""
        if match.fault is not None:
            fault = match.fault
            self.faults.append(Fault(fault.kind, fault.message, position, fault.spelling))
        elif match.option is None:
            self.strays.append(Stray(token, position, "unknown"))
        elif match.explicit is not None:
            self.inline(match.option, match.registered, match.explicit, position)
        else:
            return match.option, match.registered
        return None

    def following(self, option: Option, registered: str, start: int, end: int, marks: list[Option | Match | None]) -> int:
        """Take an option's values from the tokens behind it. Returns the index of the first token left."""
        at, unresolved = self.line.at, self.line.unresolved
        arity, position = option.arity, at[start]
        if arity == NONE:
            spelling = self.written(position, registered)
            self.found.append(Occurrence(option.dest, spelling, registered, position, (), position, registered not in option.off))
            return start + 1
        index = start + 1
        most = end if arity in (ANY, SOME) else min(end, index + (1 if arity == OPTIONAL else int(arity)))
        while index < most and marks[index] is None:
            index += 1
        count = index - start - 1
        if count < (0 if arity in (ANY, OPTIONAL) else 1 if arity == SOME else int(arity)):
            self.refuse(option, registered, position, "missing-value", _LACKING.get(arity, f"expects {arity} values and has {count}"))
            return start + 1
        names: tuple[str, ...] = ()
        if unresolved and count:
            names = tuple(n for i in range(start + 1, index) for n in unresolved.get(at[i], ()))
        self.take(option, registered, position, at[index - 1], tuple(self.line.tokens[start + 1 : index]), names)
        return index

    def inline(self, option: Option, registered: str, explicit: str, position: int) -> None:
        """An option with its value in the same token."""
        arity = option.arity
        if arity == NONE:
            if explicit[:1] and registered[1] != "-" and f"-{explicit[0]}" in self.table.spellings:
                # OLD argparse walks on through the letters of a one-dash switch, '=' or not; NEW refuses.
                why = f"with '={show(explicit)}' is read differently by different Python releases (-{explicit[0]} beside it, or refused)"
                self.refuse(option, registered, position, "families-differ", why)
                return
            self.refuse(option, registered, position, "unwanted-value", f"takes no value, '{show(explicit)}' was given")
            return
        if arity not in (ONE, OPTIONAL, ANY, SOME) and int(arity) != 1:
            self.refuse(option, registered, position, "missing-value", f"expects {arity} values")
            return
        names = self.line.unresolved.get(position, ()) if self.line.unresolved else ()
        if explicit == "--":
            # OLD argparse drops the text and stores an empty list; NEW hands the text to the type.
            spelling = self.written(position, registered)
            message = f"{named(spelling, option)}: '--' behind '=' is read differently by different Python releases"
            self.found.append(Occurrence(option.dest, spelling, registered, position, (explicit,), position, None, message))
            self.bad.append(Fault("families-differ", message, position, spelling, option.dest))
            return
        self.take(option, registered, position, position, (explicit,), names)

    def refuse(self, option: Option, registered: str, position: int, kind: FaultKind, why: str) -> None:
        """Record a use that the parser refuses whatever the option is."""
        spelling = self.written(position, registered)
        message = f"{named(spelling, option)} {why}"
        self.found.append(Occurrence(option.dest, spelling, registered, position, (), position, None, message))
        self.faults.append(Fault(kind, message, position, spelling, option.dest))

    def take(  # noqa: PLR0917 - the fields of one occurrence, in their order
        self, option: Option, registered: str, position: int, last: int, values: tuple[str, ...], names: tuple[str, ...]
    ) -> None:
        """Store an occurrence with its values converted."""
        spelling = self.written(position, registered)
        if names:
            self.found.append(Occurrence(option.dest, spelling, registered, position, values, last, None, None, names))
            return
        try:
            if option.arity == ONE:
                stored: Stored = option.store(values[0])
            elif option.arity == OPTIONAL:
                stored = option.store(values[0]) if values else None
            else:
                stored = tuple(option.store(text) for text in values)  # type: ignore[misc]
        except RefusedError as refused:
            message = f"{named(spelling, option)}: {refused}"
            self.found.append(Occurrence(option.dest, spelling, registered, position, values, last, None, message))
            self.bad.append(Fault("invalid-value", message, position, spelling, option.dest))
            return
        self.found.append(Occurrence(option.dest, spelling, registered, position, values, last, stored))


def named(spelling: str, option: Option) -> str:
    """An option as messages name it: as it was written, and its long name where that differs."""
    return show(spelling) if spelling == option.canonical else f"{show(spelling)} ({option.canonical})"


def consume(table: Table, line: Line) -> Consumed:
    """Read one line with one table. Never raises; linear in the number and length of the tokens."""
    tokens, at = line.tokens, line.at
    find = table.spellings.get
    marks: list[Option | Match | None] = []
    mark = marks.append
    known: dict[str, Match | None] = {}
    end = len(tokens)
    for index, token in enumerate(tokens):
        if token[:1] != "-":
            mark(None)
        elif (option := find(token)) is not None:
            mark(option)
        elif token == TERMINATOR:
            end = index
            break
        else:
            if token not in known:
                known[token] = classify(table, token)
            mark(known[token])
    reader = _Reader(table, line)
    reader.run(marks, end)
    for index in range(end, len(tokens)):
        reader.strays.append(Stray(tokens[index], at[index], "terminator" if index == end else "behind-terminator"))
    return Consumed(reader.found, reader.strays, reader.faults, reader.bad)
