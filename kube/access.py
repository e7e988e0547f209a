"""How a request gets in: address, trust and credential, from a kubeconfig or from the Pod we run in.

`kubernetes.aio` reads the files, runs exec plugins and refreshes OIDC tokens; here only two things are added: what rotates is read again,
and what is unusable is told as a ConfigError. Read again is everything at once, token, trusted authorities and client certificate: every
minute where it lies in files of its own, as a service account's does; a plugin's when its expiry nears; and any when the server answers
401 or TLS fails. A TLS context is made anew only where the bytes behind it differ, so that a pool keeps its connections through readings.
"""

import hashlib
import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Protocol

from kube.borrowed import borrow
from kube.errors import ConfigError

# As long as client-go keeps a token file's content; it looks at certificates each five minutes only, but one look serves both.
FILES_PERIOD: Final = 60.0
EXPIRY_SKEW: Final = 300.0
_CA: Final = "certificate-authority"


@dataclass(frozen=True, slots=True)
class Access:
    """What a load found. `good_for` is the seconds until it is read again, None for until it is refused.

    `tls` is the same object as in the load before, where certificates and key are the same bytes.
    """

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
        self._trust = _Trust()

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
        good_for = FILES_PERIOD if _rotates(loader, user) else None
        expiry = getattr(loader, "exec_plugin_expiry", None)
        if expiry is not None:
            left = (expiry - datetime.now(UTC)).total_seconds()
            good_for = max(left - EXPIRY_SKEW, left / 2, 1.0)  # a token that lives for minutes only is not asked for each second
        namespace = loader.current_context["context"].get("namespace") or "default"
        return _access(configuration, namespace, good_for, self._trust)


class InClusterSource:
    """The service account of the Pod we run in."""

    FOLDER: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")

    def __init__(self, folder: Path | None = None, environ: Mapping[str, str] | None = None) -> None:
        self.folder = folder or self.FOLDER
        self.environ = environ if environ is not None else os.environ
        self._trust = _Trust()

    async def load(self) -> Access:
        """Read the token and the CA, both of which the kubelet replaces in place."""
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
        return _access(configuration, namespace, FILES_PERIOD, self._trust)


def _any_file(paths: str) -> bool:
    """Asked here, because the merger would only log what is missing."""
    return any(Path(path).expanduser().is_file() for path in paths.split(os.pathsep) if path)


def _rotates(loader: Any, user: Mapping[str, Any]) -> bool:
    """Whether somebody may replace a file that the kubeconfig names. Plugins and providers are not run for that: theirs is an expiry."""
    if "exec" in user or "auth-provider" in user:
        return False
    cluster = getattr(loader._cluster, "value", loader._cluster) or {}
    named = ((user, "tokenFile", "token"), (user, "client-certificate", "client-certificate-data"))
    return any(file in entry and data not in entry for entry, file, data in (*named, (cluster, _CA, f"{_CA}-data")))


def _access(configuration: Any, namespace: str, good_for: float | None, trust: "_Trust") -> Access:
    token = configuration.api_key.get("BearerToken")
    host = configuration.host.rstrip("/")
    return Access(
        host=host,
        authorization=_header(token) if token else None,
        tls=trust.context(configuration) if host.startswith("https") else None,
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


class _Trust:
    """The TLS context of the certificates last read."""

    def __init__(self) -> None:
        self._digest = b""
        self._context: ssl.SSLContext | None = None

    def context(self, configuration: Any) -> ssl.SSLContext:
        """The context of before if it would come out the same, else a new one. Raises ConfigError."""
        try:
            # Read before the context reads: what is replaced in between differs at the next load, and is never taken for known.
            digest = _digest(configuration)
            if self._context is None or digest != self._digest:
                self._context, self._digest = _context(configuration), digest
        except (ssl.SSLError, OSError) as fault:
            raise ConfigError(f"the certificates of {configuration.host} cannot be loaded: {fault}") from fault
        return self._context


def _digest(configuration: Any) -> bytes:
    """What the context is made of, as a sum: a private key is not kept for a comparison."""
    digest = hashlib.sha256(b"verified" if configuration.verify_ssl else b"")
    for path in (configuration.ssl_ca_cert, configuration.cert_file, configuration.key_file):
        digest.update(hashlib.sha256(Path(path).read_bytes() if path else b"").digest())
    return digest.digest()


def _context(configuration: Any) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
    if configuration.cert_file:
        context.load_cert_chain(configuration.cert_file, keyfile=configuration.key_file)
    if not configuration.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def find_source(kubeconfig: str | None = None, context: str | None = None, environ: Mapping[str, str] | None = None) -> Source:
    """The explicit file, else $KUBECONFIG, else ~/.kube/config, else the Pod's service account: kubectl's order.

    A Pod has no contexts: who names one means a file. Raises ConfigError.
    """
    environ = environ if environ is not None else os.environ
    if kubeconfig:
        return KubeconfigSource(kubeconfig, context)
    if environ.get("KUBECONFIG"):
        return KubeconfigSource(environ["KUBECONFIG"], context)
    home = Path(environ.get("HOME", "~")).expanduser() / ".kube" / "config"
    if home.is_file():
        return KubeconfigSource(str(home), context)
    if context:
        raise ConfigError(f"no kubeconfig to take the context {context!r} from: no --kubeconfig, no $KUBECONFIG, no ~/.kube/config")
    if environ.get("KUBERNETES_SERVICE_HOST"):
        return InClusterSource(environ=environ)
    raise ConfigError("no cluster to connect to: no --kubeconfig, no $KUBECONFIG, no ~/.kube/config, and not inside a Pod")
