"""An API server that goes over to another certificate authority, and files that are replaced under a running client."""

import base64
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from ssl import SSLError

import aiohttp
import pytest
from authorities import Authority, Server, serving

from kube.access import Access, InClusterSource, KubeconfigSource, Source
from kube.client import Client
from kube.errors import ConnectFailed, TransportError, Unauthorized
from kube.resources import PODS
from kube.retry import RetryPolicy
from kube.session import Session


@cache
def authority(name: str) -> Authority:
    return Authority(name)


@dataclass
class World:
    """A server, the files of whoever talks to it, and the time that the client believes."""

    folder: Path
    server: Server
    now: float = 0.0
    loads: list[float] = field(default_factory=list)
    source: Source | None = None

    async def load(self) -> Access:
        assert self.source is not None
        self.loads.append(self.now)
        return await self.source.load()

    async def client(self, source: Source) -> Client:
        self.source = source
        return Client(Session(self, await self.load(), monotonic=lambda: self.now), RetryPolicy(attempts=1))

    def service_account(self) -> Source:
        environ = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(self.server.port)}
        (self.folder / "token").write_text("t")
        return InClusterSource(self.folder, environ)

    def kubeconfig(self, trust: dict[str, str], user: dict[str, str]) -> Source:
        cluster = {"server": f"https://127.0.0.1:{self.server.port}", **trust}
        path = self.folder / "config"
        path.write_text(
            json.dumps(
                {
                    "current-context": "x",
                    "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                    "clusters": [{"name": "c", "cluster": cluster}],
                    "users": [{"name": "u", "user": user}],
                }
            )
        )
        return KubeconfigSource(str(path))

    def trust(self, name: str) -> None:
        (self.folder / "ca.crt").write_bytes(authority(name).pem)

    def show(self, certificate: bytes, key: bytes) -> None:
        (self.folder / "client.crt").write_bytes(certificate)
        (self.folder / "client.key").write_bytes(key)


@asynccontextmanager
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with serving(tmp_path) as server:
        made = World(tmp_path, server)
        await server.shown(authority("old"))
        made.trust("old")
        yield made


def in_files(found: World, name: str) -> Source:
    found.trust(name)
    return found.kubeconfig({"certificate-authority": "ca.crt"}, {"token": "t"})


def in_cluster(found: World, name: str) -> Source:
    found.trust(name)
    return found.service_account()


def inline(found: World, name: str) -> Source:
    return found.kubeconfig({"certificate-authority-data": base64.b64encode(authority(name).pem).decode()}, {"token": "t"})


PLACES = {
    "the service account's ca.crt": in_cluster,
    "a file that a kubeconfig names": in_files,
    "in the kubeconfig itself": inline,
}


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
async def test_a_new_authority_is_met_with_the_new_file(tmp_path: Path, place: Callable[[World, str], Source]) -> None:
    """The first request that meets the new certificate reads again and succeeds, a write too, and arrives once."""
    async with world(tmp_path) as found, await found.client(place(found, "old")) as client:
        await found.server.shown(authority("new"))
        place(found, "new")
        found.now = 10.0
        await client.create(PODS, b"{}", "ns")
        await client.get(PODS, "a", "ns")
        assert len(found.server.peers) == 2
        assert found.loads == [0.0, 10.0]


async def test_a_file_that_comes_after_the_certificate_is_waited_for(tmp_path: Path) -> None:
    """Until then no request is sent to whom nobody vouches for, and the files are not read for each of them."""
    async with world(tmp_path) as found, await found.client(in_cluster(found, "old")) as client:
        await found.server.shown(authority("new"))
        found.now = 10.0
        for _ in range(3):
            with pytest.raises(ConnectFailed, match="certificate verify failed"):
                await client.get(PODS, "a", "ns")
        assert found.loads == [0.0, 10.0]
        found.trust("new")
        found.now = 15.0
        await client.get(PODS, "a", "ns")
        assert len(found.server.peers) == 1


async def test_a_connection_of_the_old_authority_finishes_what_it_carries(tmp_path: Path) -> None:
    """A rotation tears nothing down: what is open is used until the files say otherwise."""
    async with world(tmp_path) as found, await found.client(in_cluster(found, "old")) as client:
        await client.get(PODS, "a", "ns")
        await found.server.shown(authority("new"))
        found.trust("new")
        await client.get(PODS, "a", "ns")
        found.now = 61.0
        await client.get(PODS, "a", "ns")
        first, second, third = (port for _, port in found.server.peers)
        assert first == second != third


async def test_an_authority_that_was_taken_out_is_trusted_no_longer(tmp_path: Path) -> None:
    """Within a minute, also where nothing failed: whoever takes one out has a reason."""
    async with world(tmp_path) as found, await found.client(in_cluster(found, "old")) as client:
        await client.get(PODS, "a", "ns")
        found.trust("new")
        found.now = 61.0
        with pytest.raises(ConnectFailed, match="certificate verify failed"):
            await client.get(PODS, "a", "ns")


async def test_files_that_stay_cost_no_connection(tmp_path: Path) -> None:
    """Reading them each minute leaves the pool as it is."""
    async with world(tmp_path) as found, await found.client(in_cluster(found, "old")) as client:
        for minute in range(4):
            found.now = 61.0 * minute
            await client.get(PODS, "a", "ns")
        assert len(found.loads) == 4
        assert len(set(found.server.peers)) == 1


def with_certificate(found: World, *pair: bytes) -> Source:
    found.show(*pair)
    user = {"client-certificate": "client.crt", "client-key": "client.key"}
    return found.kubeconfig({"certificate-authority": "ca.crt"}, user)


async def test_a_replaced_client_certificate_is_shown(tmp_path: Path) -> None:
    """When the server refuses the old one, and without that within a minute."""
    clients = authority("clients")
    async with world(tmp_path) as found:
        await found.server.shown(authority("old"), clients=clients.pem)
        async with await found.client(with_certificate(found, *clients.certify("first"))) as client:
            await client.get(PODS, "a", "ns")
            found.server.refused.add("first")
            with pytest.raises(Unauthorized):
                await client.get(PODS, "a", "ns")
            found.show(*clients.certify("second"))
            await client.get(PODS, "a", "ns")
            found.show(*clients.certify("third"))
            found.now = 61.0
            await client.get(PODS, "a", "ns")
        assert [name for name, _ in found.server.peers] == ["first", "second", "third"]


async def test_a_pair_that_is_half_replaced_is_not_taken(tmp_path: Path) -> None:
    """The old pair serves until certificate and key belong together."""
    clients = authority("clients")
    async with world(tmp_path) as found:
        await found.server.shown(authority("old"), clients=clients.pem)
        async with await found.client(with_certificate(found, *clients.certify("first"))) as client:
            certificate, key = clients.certify("second")
            (found.folder / "client.crt").write_bytes(certificate)
            found.now = 61.0
            await client.get(PODS, "a", "ns")
            (found.folder / "client.key").write_bytes(key)
            found.now = 67.0
            await client.get(PODS, "a", "ns")
        assert [name for name, _ in found.server.peers] == ["first", "second"]
        assert found.loads == [0.0, 61.0, 67.0]


@dataclass
class Alerting:
    """A wire whose peer refuses our certificate once the handshake is over, as TLS 1.3 has it, and how aiohttp tells that."""

    shown: list[object] = field(default_factory=list)

    async def request(self, *_: object, ssl: object, **__: object) -> object:
        self.shown.append(ssl)
        raise aiohttp.ClientOSError(1, "tlsv1 alert unknown ca") from SSLError(1, "[SSL: TLSV1_ALERT_UNKNOWN_CA]")


async def test_an_alert_after_the_handshake_is_not_sent_past(tmp_path: Path) -> None:
    """That request may have been read, so it fails; the next one shows what lies in the files by now."""
    async with world(tmp_path) as found:
        source = with_certificate(found, *authority("clients").certify("first"))
        wire = Alerting()
        session = Session(source, await source.load(), monotonic=lambda: found.now, http=wire)  # type: ignore[arg-type]
        found.show(*authority("clients").certify("second"))
        found.now = 10.0
        for _ in range(2):
            with pytest.raises(TransportError, match="alert"):
                await session.request("POST", "/x", body=b"{}", seconds=1.0)
        first, second = wire.shown
        assert first is not second


async def test_a_token_file_that_is_being_replaced_is_no_fault(tmp_path: Path) -> None:
    """Empty for a moment: the token of before is good until it is refused."""
    async with world(tmp_path) as found, await found.client(in_cluster(found, "old")) as client:
        (found.folder / "token").write_text("")
        found.now = 61.0
        await client.get(PODS, "a", "ns")
        assert found.loads == [0.0, 61.0]
