"""`mdctl serve`: the webhooks and the controller against a cluster."""

import asyncio
import sys

import click

from app.flags import with_settings
from app.settings import Effective, Settings


@click.command("serve", short_help="Serve the webhooks and the controller against a cluster.")
@with_settings()
def command(effective: Effective) -> None:
    """Serve the webhooks and the controller against a cluster: the one of --kubeconfig, or the one we run in.

    \b
    Examples:
      mdctl serve
      mdctl serve --kubeconfig ~/.kube/config --context staging --certs-source memory
      mdctl serve --config /etc/modelwarden/settings.yaml --serve-health-port 8080

    \b
    Exit codes:
      0  stopped by SIGTERM or SIGINT: not ready, Lease given back, drained
      1  no cluster, a port that is taken, or a part of it died; the log says which
      2  a setting is wrong, or traces are asked for and the extra otel is not installed
    """
    from app import lean

    lean.prepare()
    from app import logging, loop

    settings = effective.settings
    logging.configure(settings.log_level, settings.log_format)
    sys.exit(loop.run(lambda stop: _serve(settings, stop)))


async def _serve(settings: Settings, stop: asyncio.Event) -> int:
    import os
    import socket

    import structlog

    from app.clock import SystemClock
    from app.service import PartDiedError, assemble
    from app.tracing import TracingError, opened
    from kube.config import connect
    from kube.errors import ConfigError

    log = structlog.get_logger("serve")
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
