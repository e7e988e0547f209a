"""`mdctl explain`: say why each part of a status is as it is."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TextIO

import click
import msgspec

from api.clock import parse_time
from app.verbs.dump import short_name
from app.verbs.status import load, settings_of
from controller.dump import DumpError, snapshots
from controller.snapshot import Snapshot, StatusSettings
from controller.status.explain import Explanation, explain
from controller.status.judge import Assessment, assess

EXAMPLES = """
\b
Examples:
  mdctl explain md/qwen -n team-a
  mdctl explain -f dump.yaml
  mdctl explain -f dump.yaml md/qwen --all -o json
  mdctl explain md/qwen --kueue absent

\b
Exit codes:
  0  explained
  1  there is no such deployment, or the cluster does not answer
  2  the call itself is wrong, or the dump cannot be read
"""
ACTORS = {
    "nobody": "nobody has to act",
    "wait": "nobody; it clears by itself",
    "user": "whoever owns the deployment",
    "platform": "whoever runs the cluster",
    "operator": "the operator, by itself",
}
ROWS = 12


@click.command(epilog=EXAMPLES)
@click.argument("name", required=False)
@click.option("-f", "--filename", type=click.File("r", encoding="utf-8"), help="A dump instead of a cluster; - is standard input.")
@click.option("-n", "--namespace", help="The deployment's namespace.")
@click.option("--now", help="The pass's clock (RFC 3339); overrides the dump's own.")
@click.option("--kubeconfig", help="The kubeconfig of the cluster to read.")
@click.option("--context", help="The kubeconfig's context.")
@click.option(
    "--kueue",
    type=click.Choice(["required", "absent"]),
    default="required",
    show_default=True,
    help="Whether Workloads are read: as the service was told.",
)
@click.option("--all", "everything", is_flag=True, help="Also what was read for the parts that need nobody's attention.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True, help="How to print.")
def command(
    *,
    name: str | None,
    filename: TextIO | None,
    namespace: str | None,
    now: str | None,
    kubeconfig: str | None,
    context: str | None,
    kueue: str,
    everything: bool,
    output: str,
) -> None:
    """Say why each part of a status is as it is: verdict, rule, objects and fields read, what would change it, who acts.

    NAME is md/NAME or NAME.
    """
    if now is not None:
        _check(now)
    wanted, settings = short_name(name), settings_of({"kueue": kueue}, StatusSettings())
    if filename is not None:
        found = load(filename, now, settings, datetime.now(UTC))
    elif wanted:
        found = captured(wanted, namespace, now, kubeconfig=kubeconfig, context=context, settings=settings)
    else:
        raise click.UsageError("name a deployment (md/NAME) or give a dump (-f FILE)")
    chosen = [snapshot for snapshot in found if matches(snapshot, wanted, namespace)]
    if not chosen:
        raise click.ClickException(f"no ModelDeployment {wanted} was found" if wanted else "no ModelDeployment was found")
    assessments = [assess(snapshot) for snapshot in chosen]
    if output == "json":
        click.echo(as_json(assessments))
    else:
        click.echo("\n\n".join(as_text(assessment, everything=everything) for assessment in assessments))


def _check(now: str) -> None:
    try:
        parse_time(now)
    except ValueError as error:
        raise click.BadParameter(f"{now!r} is no RFC 3339 time", param_hint="--now") from error


def matches(snapshot: Snapshot, name: str | None, namespace: str | None) -> bool:
    """Whether a deployment of the dump is the one asked for."""
    metadata = snapshot.deployment.metadata
    return (name is None or metadata.name == name) and (namespace is None or metadata.namespace == namespace)


def captured(
    name: str, namespace: str | None, now: str | None, *, kubeconfig: str | None, context: str | None, settings: StatusSettings
) -> list[Snapshot]:
    """The snapshot of a deployment in a cluster, by way of the same capture that `mdctl dump` prints."""
    from app.verbs.dump import capture
    from kube.errors import KubeError

    try:
        objects = asyncio.run(capture(name, namespace=namespace, kubeconfig=kubeconfig, context=context))
    except KubeError as error:
        raise click.ClickException(str(error)) from error
    try:
        return snapshots(objects, now, settings, fallback=datetime.now(UTC))
    except DumpError as error:
        raise click.ClickException(str(error)) from error


def as_json(assessments: Sequence[Assessment]) -> str:
    """Every part of every deployment, with all evidence."""
    found = [
        {
            "namespace": a.ground.snapshot.deployment.metadata.namespace,
            "name": a.ground.snapshot.deployment.metadata.name,
            "phase": a.status.phase,
            "parts": msgspec.to_builtins(explain(a)),
        }
        for a in assessments
    ]
    return msgspec.json.format(msgspec.json.encode({"deployments": found}), indent=2).decode()


def as_text(assessment: Assessment, *, everything: bool = False) -> str:
    """For people: settled parts in one line, the others with their rule, what was read and the way out."""
    metadata, status = assessment.ground.snapshot.deployment.metadata, assessment.status
    lines = [f"{metadata.namespace}/{metadata.name}  {status.phase}  {status.role_summary}"]
    if status.endpoint:
        lines[0] += f"  {status.endpoint}"
    if assessment.ground.snapshot.observations is None:
        lines.append("(the dump holds no observations: what the controller asks engines and routers itself reads as unknown here)")
    for part in explain(assessment):
        lines += _part(part, full=everything or not part.settled)
    return "\n".join(lines)


def _part(part: Explanation, *, full: bool) -> list[str]:
    message = f"  {part.message}" if part.message else ""
    lines = [f"\n{part.part}: {part.verdict}{message}" if full else f"{part.part}: {part.verdict}{message}"]
    if not full:
        return lines
    lines += [f"    rule     {part.rule}", f"    means    {part.meaning}"]
    lines += [f"    read     {seen.object}: {seen.field} = {seen.value}" for seen in part.read[:ROWS]]
    if len(part.read) > ROWS:
        lines.append(f"    read     and {len(part.read) - ROWS} more (-o json)")
    return [*lines, f"    change   {part.change}", f"    acts     {ACTORS.get(part.actor, part.actor)}"]
