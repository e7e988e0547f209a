"""Get and list: pages over the stored bytes, at one version however many pages a reader takes."""

import base64
import binascii
from collections.abc import Iterable
from dataclasses import dataclass

from local import statuses
from local.conversion import show
from local.kinds import Served
from local.selectors import compile_selectors
from local.store import Entry, Key, Store
from local.wire import JSON, decode, encode


@dataclass(frozen=True, slots=True)
class ListQuery:
    """What a list asks for."""

    namespace: str = ""
    labels: str = ""
    fields: str = ""
    limit: int = 0
    token: str = ""
    resource_version: str = ""
    match: str = ""


@dataclass(frozen=True, slots=True)
class Listing:
    """A page: stored bodies under the wanted version, and the list's metadata."""

    bodies: list[bytes]
    metadata: JSON

    def encode(self, served: Served) -> bytes:
        """The list object's bytes."""
        head = f'{{"kind":"{served.lists_as}","apiVersion":"{served.api_version}","metadata":'.encode()
        return b"".join((head, encode(self.metadata), b',"items":[', b",".join(self.bodies), b"]}"))

    def objects(self) -> Iterable[JSON]:
        """The objects, decoded."""
        return (decode(body) for body in self.bodies)


def get(store: Store, served: Served, namespace: str, name: str) -> bytes:
    """One object's bytes. Raises 404."""
    entry = store.get(served.table, (namespace if served.namespaced else "", name))
    if entry is None:
        raise statuses.not_found(served.plural, served.group, name)
    return show(served, entry.body)


def select(store: Store, served: Served, query: ListQuery) -> Listing:
    """A page. Raises 400 for selectors and tokens it cannot read, 410 for a version that is forgotten, 504 for one that is to come."""
    matches = compile_selectors(served, query.labels, query.fields)
    table = store.table(served.table)
    if query.token:
        rv, after = read_token(query.token)
        keys, entries = _at(store, served, query, rv)
    else:
        rv, after = store.revision, None
        asked = int(query.resource_version or 0)
        if asked > rv:
            raise statuses.StatusError(504, "Timeout", f"Timeout: Too large resource version: {asked}, current: {rv}", retry_after=1)
        if query.match == "Exact" and asked:
            rv = asked
            keys, entries = _at(store, served, query, rv)
        else:
            keys, entries = table.keys(query.namespace), table.entries
    bodies: list[bytes] = []
    position, last = 0, None
    for position, key in enumerate(keys):
        if after is not None and key <= after:
            continue
        entry: Entry = entries[key]
        if matches is not None and not matches(entry):
            continue
        if query.limit and len(bodies) == query.limit:
            meta: JSON = {"resourceVersion": str(rv), "continue": write_token(rv, last or key)}
            if matches is None:
                meta["remainingItemCount"] = len(keys) - position
            return Listing(bodies, meta)
        bodies.append(show(served, entry.body))
        last = key
    return Listing(bodies, {"resourceVersion": str(rv)})


def _at(store: Store, served: Served, query: ListQuery, rv: int) -> tuple[list[Key], dict[Key, Entry]]:
    if rv > store.revision:
        raise statuses.StatusError(504, "Timeout", f"Too large resource version: {rv}, current: {store.revision}", retry_after=1)
    try:
        keys, entries = store.table(served.table).at(rv)
    except statuses.StatusError as fault:
        if not query.token:
            raise statuses.expired(f"The resourceVersion for the provided list is too old: {rv}") from fault
        raise statuses.expired(
            "The provided continue parameter is too old to display a consistent list result. "
            "You can start a new list without the continue parameter."
        ) from fault
    return [key for key in keys if not query.namespace or key[0] == query.namespace], entries


def write_token(rv: int, last: Key) -> str:
    """A continue token."""
    return base64.urlsafe_b64encode(encode([rv, *last])).decode().rstrip("=")


def read_token(token: str) -> tuple[int, Key]:
    """A continue token's version and last key. Raises 400."""
    try:
        rv, namespace, name = decode(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        return int(rv), (str(namespace), str(name))
    except (binascii.Error, ValueError, TypeError) as fault:
        raise statuses.bad_request("continue key is not valid: illegal base64 data") from fault
