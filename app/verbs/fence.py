"""`mdctl fence`: what the single-writer fence says to a write, and what a GitOps agent has to be told."""

import sys
from typing import Any

import click

EXAMPLES = """\b
Examples:
  mdctl fence explain -f old.yaml -f new.yaml --as alice
  mdctl fence explain -f old.yaml -f new.yaml --as alice --scaler scaler.yaml
  mdctl fence ignore-rules argocd

\b
Exit codes of explain:
  0  the fence lets the write through
  1  it refuses
  2  the call itself is wrong, or a file cannot be read
"""


@click.group("fence", epilog=EXAMPLES)
def command() -> None:
    """Explain the single-writer fence, and print GitOps ignore rules."""


@command.command("ignore-rules", epilog="\b\nExample:\n  mdctl fence ignore-rules argocd >> application.yaml\n")
@click.argument("agent", type=click.Choice(("argocd", "flux")))
def ignore_rules(agent: str) -> None:
    """Print what makes a GitOps agent leave alone what a scaler owns."""
    from webhooks.fence.gitops import SNIPPETS

    click.echo(SNIPPETS[agent], nl=False)


@command.command("explain", epilog=EXAMPLES)
@click.option(
    "-f",
    "--file",
    "files",
    metavar="FILE",
    multiple=True,
    required=True,
    help="The stored object, then the new one; a lone file is a create.",
)
@click.option("--as", "user", metavar="USER", default="", help="Who writes; without it, nobody in particular.")
@click.option("--scaler", "scaler", metavar="FILE", help="The scaler that the binding names; without it, the scaler is gone.")
@click.option("--scaler-username", "usernames", metavar="NAME", multiple=True, help="Who counts as a scaler; repeatable.")
def explain(files: tuple[str, ...], user: str, scaler: str | None, usernames: tuple[str, ...]) -> None:
    """Say whether the fence lets a write through, by which rule, and what the ways out are."""
    from api.objects import ModelDeployment, ModelDeploymentScaler
    from webhooks.documents import read_document
    from webhooks.fence import FenceRequest, Scaler, judge, scaler_to_read, target_of
    from webhooks.fence.messages import OUTCOMES, SENTENCES, describe, ways_out
    from webhooks.settings import default_scaler_usernames

    if len(files) > 2:
        raise click.UsageError("give at most two objects: the stored one and the new one")
    try:
        objects = [read_document(_object(file, "ModelDeployment"), ModelDeployment) for file in files]
        owner = read_document(_object(scaler, "ModelDeploymentScaler"), ModelDeploymentScaler) if scaler else None
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    writers = usernames or default_scaler_usernames()
    new, old = objects[-1], objects[0] if len(objects) == 2 else None
    write = FenceRequest(
        name=new.metadata.name,
        old=target_of(old) if old is not None else None,
        new=target_of(new),
        scaler_writer=bool(user) and user in writers,
        scaler=Scaler.of(owner) if owner is not None else None,
    )
    read = scaler_to_read(write)
    if read is not None and owner is not None and owner.metadata.name != read:
        raise click.UsageError(f"the binding names ModelDeploymentScaler {read!r}, {scaler} holds {owner.metadata.name!r}")
    verdict = judge(write)
    click.echo(f"verdict: {'allowed' if verdict.allowed else 'refused'}")
    click.echo(f"writer:  {user or '(nobody)'}, {'a scaler' if write.scaler_writer else 'no scaler'}")
    if verdict.scaler:
        click.echo(f"{'bound:  ' if verdict.bound else 'attempt:'} {verdict.scaler}, term {verdict.term}")
    if read is not None:
        click.echo(f"read:    ModelDeploymentScaler {read} ({'given' if owner is not None else 'not given: taken as gone'})")
    if not verdict.rules:
        click.echo("rule:    none; the fence has no say in this write")
    for rule in dict.fromkeys(v.rule for v in verdict.violations) or ([verdict.rule] if verdict.rule else []):
        click.echo(f"rule:    {rule}: {SENTENCES.get(rule) or OUTCOMES.get(rule, '')}")
    for violation in verdict.violations:
        click.echo(f"  - {describe(violation)}")
    if not verdict.allowed:
        click.echo("ways out:")
        for way in ways_out(verdict):
            click.echo(f"  - {way}")
    sys.exit(0 if verdict.allowed else 1)


def _object(file: str, kind: str) -> dict[str, Any]:
    """The first object of a kind in a file, with the schema's defaults."""
    from api.crd.check import admit
    from app.inputs import InputError, read_source, yaml_documents

    found = next((each for each in yaml_documents(read_source(file), file) if each.get("kind") == kind), None)
    if found is None:
        raise InputError(f"{file}: no {kind} in it")
    return admit(found)[0]
