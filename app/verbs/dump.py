"""`mdctl dump`: capture a ModelDeployment and all it depends on from a cluster (decision D8)."""

import asyncio
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from controller.snapshot import Snapshot

EXAMPLES = """
\b
Examples:
  mdctl dump md/qwen -n team-a > dump.yaml
  mdctl dump md/qwen -n team-a | mdctl status -f -
  mdctl dump -n team-a --context staging > team-a.yaml

\b
Exit codes:
  0  printed
  1  the cluster does not answer, or has no such deployment
  2  the call itself is wrong

Values of environment variables, of secret options and of probes' headers are hidden. What such a value decides is kept as a fact of its
own: an Observations document carries the moment of the capture and, where something was hidden, which replicas are up to date.
"""


@click.command(epilog=EXAMPLES, short_help="Capture a ModelDeployment and all it depends on from a cluster.")
@click.argument("name", required=False)
@click.option("-n", "--namespace", help="The namespace; the context's own by default.")
@click.option("--kubeconfig", help="The kubeconfig of the cluster.")
@click.option("--context", help="The kubeconfig's context.")
@click.option("-o", "--output", type=click.Choice(["yaml", "json"]), default="yaml", show_default=True, help="A YAML stream or a List.")
def command(name: str | None, namespace: str | None, kubeconfig: str | None, context: str | None, output: str) -> None:
    """Print NAME (md/NAME works too), or every ModelDeployment of the namespace, with all objects that its status is judged from."""
    from kube.errors import KubeError

    wanted = short_name(name)
    try:
        objects = asyncio.run(capture(wanted, namespace=namespace, kubeconfig=kubeconfig, context=context))
    except KubeError as error:
        raise click.ClickException(str(error)) from error
    if not objects:
        click.echo(f"no ModelDeployment in the namespace{f' {namespace}' if namespace else ''}", err=True)
    sys.stdout.write(rendered(objects, output))


async def capture(
    name: str | None, *, namespace: str | None = None, kubeconfig: str | None = None, context: str | None = None
) -> list[dict[str, Any]]:
    """The dump's objects, redacted and in order. Raises KubeError."""
    from controller import capture as capturing
    from kube.config import connect

    async with await connect(kubeconfig, context) as client:
        objects = await capturing.capture(client, namespace or client.default_namespace, name)
    return prepared(objects, datetime.now(UTC))


def short_name(name: str | None) -> str | None:
    """The name without a kind in front of it. Raises click.BadParameter for another kind."""
    if name is None or "/" not in name:
        return name
    kind, _, rest = name.partition("/")
    if kind.lower().partition(".")[0] not in ("md", "modeldeployment", "modeldeployments") or not rest or "/" in rest:
        raise click.BadParameter(f"{name!r} names no ModelDeployment; write md/NAME")
    return rest


def prepared(objects: list[dict[str, Any]], now: datetime) -> list[dict[str, Any]]:
    """Redacted, with one Observations document a deployment."""
    import msgspec

    from api import keys
    from api.clock import format_time
    from controller.capture import ordered
    from controller.redaction import redacted
    from controller.status.judge import assess

    shown = [redacted(item) for item in objects]
    changed = {
        (item["metadata"].get("namespace", ""), item["metadata"]["name"])
        for item, hidden in zip(objects, shown, strict=True)
        if item["kind"] == keys.MODEL_DEPLOYMENT and item.get("spec") != hidden.get("spec")
    }
    for snapshot in _readable(objects, now):
        meta = snapshot.deployment.metadata
        document: dict[str, Any] = {
            "apiVersion": keys.OBSERVATIONS_API_VERSION,
            "kind": keys.OBSERVATIONS,
            "metadata": {"namespace": meta.namespace, "name": meta.name},
            "now": format_time(now),
        }
        if (meta.namespace, meta.name) in changed:
            # The hash of a hidden spec is another one: what the true one said is told instead.
            document["rollout"] = msgspec.to_builtins(assess(snapshot).rollout)
        shown.append(document)
    return ordered(shown)


def _readable(objects: list[dict[str, Any]], now: datetime) -> "list[Snapshot]":
    """The snapshots; what could not be read is told on standard error, and is in the dump as it is."""
    from controller.dump import DumpError, snapshots

    faults: list[str] = []
    try:
        found = snapshots(objects, now, faults=faults)
    except DumpError:
        found = []
    for fault in faults:
        click.echo(f"Warning: {fault}", err=True)
    return found


def rendered(objects: list[dict[str, Any]], output: str) -> str:
    """The objects as one stream, members in the usual order and otherwise sorted."""
    import json

    import yaml

    def tidy(value: Any, *, top: bool = False) -> Any:
        if isinstance(value, list):
            return [tidy(each) for each in value]
        if not isinstance(value, dict):
            return value
        first = [name for name in ("apiVersion", "kind", "metadata") if top and name in value]
        return {name: tidy(value[name]) for name in (*first, *sorted(value.keys() - set(first)))}

    documents = [tidy(item, top=True) for item in objects]
    if output == "json":
        return json.dumps({"apiVersion": "v1", "kind": "List", "items": documents}, indent=2, ensure_ascii=False) + "\n"

    class Plain(yaml.SafeDumper):
        """Repeats shared values instead of naming them."""

        def ignore_aliases(self, data: Any) -> bool:
            return True

    return str(yaml.dump_all(documents, Dumper=Plain, sort_keys=False, width=140, allow_unicode=True, explicit_start=True))
