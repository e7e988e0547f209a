"""The self-made authority: bootstrap, renew, rotate. Pure but for randomness: time is handed in, nothing is stored or published here.

A rotation has three moments, and each is a set of its own, so that a process that dies between two of them leaves something true behind:

    before       trusted [old]        served by old
    rotate       trusted [new, old]   served by old      published everywhere before anything else happens
    renew        trusted [new, old]   served by new
    forget       trusted [new]        served by new      once nothing that the old one signed can still be alive
"""

import ipaddress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import Enum

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from certs.material import Material, Pair

# A client's clock may be a little behind ours: validity starts before now.
BACKDATE = timedelta(hours=1)
AUTHORITY_LIFE = timedelta(days=3650)
SERVING_LIFE = timedelta(days=90)


@dataclass(frozen=True, slots=True)
class Profile:
    """What certificates say and how long they live."""

    dns_names: tuple[str, ...]
    addresses: tuple[str, ...] = ()
    authority_life: timedelta = AUTHORITY_LIFE
    serving_life: timedelta = SERVING_LIFE
    common_name: str = "modelwarden"

    @classmethod
    def of_service(
        cls,
        service: str,
        namespace: str,
        *,
        domain: str = "cluster.local",
        extra: tuple[str, ...] = (),
        authority_life: timedelta = AUTHORITY_LIFE,
        serving_life: timedelta = SERVING_LIFE,
    ) -> "Profile":
        """The names under which an API server may reach a Service (admission facts, section 5); `extra` takes names and addresses."""
        names = (f"{service}.{namespace}.svc", f"{service}.{namespace}.svc.{domain}", f"{service}.{namespace}", service)
        addresses = tuple(e for e in extra if _is_address(e))
        return cls((*names, *(e for e in extra if e not in addresses)), addresses, authority_life, serving_life)


class Step(Enum):
    """What a set needs next, the most urgent first."""

    BOOTSTRAP = "bootstrap"
    ROTATE = "rotate"
    RENEW = "renew"
    FORGET = "forget"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class CertAuthority:
    """Makes and remakes a set for one profile."""

    profile: Profile

    def bootstrap(self, now: datetime, *, retired: tuple[x509.Certificate, ...] = ()) -> Material:
        """A new authority and a serving certificate that it signed."""
        authority = self._authority(now)
        return Material(self._serve(authority, now), authority, retired)

    def renew(self, material: Material, now: datetime) -> Material:
        """A new serving certificate, key included, signed by the current authority."""
        if material.authority is None:
            raise ValueError("a set without its signing key cannot be renewed here")
        return replace(material, serving=self._serve(material.authority, now))

    def rotate(self, material: Material, now: datetime) -> Material:
        """A new authority beside the old ones; the serving certificate stays until the new set is published."""
        return Material(material.serving, self._authority(now), material.authorities)

    def forget(self, material: Material, now: datetime) -> Material:
        """Without the authorities that nothing alive can depend on."""
        return replace(material, retired=tuple(a for a in material.retired if not self._done(material, a, now)))

    def step(self, material: Material | None, now: datetime) -> Step:
        """What the set needs at that moment."""
        if material is None or material.authority is None:
            return Step.BOOTSTRAP
        if not material.authority.usable(now) or now >= material.authority.renew_at:
            return Step.ROTATE
        serving = material.serving
        if not serving.usable(now) or now >= serving.renew_at or not material.signed_by_current() or not self._named(material):
            return Step.RENEW
        if any(self._done(material, a, now) for a in material.retired):
            return Step.FORGET
        return Step.NOTHING

    def _named(self, material: Material) -> bool:
        dns, addresses = material.names()
        return dns >= set(self.profile.dns_names) and addresses >= {str(ipaddress.ip_address(a)) for a in self.profile.addresses}

    def _done(self, material: Material, retired: x509.Certificate, now: datetime) -> bool:
        return now >= self._done_at(material, retired)

    def _done_at(self, material: Material, retired: x509.Certificate) -> datetime:
        # What the old authority signed last, it signed before the current one began; that lives one serving life at most.
        assert material.authority is not None  # noqa: S101  # callers hold a set that signs
        return min(retired.not_valid_after_utc, material.authority.not_before + BACKDATE + self.profile.serving_life)

    def _authority(self, now: datetime) -> Pair:
        key = ec.generate_private_key(ec.SECP256R1())
        # The serial in the name tells two of our authorities apart, for people and for path building.
        serial = x509.random_serial_number()
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"{self.profile.common_name} authority {serial:x}"[:64])])
        public = key.public_key()
        certificate = (
            x509.CertificateBuilder(issuer_name=name, subject_name=name, public_key=public, serial_number=serial)
            .not_valid_before(now - BACKDATE)
            .not_valid_after(now + self.profile.authority_life)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(sign_certificates=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
            .sign(key, hashes.SHA256())
        )
        return Pair(certificate, key)

    def _serve(self, authority: Pair, now: datetime) -> Pair:
        key = ec.generate_private_key(ec.SECP256R1())
        public = key.public_key()
        names = [x509.DNSName(n) for n in self.profile.dns_names] + [
            x509.IPAddress(ipaddress.ip_address(a)) for a in self.profile.addresses
        ]
        certificate = (
            x509.CertificateBuilder(
                issuer_name=authority.certificate.subject,
                subject_name=x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, self.profile.dns_names[0][:64])]),
                public_key=public,
                serial_number=x509.random_serial_number(),
            )
            .not_valid_before(max(now - BACKDATE, authority.not_before))
            .not_valid_after(min(now + self.profile.serving_life, authority.not_after))
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(sign_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key()), critical=False)
            .sign(authority.key, hashes.SHA256())
        )
        return Pair(certificate, key)


def _usage(*, sign_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not sign_certificates,
        key_cert_sign=sign_certificates,
        crl_sign=sign_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
