"""Puts our own manifests into a cluster that has no nodes to run them on: namespace, definitions, Service, webhook configurations."""

from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import msgspec
import yaml

from kube.client import Client
from kube.resources import CRDS, MUTATING_WEBHOOKS, NAMESPACES, SERVICES, VALIDATING_WEBHOOKS, Resource

FIELD_MANAGER = "mdctl"

# What needs no node and no controller. Accounts and roles would be stored and mean nothing: the embedded cluster enforces none.
FILES = ("base/namespace.yaml", "crds/modelwarden.yaml", "crds/companions.yaml", "base/service.yaml", "base/webhooks.yaml")
KINDS: dict[str, Resource] = {resource.kind: resource for resource in (NAMESPACES, CRDS, SERVICES, MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)}


def documents() -> Iterator[dict[str, Any]]:
    """Every object of FILES, in an order in which each finds what it refers to."""
    for name in FILES:
        text = files("deploy").joinpath(name).read_text(encoding="utf-8")
        yield from (document for document in yaml.load_all(text, Loader=_loader()) if document)


async def install(client: Client) -> int:
    """Apply them all, server side. The number of objects. Raises KubeError."""
    count = 0
    for document in documents():
        resource = KINDS[document["kind"]]
        metadata = document["metadata"]
        body = msgspec.json.encode(document)
        await client.patch(
            resource, metadata["name"], body, metadata.get("namespace"), kind="apply", field_manager=FIELD_MANAGER, force=True
        )
        count += 1
    return count


def _loader() -> Any:
    """The C parser where PyYAML has it: the definitions are long."""
    return getattr(yaml, "CSafeLoader", yaml.SafeLoader)
