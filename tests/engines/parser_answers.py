"""What a real parser's answer demands of a reading (decision D6).

A line that the parser took, or blamed only for words it did not recognise, has to read as it stored it. A line that it refused for an
ambiguous, missing or unwanted value, or for a watched option's value, has to be unreadable. What no reader of an argument vector can know
stays open.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from api.objects import EnvVar
from engines import sglang, vllm
from engines.facade import RoleReading, read_argv
from engines.parallelism import DEGREES, INT32, MODES
from engines.table import RENAMED, VLLM, engine_name

REFUSED = {"ambiguous", "missing_value", "unwanted_value"}
VARIABLES = ("VLLM_DP_SIZE", "VLLM_DP_RANK", "VLLM_DP_RANK_LOCAL", "VLLM_DP_MASTER_PORT")


class Open(Exception):  # noqa: N818 - no error: the line is left out of the comparison, with a reason
    """Nobody can say how the line has to read."""


class Case(msgspec.Struct, frozen=True):
    """One line with the answer of the real parser, and that of its twin under the other argparse family where it was asked."""

    engine: str
    version: str
    argv: tuple[str, ...]
    answer: dict[str, Any]
    env: dict[str, str] = {}
    other: dict[str, Any] | None = None
    argparse_new: dict[str, Any] | None = None
    id: str = ""

    @property
    def reading(self) -> RoleReading:
        """How the line reads here."""
        return read_argv(self.engine, self.version, self.argv, [EnvVar(name=k, value=v) for k, v in self.env.items()])


def _is_int(text: str) -> bool:
    try:
        int(text)
    except ValueError:
        return False
    return True


def _watched(engine: str, flags: Sequence[str], reading: RoleReading) -> bool:
    watched = (vllm if engine == VLLM else sglang).WATCHED
    spelled = {o.registered for o in reading.reading.occurrences if o.dest in watched}
    return bool(spelled & set(flags))


def demanded(case: Case, reading: RoleReading) -> Mapping[str, Any] | None:
    """The facts that the reading has to carry, None when it has to be unreadable. Raises Open."""
    engine = engine_name(case.engine) or ""
    answer = case.answer
    twin = case.argparse_new or (case.other or {}).get("argparse-new")
    if twin is not None and (twin["ok"] != answer["ok"] or twin.get("declared") != answer.get("declared")):
        raise Open("the argparse families differ")
    if any("$(" in token for token in case.argv):
        raise Open("a reference that the kubelet resolves")
    if "--config" in case.argv or "config" in (answer.get("declared") or {}):
        raise Open("a configuration file")
    kind = answer.get("kind")
    if not answer["ok"] and kind != "unrecognized":
        if kind in REFUSED or (kind == "invalid_value" and _watched(engine, answer.get("flags", ()), reading)):
            return None
        raise Open(str(kind))
    stored = answer.get("declared")
    if stored is None:
        raise Open("no answer")
    renamed = RENAMED[engine]
    return _facts(engine, {renamed.get(dest, dest): value for dest, value in stored.items()}, case.env)


def _facts(engine: str, stored: Mapping[str, Any], env: Mapping[str, str]) -> Mapping[str, Any] | None:
    degrees: dict[str, int] = {}
    for dest, (key, low) in DEGREES[engine].items():
        value = stored.get(dest)
        if value is None:
            continue
        if isinstance(value, list):
            raise Open("an empty list under one argparse family")
        if not low <= value <= INT32:
            return None
        degrees[key] = value
    balance = "Internal"
    if engine == VLLM:
        size = stored.get("data_parallel_size")
        from_line = (size is not None and size > 1) or stored.get("data_parallel_size_local") == 0
        read = ("VLLM_DP_MASTER_PORT",) if from_line else VARIABLES
        if any(name in env and not _is_int(env[name]) for name in read):
            return None
        if "VLLM_DP_SIZE" in read and "VLLM_DP_SIZE" in env:
            degrees["dataParallel"] = int(env["VLLM_DP_SIZE"])
            if not 1 <= degrees["dataParallel"] <= INT32:
                return None
        balance = _balance(stored)
    facts: dict[str, Any] = {
        "declared": degrees,
        "modes": {key: stored[dest] for dest, key in MODES[engine].items() if dest in stored},
        "loadBalance": balance,
        "tls": bool(stored.get("ssl_certfile") or stored.get("ssl_keyfile")),
        "host": stored.get("host"),
        "port": stored.get("port"),
    }
    if facts["tls"] and engine == VLLM:
        facts["clientCert"] = {None: "NotDemanded", 0: "NotDemanded", 1: "Optional"}.get(stored.get("ssl_cert_reqs"), "Demanded")
    return facts


def _balance(stored: Mapping[str, Any]) -> str:
    votes = {
        mode
        for mode, voted in (
            ("External", stored.get("data_parallel_external_lb") or stored.get("data_parallel_rank") is not None),
            ("Hybrid", stored.get("data_parallel_hybrid_lb")),
            ("MultiPort", stored.get("data_parallel_multi_port_external_lb")),
        )
        if voted
    }
    return votes.pop() if len(votes) == 1 else "Unknown" if votes else "Internal"


def _stored(answer: Mapping[str, Any]) -> object:
    """What a line comes to under one argparse family: what it stores, or that it is refused for more than words nobody knows."""
    return answer.get("declared") if answer["ok"] or answer["kind"] == "unrecognized" else None


def disagreement(case: Case) -> str | None:
    """What the reading says otherwise than the real parser, None when they agree. Raises Open.

    Where the argparse families store different things, the reading has to say that they differ.
    """
    reading = case.reading
    if case.argparse_new is not None and _stored(case.answer) != _stored(case.argparse_new):
        told = {fault.kind for fault in reading.reading.faults} | {finding.id for finding in reading.findings}
        return None if told & {"families-differ", "EA012"} else "the argparse families differ, and nothing says so"
    wanted = demanded(case, reading)
    parallelism = reading.parallelism
    if wanted is None:
        return None if not parallelism.source.complete else "reads, but the engine refuses"
    if not parallelism.source.complete:
        if any(fault.kind == "families-differ" for fault in reading.reading.faults):
            raise Open("a token on which the argparse families differ")
        return f"unreadable: {parallelism.source.unreadable_reason}"
    got: dict[str, Any] = {
        "declared": parallelism.declared,
        "modes": parallelism.modes,
        "loadBalance": parallelism.load_balance,
        "tls": reading.tls.enabled,
        "host": reading.listener.host if reading.listener.host_declared else None,
        "port": reading.listener.port if reading.listener.port_declared else None,
        "clientCert": reading.tls.client_cert,
    }
    wrong = [f"{key} {got[key]!r}, the engine has {value!r}" for key, value in wanted.items() if got[key] != value]
    return "; ".join(wrong) or None
