"""Certificate authorities, and an API server on loopback that moves from one to another while its connections stay."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID


class Authority:
    """Signs what a server and a client show. All PEM."""

    def __init__(self, name: str) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name)
        self.pem = self._sign(_name(name), self._key, authority=True)

    def certify(self, name: str) -> tuple[bytes, bytes]:
        """A certificate for 127.0.0.1 by that name, and its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        return self._sign(_name(name), key), key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())

    def _sign(self, name: x509.Name, key: ec.EllipticCurvePrivateKey, *, authority: bool = False) -> bytes:
        now = datetime.now(UTC)
        usage = {
            use: authority is (use in ("key_cert_sign", "crl_sign"))
            for use in ("digital_signature", "key_encipherment", "key_cert_sign", "crl_sign")
        }
        unused = dict.fromkeys(("content_commitment", "data_encipherment", "key_agreement", "encipher_only", "decipher_only"), False)
        certificate = (
            x509.CertificateBuilder(self._name, name, key.public_key(), x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(hours=1))
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
            .add_extension(x509.KeyUsage(**usage, **unused), critical=True)
            .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        return certificate.public_bytes(Encoding.PEM)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


@dataclass
class Server:
    """Answers `{}` to whom it admits. `peers` are the client's name and port of each request."""

    folder: Path
    peers: list[tuple[str, int]] = field(default_factory=list)
    refused: set[str] = field(default_factory=set)
    port: int = 0
    _runner: web.AppRunner | None = None
    _site: web.TCPSite | None = None

    async def shown(self, authority: Authority, *, clients: bytes = b"") -> None:
        """From now on new connections meet a certificate of that authority; `clients` signed the certificates asked of clients."""
        assert self._runner is not None
        if self._site is not None:
            await self._site.stop()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        chain = self.folder / "chain.pem"
        chain.write_bytes(b"".join(authority.certify("server")))
        context.load_cert_chain(chain)
        if clients:
            context.load_verify_locations(cadata=clients.decode())
            context.verify_mode = ssl.CERT_OPTIONAL
        self._site = web.TCPSite(self._runner, "127.0.0.1", self.port, ssl_context=context)
        await self._site.start()
        self.port = self._runner.addresses[0][1]

    async def handle(self, request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        shown = request.transport.get_extra_info("peercert") or {}
        name = "".join(value for part in shown.get("subject", ()) for _, value in part)
        if name in self.refused:
            return web.json_response({"kind": "Status", "code": 401, "reason": "Unauthorized"}, status=401)
        self.peers.append((name, request.transport.get_extra_info("peername")[1]))
        return web.json_response({})


@asynccontextmanager
async def serving(folder: Path) -> AsyncIterator[Server]:
    """A server that shows nothing yet."""
    server = Server(folder)
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", server.handle)
    server._runner = web.AppRunner(app, shutdown_timeout=0.1)
    await server._runner.setup()
    try:
        yield server
    finally:
        await server._runner.cleanup()
