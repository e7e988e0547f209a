"""The engines room's front door: read a role, or an argument vector, and get every fact the other rooms ask for.

A reading never raises and depends on nothing but its arguments and the packaged option tables. Authority: the engines' own parsers
(`make test-engines` asks them), decision D6, the seed's "Parallelism" and "Readiness gates".
"""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from api.objects import EngineSpec, EnvVar, Role, RolePort, serving_port
from engines import sglang, vllm
from engines.findings import Finding
from engines.gates import Gates, judge
from engines.judgement import judge_line
from engines.kubelet import LIMIT, Expanded, environment, expand
from engines.listener import Listener, Tls, listener, tls
from engines.parallelism import (
    UNMANAGED,
    Parallelism,
    Source,
    balance,
    declared,
    degree_faults,
    environment_size,
    unreadable,
)
from engines.table import ENGINES, VLLM, Choice, Table, choose, engine_name
from engines.tokens import TERMINATOR, Fault, Occurrence, Stray, consume, named
from engines.values import show

__all__ = [
    "Fault",
    "Finding",
    "Gates",
    "Listener",
    "Occurrence",
    "Parallelism",
    "Reading",
    "RoleReading",
    "Source",
    "Stray",
    "Tls",
    "read_argv",
    "read_role",
]

_NO_PORTS: Final[tuple[RolePort, ...]] = ()


class Reading(msgspec.Struct, frozen=True):
    """The line as the engine's parser sees it.

    `argv` are the arguments after the kubelet's expansion (what positions index), `occurrences` the recognised options in the order the
    parser meets them, `strays` what it sets aside, `faults` why it is unreadable. `table` is the release whose options were used, `choice`
    how it was chosen for the declared `version`; `config` the position of an exact `--config`; `replaced` says that the role brings its
    own command, which `argv` then is.
    """

    engine: str
    version: str | None
    table: str
    choice: Choice
    argv: tuple[str, ...]
    occurrences: tuple[Occurrence, ...]
    strays: tuple[Stray, ...]
    faults: tuple[Fault, ...]
    config: int | None = None
    replaced: bool = False

    @property
    def own_table(self) -> bool:
        """Whether the declared version has a table of its own: only then may an unreadable line be refused (D5)."""
        return self.choice == "exact"

    @property
    def config_file(self) -> str | None:
        """What stands behind an exact `--config`, or None."""
        return None if self.config is None or self.config + 1 >= len(self.argv) else self.argv[self.config + 1]


class RoleReading(msgspec.Struct, frozen=True):
    """Everything that one argument vector says."""

    reading: Reading
    parallelism: Parallelism
    listener: Listener
    tls: Tls
    gates: Gates
    findings: tuple[Finding, ...]
    last: Mapping[str, Occurrence] = {}

    def option(self, dest: str) -> Occurrence | None:
        """The last occurrence of a destination (the engine's own name for it, e.g. `served_model_name`), or None."""
        return self.last.get(dest)

    @property
    def refusals(self) -> tuple[Fault, ...]:
        """The faults for which admission refuses the line (D5): none when the version has no table of its own or the command is
        replaced."""
        if self.reading.replaced or not self.reading.own_table:
            return ()
        return tuple(fault for fault in self.reading.faults if fault.refuses)

    def to_json(self) -> bytes:
        """The result line of `mdctl args --jsonl` (D8), without a newline."""
        source = self.parallelism.source
        return _ENCODER.encode(
            {
                "parallelism": {
                    "declared": self.parallelism.declared,
                    "modes": self.parallelism.modes,
                    "loadBalance": self.parallelism.load_balance,
                    "source": {"kind": source.kind, "complete": source.complete}
                    | ({} if source.unreadable_reason is None else {"unreadableReason": source.unreadable_reason}),
                },
                "listener": self.listener,
                "tls": {"enabled": self.tls.enabled, "clientCert": self.tls.client_cert},
                "gates": self.gates,
                "findings": [{"id": f.id, "severity": f.severity, "message": f.message} for f in self.findings],
            }
        )


_ENCODER: Final = msgspec.json.Encoder()


def read_role(engine: EngineSpec, role: Role) -> RoleReading:
    """Read a role's own arguments. From a replaced command TLS and the listener are taken, and no parallelism.

    Raises KeyError for an engine nobody knows (the schema admits two).
    """
    return read_argv(engine.name, engine.version, role.extra_args, role.env, role.command, ports=role.ports)


def read_argv(
    engine: str,
    version: str | None,
    argv: Sequence[str],
    env: Sequence[EnvVar] = (),
    command: Sequence[str] = (),
    *,
    ports: Sequence[RolePort] = _NO_PORTS,
) -> RoleReading:
    """Read an argument vector as `engine` at `version` reads it, behind `vllm serve MODEL` respectively `launch_server --model-path MODEL`.

    `env` are the role's own variables; `command`, when not empty, replaces the whole line; `ports[0]` is the serving port. Raises
    KeyError for an engine nobody knows, nothing else.
    """
    name = engine if engine in ENGINES else engine_name(engine)
    if name is None:
        raise KeyError(f"no option table for the engine {engine!r}")
    chosen = choose(name, version)
    table = chosen.table
    variables = environment(env) if env else {}
    replaced = bool(command)
    tokens, unresolved = _expanded(command if replaced else argv, variables)
    module = vllm if name == VLLM else sglang
    rewritten = module.rewrite(_unwrapped(tokens) if replaced else tokens, unresolved, table.spellings)
    consumed = consume(table, rewritten.line)
    last = {occurrence.dest: occurrence for occurrence in consumed.occurrences}
    watched = module.WATCHED
    faults = [*rewritten.faults, *consumed.faults, *(bad for bad in consumed.bad if bad.dest in watched)]
    size: int | None = None
    if not replaced:
        if not faults:
            faults += degree_faults(table, last)
        if name == VLLM and variables:
            size, more = environment_size(last, variables, [variable.name for variable in env])
            faults += more
        if len(faults) > 1:
            faults.sort(key=_position)
    reading = Reading(
        name,
        version,
        table.version,
        chosen.choice,
        tokens,
        tuple(consumed.occurrences),
        tuple(consumed.strays),
        tuple(faults),
        rewritten.config,
        replaced,
    )
    where = listener(last, serving_port(ports), not replaced)
    encryption = tls(name, last, consumed.strays)
    gates = judge(where, encryption, ports, replaced)
    if replaced:
        return RoleReading(reading, UNMANAGED, where, encryption, gates, (), last)
    parallelism = _parallelism(name, last, faults, size, _unknown(reading, table, watched))
    found = judge_line(reading, last, consumed, parallelism, rewritten.findings, watched, unresolved)
    return RoleReading(reading, parallelism, where, encryption, gates, found, last)


def _position(fault: Fault) -> int:
    return 1 << 31 if fault.position is None else fault.position


def _unwrapped(command: tuple[str, ...]) -> tuple[str, ...]:
    """A replaced command as the engine's words: a bare -- is a wrapper's (`tini -- vllm serve …`), for no engine starts with one."""
    return tuple("" if token == TERMINATOR else token for token in command)


def _expanded(argv: Sequence[str], variables: Mapping[str, Expanded]) -> tuple[tuple[str, ...], dict[int, tuple[str, ...]]]:
    """The arguments as the kubelet passes them on, and the references left in each."""
    unresolved: dict[int, tuple[str, ...]] = {}
    if "$" not in "".join(argv):
        return tuple(argv), unresolved
    out: list[str] = []
    room = 4 * LIMIT
    for index, token in enumerate(argv):
        if "$" not in token:
            out.append(token)
            continue
        expanded = expand(token, variables, min(LIMIT, max(room, 0)))
        room -= max(len(expanded.text) - len(token), 0)
        out.append(expanded.text)
        if expanded.unresolved:
            unresolved[index] = expanded.unresolved
    return tuple(out), unresolved


def _unknown(reading: Reading, table: Table, watched: frozenset[str]) -> tuple[str, ...]:
    """What a readable line leaves open: a configuration file, and watched integers whose text only the cluster knows.

    Such an integer counts as given (an assigned rank votes, a declared port moves the listener), but the reading is not complete: the
    parser would refuse the text as it stands here.
    """
    found = []
    if reading.config is not None:
        found.append(f"--config {show(reading.config_file or '')}: only the file knows what else it declares")
    for occurrence in reading.occurrences:
        if occurrence.unresolved and occurrence.dest in watched and (option := table.spellings[occurrence.registered]).type == "int":
            names = " ".join(f"$({name})" for name in occurrence.unresolved)
            found.append(f"{named(occurrence.spelling, option)}: {names} is left to the cluster, so its value is not known here")
    return tuple(dict.fromkeys(found))


def _parallelism(
    engine: str, last: Mapping[str, Occurrence], faults: Sequence[Fault], size: int | None, unknown: tuple[str, ...]
) -> Parallelism:
    if faults:
        return unreadable(faults[0].message)
    degrees, modes, where = declared(engine, last, size)
    mode, reason, votes = balance(last) if engine == VLLM else ("Internal", None, ())
    if votes:
        where["loadBalance"] = votes
    said = "; ".join((*unknown, reason) if reason is not None else unknown)
    return Parallelism(degrees, modes, mode, Source("ExtraArgs", not unknown, said or None), where)
