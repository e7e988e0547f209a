"""The embedded cluster: a small Kubernetes API in the process, for a laptop, for tests and for scenario files.

It binds loopback only, speaks TLS under its own authority, and keeps everything in memory. It is honest about its edge: what it does not do
answers 404 or 501 with a sentence. No scheduler, no kubelet, no controllers run in it, except the part of ending things (`local.garbage`).
"""

import asyncio
import re
import socket
import ssl
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic

from aiohttp import web

from api.clock import Clock
from local import crds
from local.admission import Admission
from local.callers import Caller, Doors, known
from local.faults import Faults
from local.garbage import Collector
from local.kinds import CRDS, NAMESPACES, SERVICE_ACCOUNTS, Registry, Served
from local.kueue import workload_definition
from local.operation import Operation
from local.pki import Authority, write_kubeconfig, write_private
from local.removal import Remover
from local.server import Api
from local.store import Change, Store, TableName
from local.streams import Streams
from local.wire import JSON
from local.writes import Writer

ADMIN = "modelwarden-admin"
NAMESPACES_AT_START = ("default", "kube-system", "kube-public", "kube-node-lease")


class WallClock:
    """The machine's own time."""

    def now(self) -> datetime:
        """Wall clock, UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Seconds that never run backwards."""
        return monotonic()

    async def sleep(self, seconds: float) -> None:
        """Let that many seconds pass."""
        await asyncio.sleep(seconds)


class EmbeddedCluster:
    """Start it, use `url` and `kubeconfig`, stop it.

    `state_dir` gets certificates, the server's key and the kubeconfigs, for their owner's eyes only. `kubelet=False` leaves ending Pods to
    somebody else. `kueue` serves a stand-in for Kueue's Workload. `webhook_services` maps (namespace, service) to the (host, port) on which
    a webhook named by service really listens.
    """

    def __init__(
        self,
        *,
        state_dir: Path,
        port: int = 0,
        clock: Clock | None = None,
        kueue: bool = True,
        kubelet: bool = True,
        history: int = 16384,
        bookmark_seconds: float = 10.0,
    ) -> None:
        self.state_dir = state_dir
        self.kueue = kueue
        self.clock: Clock = clock or WallClock()
        self.store = Store(history)
        self.registry = Registry()
        self.doors = Doors(self.clock)
        self.faults = Faults(self.store, self.clock)
        self.admission = Admission(self.registry, self._configurations, self._namespace_labels)
        self.writer = Writer(self.store, self.registry, self.admission, self.clock, self._written)
        self.remover = Remover(self.store, self.admission, self.clock, self.writer)
        self.collector = Collector(self.store, self.registry, self.writer, self.remover, self.clock, kubelet=kubelet)
        self.store.follow(self._noticed)
        streams = Streams(self.store, self.faults, bookmark_seconds=bookmark_seconds)
        self._api = Api(
            store=self.store,
            registry=self.registry,
            doors=self.doors,
            writer=self.writer,
            remover=self.remover,
            streams=streams,
            faults=self.faults,
            clock=self.clock,
        )
        self._authority = Authority()
        self._port = port
        self._runner: web.ServerRunner | None = None
        self._collecting: asyncio.Task[None] | None = None
        self._hooks: dict[str, list[JSON]] = {}
        self.url = ""
        self.ca_pem = self._authority.pem
        self.kubeconfig = state_dir / "kubeconfig"
        self.ca_file = state_dir / "ca.crt"

    @property
    def webhook_services(self) -> dict[tuple[str, str], tuple[str, int]]:
        """Where the webhooks that are named by service listen."""
        return self.admission.dialer.services

    # ---------------------------------------------------------------------------------------------------------- life

    async def start(self) -> None:
        """Bind, write the kubeconfig, make the first namespaces."""
        self.state_dir.mkdir(parents=True, exist_ok=True)
        listener = socket.create_server(("127.0.0.1", self._port))
        self.url = f"https://127.0.0.1:{listener.getsockname()[1]}"
        server = web.Server(self._api.handle, handler_cancellation=True, access_log=None, keepalive_timeout=3600.0)
        self._runner = web.ServerRunner(server)
        await self._runner.setup()
        await web.SockSite(self._runner, listener, ssl_context=self._tls()).start()
        write_private(self.ca_file, self.ca_pem)
        self.kubeconfig_for(ADMIN, ("system:masters",), path=self.kubeconfig)
        self._collecting = asyncio.create_task(self.collector.run())
        for name in NAMESPACES_AT_START:
            await self.writer.create(Operation(NAMESPACES, name=name, internal=True), {"metadata": {"name": name}})
        if self.kueue:
            await self.writer.create(Operation(CRDS, internal=True), workload_definition())

    def _tls(self) -> ssl.SSLContext:
        pair = self._authority.server()
        key = write_private(self.state_dir / "server.key", pair.key)
        certificate = write_private(self.state_dir / "server.crt", pair.certificate)
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificate, key)
        context.load_verify_locations(cadata=self.ca_pem.decode())
        context.verify_mode = ssl.CERT_OPTIONAL  # a token serves as well
        return context

    async def stop(self) -> None:
        """End every watch and close."""
        self.faults.drop_watches()
        if self._collecting is not None:
            self._collecting.cancel()
            with suppress(asyncio.CancelledError):
                await self._collecting
        if self._runner is not None:
            await self._runner.shutdown()
            await self._runner.cleanup()
        await self.admission.dialer.close()

    # --------------------------------------------------------------------------------------------------------- users

    def kubeconfig_for(self, user: str, groups: tuple[str, ...] = (), *, path: Path | None = None, namespace: str = "default") -> Path:
        """A kubeconfig with a client certificate of this user."""
        target = path or self.state_dir / f"{re.sub(r'[^A-Za-z0-9_.-]+', '-', user)}.kubeconfig"
        return write_kubeconfig(target, self.url, self.ca_pem, user, pair=self._authority.user(user, groups), namespace=namespace)

    def token_for(self, user: str, groups: tuple[str, ...] = ()) -> str:
        """A bearer token of this user."""
        return self.doors.issue(known(user, groups))

    def caller(self, user: str, groups: tuple[str, ...] = ()) -> Caller:
        """The user as the admission chain sees them."""
        return known(user, groups)

    # -------------------------------------------------------------------------------------------- what follows a write

    def _configurations(self, plural: str) -> list[JSON]:
        found = self._hooks.get(plural)
        if found is None:
            table = self.store.table(("admissionregistration.k8s.io", plural))
            found = self._hooks[plural] = [entry.object() for entry in table.entries.values()]
        return found

    def _namespace_labels(self, namespace: str) -> dict[str, str]:
        entry = self.store.get(NAMESPACES.table, ("", namespace))
        return entry.labels if entry is not None else {}

    def _written(self, served: Served, obj: JSON) -> None:
        """Things that the server itself does at once: serve a new kind, give a namespace its account."""
        if served.plural in {"validatingwebhookconfigurations", "mutatingwebhookconfigurations"}:
            self._hooks.pop(served.plural, None)
        if served.table == NAMESPACES.table and obj and not obj["metadata"].get("deletionTimestamp"):
            self._give_account(obj["metadata"]["name"])
        if served.table == CRDS.table and obj:
            self._serve(obj)

    def _give_account(self, namespace: str) -> None:
        key = (namespace, "default")
        if self.store.get(SERVICE_ACCOUNTS.table, key) is None:
            self.writer.put_internal(SERVICE_ACCOUNTS, key, {})

    def _serve(self, crd: JSON) -> None:
        spec = crd["spec"]
        self.registry.replace(spec["group"], spec["names"]["plural"], crds.served_by(crd))
        before = crd.get("status")
        crds.establish(crd, self.clock.now())
        if crd.get("status") != before or not before:
            stored = self.store.put(CRDS.table, ("", crd["metadata"]["name"]), crd)
            crd["metadata"]["resourceVersion"] = str(stored.rv)

    def _noticed(self, name: TableName, change: Change) -> None:
        if name == CRDS.table and change.type == "DELETED":
            self._withdraw(change.entry.object())
        self.collector.notice(name, change)

    def _withdraw(self, crd: JSON) -> None:
        """A definition is gone: its objects go with it, then nothing serves them."""
        spec = crd["spec"]
        table_name = (spec["group"], spec["names"]["plural"])
        rows = self.registry.versions(*table_name)
        table = self.store.table(table_name)
        for key in list(table.order):
            self.store.remove(table_name, key, table.entries[key].object(), rows[0].selectable if rows else ())
        self.registry.replace(*table_name, ())
        table.forget_history(self.store.revision)  # a definition of the same name may come again, and means other objects
        for watcher in table.watchers:
            watcher.end()
