"""Which flags and probes a replica Pod lacks.

The judgement is `engines.gates`'s, made on the role; the Pod only says what is there already. A listen flag that the Pod's own line gives
with another value than ours moves the listener as the role's would: no gates then. A second call finds everything in place and changes
nothing. Source: decisions D3, seed "Readiness gates".
"""

from functools import lru_cache
from itertools import pairwise
from typing import Any, Literal

import msgspec
from msgspec import UNSET, Raw, UnsetType

from api import keys
from api.objects import EngineSpec, EnvVar, Role, RolePort, Struct
from engines import gates
from engines.facade import RoleReading
from webhooks.patch import Operation, add, encode_patch
from webhooks.readings import read_line, usual

HOST = "0.0.0.0"  # noqa: S104 - every interface of the Pod, as the contract says


class Container(Struct, frozen=True):
    """A container under review: its line, and whether it has probes."""

    name: str = ""
    args: tuple[str, ...] | None = None
    startup_probe: Raw | UnsetType = UNSET
    readiness_probe: Raw | UnsetType = UNSET
    liveness_probe: Raw | UnsetType = UNSET

    @property
    def probed(self) -> bool:
        """Whether the Pod declares a probe of its own."""
        return any(
            probe is not UNSET and bytes(probe) != b"null" for probe in (self.startup_probe, self.readiness_probe, self.liveness_probe)
        )


class PodShape(Struct, frozen=True):
    """`spec` of a Pod under review."""

    containers: tuple[Container, ...] = ()


def gate_patch(engine: EngineSpec, role: Role, pod: PodShape) -> bytes | None:
    """What to add to a Pod of that role, as a JSON patch, or None for nothing: missing listen flags, and the three probes where the role is
    gated and the Pod has none. Remembered for lines of a usual length: the Pods of a role come by the dozen."""
    if role.command:
        return None
    index = next((i for i, container in enumerate(pod.containers) if container.name == keys.MAIN_CONTAINER), None)
    if index is None:
        return None
    container = pod.containers[index]
    make = _remembered if usual(role.extra_args, role.env) and usual(container.args or (), ()) else _patch
    return make(engine, role.extra_args, role.env, role.ports, f"/spec/containers/{index}", container.args, container.probed)


def _patch(  # noqa: PLR0917 - everything that decides, and nothing else: it is what a remembered patch is known by
    engine: EngineSpec,
    arguments: tuple[str, ...],
    env: tuple[EnvVar, ...],
    ports: tuple[RolePort, ...],
    path: str,
    present: tuple[str, ...] | None,
    probed: bool,
) -> bytes | None:
    judged = read_line(engine.name, engine.version, arguments, env, ports).gates
    own = read_line(engine.name, engine.version, present or (), env, ports)
    operations = _flags(path, present, judged, own)
    if judged.gated and not probed and not _moved(judged, own):
        operations += _probes(path, judged.scheme, judged.port)
    return encode_patch(operations)


_remembered = lru_cache(maxsize=256)(_patch)


def _flags(path: str, args: tuple[str, ...] | None, judged: gates.Gates, own: RoleReading) -> list[Operation]:
    words: list[str] = []
    present = args or ()
    for name, value, declared in (("host", HOST, own.listener.host_declared), ("port", str(judged.port), own.listener.port_declared)):
        # A bare -- and an option that lacks its value hide what stands behind them: what was filled once is not filled again.
        if name in judged.fills and not declared and (f"--{name}", value) not in pairwise(present):
            words += [f"--{name}", value]
    if not words:
        return []
    if args is None:
        return [add(f"{path}/args", words)]
    return [add(f"{path}/args/-", word) for word in words]


def _moved(judged: gates.Gates, own: RoleReading) -> bool:
    """Whether the Pod's own line listens elsewhere than the operator's flags would."""
    listener = own.listener
    return (listener.host_declared and listener.host != HOST) or (listener.port_declared and listener.port != judged.port)


def _probes(path: str, scheme: Literal["HTTP", "HTTPS"], port: int) -> list[Operation]:
    return [
        add(f"{path}/{name}", _probe(scheme, port, failures))
        for name, failures in (
            ("startupProbe", gates.STARTUP_FAILURES),
            ("readinessProbe", gates.READINESS_FAILURES),
            ("livenessProbe", gates.LIVENESS_FAILURES),
        )
    ]


def _probe(scheme: str, port: int, failures: int) -> dict[str, Any]:
    return {
        "httpGet": {"path": gates.PATH, "port": port, "scheme": scheme},
        "periodSeconds": gates.PERIOD_SECONDS,
        "timeoutSeconds": gates.TIMEOUT_SECONDS,
        "failureThreshold": failures,
    }


pod_decoder = msgspec.json.Decoder(PodShape)
