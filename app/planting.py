"""Puts our own manifests into a cluster that has no nodes: namespace, definitions, Service, webhook configurations."""

import msgspec

from deploy.manifests import Options, manifests
from kube.client import Client
from kube.resources import CRDS, MUTATING_WEBHOOKS, NAMESPACES, SERVICES, VALIDATING_WEBHOOKS, Resource

FIELD_MANAGER = "mdctl"

# What needs no node and no controller. Accounts and roles would be stored and mean nothing: the embedded cluster enforces none.
KINDS: dict[str, Resource] = {resource.kind: resource for resource in (NAMESPACES, CRDS, SERVICES, MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)}


async def plant(client: Client, namespace: str) -> int:
    """Apply them all, server side. The number of objects. Raises KubeError."""
    chosen = [manifest for manifest in manifests(Options(namespace=namespace, companions=True)) if manifest["kind"] in KINDS]
    for manifest in chosen:
        metadata = manifest["metadata"]
        where = metadata.get("namespace")
        body = msgspec.json.encode(manifest)
        await client.patch(KINDS[manifest["kind"]], metadata["name"], body, where, kind="apply", field_manager=FIELD_MANAGER, force=True)
    return len(chosen)
