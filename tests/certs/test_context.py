"""The context and the file store: connections live through a swap, key types do not mix, and a symlink swap is read whole."""

import asyncio
import ssl
from datetime import timedelta
from pathlib import Path

import pytest
from certs_world import START, VirtualClock, client_trusting, handshake, settle
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding

from certs.authority import CertAuthority, Profile
from certs.context import ServingContext
from certs.errors import MaterialError, ReadOnlyStoreError
from certs.keeper import CertKeeper
from certs.material import Pair
from certs.publisher import NoPublisher
from certs.store import FileStore

AUTHORITY = CertAuthority(Profile.of_service("modelwarden", "modelwarden-system", extra=("127.0.0.1",)))


def der(pair: Pair) -> bytes:
    return pair.certificate.public_bytes(Encoding.DER)


def test_nothing_loaded_refuses_the_handshake_and_says_so():
    """Before the first certificate a client is turned away, and readiness knows why."""
    context = ServingContext()
    with pytest.raises(ssl.SSLError):
        handshake(context.ssl, AUTHORITY.bootstrap(START).bundle)
    assert context.serving is None
    assert not context.loaded


@pytest.mark.parametrize("name", ["modelwarden.modelwarden-system.svc", None], ids=["by the Service's name", "by address, without SNI"])
def test_a_swap_serves_the_new_certificate(name):
    """From the next handshake on, however the API server dials."""
    first = AUTHORITY.bootstrap(START)
    second = AUTHORITY.renew(first, START)
    context = ServingContext()
    context.load(first.serving)
    assert handshake(context.ssl, first.bundle, name) == der(first.serving)
    context.load(second.serving)
    assert handshake(context.ssl, first.bundle, name) == der(second.serving)


def test_a_mismatched_pair_changes_nothing():
    """A certificate that meets another's key is refused, and what was served before still is."""
    first, second = AUTHORITY.bootstrap(START), AUTHORITY.bootstrap(START)
    context = ServingContext()
    context.load(first.serving)
    with pytest.raises(MaterialError):
        context.load(Pair(first.serving.certificate, second.serving.key))
    assert handshake(context.ssl, first.bundle) == der(first.serving)


def rsa_pair(material) -> Pair:
    """An RSA serving certificate of the same authority, as cert-manager makes by default."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    certificate = material.serving.certificate
    builder = (
        x509.CertificateBuilder(
            issuer_name=certificate.issuer, subject_name=certificate.subject, public_key=key.public_key(), serial_number=7
        )
        .not_valid_before(certificate.not_valid_before_utc)
        .not_valid_after(certificate.not_valid_after_utc)
    )
    for extension in certificate.extensions:
        if extension.oid != x509.SubjectKeyIdentifier.oid:
            builder = builder.add_extension(extension.value, extension.critical)
    return Pair(builder.sign(material.authority.key, hashes.SHA256()), key)


def test_a_certificate_of_another_key_type_replaces_the_old_one():
    """OpenSSL keeps a slot per key type: loading RSA over EC into one context would go on serving the old certificate."""
    material = AUTHORITY.bootstrap(START)
    new = rsa_pair(material)
    context = ServingContext()
    context.load(material.serving)
    context.load(new)
    assert handshake(context.ssl, material.bundle) == der(new)


async def test_open_connections_live_through_swaps():
    """Fifty clients keep talking over their connections while the certificate changes under them, and new ones never fail."""
    material = AUTHORITY.bootstrap(START)
    context = ServingContext()
    context.load(material.serving)

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            writer.write(line)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0, ssl=context.ssl)
    port = server.sockets[0].getsockname()[1]
    client = client_trusting(material.bundle)

    async def connect() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", port, ssl=client)

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"still there?\n")
        await writer.drain()
        assert await reader.readline() == b"still there?\n"

    served = set()
    connections = [await connect() for _ in range(10)]
    async with server:
        for _ in range(8):
            opening = [asyncio.create_task(connect()) for _ in range(5)]
            await asyncio.sleep(0)
            material = AUTHORITY.renew(material, START)
            context.load(material.serving)
            for pair in connections:
                await talk(*pair)
            connections += [await task for task in opening]
            served.add(connections[-1][1].get_extra_info("ssl_object").getpeercert(binary_form=True))
        assert len(connections) == 50
        assert len(served) > 4
        for _, writer in connections:
            writer.close()
            await writer.wait_closed()


# ------------------------------------------------------------------------------------------------------------ mounted files


def mount(folder: Path, revision: str, files: dict[str, bytes]) -> None:
    """Write as the kubelet does: a new folder, then one rename of the symlink."""
    (folder / revision).mkdir(parents=True)
    for name, content in files.items():
        (folder / revision / name).write_bytes(content)
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(Path("..data") / name)
    (folder / "..next").symlink_to(revision)
    (folder / "..next").replace(folder / "..data")


def files_of(material) -> dict[str, bytes]:
    files = material.to_files()
    files.pop("ca.key")
    return files


async def test_a_swapped_symlink_is_noticed_and_served(tmp_path):
    """cert-manager renews, the kubelet swaps `..data`, and the next handshake shows the new certificate."""
    clock = VirtualClock()
    first = AUTHORITY.bootstrap(START)
    second = AUTHORITY.renew(first, START)
    mount(tmp_path, "..1", files_of(first))
    one = CertKeeper(ServingContext(), FileStore(tmp_path, clock), NoPublisher(), clock, None)
    task = asyncio.create_task(one.run())
    await settle()
    assert handshake(one.context.ssl, first.bundle) == der(first.serving)
    mount(tmp_path, "..2", files_of(second))
    await clock.advance(11)
    assert handshake(one.context.ssl, first.bundle) == der(second.serving)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_half_written_pair_keeps_the_old_certificate(tmp_path):
    """Without `..data` a writer may be caught between two files: the old pair is served until the new one is whole."""
    clock = VirtualClock()
    first, second = AUTHORITY.bootstrap(START), AUTHORITY.bootstrap(START + timedelta(hours=1))
    for name, content in files_of(first).items():
        (tmp_path / name).write_bytes(content)
    one = CertKeeper(ServingContext(), FileStore(tmp_path, clock), NoPublisher(), clock, None)
    task = asyncio.create_task(one.run())
    await settle()
    (tmp_path / "tls.crt").write_bytes(files_of(second)["tls.crt"])
    await clock.advance(11)
    assert one.ready
    assert "tls.key is not the key of tls.crt" in one.problem
    assert handshake(one.context.ssl, first.bundle) == der(first.serving)
    (tmp_path / "tls.key").write_bytes(files_of(second)["tls.key"])
    await clock.advance(45)
    assert one.problem is None
    assert handshake(one.context.ssl, second.bundle) == der(second.serving)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_missing_files_are_waited_for(tmp_path):
    """The mount may come after the process: not ready, with the reason, and then ready."""
    clock = VirtualClock()
    material = AUTHORITY.bootstrap(START)
    one = CertKeeper(ServingContext(), FileStore(tmp_path, clock), NoPublisher(), clock, None)
    task = asyncio.create_task(one.run())
    await clock.advance(5)
    assert not one.ready
    assert "files are not there yet" in one.problem
    mount(tmp_path, "..1", files_of(material))
    await clock.advance(60)
    assert one.ready
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_files_are_never_written(tmp_path):
    """They are another's."""
    with pytest.raises(ReadOnlyStoreError):
        await FileStore(tmp_path, VirtualClock()).save(AUTHORITY.bootstrap(START))
