"""`mdctl install`: every manifest of an installation, printed or applied."""

import asyncio
import json
import re
import sys
from typing import TYPE_CHECKING, Any, Final

import click

from controller.shards import MOST

if TYPE_CHECKING:
    from deploy.manifests import Options
    from kube.client import Client

FIELD_MANAGER: Final = "modelwarden-install"

_PLURALS: Final = {
    "ClusterRole": "clusterroles",
    "ClusterRoleBinding": "clusterrolebindings",
    "CustomResourceDefinition": "customresourcedefinitions",
    "Deployment": "deployments",
    "MutatingWebhookConfiguration": "mutatingwebhookconfigurations",
    "Namespace": "namespaces",
    "NetworkPolicy": "networkpolicies",
    "PodDisruptionBudget": "poddisruptionbudgets",
    "Role": "roles",
    "RoleBinding": "rolebindings",
    "Service": "services",
    "ServiceAccount": "serviceaccounts",
    "ValidatingWebhookConfiguration": "validatingwebhookconfigurations",
}


@click.command("install")
@click.option("--dry-run", is_flag=True, help="Print the manifests instead of applying them; needs no cluster.")
@click.option("-n", "--namespace", default="modelwarden-system", show_default=True, help="Where the service runs.")
@click.option("--image", help="Image of the service, registry and tag included.")
@click.option(
    "--kueue", type=click.Choice(["required", "absent"]), default="required", show_default=True, help="absent: this cluster has no Kueue."
)
@click.option(
    "--act", type=click.Choice(["status", "retire"]), default="status", show_default=True, help="retire: also perform retirements."
)
@click.option(
    "--shards", type=click.IntRange(1, MOST), default=1, show_default=True, metavar="N", help="Split the fleet into N shards, a Lease each."
)
@click.option("--network-policy", is_flag=True, help="Also close the network around the service.")
@click.option("--companions", is_flag=True, help="Also the minimal definitions of the kinds that are only read.")
@click.option("--server-version", metavar="MAJOR.MINOR", help="With --dry-run: fit the manifests to an API server of that version.")
@click.option("--withdraw", is_flag=True, help="Only take the webhook configurations away: before uninstalling, or when nobody can answer.")
@click.option("--force", is_flag=True, help="Take over fields that another field manager owns.")
@click.option("--kubeconfig", type=click.Path(dir_okay=False), help="Kubeconfig to use.")
@click.option("--context", help="Context of the kubeconfig.")
def command(
    *,
    dry_run: bool,
    namespace: str,
    image: str | None,
    kueue: str,
    act: str,
    shards: int,
    network_policy: bool,
    companions: bool,
    server_version: str | None,
    withdraw: bool,
    force: bool,
    kubeconfig: str | None,
    context: str | None,
) -> None:
    """Print (--dry-run) or apply every manifest of an installation, server-side.

    \b
    Examples:
      mdctl install --dry-run | less
      mdctl install --image registry.example/modelwarden:0.1.0
      mdctl install --kueue absent --companions --context kind-test
      mdctl install --dry-run --server-version 1.20 | kubectl apply -f -
      mdctl install --withdraw

    \b
    Exit codes:
      0  printed, or every object was applied (with --withdraw: taken away)
      1  no cluster, or an object was not taken by it
      2  the call itself is wrong
    """
    if re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", namespace) is None:
        raise click.BadParameter(f"{namespace!r} is no name of a namespace: a-z, 0-9 and -, at most 63", param_hint="--namespace")
    if withdraw:
        if dry_run:
            raise click.UsageError("--withdraw goes without --dry-run")
        sys.exit(asyncio.run(_withdraw(kubeconfig, context)))
    from deploy.manifests import NEWEST, Options, manifests, to_yaml

    version = _version(server_version) if server_version else NEWEST
    options = Options(namespace, image, kueue, act, shards, network_policy, companions, version)
    if dry_run:
        click.echo(to_yaml(manifests(options)), nl=False)
        return
    if server_version:
        raise click.UsageError("--server-version goes with --dry-run; a server tells its version itself")
    sys.exit(asyncio.run(_install(options, kubeconfig, context, force)))


def _version(text: str) -> tuple[int, int]:
    read = re.fullmatch(r"v?([0-9]{1,4})\.([0-9]{1,4})(?:\D.*)?", text)
    if read is None:
        raise click.BadParameter(f"{text!r} is no version such as 1.30", param_hint="--server-version")
    return int(read[1]), int(read[2])


async def _install(options: "Options", kubeconfig: str | None, context: str | None, force: bool) -> int:
    from dataclasses import replace

    from deploy.manifests import manifests
    from kube.config import connect
    from kube.errors import KubeError

    try:
        client = await connect(kubeconfig, context)
    except KubeError as error:
        click.echo(f"Error: {error}", err=True)
        return 1
    async with client:
        try:
            told = await client.version()
            version = _version(f"{told.get('major', '')}.{told.get('minor', '')}")
        except (KubeError, click.BadParameter) as error:
            click.echo(f"the API server does not tell its version: {error}", err=True)
            return 1
        failed = 0
        for manifest in manifests(replace(options, version=version)):
            failed += not await _apply(client, manifest, force)
    if failed:
        click.echo(f"{failed} object{'s'[: failed > 1]} could not be applied", err=True)
    return 1 if failed else 0


async def _withdraw(kubeconfig: str | None, context: str | None) -> int:
    """Delete the two configurations; one that is not there is as good. Writes are not judged from then on."""
    from certs.publisher import MUTATING_NAME, VALIDATING_NAME
    from kube.config import connect
    from kube.errors import KubeError, NotFound
    from kube.resources import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS

    try:
        client = await connect(kubeconfig, context)
    except KubeError as error:
        click.echo(f"Error: {error}", err=True)
        return 1
    failed = False
    async with client:
        for resource, name in ((VALIDATING_WEBHOOKS, VALIDATING_NAME), (MUTATING_WEBHOOKS, MUTATING_NAME)):
            shown = f"{resource.kind.lower()}.{resource.group}/{name}"
            try:
                await client.delete(resource, name)
            except NotFound:
                click.echo(f"{shown} not there")
            except KubeError as error:
                failed = True
                click.echo(f"{shown} not deleted: {error}", err=True)
            else:
                click.echo(f"{shown} deleted")
    return int(failed)


async def _apply(client: "Client", manifest: dict[str, Any], force: bool) -> bool:
    from kube.errors import Conflict, KubeError
    from kube.resources import Resource

    group, _, version = manifest["apiVersion"].rpartition("/")
    kind, name, namespace = manifest["kind"], manifest["metadata"]["name"], manifest["metadata"].get("namespace")
    resource = Resource(group, version, _PLURALS[kind], kind, namespaced=namespace is not None)
    shown = f"{kind.lower()}{'.' if group else ''}{group}/{name}"
    body = json.dumps(manifest).encode()
    try:
        await client.patch(resource, name, body, namespace, kind="apply", field_manager=FIELD_MANAGER, force=force)
    except Conflict as error:
        click.echo(f"{shown} conflicts with another field manager (--force takes over): {error}", err=True)
        return False
    except KubeError as error:
        click.echo(f"{shown} not applied: {error}", err=True)
        return False
    click.echo(f"{shown} serverside-applied")
    return True
