"""Where a role's engine listens, whether it speaks TLS, and whether it demands a client certificate (seed "Readiness gates", D3, D6)."""

from collections.abc import Mapping, Sequence
from typing import Final, Literal

import msgspec

from engines.parallelism import Provenance, given, provenance, whole
from engines.table import VLLM
from engines.tokens import Occurrence, Stray
from engines.values import RefusedError, to_int

# What the operator fills in when the role declares none.
FILLED_HOST: Final = "0.0.0.0"  # noqa: S104 - the address that the operator renders, from the seed
CERT_REQS: Final = "--ssl-cert-reqs"

ClientCert = Literal["NotDemanded", "Optional", "Demanded", "Unreadable"]


class Listener(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """The listening address. An undeclared part is what the operator fills (None where nobody fills: a replaced command)."""

    host: str | None
    port: int | None
    host_declared: bool = False
    port_declared: bool = False


class Tls(msgspec.Struct, frozen=True, rename="camel"):
    """Whether the engine serves HTTPS, and what it asks of a client. `provenance` names the certificate, the key and the demand."""

    enabled: bool
    client_cert: ClientCert = "NotDemanded"
    provenance: tuple[Provenance, ...] = ()


def listener(last: Mapping[str, Occurrence], port: int | None, managed: bool) -> Listener:
    """The listener of a line; `port` is the role's serving port, `managed` whether the operator fills what is missing."""
    host = last.get("host")
    own_port = last.get("port")
    # vLLM's word None and an empty text unset the host: nothing is declared then, and the operator's address stands.
    host_declared = host is not None and (host.stored is not None or host.fault is not None or bool(host.unresolved))
    return Listener(
        (host.value if host is not None else None) if host_declared else FILLED_HOST if managed else None,
        whole(own_port) if own_port is not None else port if managed else None,
        host_declared,
        own_port is not None,
    )


def tls(engine: str, last: Mapping[str, Occurrence], strays: Sequence[Stray]) -> Tls:
    """TLS is on with a certificate or a key; the demand of the last `--ssl-cert-reqs` counts only then."""
    certificate, key = last.get("ssl_certfile"), last.get("ssl_keyfile")
    where = tuple(provenance(o) for o in (certificate, key) if o is not None and given(o))
    if not where:
        return Tls(False)
    if engine != VLLM:
        demand = _stray_demand(strays)
        return Tls(True, "NotDemanded" if demand is None else demand_of(demand[0]), where if demand is None else (*where, demand[1]))
    demanded = last.get("ssl_cert_reqs")
    if demanded is None:
        return Tls(True, "NotDemanded", where)
    return Tls(True, demand_of(None if demanded.unresolved else demanded.value), (*where, provenance(demanded)))


def demand_of(value: str | None) -> ClientCert:
    """What a value of `--ssl-cert-reqs` asks for: 0 nothing, 1 optional, any other integer a certificate; None is a missing value."""
    if value is None:
        return "Unreadable"
    try:
        number = to_int(value)
    except RefusedError:
        return "Unreadable"
    return "NotDemanded" if number == 0 else "Optional" if number == 1 else "Demanded"


def _stray_demand(strays: Sequence[Stray]) -> tuple[str | None, Provenance] | None:
    """The last `--ssl-cert-reqs` among tokens that the engine does not know, in its exact spelling, with its value."""
    found: tuple[str | None, Provenance] | None = None
    for index, stray in enumerate(strays):
        if stray.kind not in {"unknown", "word"}:
            continue
        name, equals, inline = stray.token.partition("=")
        if name != CERT_REQS:
            continue
        value: str | None = inline if equals else None
        if not equals and index + 1 < len(strays):
            follower = strays[index + 1]
            if follower.kind == "word" and follower.position == stray.position + 1:
                value = follower.token
        found = value, Provenance(stray.position, name, value)
    return found
