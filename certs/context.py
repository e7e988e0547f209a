"""The TLS context that a server listens with: its certificate can be exchanged between two handshakes, connections in flight never notice.

A listening socket keeps one `ssl.SSLContext` for ever, so ours is a doorway: each ClientHello is passed on to the context of the moment.
Loading a second chain into a live context would be shorter, but OpenSSL keeps one slot per key type: an RSA certificate loaded over an EC
one leaves both, and the old one is still served to whoever prefers it.
"""

import os
import ssl
import tempfile

from certs.errors import MaterialError
from certs.material import Pair


class ServingContext:
    """A context whose certificate changes in place. `ssl` is what the server listens with."""

    def __init__(self) -> None:
        self.ssl = _fresh()
        self.ssl.sni_callback = self._enter
        self._current: ssl.SSLContext | None = None
        self._pair: Pair | None = None

    @property
    def serving(self) -> Pair | None:
        """What is served now."""
        return self._pair

    @property
    def loaded(self) -> bool:
        """Whether a handshake could succeed."""
        return self._current is not None

    def load(self, pair: Pair) -> None:
        """Serve this pair from the next handshake on. A pair that OpenSSL refuses changes nothing and raises MaterialError."""
        context = _fresh()
        try:
            _load_chain(context, pair)
        except ssl.SSLError as error:
            raise MaterialError("OpenSSL refuses the certificate and key") from error
        self._current, self._pair = context, pair

    def _enter(self, connection: ssl.SSLObject | ssl.SSLSocket, _name: str | None, _context: ssl.SSLContext) -> int | None:
        # OpenSSL calls this for every ClientHello, with None where the client names no server (an API server that dials an address).
        if self._current is None:
            return ssl.ALERT_DESCRIPTION_INTERNAL_ERROR
        connection.context = self._current
        return None


def _fresh() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # API servers keep their connections and resume none: a ticket is work for nothing, and would outlive the context that made it.
    context.options |= ssl.OP_NO_TICKET
    context.num_tickets = 0
    return context


def _load_chain(context: ssl.SSLContext, pair: Pair) -> None:
    """`load_cert_chain` wants a path. The key never touches a disk where the kernel offers a nameless file."""
    content = pair.key_pem + pair.certificate_pem
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("modelwarden-serving", os.MFD_CLOEXEC)
        try:
            os.write(descriptor, content)
            context.load_cert_chain(f"/proc/self/fd/{descriptor}")
        finally:
            os.close(descriptor)
        return
    with tempfile.NamedTemporaryFile(prefix="modelwarden-") as file:
        file.write(content)
        file.flush()
        context.load_cert_chain(file.name)
