"""The whole product against a cluster: definitions, webhooks by URL and caBundle, the service, until the test is over."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from clusterkit import TestCluster

from api.crd.variants import fitted
from app.clock import SystemClock
from app.service import Service, assemble
from app.settings import load as load_settings
from deploy.manifests import Options, manifests
from kube.client import Client
from kube.resources import CRDS, LEASES, MUTATING_WEBHOOKS, NAMESPACES, VALIDATING_WEBHOOKS, Resource
from local.kueue import workload_definition
from local.scenario import Scenario

JSON = dict[str, Any]

SYSTEM = "modelwarden-system"
SCALER = f"system:serviceaccount:{SYSTEM}:modeldeployment-scaler"
MODEL_DEPLOYMENTS = Resource("worker.gpustack.ai", "v1", "modeldeployments", "ModelDeployment")
SCALERS = Resource("worker.gpustack.ai", "v1", "modeldeploymentscalers", "ModelDeploymentScaler")
WORKLOADS = Resource("kueue.x-k8s.io", "v1beta2", "workloads", "Workload")
_CONFIGURATIONS = {"ValidatingWebhookConfiguration": VALIDATING_WEBHOOKS, "MutatingWebhookConfiguration": MUTATING_WEBHOOKS}


async def put(client: Client, resource: Resource, obj: JSON, namespace: str | None = None) -> None:
    """Apply an object, whoever wrote it before."""
    body = json.dumps(obj).encode()
    await client.patch(resource, obj["metadata"]["name"], body, namespace, kind="apply", field_manager="tests", force=True)


@asynccontextmanager
async def product(cluster: TestCluster) -> AsyncIterator[Service]:
    """Install, start, and wait until reviews are answered and the Lease is held. The webhooks are taken away again at the end."""
    client = await cluster.client()
    flags = {
        "serve.host": "127.0.0.1",
        "serve.port": 0,
        "serve.drainSeconds": 0,
        "certs.extraNames": ("127.0.0.1",),
        "observers.enabled": False,
    }
    objects = manifests(Options(companions=True, version=(1, cluster.minor)))
    await put(client, NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM}})
    definitions = [obj for obj in objects if obj["kind"] == "CustomResourceDefinition"]
    for definition in [*definitions, fitted(workload_definition(), (1, cluster.minor))]:
        await put(client, CRDS, definition)
    for resource in (MODEL_DEPLOYMENTS, SCALERS, WORKLOADS):
        await cluster.eventually(lambda resource=resource: client.serves(resource), f"{resource.plural} are never served")
    service = assemble(load_settings(environ={}, flags=flags).settings, client, SystemClock())
    host, port = service.https.address
    for obj in objects:
        if obj["kind"] in _CONFIGURATIONS:
            for hook in obj["webhooks"]:
                hook["clientConfig"] = {"url": f"https://{host}:{port}{hook['clientConfig']['service']['path']}"}
            await put(client, _CONFIGURATIONS[obj["kind"]], obj)
    stop = asyncio.Event()
    task = asyncio.create_task(service.run(stop))
    try:
        await cluster.eventually(lambda: _published(client, task), "the caBundles are never filled in")
        await cluster.eventually(lambda: _leads(client, task), "the Lease is never taken")
        yield service
    finally:
        for kind, resource in _CONFIGURATIONS.items():
            await client.delete(resource, next(obj["metadata"]["name"] for obj in objects if obj["kind"] == kind))
        stop.set()
        async with asyncio.timeout(20):
            await task


async def _published(client: Client, task: "asyncio.Task[None]") -> bool:
    if task.done():
        task.result()
    found = [json.loads(await client.get(resource, name)) for resource, name in _named()]
    return all(hook["clientConfig"].get("caBundle") for configuration in found for hook in configuration["webhooks"])


def _named() -> list[tuple[Resource, str]]:
    return [(VALIDATING_WEBHOOKS, "modelwarden-validating"), (MUTATING_WEBHOOKS, "modelwarden-mutating")]


async def _leads(client: Client, task: "asyncio.Task[None]") -> bool:
    if task.done():
        task.result()
    async for page in client.pages(LEASES, SYSTEM):
        return any(json.loads(bytes(item))["spec"].get("holderIdentity") for item in page.items)
    return False


def moved(scenario: Scenario, namespace: str) -> Scenario:
    """The scenario in another namespace, which is there already."""
    steps = []
    for step in scenario.steps:
        what = [obj for obj in step.what if obj["kind"] != "Namespace"] if step.act == "apply" else step.what
        steps.append(replace(step, what=what))
    return replace(scenario, namespace=namespace, steps=tuple(steps))


async def deployment(client: Client, name: str, namespace: str) -> JSON:
    """The ModelDeployment."""
    found: JSON = json.loads(await client.get(MODEL_DEPLOYMENTS, name, namespace))
    return found
