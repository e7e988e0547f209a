"""The readiness gates: the one judgement that the Pod webhook, the status, the linter and `explain` share (D3).

Gated or not, over which scheme, on which port, which listen flags the operator fills, and why not. The numbers are constants here so
that nobody can render others.
"""

from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from api.objects import RolePort, serving_port
from engines.listener import Listener, Tls

PATH: Final = "/health"
PERIOD_SECONDS: Final = 10
TIMEOUT_SECONDS: Final = 3
STARTUP_FAILURES: Final = 180
READINESS_FAILURES: Final = 3
LIVENESS_FAILURES: Final = 6


Withheld = Literal["command", "host", "port", "clientCertificate", "protocol"]

REASONS: Final[dict[Withheld, str]] = {
    "command": "the role replaces the command line: the operator does not know where its engine listens",
    "host": "the role's own --host moves where its engine listens",
    "port": "the role's own --port moves where its engine listens",
    "clientCertificate": "the engine demands a client certificate, and a probe has none to present",
    "protocol": "the serving port is not declared as TCP",
}


class Gates(msgspec.Struct, frozen=True, rename="camel"):
    """The judgement. `fills` are the listen flags that the operator adds ("host", "port"), `withheld_by` why there are no gates."""

    gated: bool
    scheme: Literal["HTTP", "HTTPS"]
    port: int
    fills: tuple[str, ...] = ()
    withheld_by: tuple[Withheld, ...] = ()


def judge(listener: Listener, tls: Tls, ports: Sequence[RolePort], replaced: bool) -> Gates:
    """Whether a role is gated. `replaced`: the role brings its own command."""
    scheme: Literal["HTTP", "HTTPS"] = "HTTPS" if tls.enabled else "HTTP"
    port = serving_port(ports)
    if replaced:
        return Gates(False, scheme, port, (), ("command",))
    withheld: list[Withheld] = []
    if listener.host_declared:
        withheld.append("host")
    if listener.port_declared:
        withheld.append("port")
    if tls.enabled and tls.client_cert not in {"NotDemanded", "Optional"}:
        withheld.append("clientCertificate")
    if ports and (ports[0].protocol or "TCP").upper() != "TCP":
        withheld.append("protocol")
    fills = tuple(name for name, own in (("host", listener.host_declared), ("port", listener.port_declared)) if not own)
    return Gates(not withheld, scheme, port, fills, tuple(withheld))
