"""`connect`: from a kubeconfig or a service account to a Client."""

from kube.access import find_source
from kube.client import Client
from kube.retry import RetryPolicy
from kube.session import Session


async def connect(kubeconfig: str | None = None, context: str | None = None, *, retry: RetryPolicy | None = None) -> Client:
    """A client of the cluster that kubectl would talk to. Sends nothing yet. Raises ConfigError."""
    source = find_source(kubeconfig, context)
    return Client(Session(source, await source.load()), retry or RetryPolicy())
