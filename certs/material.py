"""The set that a service needs: who signs, whom clients should trust, what is served. A value, with its PEM forms.

The private keys live in memory and in the store, nowhere else; `repr` shows neither.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat, load_pem_private_key
from cryptography.x509.oid import ExtensionOID

from certs.errors import MaterialError

PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey

# What cryptography raises over bytes that are PEM and DER and still no certificate, or no key, that anything can be done with.
_UNUSABLE = (ValueError, TypeError, UnsupportedAlgorithm, x509.InvalidVersion, x509.DuplicateExtension, x509.UnsupportedGeneralNameType)

# The keys of a `kubernetes.io/tls` Secret as cert-manager writes it, and the signing key that only our own Secret holds.
CA_CERT, CA_KEY, TLS_CERT, TLS_KEY = "ca.crt", "ca.key", "tls.crt", "tls.key"


def pem(certificate: x509.Certificate) -> bytes:
    """One certificate as PEM, the form of `caBundle` before its base64."""
    return certificate.public_bytes(Encoding.PEM)


@dataclass(frozen=True)
class Pair:
    """A certificate, the key that belongs to it, and the intermediates that are sent with it."""

    certificate: x509.Certificate
    key: PrivateKey = field(repr=False)
    chain: tuple[x509.Certificate, ...] = ()

    @property
    def certificate_pem(self) -> bytes:
        """The certificate and its chain, in the order a server sends them."""
        return b"".join(pem(c) for c in (self.certificate, *self.chain))

    @property
    def key_pem(self) -> bytes:
        """The key as unencrypted PKCS#8."""
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())

    @property
    def not_before(self) -> datetime:
        """Start of validity, aware UTC."""
        return self.certificate.not_valid_before_utc

    @property
    def not_after(self) -> datetime:
        """End of validity, aware UTC."""
        return self.certificate.not_valid_after_utc

    @property
    def renew_at(self) -> datetime:
        """Two thirds into the validity."""
        return self.not_before + (self.not_after - self.not_before) * 2 / 3

    def usable(self, now: datetime) -> bool:
        """Whether a client with that clock would accept the dates."""
        return self.not_before <= now < self.not_after

    def matches(self) -> bool:
        """Whether the key belongs to the certificate."""
        ours, theirs = (
            k.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo) for k in (self.key.public_key(), self.certificate.public_key())
        )
        return ours == theirs


@dataclass(frozen=True)
class Material:
    """What a service holds: `authority` signs (None when somebody else does), `retired` is still trusted, `serving` is shown to clients."""

    serving: Pair
    authority: Pair | None = None
    retired: tuple[x509.Certificate, ...] = ()

    @cached_property
    def authorities(self) -> tuple[x509.Certificate, ...]:
        """Every authority that clients must trust now, the signing one first."""
        return ((self.authority.certificate,) if self.authority else ()) + self.retired

    @cached_property
    def bundle(self) -> bytes:
        """The `caBundle`: PEM of every trusted authority. Same authorities, same bytes."""
        return b"".join(pem(c) for c in self.authorities)

    def signed_by_current(self) -> bool:
        """Whether the signing authority itself issued the serving certificate."""
        return self.authority is not None and issued(self.serving.certificate, self.authority.certificate)

    def trusted(self) -> bool:
        """Whether any authority of the set issued the serving certificate."""
        return any(issued(self.serving.certificate, authority) for authority in self.authorities)

    def names(self) -> tuple[frozenset[str], frozenset[str]]:
        """DNS names and addresses of the serving certificate."""
        try:
            extension = self.serving.certificate.extensions.get_extension_for_oid(ExtensionOID.SUBJECT_ALTERNATIVE_NAME)
        except x509.ExtensionNotFound:
            return frozenset(), frozenset()
        names = extension.value
        assert isinstance(names, x509.SubjectAlternativeName)  # noqa: S101  # the OID decides the type; this is for the type checker
        return frozenset(names.get_values_for_type(x509.DNSName)), frozenset(str(a) for a in names.get_values_for_type(x509.IPAddress))

    def to_files(self) -> dict[str, bytes]:
        """The Secret's `data` before base64. Only a set that signs itself can be stored."""
        if self.authority is None:
            raise MaterialError("a set without its signing key cannot be stored")
        return {
            CA_CERT: self.bundle,
            CA_KEY: self.authority.key_pem,
            TLS_CERT: self.serving.certificate_pem,
            TLS_KEY: self.serving.key_pem,
        }


def issued(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    """Whether the authority's key signed the certificate (names compared too)."""
    try:
        certificate.verify_directly_issued_by(authority)
    except (*_UNUSABLE, InvalidSignature):
        return False
    return True


def read_material(files: Mapping[str, bytes], *, own: bool) -> Material:
    """The set behind a Secret's data or a folder's files.

    With `own` the set is ours and must hold the signing key of its first authority; without, `ca.crt` may be absent (a public issuer)
    and nothing can be signed. Raises MaterialError naming the part that is wrong.
    """
    serving = _pair(files, TLS_CERT, TLS_KEY)
    if not serving.matches():
        raise MaterialError(f"{TLS_KEY} is not the key of {TLS_CERT}")
    authorities = _certificates(files, CA_CERT) if own or files.get(CA_CERT) else ()
    if not own:
        return Material(serving, None, _unique(authorities))
    for authority in authorities:
        _look_through(authority, CA_CERT)
    signer = Pair(authorities[0], _key(files, CA_KEY))
    if not signer.matches():
        raise MaterialError(f"{CA_KEY} is not the key of the first certificate in {CA_CERT}")
    material = Material(serving, signer, _unique(authorities)[1:])
    if not material.trusted():
        raise MaterialError(f"no authority in {CA_CERT} issued {TLS_CERT}")
    return material


def fingerprint(certificate: x509.Certificate) -> str:
    """SHA-256 of the certificate, for logs and for telling two sets apart."""
    return certificate.fingerprint(hashes.SHA256()).hex()


def _pair(files: Mapping[str, bytes], certificate: str, key: str) -> Pair:
    first, *chain = _certificates(files, certificate)
    _look_through(first, certificate)
    return Pair(first, _key(files, key), tuple(chain))


def _look_through(certificate: x509.Certificate, name: str) -> None:
    """Read once whatever is read later: cryptography takes a certificate apart when it is asked, and would fail in the midst of a step."""
    try:
        _ = (certificate.public_key(), certificate.subject, certificate.extensions, certificate.not_valid_before_utc)
        _ = certificate.not_valid_after_utc
    except _UNUSABLE as error:
        raise MaterialError(f"{name} holds a certificate that cannot be used: {error}") from error


def _certificates(files: Mapping[str, bytes], name: str) -> tuple[x509.Certificate, ...]:
    try:
        found = tuple(x509.load_pem_x509_certificates(files.get(name) or b""))
    except _UNUSABLE as error:
        raise MaterialError(f"{name} holds no PEM certificate") from error
    return found


def _key(files: Mapping[str, bytes], name: str) -> PrivateKey:
    try:
        key = load_pem_private_key(files.get(name) or b"", None)
    except UnsupportedAlgorithm as error:
        raise MaterialError(f"{name} is a key of a kind that is not known") from error
    except _UNUSABLE as error:
        raise MaterialError(f"{name} holds no PEM private key") from error
    if not isinstance(key, PrivateKey):
        raise MaterialError(f"{name} is neither an EC nor an RSA key")
    return key


def _unique(certificates: tuple[x509.Certificate, ...]) -> tuple[x509.Certificate, ...]:
    return tuple(dict.fromkeys(certificates))
