"""kopf's own admission server and review pipeline, with one validating and one mutating handler that do the representative job.

Run in an environment that has kopf and uvloop: `python kopf_server.py PORT CERT KEY CORE`. The operator around it is left out: what is
measured is the server, the pipeline that serves a review, and a handler.
"""

import asyncio
import functools
import logging
import os
import sys

import kopf
import uvloop
from kopf._cogs.configs.configuration import OperatorSettings
from kopf._cogs.structs.ephemera import Memo
from kopf._cogs.structs.references import Insights, Resource
from kopf._core.engines.admission import serve_admission_request
from kopf._core.engines.indexing import OperatorIndexers
from kopf._core.intents.registries import OperatorRegistry
from kopf._core.reactor.inventory import ResourceMemories

registry = OperatorRegistry()


@kopf.on.validate("worker.gpustack.ai", "v1", "modeldeployments", registry=registry)
def validate(new, old, **_):
    """The fence, reduced to its comparison."""
    if old and [role.get("replicas") for role in old["spec"]["roles"]] != [role.get("replicas") for role in new["spec"]["roles"]]:
        raise kopf.AdmissionError("replicas are owned by the scaler", code=403)


@kopf.on.mutate("v1", "pods", registry=registry)
def gates(new, patch, **_):
    """The probes and listen flags, reduced to the patch."""
    container = dict(new["spec"]["containers"][0])
    container["args"] = [*container.get("args", []), "--host", "0.0.0.0", "--port", "8000"]
    patch["spec"] = {"containers": [container]}


async def main() -> None:
    port, cert, key, core = sys.argv[1:5]
    if int(core) >= 0 and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {int(core)})
    logging.disable(logging.CRITICAL)
    insights = Insights(
        webhook_resources={
            Resource("worker.gpustack.ai", "v1", "modeldeployments", kind="ModelDeployment", namespaced=True, preferred=True),
            Resource("", "v1", "pods", kind="Pod", namespaced=True, preferred=True),
        }
    )
    serve = functools.partial(
        serve_admission_request,
        settings=OperatorSettings(),
        memories=ResourceMemories(),
        memobase=Memo(),
        registry=registry,
        insights=insights,
        indices=OperatorIndexers().indices,
    )
    async with kopf.WebhookServer(addr="127.0.0.1", port=int(port), certfile=cert, pkeyfile=key, cafile=cert) as server:
        async for _ in server(serve):
            await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(main())
