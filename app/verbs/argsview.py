"""How a reading looks: a table for people, a document for programs. What it says comes from the reading alone."""

import sys
from collections.abc import Mapping
from typing import Any

import msgspec
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from engines.account import Argument, account, changes
from engines.facade import RoleReading
from engines.gates import LIVENESS_FAILURES, PATH, PERIOD_SECONDS, READINESS_FAILURES, REASONS, STARTUP_FAILURES
from engines.parallelism import Provenance

_STYLES: Mapping[str, str] = {
    "option": "bold",
    "value": "",
    "unreadable": "bold red",
    "refused": "red",
    "unknown": "yellow",
    "stray": "yellow",
    "terminator": "magenta",
    "ignored": "dim",
    "file": "magenta",
    "member": "cyan",
}
_SEVERITIES = {"error": "red", "warning": "yellow", "info": "dim"}


def document(reading: RoleReading) -> dict[str, Any]:
    """The D8 result, with what stands behind it: the table, each argument's fate, each fact's place."""
    result: dict[str, Any] = msgspec.json.decode(reading.to_json())
    line = reading.reading
    result["parallelism"]["provenance"] = {
        key: [_place(where) for where in places] for key, places in reading.parallelism.provenance.items()
    }
    result["reading"] = {
        "engine": line.engine,
        "version": line.version,
        "table": line.table,
        "tableChoice": line.choice,
        "arguments": [msgspec.to_builtins(argument) for argument in account(reading)],
        "unreadable": [
            {"kind": fault.kind, "position": fault.position, "message": fault.message, "refuses": fault.refuses} for fault in line.faults
        ],
    }
    return result


def _place(where: Provenance) -> dict[str, Any]:
    if where.variable is not None:
        return {"variable": where.variable, "value": where.value}
    return {"position": where.position, "spelling": where.spelling, "value": where.value}


def shown(reading: RoleReading, output: str) -> None:
    """Print one reading."""
    if output == "table":
        console().print(_view(reading))
    else:
        _write(document(reading), output)


def compared(before: RoleReading, after: RoleReading, output: str) -> None:
    """Print what changes between two readings of one line."""
    found = changes(before, after)
    if output != "table":
        _write({"from": document(before), "to": document(after), "changes": list(found)}, output)
        return
    lines: list[RenderableType] = [Text(f"{_read_with(before)} → {_read_with(after)}", style="bold")]
    lines += [Text(f"  {sentence}") for sentence in found] or [Text("  nothing changes for this line", style="green")]
    console().print(Group(*lines))


def console() -> Console:
    """Standard output; wide enough for a line of a document when it is no terminal."""
    return Console(file=sys.stdout, highlight=False, width=None if sys.stdout.isatty() else 140)


def _write(value: Any, output: str) -> None:
    if output == "json":
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n")
        return
    import yaml

    yaml.safe_dump(value, sys.stdout, sort_keys=False, allow_unicode=True, width=140)


def _read_with(reading: RoleReading) -> str:
    line = reading.reading
    if line.choice == "exact":
        return f"{line.engine} {line.version}"
    asked = line.version or "no version"
    return f"{line.engine} {line.table} ({asked}: {line.choice} table)"


def _view(reading: RoleReading) -> Group:
    parts: list[RenderableType] = [Text(_read_with(reading), style="bold")]
    arguments = account(reading)
    if arguments:
        parts.append(_arguments(arguments))
    parts.append(_facts(reading))
    parts += [_finding(reading, index) for index in range(len(reading.findings))]
    return Group(*parts)


def _arguments(arguments: tuple[Argument, ...]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("#", justify="right")
    table.add_column("argument", overflow="fold")
    table.add_column("read as")
    table.add_column("")
    for argument in arguments:
        style = _STYLES[argument.fate]
        token = argument.token if argument.token.isprintable() and argument.token.strip() else repr(argument.token)
        shown_token = token if len(token) <= 60 else f"{token[:60]}…"
        table.add_row(str(argument.position), Text(shown_token, style=style), Text(argument.fate, style=style), Text(argument.note))
    return table


def _facts(reading: RoleReading) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    parallelism = reading.parallelism
    source = parallelism.source
    if source.kind == "Unknown":
        table.add_row("reading", Text(f"unreadable: {source.unreadable_reason}", style="red"))
    elif not source.complete:
        table.add_row("reading", Text(f"incomplete: {source.unreadable_reason}", style="yellow"))
    if parallelism.declared:
        table.add_row("declared", ", ".join(f"{key} {value}{_from(reading, key)}" for key, value in parallelism.declared.items()))
    if parallelism.modes:
        table.add_row("modes", ", ".join(f"{key} {str(value).lower()}{_from(reading, key)}" for key, value in parallelism.modes.items()))
    why = f" ({source.unreadable_reason})" if source.complete and source.unreadable_reason else ""
    table.add_row("load balance", f"{parallelism.load_balance}{why}")
    listener = reading.listener
    table.add_row("listener", f"{listener.host or '?'}:{listener.port if listener.port is not None else '?'}{_filled(reading)}")
    table.add_row("TLS", f"on, client certificate {reading.tls.client_cert}" if reading.tls.enabled else "off")
    table.add_row("gates", _gates(reading))
    return table


def _from(reading: RoleReading, key: str) -> str:
    places = reading.parallelism.provenance.get(key, ())
    if not places:
        return ""
    where = places[0]
    return f" ({where.variable})" if where.variable else f" (#{where.position})"


def _filled(reading: RoleReading) -> str:
    fills = reading.gates.fills
    return f" ({' and '.join(f'--{name}' for name in fills)} filled in by the operator)" if fills else ""


def _gates(reading: RoleReading) -> str:
    gates = reading.gates
    if not gates.gated:
        return "none: " + "; ".join(REASONS[reason] for reason in gates.withheld_by)
    numbers = f"every {PERIOD_SECONDS} s, {STARTUP_FAILURES}/{READINESS_FAILURES}/{LIVENESS_FAILURES} failures"
    return f"startup, readiness and liveness: GET {PATH} over {gates.scheme} on {gates.port}, {numbers}"


def _finding(reading: RoleReading, index: int) -> Text:
    finding = reading.findings[index]
    where = "" if finding.position is None else f" #{finding.position}"
    return Text.assemble((f"{finding.severity} {finding.id}", _SEVERITIES[finding.severity]), f"{where}: {finding.message}")
