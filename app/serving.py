"""From settings to an exit code: what `mdctl serve` does once everything is imported."""

import asyncio
import os
import socket

import structlog

from app.clock import SystemClock
from app.service import PartDiedError, assemble
from app.settings import Settings
from app.tracing import TracingError, opened
from kube.config import connect
from kube.errors import ConfigError

log = structlog.get_logger("serve")


async def serve(settings: Settings, stop: asyncio.Event) -> int:
    """Serve until `stop`. The exit code that the verb's help explains; what went wrong is logged."""
    instance = os.environ.get("POD_NAME") or socket.gethostname()
    try:
        traces = opened(settings.otel_endpoint, os.environ, namespace=settings.namespace, instance=instance)
    except TracingError as error:
        log.critical("no traces", error=str(error))
        return 2
    try:
        client = await connect(settings.kubeconfig, settings.context)
    except ConfigError as error:
        log.critical("no cluster to serve", error=str(error))
        return 1
    async with client:
        try:
            service = assemble(settings, client, SystemClock(), traces=traces)
            await service.run(stop)
        except OSError as error:
            log.critical("cannot listen", error=str(error))
            return 1
        except PartDiedError as died:
            log.critical("the service ends because a part of it died", error=str(died))
            return 1
        finally:
            if traces is not None:
                await asyncio.to_thread(traces.close)
    return 0
