"""The authority: what it signs, when a step is due, and that every moment of a rotation is a set that clients accept."""

import base64
from datetime import timedelta

import pytest
from certs_world import START, handshake
from cryptography.hazmat.primitives.asymmetric import ec

from certs.authority import CertAuthority, Profile, Step
from certs.context import ServingContext
from certs.errors import MaterialError
from certs.material import read_material

PROFILE = Profile.of_service(
    "modelwarden", "modelwarden-system", extra=("127.0.0.1",), authority_life=timedelta(days=300), serving_life=timedelta(days=90)
)
AUTHORITY = CertAuthority(PROFILE)


def days(count: float) -> timedelta:
    return timedelta(days=count)


def served(material) -> ServingContext:
    context = ServingContext()
    context.load(material.serving)
    return context


def test_bootstrap_makes_what_an_api_server_accepts():
    """Every name of the Service and the extra address verify against the bundle; keys are on P-256."""
    material = AUTHORITY.bootstrap(START)
    context = served(material)
    for name in (*PROFILE.dns_names, "127.0.0.1"):
        assert handshake(context.ssl, material.bundle, name)
    assert isinstance(material.serving.key, ec.EllipticCurvePrivateKey)
    assert material.serving.key.curve.name == "secp256r1"
    assert material.signed_by_current()


STEPS = {
    "nothing is due on the first day": (0, Step.NOTHING),
    "nothing is due just before two thirds of the serving life": (59, Step.NOTHING),
    "the serving certificate is renewed at two thirds of its life": (60.1, Step.RENEW),
    "an expired serving certificate is renewed": (91, Step.RENEW),
    "the authority is rotated at two thirds of its life": (200.1, Step.ROTATE),
    "an expired authority is rotated": (301, Step.ROTATE),
    "a clock set far back makes both unusable, so the authority is remade": (-2, Step.ROTATE),
}


@pytest.mark.parametrize("sentence", STEPS)
def test_step_by_age(sentence):
    """What a set needs follows from its age alone."""
    age, expected = STEPS[sentence]
    assert AUTHORITY.step(AUTHORITY.bootstrap(START), START + days(age)) is expected


def test_changed_names_are_a_reason_to_renew():
    """A Service that moved is served under its new names without waiting for two thirds of a life."""
    moved = CertAuthority(Profile.of_service("modelwarden", "elsewhere"))
    assert moved.step(AUTHORITY.bootstrap(START), START) is Step.RENEW


def test_rotation_overlaps():
    """Before, between and after the swap there is one bundle under which old and new certificates verify; the end drops the old one."""
    moment = START  # of the swap: OpenSSL accepts what is valid today
    old = AUTHORITY.bootstrap(moment - days(201))
    old = AUTHORITY.renew(old, moment - days(1))
    between = AUTHORITY.rotate(old, moment)
    assert between.serving is old.serving
    assert len(between.authorities) == 2
    assert AUTHORITY.step(between, moment) is Step.RENEW
    after = AUTHORITY.renew(between, moment)
    assert after.signed_by_current()
    assert between.bundle == after.bundle
    for material in (old, after):
        assert handshake(served(material).ssl, between.bundle)
    # 90 days later nothing that the old authority signed can be alive.
    assert AUTHORITY.step(after, moment + days(59)) is Step.NOTHING
    late = AUTHORITY.renew(after, moment + days(80))
    assert AUTHORITY.step(late, moment + days(91)) is Step.FORGET
    final = AUTHORITY.forget(late, moment + days(91))
    assert final.authorities == (after.authority.certificate,)
    assert AUTHORITY.step(final, moment + days(91)) is Step.NOTHING


def test_a_serving_certificate_never_outlives_its_authority():
    """A client that checks the chain would otherwise refuse a certificate that looks valid."""
    old = AUTHORITY.bootstrap(START)
    late = AUTHORITY.renew(old, START + days(290))
    assert late.serving.not_after == old.authority.not_after


def test_the_stored_form_reads_back():
    """What a Secret holds is the whole set: nothing is lost between two replicas."""
    material = AUTHORITY.rotate(AUTHORITY.bootstrap(START), START)
    read = read_material(material.to_files(), own=True)
    assert read.bundle == material.bundle
    assert read.serving.certificate == material.serving.certificate
    assert read.authority.matches()


def broken(**parts: bytes) -> dict[str, bytes]:
    return AUTHORITY.bootstrap(START).to_files() | {key.replace("_", "."): value for key, value in parts.items()}


def of_another_curve(text: bytes) -> bytes:
    """The PEM with the name of its curve, P-256, exchanged for one that nobody knows."""
    first, *lines, last = text.splitlines()
    der = base64.b64decode(b"".join(lines)).replace(bytes.fromhex("2a8648ce3d030107"), bytes.fromhex("2a8648ce3d030163"))
    return b"\n".join((first, base64.b64encode(der), last, b""))


GOOD = AUTHORITY.bootstrap(START).to_files()
OTHER = AUTHORITY.bootstrap(START).to_files()
BROKEN = {
    "a certificate whose key is of an unknown kind": (
        broken(tls_crt=of_another_curve(GOOD["tls.crt"])),
        "tls.crt holds a certificate that cannot be used",
    ),
    "an authority whose key is of an unknown kind": (
        GOOD | {"ca.crt": of_another_curve(GOOD["ca.crt"])},
        "ca.crt holds a certificate that cannot be used",
    ),
    "a key of an unknown kind": (broken(tls_key=of_another_curve(GOOD["tls.key"])), "tls.key is a key of a kind that is not known"),
    "a signing key of an unknown kind": (
        GOOD | {"ca.key": of_another_curve(GOOD["ca.key"])},
        "ca.key is a key of a kind that is not known",
    ),
    "no certificate at all": (broken(tls_crt=b""), "tls.crt holds no PEM certificate"),
    "a certificate that is no PEM": (broken(tls_crt=b"hello"), "tls.crt holds no PEM certificate"),
    "the key of another certificate": (broken(tls_key=OTHER["tls.key"]), "tls.key is not the key of tls.crt"),
    "a key that is no PEM": (
        broken(tls_key=b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"),
        "tls.key holds no PEM private key",
    ),
    "the signing key of another authority": (broken(ca_key=OTHER["ca.key"]), "ca.key is not the key of the first certificate in ca.crt"),
    "no signing key": (broken(ca_key=b""), "ca.key holds no PEM private key"),
    "a serving certificate of nobody we trust": (
        broken(ca_crt=OTHER["ca.crt"], ca_key=OTHER["ca.key"]),
        "no authority in ca.crt issued tls.crt",
    ),
}


@pytest.mark.parametrize("sentence", BROKEN)
def test_a_damaged_set_is_refused_by_name(sentence):
    """The message names the part and never its content."""
    files, message = BROKEN[sentence]
    with pytest.raises(MaterialError, match=message):
        read_material(files, own=True)


def test_keys_do_not_print():
    """A set in a log or a traceback shows no key."""
    material = AUTHORITY.bootstrap(START)
    assert "PRIVATE" not in repr(material)
    assert "EllipticCurvePrivateKey" not in repr(material)
