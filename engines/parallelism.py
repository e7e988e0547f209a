"""The parallelism that a role's arguments declare, with its provenance (seed "Parallelism", decision D6).

Nothing is defaulted: a degree that is not declared is absent, an explicit 1 and an explicit local 0 stay, a mode carries its explicit
boolean. An unreadable line claims nothing but its reason.
"""

from collections.abc import Mapping, Sequence
from typing import Final, Literal

import msgspec

from engines.kubelet import Expanded
from engines.table import SGLANG, VLLM, Table
from engines.tokens import Fault, Occurrence, named
from engines.values import RefusedError, show, to_int

INT32: Final = 2**31 - 1

# Destination -> (key in `declared`, minimum).
DEGREES: Final[Mapping[str, Mapping[str, tuple[str, int]]]] = {
    VLLM: {
        "tensor_parallel_size": ("tensorParallel", 1),
        "pipeline_parallel_size": ("pipelineParallel", 1),
        "data_parallel_size": ("dataParallel", 1),
        "data_parallel_size_local": ("dataParallelLocal", 0),
        "prefill_context_parallel_size": ("prefillContextParallel", 1),
        "decode_context_parallel_size": ("decodeContextParallel", 1),
    },
    SGLANG: {
        "tp_size": ("tensorParallel", 1),
        "pp_size": ("pipelineParallel", 1),
        "dp_size": ("dataParallel", 1),
        "ep_size": ("expertParallel", 1),
        "dcp_size": ("decodeContextParallel", 1),
        "attn_cp_size": ("attentionContextParallel", 1),
        "attn_dp_size": ("attentionDataParallel", 1),
        "moe_dp_size": ("moeDpSize", 1),
        "dwdp_size": ("dwdpSize", 1),
    },
}
MODES: Final[Mapping[str, Mapping[str, str]]] = {
    VLLM: {"enable_expert_parallel": "expertParallel", "enable_elastic_ep": "elasticEp"},
    SGLANG: {"enable_dp_attention": "dpAttention", "enable_prefill_cp": "prefillContextParallel"},
}

LoadBalance = Literal["Internal", "External", "Hybrid", "MultiPort", "Unknown"]
SourceKind = Literal["ExtraArgs", "Command", "UnmanagedCommand", "Unknown"]

EXTERNAL_FLAG: Final = "data_parallel_external_lb"
RANK: Final = "data_parallel_rank"
HYBRID_FLAG: Final = "data_parallel_hybrid_lb"
MULTI_PORT_FLAG: Final = "data_parallel_multi_port_external_lb"
_VOTES: Final = (
    (EXTERNAL_FLAG, "--data-parallel-external-lb", "External"),
    (RANK, "--data-parallel-rank", "External"),
    (HYBRID_FLAG, "--data-parallel-hybrid-lb", "Hybrid"),
    (MULTI_PORT_FLAG, "--data-parallel-multi-port-external-lb", "MultiPort"),
)

SIZE_VARIABLE: Final = "VLLM_DP_SIZE"
_PORT_VARIABLE: Final = "VLLM_DP_MASTER_PORT"
_VARIABLES: Final = (SIZE_VARIABLE, "VLLM_DP_RANK", "VLLM_DP_RANK_LOCAL", _PORT_VARIABLE)


class Provenance(msgspec.Struct, frozen=True, gc=False):
    """Where a fact comes from: an argument's position and spelling, or an environment variable's name and index."""

    position: int | None = None
    spelling: str = ""
    value: str | None = None
    variable: str | None = None


class Source(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """`parallelism.source`: where the reading came from and whether it is complete."""

    kind: SourceKind
    complete: bool
    unreadable_reason: str | None = None


class Parallelism(msgspec.Struct, frozen=True, rename="camel"):
    """`parallelism` of a role. `provenance` maps a declared key, a mode's key or `loadBalance` to where it was read."""

    declared: Mapping[str, int]
    modes: Mapping[str, bool]
    load_balance: LoadBalance
    source: Source
    provenance: Mapping[str, tuple[Provenance, ...]] = {}


UNMANAGED: Final = Parallelism({}, {}, "Unknown", Source("Unknown", False, "Unmanaged"))


def unreadable(reason: str) -> Parallelism:
    """A line that cannot be read: the reason and nothing else."""
    return Parallelism({}, {}, "Unknown", Source("Unknown", False, reason))


def whole(occurrence: Occurrence | None) -> int | None:
    """The integer that an occurrence stored, or None."""
    stored = None if occurrence is None else occurrence.stored
    return stored if isinstance(stored, int) and not isinstance(stored, bool) else None


def on(occurrence: Occurrence | None) -> bool:
    """Whether a switch's last use turns it on."""
    return occurrence is not None and occurrence.stored is True


def given(occurrence: Occurrence | None) -> bool:
    """Whether an option is set to something in the end. What only the cluster knows counts as something."""
    return occurrence is not None and (bool(occurrence.stored) or bool(occurrence.unresolved))


def provenance(occurrence: Occurrence) -> Provenance:
    """Where an occurrence stands."""
    return Provenance(occurrence.position, occurrence.spelling, occurrence.value)


def degree_faults(table: Table, last: Mapping[str, Occurrence]) -> list[Fault]:
    """Degrees below their minimum, over int32, or left to a reference that nobody here defines. Only the effective use counts."""
    faults: list[Fault] = []
    for dest, (_, low) in DEGREES[table.engine].items():
        occurrence = last.get(dest)
        if occurrence is None:
            continue
        if occurrence.unresolved:
            why = f"{_named(table, occurrence)} is {show(occurrence.value or '')}, which the role's own environment does not define"
            faults.append(Fault("unresolved", why, occurrence.position, occurrence.spelling, dest))
        elif (value := whole(occurrence)) is not None and not low <= value <= INT32:
            text = show(occurrence.value or "")
            if value < low:
                why = f"{_named(table, occurrence)} is {text}, below its minimum {low}"
                faults.append(Fault("below-minimum", why, occurrence.position, occurrence.spelling, dest))
            else:
                why = f"{_named(table, occurrence)} is {text}, out of the 32-bit range"
                faults.append(Fault("out-of-range", why, occurrence.position, occurrence.spelling, dest))
    return faults


def _named(table: Table, occurrence: Occurrence) -> str:
    return named(occurrence.spelling, table.spellings[occurrence.registered])


def environment_size(
    last: Mapping[str, Occurrence], variables: Mapping[str, Expanded], order: Sequence[str]
) -> tuple[int | None, list[Fault]]:
    """The data-parallel size that vLLM takes from the environment, and the variables it reads and cannot convert (facts, section 6).

    It reads them while the line's size is at most 1 and the local size is not 0. Otherwise it picks ports, and reads only the variable
    that keeps some of them apart.
    """
    size = whole(last.get("data_parallel_size"))
    faults: list[Fault] = []
    from_line = (size is not None and size > 1) or whole(last.get("data_parallel_size_local")) == 0
    read = (_PORT_VARIABLE,) if from_line else _VARIABLES
    found: int | None = None
    for name in read:
        if name not in variables:
            continue
        known = variables[name]
        index = len(order) - 1 - order[::-1].index(name)
        if known.unresolved:
            if name == SIZE_VARIABLE:
                why = f"{name} is {show(known.text)}, which the role's own environment does not define"
                faults.append(Fault("unresolved", why, None, name, "data_parallel_size", index))
            continue
        try:
            value = to_int(known.text)
        except RefusedError as refused:
            faults.append(Fault("environment", f"{name}: {refused}", None, name, None, index))
            continue
        if name == SIZE_VARIABLE:
            if not 1 <= value <= INT32:
                why = "below its minimum 1" if value < 1 else "out of the 32-bit range"
                faults.append(Fault("environment", f"{name} is {show(known.text)}, {why}", None, name, "data_parallel_size", index))
            else:
                found = value
    return found, faults


def declared(
    engine: str, last: Mapping[str, Occurrence], size: int | None
) -> tuple[dict[str, int], dict[str, bool], dict[str, tuple[Provenance, ...]]]:
    """Degrees and modes of a readable line, and where each was read."""
    degrees: dict[str, int] = {}
    modes: dict[str, bool] = {}
    where: dict[str, tuple[Provenance, ...]] = {}
    for dest, (key, _) in DEGREES[engine].items():
        if (occurrence := last.get(dest)) is not None and (value := whole(occurrence)) is not None:
            degrees[key] = value
            where[key] = (provenance(occurrence),)
    for dest, key in MODES[engine].items():
        if (occurrence := last.get(dest)) is not None and isinstance(occurrence.stored, bool):
            modes[key] = occurrence.stored
            where[key] = (provenance(occurrence),)
    if size is not None:
        degrees["dataParallel"] = size
        where["dataParallel"] = (Provenance(variable=SIZE_VARIABLE, value=str(size)),)
    return degrees, modes, where


def balance(last: Mapping[str, Occurrence]) -> tuple[LoadBalance, str | None, tuple[Provenance, ...]]:
    """The seed's sentence and nothing finer: one vote decides, several disagree, none is Internal. A withdrawn flag does not vote."""
    votes: list[tuple[str, LoadBalance, Occurrence]] = []
    for dest, flag, mode in _VOTES:
        occurrence = last.get(dest)
        if occurrence is not None and (dest == RANK or occurrence.stored is True):
            votes.append((flag, mode, occurrence))  # type: ignore[arg-type]
    if not votes:
        return "Internal", None, ()
    where = tuple(provenance(occurrence) for _, _, occurrence in votes)
    modes = {mode for _, mode, _ in votes}
    if len(modes) == 1:
        return votes[0][1], None, where
    return "Unknown", f"{' and '.join(sorted(flag for flag, _, _ in votes))} disagree about load balancing", where
