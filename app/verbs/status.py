"""`mdctl status`: compute statuses from a dump, without a cluster (decision D8)."""

import sys
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

import click
import msgspec

from api.status import Status, encode_status, status_document
from app.inputs import InputError
from controller.dump import DumpError, parse, snapshots
from controller.snapshot import Snapshot, StatusSettings
from controller.status.judge import judge

EXAMPLES = """
\b
Examples:
  mdctl dump md/qwen > dump.yaml && mdctl status -f dump.yaml
  mdctl status -f dump.yaml --now 2026-01-01T00:10:00Z -o json
  kubectl get md,pods,workloads.kueue.x-k8s.io,deploy -n team-a -o yaml | mdctl status -f - -o table
  mdctl status --jsonl < dumps.jsonl

\b
Exit codes:
  0  computed (with --jsonl: every line was answered)
  1  the dump holds no ModelDeployment
  2  the call itself is wrong, or the dump cannot be read
"""


class Line(msgspec.Struct, frozen=True):
    """One input line of `--jsonl`: a dump."""

    objects: tuple[Any, ...] = ()
    now: str | None = None
    settings: dict[str, Any] = {}


def answer(raw: bytes, settings: StatusSettings, fallback: datetime) -> bytes:
    """The result line of one input line; a bad one gives `{"error": …}`.

    Objects that could not be read are named under `unreadable`; the others are judged.
    """
    faults: list[str] = []
    try:
        line = msgspec.json.decode(raw, type=Line)
        chosen = settings_of(line.settings, settings)
        found = snapshots(line.objects, line.now, chosen, fallback=fallback, faults=faults)
        entries = msgspec.json.encode([msgspec.Raw(entry(snapshot, judge(snapshot))) for snapshot in found])
        told = b',"unreadable":' + msgspec.json.encode(faults) if faults else b""
        return b'{"deployments":' + entries + told + b"}"
    except (msgspec.MsgspecError, ValueError) as error:
        return msgspec.json.encode({"error": str(error)})
    except (ArithmeticError, LookupError, MemoryError, RecursionError, TypeError) as error:
        # No line may end the run, whatever it holds: nesting beyond every stack, clocks at the calendar's end.
        return msgspec.json.encode({"error": f"{type(error).__name__}: {error}"})


def entry(snapshot: Snapshot, status: Status) -> bytes:
    """One deployment of a result line, canonical."""
    metadata = snapshot.deployment.metadata
    where = msgspec.json.encode({"namespace": metadata.namespace, "name": metadata.name})
    return where[:-1] + b',"status":' + encode_status(status) + b"}"


def settings_of(flat: Mapping[str, Any], base: StatusSettings) -> StatusSettings:
    """The judgement's settings out of a flat map of dotted names (decision D7); names of other rooms are passed over."""
    known = {"kueue": "kueue", "status.reservedNamespaces": "reservedNamespaces", "reservedNamespaces": "reservedNamespaces", "act": "act"}
    given = {known[name]: value for name, value in flat.items() if name in known}
    return msgspec.convert(msgspec.to_builtins(base) | given, StatusSettings)


@click.command(epilog=EXAMPLES)
@click.option("-f", "--filename", type=click.File("r", encoding="utf-8"), help="The dump: a YAML or JSON stream, or a List; - is stdin.")
@click.option("--now", help="The pass's clock (RFC 3339); overrides the dump's own.")
@click.option("-o", "--output", type=click.Choice(["yaml", "json", "table"]), default="yaml", show_default=True, help="How to print.")
@click.option(
    "--kueue", type=click.Choice(["required", "absent"]), default="required", show_default=True, help="Whether Workloads are read."
)
@click.option("--jsonl", is_flag=True, help="Read one dump a line from standard input, write one result a line.")
def command(filename: TextIO | None, now: str | None, output: str, kueue: str, jsonl: bool) -> None:
    """Compute every ModelDeployment's status from a dump, exactly as the controller would."""
    settings = settings_of({"kueue": kueue}, StatusSettings())
    fallback = datetime.now(UTC)
    if jsonl:
        for raw in sys.stdin.buffer:
            if raw.strip():
                sys.stdout.buffer.write(answer(raw, settings, fallback) + b"\n")
                sys.stdout.buffer.flush()
        return
    if filename is None:
        raise click.UsageError("a dump is needed: -f FILE, or --jsonl")
    judged = [(snapshot, judge(snapshot)) for snapshot in load(filename, now, settings, fallback)]
    if not judged:
        raise click.ClickException(f"{getattr(filename, 'name', '-')}: the dump holds no ModelDeployment; `mdctl dump` makes one that does")
    click.echo({"yaml": as_yaml, "json": as_json, "table": as_table}[output](judged), nl=False)


def load(file: TextIO, now: str | None, settings: StatusSettings, fallback: datetime) -> list[Snapshot]:
    """The snapshots of a dump file. Raises InputError where it cannot be read."""
    name, faults = getattr(file, "name", Path("-")), list[str]()
    try:
        found = snapshots(parse(file.read()), now, settings, fallback=fallback, faults=faults)
    except UnicodeDecodeError as error:
        raise InputError(f"{name}: byte {error.start} is no UTF-8; give YAML or JSON as UTF-8 text") from error
    except RecursionError as error:
        raise InputError(f"{name}: nested too deeply, or an alias that contains itself") from error
    except DumpError as error:
        raise InputError(f"{name}: {error}") from error
    for fault in faults:
        click.echo(f"Warning: {name}: {fault}", err=True)
    return found


Judged = Iterable[tuple[Snapshot, Status]]


def documents(judged: Judged) -> list[dict[str, Any]]:
    """The deployments with their statuses, as plain values."""
    found = []
    for snapshot, status in judged:
        metadata = snapshot.deployment.metadata
        found.append({"namespace": metadata.namespace, "name": metadata.name, "status": status_document(status)})
    return found


def as_yaml(judged: Judged) -> str:
    """A YAML stream, one document a deployment."""
    import yaml

    return "".join(yaml.safe_dump(item, sort_keys=False, explicit_start=True, width=120, allow_unicode=True) for item in documents(judged))


def as_json(judged: Judged) -> str:
    """The `--jsonl` result, indented."""
    return msgspec.json.format(msgspec.json.encode({"deployments": documents(judged)}), indent=2).decode() + "\n"


def as_table(judged: Judged) -> str:
    """The columns of `kubectl get md`, with what holds a deployment back."""
    rows = [("NAMESPACE", "NAME", "ENGINE", "ROLES", "PHASE", "ENDPOINT", "MESSAGE")]
    for snapshot, status in judged:
        metadata, engine = snapshot.deployment.metadata, snapshot.deployment.spec.engine.name
        line = (metadata.namespace, metadata.name, engine, status.role_summary, status.phase, status.endpoint, status.phase_message)
        rows.append(tuple(cell.replace("\n", " ") or "-" for cell in line))  # type: ignore[arg-type]
    widths = [max(len(row[column]) for row in rows) for column in range(6)]
    return "".join(
        "  ".join((*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[6])).rstrip() + "\n" for row in rows
    )
