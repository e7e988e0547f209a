"""The engines room's readings, remembered: a role's arguments change with its spec, the status is judged far more often.

Source: seed "Parallelism" and "Serving endpoints", status facts 3.8.
"""

from functools import lru_cache

from api.objects import Container, EngineSpec, EnvVar, Role, RolePort
from api.status import ParallelismSource, ParallelismStatus
from controller.status.text import bounded
from engines.facade import RoleReading, read_argv


def read(engine: EngineSpec, role: Role) -> RoleReading | None:
    """The reading of a role's own arguments; None for an engine that nobody knows."""
    return _read(engine.name, engine.version, role.command, role.extra_args, (role.env, role.ports))


def parallelism_of(engine: EngineSpec, reading: RoleReading | None) -> ParallelismStatus:
    """`roles[].parallelism`, straight from the reading: nothing is defaulted into it."""
    if reading is None:
        return ParallelismStatus(load_balance="Unknown", source=ParallelismSource("Unknown", False, f"engine {engine.name} is not known"))
    found = reading.parallelism
    return ParallelismStatus(
        declared=dict(found.declared),
        modes=dict(found.modes),
        load_balance=found.load_balance,
        source=ParallelismSource(found.source.kind, found.source.complete, bounded(found.source.unreadable_reason or "")),
    )


def encrypted(reading: RoleReading | None) -> bool:
    """Whether the role's engine serves HTTPS."""
    return reading is not None and reading.tls.enabled


def declares(engine: EngineSpec, container: Container, destination: str) -> bool:
    """Whether a deployed container's arguments set an option, found under the engine's own spelling rules."""
    found = _read(engine.name, engine.version, (), container.args or container.command, ((), ()))
    return found is not None and found.option(destination) is not None


@lru_cache(maxsize=2048)
def _read(
    engine: str,
    version: str | None,
    command: tuple[str, ...],
    argv: tuple[str, ...],
    settings: tuple[tuple[EnvVar, ...], tuple[RolePort, ...]],
) -> RoleReading | None:
    try:
        return read_argv(engine, version, argv, settings[0], command, ports=settings[1])
    except KeyError:
        return None
