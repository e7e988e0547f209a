"""`mdctl serve`: the webhooks and the controller against a cluster."""

import sys

import click

from app.flags import with_settings
from app.settings import Effective


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
    from app import collector, lean

    with collector.resting():
        lean.prepare()
        from app import logging, loop
        from app.serving import serve

    settings = effective.settings
    logging.configure(settings.log_level, settings.log_format)
    sys.exit(loop.run(lambda stop: serve(settings, stop)))
