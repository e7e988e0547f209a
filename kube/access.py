"""How a request gets in: address, trust and credential, from a kubeconfig or from the Pod we run in.

`kubernetes.aio` reads the files, runs exec plugins and refreshes OIDC tokens; here only two things are added: a rotated token is read again
(a service account's every minute, a plugin's when its expiry nears, any other when the server answers 401), and what is unusable is told
as a ConfigError. An exec plugin that hands out a client certificate is asked once, at the start.
"""

import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Protocol

from kube.borrowed import borrow
from kube.errors import ConfigError

TOKEN_PERIOD: Final = 60.0
EXPIRY_SKEW: Final = 300.0


@dataclass(frozen=True, slots=True)
class Access:
    """What a load found. `good_for` is the seconds until the credential is read again, None for until it is refused."""

    host: str
    authorization: str | None
    tls: ssl.SSLContext | None
    server_hostname: str | None
    proxy: str | None
    namespace: str
    good_for: float | None


class Source(Protocol):
    """Where access comes from; loading twice reads twice."""

    async def load(self) -> Access:
        """Read it now. Raises ConfigError."""
        ...


class KubeconfigSource:
    """One or more kubeconfig files (separated as in $KUBECONFIG), merged as kubectl does."""

    def __init__(self, paths: str, context: str | None = None) -> None:
        self.paths = paths
        self.context = context

    async def load(self) -> Access:
        """Read the files, run the plugin if there is one."""
        parts = borrow()
        configuration = parts.Configuration()
        try:
            if not _any_file(self.paths):
                raise ConfigError(f"no kubeconfig at {self.paths}")
            merged = parts.KubeConfigMerger(self.paths).config
            loader = parts.KubeConfigLoader(merged, active_context=self.context, config_base_path=None)
            loader._user = loader._user if loader._user is not None else {}
            await loader.load_and_set(configuration)
        except ConfigError:
            raise
        except Exception as fault:  # the loader raises what its parts raise
            # An empty or foreign file makes the loader stumble over what is not there: its words would name Python's types.
            stumbled = isinstance(fault, AttributeError | TypeError)
            why = "it is no mapping with clusters, users and contexts" if stumbled else " ".join(str(fault).split())
            raise ConfigError(f"kubeconfig {self.paths}: {why}") from fault
        user = getattr(loader._user, "value", loader._user) or {}
        if "exec" in user and not configuration.api_key and not configuration.cert_file:
            raise ConfigError(f"kubeconfig {self.paths}: the exec plugin {user['exec'].get('command')!r} gave no credential")
        good_for = TOKEN_PERIOD if "tokenFile" in user and "token" not in user else None
        expiry = getattr(loader, "exec_plugin_expiry", None)
        if expiry is not None:
            left = (expiry - datetime.now(UTC)).total_seconds()
            good_for = max(left - EXPIRY_SKEW, left / 2, 1.0)  # a token that lives for minutes only is not asked for each second
        namespace = loader.current_context["context"].get("namespace") or "default"
        return _access(configuration, namespace, good_for)


class InClusterSource:
    """The service account of the Pod we run in."""

    FOLDER: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")

    def __init__(self, folder: Path | None = None, environ: Mapping[str, str] | None = None) -> None:
        self.folder = folder or self.FOLDER
        self.environ = environ if environ is not None else os.environ

    async def load(self) -> Access:
        """Read the token and the CA."""
        parts = borrow()
        configuration = parts.Configuration()
        try:
            parts.InClusterConfigLoader(
                str(self.folder / "token"), str(self.folder / "ca.crt"), try_refresh_token=False, environ=self.environ
            ).load_and_set(configuration)
            namespace_file = self.folder / "namespace"
            namespace = namespace_file.read_text().strip() if namespace_file.is_file() else "default"
        except (parts.ConfigException, OSError) as fault:
            raise ConfigError(f"in-cluster configuration: {fault}") from fault
        return _access(configuration, namespace, TOKEN_PERIOD)


def _any_file(paths: str) -> bool:
    """Asked here, because the merger would only log what is missing."""
    return any(Path(path).expanduser().is_file() for path in paths.split(os.pathsep) if path)


def _access(configuration: Any, namespace: str, good_for: float | None) -> Access:
    token = configuration.api_key.get("BearerToken")
    host = configuration.host.rstrip("/")
    return Access(
        host=host,
        authorization=_header(token) if token else None,
        tls=_trust(configuration) if host.startswith("https") else None,
        server_hostname=configuration.tls_server_name,
        proxy=configuration.proxy,
        namespace=namespace,
        good_for=good_for,
    )


def _header(token: str) -> str:
    """The header's value. Token files end in a newline, which no header may hold, and the scheme is spelled as RFC 6750 spells it.

    Raises ConfigError, which does not show the token.
    """
    scheme, _, value = token.partition(" ")
    if not value.strip().isprintable():
        raise ConfigError("the token holds a line break, or another character that no header may hold")
    return f"{scheme.capitalize()} {value.strip()}"


def _trust(configuration: Any) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
        if configuration.cert_file:
            context.load_cert_chain(configuration.cert_file, keyfile=configuration.key_file)
    except (ssl.SSLError, OSError) as fault:
        raise ConfigError(f"the certificates of {configuration.host} cannot be loaded: {fault}") from fault
    if not configuration.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def find_source(kubeconfig: str | None = None, context: str | None = None, environ: Mapping[str, str] | None = None) -> Source:
    """The explicit file, else $KUBECONFIG, else ~/.kube/config, else the Pod's service account: kubectl's order."""
    environ = environ if environ is not None else os.environ
    if kubeconfig:
        return KubeconfigSource(kubeconfig, context)
    if environ.get("KUBECONFIG"):
        return KubeconfigSource(environ["KUBECONFIG"], context)
    home = Path(environ.get("HOME", "~")).expanduser() / ".kube" / "config"
    if home.is_file():
        return KubeconfigSource(str(home), context)
    if environ.get("KUBERNETES_SERVICE_HOST"):
        return InClusterSource(environ=environ)
    raise ConfigError("no cluster to connect to: no --kubeconfig, no $KUBECONFIG, no ~/.kube/config, and not inside a Pod")
