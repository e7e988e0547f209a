"""What became of every argument: one line each, for people. Drawn from a reading; adds no judgement of its own."""

from typing import Literal

import msgspec

from engines.facade import RoleReading
from engines.table import load
from engines.tokens import Occurrence
from engines.values import show

Fate = Literal["option", "value", "unreadable", "refused", "unknown", "stray", "terminator", "ignored", "file", "member"]


class Argument(msgspec.Struct, frozen=True):
    """One argument of the role: what it was read as, and a sentence where it needs one."""

    position: int
    token: str
    fate: Fate
    note: str = ""


_STRAYS: dict[str, tuple[Fate, str]] = {
    "unknown": ("unknown", "no option of this release; takes no value"),
    "word": ("stray", "no option takes it"),
    "terminator": ("terminator", "ends the options"),
    "behind-terminator": ("ignored", "stands behind --"),
}


def account(reading: RoleReading) -> tuple[Argument, ...]:
    """Every argument in order. Tokens that vLLM folds into a JSON member of another option are `member`."""
    line = reading.reading
    rows: dict[int, Argument] = {}

    def put(position: int, fate: Fate, note: str = "") -> None:
        if 0 <= position < len(line.argv) and position not in rows:
            rows[position] = Argument(position, line.argv[position], fate, note)

    for fault in line.faults:
        if fault.position is not None:
            put(fault.position, "unreadable", fault.message)
    for occurrence in line.occurrences:
        put(occurrence.position, "refused" if occurrence.fault else "option", occurrence.fault or _option(occurrence, reading))
        for position in range(occurrence.position + 1, occurrence.last + 1):
            put(position, "value", f"of {show(occurrence.spelling)}")
    for stray in line.strays:
        put(stray.position, *_STRAYS[stray.kind])
    if line.config is not None:
        put(line.config, "file", "its entries go in front of this line; not read here")
        put(line.config + 1, "value", "of --config")
    for position in range(len(line.argv)):
        put(position, "member", "part of a dotted member, or of --model")
    return tuple(rows[position] for position in sorted(rows))


def _option(occurrence: Occurrence, reading: RoleReading) -> str:
    line = reading.reading
    parts: list[str] = []
    if occurrence.spelling != occurrence.registered:
        parts.append(f"is {occurrence.registered}")
    if occurrence.unresolved:
        parts.append(f"{' '.join(f'$({name})' for name in occurrence.unresolved)} is left to the cluster")
    elif isinstance(occurrence.stored, bool):
        parts.append("on" if occurrence.stored else "off")
    elif occurrence.values:
        stored = "unset" if occurrence.stored is None else _plain(occurrence.stored)
        parts.append(f"= {show(stored)}")
    if reading.option(occurrence.dest) is not occurrence and not load(line.engine, line.table).spellings[occurrence.registered].appends:
        parts.append("replaced by a later use")
    return ", ".join(parts)


def _plain(stored: object) -> str:
    if isinstance(stored, int) and stored.bit_length() > 64:
        return "a number beyond any machine's"
    return " ".join(str(item) for item in stored) if isinstance(stored, tuple) else str(stored)


def changes(before: RoleReading, after: RoleReading) -> tuple[str, ...]:
    """What reads otherwise under another release: one sentence each, nothing when nothing does."""
    found: list[str] = []
    for old, new in zip(account(before), account(after), strict=True):
        if (old.fate, old.note) != (new.fate, new.note):
            found.append(f"argument {old.position} {show(old.token)}: {_fate(old)} → {_fate(new)}")
    if before.parallelism.source != after.parallelism.source:
        found.append(f"reading: {_source(before)} → {_source(after)}")
    facts = (
        ("declared", before.parallelism.declared, after.parallelism.declared),
        ("modes", before.parallelism.modes, after.parallelism.modes),
        ("loadBalance", before.parallelism.load_balance, after.parallelism.load_balance),
        ("listener", before.listener, after.listener),
        ("tls", (before.tls.enabled, before.tls.client_cert), (after.tls.enabled, after.tls.client_cert)),
        ("gates", before.gates, after.gates),
    )
    found += [f"{name}: {_words(old)} → {_words(new)}" for name, old, new in facts if old != new]
    had = {(f.id, f.message) for f in before.findings}
    has = {(f.id, f.message) for f in after.findings}
    found += [f"no longer: {f.id} {f.message}" for f in before.findings if (f.id, f.message) not in has and f.id != "EA015"]
    found += [f"new: {f.id} {f.message}" for f in after.findings if (f.id, f.message) not in had and f.id != "EA015"]
    return tuple(found)


def _fate(argument: Argument) -> str:
    return f"{argument.fate} ({argument.note})" if argument.note else argument.fate


def _source(reading: RoleReading) -> str:
    source = reading.parallelism.source
    return source.unreadable_reason or ("complete" if source.complete else "incomplete")


def _words(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {str(item).lower()}" for key, item in value.items()) or "none"
    return str(value) if isinstance(value, str) else msgspec.json.encode(value).decode()
