"""Who is asking: client certificate, bearer token or nobody, and impersonation on top."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from urllib.parse import unquote

from multidict import CIMultiDictProxy

from api.clock import Clock
from local import statuses
from local.wire import JSON

AUTHENTICATED = "system:authenticated"


@dataclass(frozen=True, slots=True)
class Caller:
    """`userInfo`."""

    username: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def anonymous(self) -> bool:
        """Whether nobody was recognised."""
        return self.username == "system:anonymous"

    def to_json(self) -> JSON:
        """As an AdmissionReview carries it."""
        out: JSON = {"username": self.username}
        if self.uid:
            out["uid"] = self.uid
        if self.groups:
            out["groups"] = list(self.groups)
        if self.extra:
            out["extra"] = {key: list(values) for key, values in self.extra.items()}
        return out


ANONYMOUS = Caller("system:anonymous", ("system:unauthenticated",))
SYSTEM = Caller("system:apiserver", ("system:masters", AUTHENTICATED))


def account_groups(username: str) -> tuple[str, ...]:
    """The groups that a service account's name brings."""
    parts = username.split(":")
    if len(parts) == 4 and parts[:2] == ["system", "serviceaccount"]:
        return ("system:serviceaccounts", f"system:serviceaccounts:{parts[2]}")
    return ()


def known(username: str, groups: tuple[str, ...] = (), uid: str = "") -> Caller:
    """An authenticated caller with the groups that follow from the name."""
    every = dict.fromkeys((*groups, *account_groups(username), AUTHENTICATED))
    return Caller(username, tuple(every), uid)


class Doors:
    """The tokens that open the cluster, and the reading of certificates."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tokens: dict[str, tuple[Caller, datetime | None]] = {}

    def issue(self, caller: Caller, until: datetime | None = None) -> str:
        """A new token for this caller, good until that time or for ever."""
        now = self._clock.now()
        self._tokens = {token: held for token, held in self._tokens.items() if held[1] is None or held[1] > now}
        token = secrets.token_urlsafe(32)
        self._tokens[token] = (caller, until)
        return token

    def add(self, token: str, caller: Caller) -> None:
        """Accept a token of somebody's choosing."""
        self._tokens[token] = (caller, None)

    def caller_of(self, token: str) -> Caller | None:
        """Who holds that token, None for one that nobody holds or whose time is over."""
        caller, until = self._tokens.get(token, (None, None))
        return caller if until is None or until > self._clock.now() else None

    def authenticate(self, headers: CIMultiDictProxy[str], certificate: JSON | None) -> Caller:
        """The caller of a request, impersonation applied. Raises 401 for a token that is not good, 403 for a stray impersonation."""
        scheme, _, token = headers.get("Authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            found = self.caller_of(token.strip())
            if found is None:
                raise statuses.unauthorized()
            caller = found
        elif certificate:
            caller = from_certificate(certificate)
        else:
            caller = ANONYMOUS
        return impersonate(caller, headers)


def from_certificate(certificate: JSON) -> Caller:
    """Common name as user, organisations as groups."""
    name, groups = "", []
    for relative in certificate.get("subject") or ():
        for kind, value in relative:
            if kind == "commonName":
                name = value
            elif kind == "organizationName":
                groups.append(value)
    return known(name, tuple(groups)) if name else ANONYMOUS


def impersonate(caller: Caller, headers: CIMultiDictProxy[str]) -> Caller:
    """The caller that the Impersonate-* headers ask for; anyone who was recognised may."""
    user = headers.get("Impersonate-User")
    extra: dict[str, tuple[str, ...]] = {}
    for key, value in headers.items():
        if key.lower().startswith("impersonate-extra-"):
            name = unquote(key[len("Impersonate-Extra-") :]).lower()
            extra[name] = (*extra.get(name, ()), value)
    groups = tuple(headers.getall("Impersonate-Group", ()))
    uid = headers.get("Impersonate-Uid", "")
    if user is None:
        if groups or extra or uid:
            raise statuses.bad_request("requested groups, uid or extra to impersonate without impersonating a user")
        return caller
    if caller.anonymous:
        raise statuses.forbidden(
            f'users "{user}" is forbidden: User "system:anonymous" cannot impersonate resource "users" in API group ""'
        )
    return replace(known(user, groups, uid), extra=extra)
