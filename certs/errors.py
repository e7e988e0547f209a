"""What can go wrong with the certificate.

CertsError
├── MaterialError         what was read is no usable set: bad PEM, a key of another certificate, nothing to serve with
├── ReadOnlyStoreError    a change was asked of a store that somebody else writes (cert-manager's files)
└── NotYetError           nothing to serve with so far: the files are not mounted, or no replica could write the Secret
"""


class CertsError(Exception):
    """Root of this room's errors."""


class MaterialError(CertsError):
    """The stored bytes make no usable set. The message names the part, never its content."""


class ReadOnlyStoreError(CertsError):
    """The store belongs to somebody else; we only read it."""


class NotYetError(CertsError):
    """There is no certificate to serve with yet."""
