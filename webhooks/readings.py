"""Readings of command lines, remembered: many Pods share one role, and a write is seen by two webhooks.

A reading is a pure function of its arguments, so remembering changes nothing but the time. Long lines are read anew, so that nobody fills
the memory with them.
"""

from functools import lru_cache

from api.objects import EnvVar, RolePort
from engines.facade import RoleReading, read_argv

LINES = 512
TOKENS, CHARACTERS = 64, 256

_remembered = lru_cache(maxsize=LINES)(read_argv)


def usual(argv: tuple[str, ...], env: tuple[EnvVar, ...]) -> bool:
    """Whether a line is of a length that is worth remembering."""
    return len(argv) + len(env) <= TOKENS and max(map(len, argv), default=0) <= CHARACTERS


def read_line(
    engine: str, version: str | None, argv: tuple[str, ...], env: tuple[EnvVar, ...] = (), ports: tuple[RolePort, ...] = ()
) -> RoleReading:
    """`engines.facade.read_argv`, remembered for lines of a usual length."""
    if usual(argv, env):
        return _remembered(engine, version, argv, env, ports=ports)
    return read_argv(engine, version, argv, env, ports=ports)


def tensor_size(reading: RoleReading) -> int | None:
    """The tensor size that a line declares, 1 where it declares none, None where its value cannot be read."""
    given = reading.option("tensor_parallel_size")
    if given is None:
        broken = any(fault.dest == "tensor_parallel_size" for fault in reading.reading.faults)
        return None if broken else 1
    return given.stored if isinstance(given.stored, int) and given.stored >= 1 and not given.unresolved else None
