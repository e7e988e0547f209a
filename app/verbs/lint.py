"""`mdctl lint`: the webhooks' own rules over manifests, without a cluster."""

import json
import sys
from pathlib import Path

import click

from app.build import build
from app.inputs import json_line, read_source
from app.lintreports import Placed, as_github, as_json, as_sarif, as_text, plain
from app.manifests import Fault, Manifest, files_of, read_text
from webhooks.linting import LintFinding, lint
from webhooks.ruletable import sentences
from webhooks.settings import AdmissionSettings, parse_setting

EXAMPLES = """\b
Examples:
  mdctl lint deploy/
  mdctl lint new.yaml --old stored.yaml
  kustomize build . | mdctl lint -
  mdctl lint deploy/ -o sarif > lint.sarif

\b
Exit codes:
  0  nothing at or above --fail-on was found
  1  something was
  2  the call itself is wrong, or a file cannot be read
"""

_RANK = {"error": 3, "warning": 2, "info": 1}


@click.command("lint", epilog=EXAMPLES)
@click.argument("paths", nargs=-1, metavar="FILE|DIR|-...")
@click.option("--old", "old", metavar="FILE", multiple=True, help="Stored objects: the rules of updates compare with them.")
@click.option("--set", "settings", metavar="KEY=VALUE", multiple=True, help="A setting, e.g. instance-privileged-allowed=true.")
@click.option("-o", "--output", type=click.Choice(("text", "json", "sarif", "github")), default="text", show_default=True)
@click.option("--fail-on", type=click.Choice(("error", "warning", "info", "never")), default="error", show_default=True)
@click.option("--jsonl", is_flag=True, help='One {"objects": […]} per line of standard input, one result per line.')
def command(*, paths: tuple[str, ...], old: tuple[str, ...], settings: tuple[str, ...], output: str, fail_on: str, jsonl: bool) -> None:
    """Check manifests with the webhooks' own rules, without a cluster."""
    if jsonl:
        _lines()
        return
    if not paths:
        raise click.UsageError("give a file, a folder, or -")
    manifests, faults = _read(paths)
    stored, broken = _read(old)
    if broken:
        raise click.UsageError(f"{broken[0].file}:{broken[0].line}: {broken[0].message}")
    try:
        told = AdmissionSettings.from_flat(dict(map(parse_setting, settings)))
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    found = lint([manifest.document for manifest in manifests], [manifest.document for manifest in stored], told)
    placed = [*(_of_fault(fault) for fault in faults), *(_place(manifests[finding.index], finding) for finding in found)]
    placed.sort(key=lambda p: (p.file, p.line, -_RANK[p.finding.severity], p.finding.id, p.finding.field))
    _print(placed, output)
    worst = max((_RANK[p.finding.severity] for p in placed), default=0)
    sys.exit(1 if fail_on != "never" and worst >= _RANK[fail_on] else 0)


def _read(paths: tuple[str, ...]) -> tuple[list[Manifest], list[Fault]]:
    manifests: list[Manifest] = []
    faults: list[Fault] = []
    for path in paths:
        texts = [("<stdin>", read_source(path))] if path == "-" else [(str(file), read_source(str(file))) for file in files_of(path)]
        before = len(manifests) + len(faults)
        for file, text in texts:
            more, wrong = read_text(text, file)
            manifests += more
            faults += wrong
        if len(manifests) + len(faults) == before:
            click.echo(f"Warning: {path}: no Kubernetes object; nothing was checked", err=True)
    return manifests, faults


def _of_fault(fault: Fault) -> Placed:
    finding = LintFinding(id=fault.id, severity="error", object=Path(fault.file).name, field="", message=fault.message)
    return Placed(finding=finding, file=fault.file, line=fault.line)


def _place(manifest: Manifest, finding: LintFinding) -> Placed:
    return Placed(finding=finding, file=manifest.file, line=manifest.line_of(finding.field))


def _print(placed: list[Placed], output: str) -> None:
    if output == "sarif":
        click.echo(as_sarif(placed, sentences(), build().version))
    elif output == "json":
        click.echo(as_json(placed))
    elif placed:
        click.echo(as_github(placed) if output == "github" else as_text(placed))


def _lines() -> None:
    """D8: one result line for each input line; a bad line is answered and the run goes on."""
    for line in sys.stdin.buffer:
        if not line.strip():
            continue
        try:
            objects = json_line(line).get("objects")
            if not isinstance(objects, list) or not all(isinstance(each, dict) for each in objects):
                raise ValueError("objects: a list of objects is wanted")
            result: dict[str, object] = {"findings": [plain(finding) for finding in lint(objects)]}
        except ValueError as error:
            result = {"error": str(error)}
        except (TypeError, KeyError, AttributeError, RecursionError) as error:
            result = {"error": f"{type(error).__name__}: {error}"}
        sys.stdout.buffer.write(json.dumps(result, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace") + b"\n")
        sys.stdout.buffer.flush()
