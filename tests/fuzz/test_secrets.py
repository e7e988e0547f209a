"""The certificates' Secret as anybody with access might leave it: it is a set, no set yet, or told to be none; never a crash."""

import base64
import json
import warnings
from datetime import UTC, datetime, timedelta

from budget import EXAMPLES
from cryptography.utils import CryptographyDeprecationWarning
from hypothesis import given
from hypothesis import strategies as st

from certs.authority import CertAuthority
from certs.errors import MaterialError
from certs.material import CA_CERT, CA_KEY, TLS_CERT, TLS_KEY, Material
from certs.store import SecretStore
from kube.resources import Resource

NAMES = (CA_CERT, CA_KEY, TLS_CERT, TLS_KEY)


class Shelf:
    """An API server with one Secret on it."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> bytes:
        """The Secret's bytes."""
        del resource, name, namespace
        return self._body


class Clock:
    """Now."""

    def now(self) -> datetime:
        """Always the same moment."""
        return datetime(2026, 1, 1, tzinfo=UTC)


def _authority() -> CertAuthority:
    from app.settings import load

    return CertAuthority(load(environ={}, flags={}).settings.certificate())


def _files() -> dict[str, bytes]:
    made: Material = AUTHORITY.bootstrap(datetime.now(UTC) - timedelta(days=1))
    return made.to_files()


AUTHORITY = _authority()
FILES = _files()
OTHER = _files()

mangled = st.builds(
    lambda name, at, cut, junk: FILES[name][: at % len(FILES[name])] + junk + FILES[name][at % len(FILES[name]) + cut :],
    st.sampled_from(NAMES),
    st.integers(0, 4000),
    st.integers(0, 100),
    st.binary(max_size=40),
)


def _flipped(name: str, changes: list[tuple[int, int]]) -> bytes:
    """A file that is PEM still, with octets of what it wraps exchanged."""
    first, *lines, last = FILES[name].splitlines()
    der = bytearray(base64.b64decode(b"".join(lines)))
    for at, octet in changes:
        der[at % len(der)] = octet
    return b"\n".join((first, base64.b64encode(der), last, b""))


flipped = st.builds(
    _flipped, st.sampled_from(NAMES), st.lists(st.tuples(st.integers(0, 4000), st.integers(0, 255)), min_size=1, max_size=3)
)
contents = (
    flipped
    | st.sampled_from([b"", b"-----BEGIN CERTIFICATE-----\n", b"\xff" * 100, b"-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n"])
    | st.sampled_from([*FILES.values(), *OTHER.values()])
    | st.builds(lambda one, two: one + two, st.sampled_from([*FILES.values()]), st.sampled_from([*OTHER.values()]))
    | mangled
    | st.binary(max_size=60)
)
fields = st.builds(lambda content: base64.b64encode(content).decode(), contents) | st.text(max_size=20)


async def read(body: bytes) -> Material | None:
    """What a replica makes of the Secret: a set that can serve and be looked after, None, or a fault with a name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CryptographyDeprecationWarning)  # of a serial number below one
        try:
            found = await SecretStore(Shelf(body), Clock(), namespace="s", name="c").load()  # type: ignore[arg-type]  # as much as a load needs
        except MaterialError:
            return None
        if found is not None:
            assert found.serving.matches()
            assert found.trusted()
            assert AUTHORITY.step(found, Clock().now())
    return found


async def test_the_untouched_set_is_read() -> None:
    """The strategies start from a set that is good."""
    whole = {"metadata": {"resourceVersion": "1"}, "data": {name: base64.b64encode(FILES[name]).decode() for name in NAMES}}
    assert await read(json.dumps(whole).encode()) is not None


@given(st.dictionaries(st.sampled_from([*NAMES, "other", ""]), fields, max_size=5))
@EXAMPLES
async def test_any_data(data: dict[str, str]) -> None:
    """Keys that are ours with contents that are not."""
    await read(json.dumps({"metadata": {"resourceVersion": "1"}, "data": data}).encode())


@given(st.sampled_from(NAMES), contents)
@EXAMPLES
async def test_one_file_of_a_good_set_is_another(name: str, content: bytes) -> None:
    """A set with one foreign part is no set, unless the part fits."""
    files = FILES | {name: content}
    await read(json.dumps({"metadata": {}, "data": {key: base64.b64encode(value).decode() for key, value in files.items()}}).encode())


@given(
    st.binary(max_size=200)
    | st.recursive(st.none() | st.integers() | st.text(), lambda i: st.dictionaries(st.text(), i)).map(
        lambda value: json.dumps(value).encode()
    )
)
@EXAMPLES
async def test_any_bytes(body: bytes) -> None:
    """A server that answers with something else."""
    assert await read(body) is None
