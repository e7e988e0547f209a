"""The engines room's readings, remembered: a role's arguments change with its spec, the status is judged far more often.

Source: seed "Parallelism" and "Serving endpoints", status facts 3.8.
"""

from collections.abc import Iterator
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
    """Whether a deployed container's command or arguments set an option, found under the engine's own spelling rules."""
    return any(found.option(destination) is not None for found in _deployed(engine, container))


def spreads(engine: EngineSpec, container: Container) -> bool:
    """Whether each member of a replica that runs such a container serves requests itself."""
    return any(balances_itself(found) for found in _deployed(engine, container))


def balances_itself(reading: RoleReading) -> bool:
    """Whether the arguments leave no leader to answer for the others."""
    return reading.parallelism.load_balance in {"External", "Hybrid", "MultiPort"}


def _deployed(engine: EngineSpec, container: Container) -> Iterator[RoleReading]:
    for argv in (container.args, container.command):
        found = _read(engine.name, engine.version, (), argv, ((), ())) if argv else None
        if found is not None:
            yield found


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
