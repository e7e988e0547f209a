"""The embedded cluster's own certificates: an authority that lives as long as the process, a serving certificate, and one per user."""

import base64
import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_DAYS = 30
_DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)  # the one in C where it is there: one is written for each user of each test
SERVER_NAMES = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")


class Pair:
    """A certificate and its key, as PEM."""

    def __init__(self, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
        self.certificate = certificate.public_bytes(serialization.Encoding.PEM)
        self.key = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())


class Authority:
    """Signs for one cluster."""

    def __init__(self, name: str = "modelwarden-embedded-cluster") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        usage = x509.KeyUsage(
            digital_signature=True,
            key_cert_sign=True,
            crl_sign=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            encipher_only=False,
            decipher_only=False,
        )
        builder = _builder(self._name, self._name, self._key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True).add_extension(usage, critical=True)
        builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False)
        self._certificate = builder.sign(self._key, hashes.SHA256())
        self.pem = self._certificate.public_bytes(serialization.Encoding.PEM)

    def _issue(self, subject: x509.Name, usage: x509.ObjectIdentifier, names: x509.SubjectAlternativeName | None) -> Pair:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(subject, self._name, key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        builder = builder.add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        if names is not None:
            builder = builder.add_extension(names, critical=False)
        return Pair(builder.sign(self._key, hashes.SHA256()), key)

    def server(self, names: tuple[str, ...] = SERVER_NAMES) -> Pair:
        """A serving certificate for loopback and these names."""
        loopback = [x509.IPAddress(ipaddress.ip_address(text)) for text in ("127.0.0.1", "::1")]
        alternative = x509.SubjectAlternativeName([*loopback, *(x509.DNSName(name) for name in names)])
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0])])
        return self._issue(subject, ExtendedKeyUsageOID.SERVER_AUTH, alternative)

    def user(self, name: str, groups: tuple[str, ...] = ()) -> Pair:
        """A client certificate: the name as common name, groups as organisations."""
        attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        subject = x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, name)])
        return self._issue(subject, ExtendedKeyUsageOID.CLIENT_AUTH, None)


def _builder(subject: x509.Name, issuer: x509.Name, public: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    # certificates are judged by the machine's real clock, whatever clock the cluster was given
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(days=_DAYS))
    )


def write_private(path: Path, data: bytes) -> Path:
    """A file that only its owner reads."""
    path.touch(mode=0o600, exist_ok=True)
    path.chmod(0o600)
    path.write_bytes(data)
    return path


def write_kubeconfig(
    path: Path, url: str, authority: bytes, user: str, *, pair: Pair | None = None, token: str = "", namespace: str = "default"
) -> Path:
    """A kubeconfig for one user, by certificate or by token."""
    login = {"token": token} if token else {}
    if pair is not None:
        login = {"client-certificate-data": _base64(pair.certificate), "client-key-data": _base64(pair.key)}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "modelwarden", "cluster": {"server": url, "certificate-authority-data": _base64(authority)}}],
        "users": [{"name": user, "user": login}],
        "contexts": [{"name": "modelwarden", "context": {"cluster": "modelwarden", "user": user, "namespace": namespace}}],
        "current-context": "modelwarden",
    }
    return write_private(path, yaml.dump(document, Dumper=_DUMPER, sort_keys=False).encode())


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
