"""A plain kopf operator that does the representative part of the job: it follows ModelDeployments and Pods, and patches a status that says how
many Pods of each role are ready and which.

Run as `kopf run --standalone --all-namespaces kopf_operator.py` with $KUBECONFIG. Pods are kept by kopf's own index; a status is computed
from the index and sent when it differs from the last one. The patch goes by a plain aiohttp session, because a Pod's handler can only patch
Pods. kopf's posting of Events is off: nobody is served by Events about events.
"""

import asyncio
import os
import ssl
from collections import defaultdict

import aiohttp
import kopf
import yaml

INSTANCE = "app.kubernetes.io/instance"
ROLE = "app.kubernetes.io/component"
ORDINAL = "modeldeployment.gpustack.ai/pod-ordinal"

session = None
server = ""
deployments = {}
written = {}
locks = defaultdict(asyncio.Lock)


@kopf.on.startup()
async def begin(settings, **_):
    global session, server
    settings.posting.enabled = False
    settings.scanning.disabled = True
    with open(os.environ["KUBECONFIG"]) as file:
        config = yaml.safe_load(file)
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    server = cluster["server"]
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=ssl.create_default_context(cafile=cluster["certificate-authority"])),
        headers={"Authorization": "Bearer " + user["token"]},
    )


@kopf.on.cleanup()
async def end(**_):
    await session.close()


@kopf.index("v1", "pods", labels={INSTANCE: kopf.PRESENT})
def members(namespace, name, uid, labels, status, **_):
    """Pods by deployment; the value is what the status needs of one."""
    ready = next((c["status"] for c in status.get("conditions", ()) if c["type"] == "Ready"), "Unknown")
    row = {"name": name, "uid": uid, "role": labels.get(ROLE, ""), "ordinal": int(labels.get(ORDINAL, 0)), "ready": ready}
    return {(namespace, labels[INSTANCE]): row}


@kopf.on.event("worker.gpustack.ai", "v1", "modeldeployments")
async def followed(body, namespace, name, members, **_):
    deployments[namespace, name] = {
        "generation": body["metadata"]["generation"],
        "roles": [(role["name"], role["replicas"]) for role in body["spec"]["roles"]],
    }
    await converge((namespace, name), members)


@kopf.on.event("v1", "pods", labels={INSTANCE: kopf.PRESENT})
async def moved(namespace, labels, members, **_):
    await converge((namespace, labels[INSTANCE]), members)


async def converge(key, members):
    """Compute the status from the index and send it when it differs."""
    async with locks[key]:
        deployment = deployments.get(key)
        if deployment is None:
            return
        pods = list(members.get(key, ()))
        roles = []
        for name, replicas in deployment["roles"]:
            own = sorted((pod for pod in pods if pod["role"] == name), key=lambda pod: pod["ordinal"])
            groups = [
                {"ordinal": pod["ordinal"], "members": [{"name": pod["name"], "uid": pod["uid"], "seat": 0, "ready": pod["ready"]}]}
                for pod in own
            ]
            ready = sum(pod["ready"] == "True" for pod in own)
            roles.append({"name": name, "desired": replicas, "ready": ready, "groups": groups})
        whole = all(role["ready"] >= role["desired"] for role in roles)
        status = {"observedGeneration": deployment["generation"], "phase": "Ready" if whole else "Degraded", "roles": roles}
        if written.get(key) == status:
            return
        namespace, name = key
        url = f"{server}/apis/worker.gpustack.ai/v1/namespaces/{namespace}/modeldeployments/{name}/status"
        async with session.patch(url, json={"status": status}, headers={"Content-Type": "application/merge-patch+json"}) as answer:
            answer.raise_for_status()
            await answer.read()
        written[key] = status
