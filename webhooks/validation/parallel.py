"""What a role's arguments say about its parallelism, against its cards and its router. Source: admission facts 3.6, decisions D5 and D6.

The load-balance shape here is finer than the status field: it decides what is refused.
"""

from collections.abc import Iterator
from math import prod
from typing import Literal

import msgspec

from engines.facade import Fault, RoleReading
from engines.parallelism import DEGREES
from webhooks.quantity import same_quantity, whole
from webhooks.validation.features import BALANCING, GLUED
from webhooks.validation.findings import Problem, rule
from webhooks.validation.subject import RoleView, Subject

WIRING = {
    "vLLM": frozenset(
        {
            "nnodes",
            "node_rank",
            "master_addr",
            "master_port",
            "data_parallel_rank",
            "data_parallel_start_rank",
            "data_parallel_address",
            "data_parallel_rpc_port",
            "data_parallel_backend",
            "headless",
            "data_parallel_hybrid_lb",
            "data_parallel_external_lb",
            "data_parallel_multi_port_external_lb",
        }
    ),
    "SGLang": frozenset({"nnodes", "node_rank", "dist_init_addr"}),
}
"""Options that spread one replica over several processes: with one of them the cards of a Pod say nothing about the width."""

EXTERNAL_ROUTERS = {"vLLM": "vllm-router", "SGLang": "sglang-gateway"}

_EXTERNAL = "--data-parallel-external-lb"
_RANK = "--data-parallel-rank"
_HYBRID = "--data-parallel-hybrid-lb"
_MULTI_PORT = "--data-parallel-multi-port-external-lb"
_START = "--data-parallel-start-rank"

Shape = Literal["Internal", "External", "Hybrid", "MultiPort", "Unknown"]


class Balance(msgspec.Struct, frozen=True, gc=False):
    """A load-balance shape and, where it is no single one, why."""

    shape: Shape
    why: str = ""


INTERNAL, EXTERNAL = Balance("Internal"), Balance("External")

# The options that say anything about load balancing; without one of them it is internal.
_SPEAKERS = frozenset(
    {
        "data_parallel_external_lb",
        "data_parallel_rank",
        "data_parallel_hybrid_lb",
        "data_parallel_multi_port_external_lb",
        "data_parallel_start_rank",
    }
)


def _glued(subject: Subject, view: RoleView) -> str | None:
    """The first unknown token of a managed role that is a short degree with its value glued on, by the version's own table."""
    if view.taken_over or not view.judges_line or subject.spec.engine.name != "vLLM" or not any(map(GLUED.fullmatch, view.tokens)):
        return None
    reading = view.reading(subject.spec).reading
    unknown = (stray.token for stray in reading.strays if stray.kind == "unknown" and GLUED.fullmatch(stray.token))
    return next(unknown, None) if reading.own_table else None


def _faults(subject: Subject, view: RoleView) -> tuple[Fault, ...]:
    """What makes a role's line unreadable and may refuse it: under a table of the declared version's own (D5)."""
    if not view.judges_line or not subject.known_engine:
        return ()
    reading = view.reading(subject.spec)
    return reading.refusals if reading.reading.faults else ()


def _of_degrees(subject: Subject, fault: Fault) -> bool:
    return fault.variable is not None or fault.dest in DEGREES[subject.spec.engine.name] or fault.dest == "elastic_ep_max_dp_size"


@rule(
    "MD301",
    "ArgumentsReadable",
    "The engine's own parser reads the extra arguments; judged where the declared version has an option table of its own.",
    "spec.roles[i].extraArgs[j]",
    "spec.roles[i].env[j]",
    when="faulty",
    source="D5, D6",
)
def arguments_readable(subject: Subject) -> Iterator[Problem]:
    """Not judged on a role that replaces the command: what stands there need not be the engine."""
    for view in subject.managed():
        for fault in _faults(subject, view):
            if fault.variable is not None:
                yield Problem(field=f"{view.path}.env[{fault.variable}]", said=fault.message, value=view.role.env[fault.variable].name)
            elif fault.position is not None and 0 <= fault.position < len(view.role.extra_args):
                token = view.role.extra_args[fault.position]
                yield Problem(field=f"{view.path}.extraArgs[{fault.position}]", said=fault.message, value=token)
            else:
                yield Problem(field=f"{view.path}.extraArgs", said=fault.message, value=view.role.name)


@rule(
    "MD302",
    "DegreesReadable",
    "Every declared degree of parallelism has a value that the engine takes.",
    "spec.roles[i]",
    when="faulty",
    source="3.6",
)
def degrees_readable(subject: Subject) -> Iterator[Problem]:
    """The role as a whole is at fault: nothing can be said about its width. A replaced command is read for its degrees."""
    for view in subject.roles:
        faults = _faults(subject, view)
        fault = next((fault for fault in faults if _of_degrees(subject, fault)), None) if faults else None
        if fault is not None:
            yield Problem(field=view.path, said=fault.message, value=view.role.name)
        elif (token := _glued(subject, view)) is not None:
            yield Problem(field=view.path, said=f"{token} is a short spelling with a glued value: write them apart", value=view.role.name)
        elif "--e" in view.heads and view.judges_line and subject.known_engine and not elastic_maximum_fits(view.reading(subject.spec)):
            yield Problem(field=view.path, said="--elastic-ep-max-dp-size is below its minimum 1", value=view.role.name)


def elastic_maximum_fits(reading: RoleReading) -> bool:
    """Whether the elastic maximum, where a line of a known release gives one, is at least 1: a degree, though no status field shows it."""
    most = reading.option("elastic_ep_max_dp_size")
    return most is None or not reading.reading.own_table or not isinstance(most.stored, int) or most.stored >= 1


# --------------------------------------------------------------------------------------------------------------- width


@rule(
    "MD303",
    "WidthFitsCards",
    "A Pod has at least as many cards as its engine's parallel width.",
    "spec.roles[i].resources.accelerator",
    when="cards",
    source="3.6",
)
def width_fits(subject: Subject) -> Iterator[Problem]:
    """Silent without whole cards, when the line is unreadable, and when an option spreads the replica over several processes."""
    if not subject.known_engine:
        return
    for view in subject.roles:
        written = view.role.resources.accelerator if view.role.resources else None
        cards = whole(written) if written is not None else None
        if cards is None or cards <= 0 or cards_kept(view):
            continue
        reading = view.reading(subject.spec)
        if reading.parallelism.source.kind == "Unknown" or _wired(subject, reading):
            continue
        factors = width_factors(subject.spec.engine.name, reading)
        width = min(prod([factor for _, factor in factors]), 2**63 - 1)
        if width > cards:
            shown = " x ".join(f"{name} {factor}" for name, factor in factors if factor > 1)
            yield Problem(
                field=f"{view.path}.resources.accelerator",
                value=written,
                said=f"the engine needs {width} cards in each Pod ({shown}); a larger size does not help",
            )


def cards_kept(view: RoleView) -> bool:
    """Whether an update left arguments and cards as they were."""
    if view.judges_line or view.old is None or view.role.resources is None or view.old.resources is None:
        return False
    return same_quantity(view.role.resources.accelerator, view.old.resources.accelerator)


def _wired(subject: Subject, reading: RoleReading) -> bool:
    last = reading.last
    return any(last[dest].stored is not False for dest in WIRING[subject.spec.engine.name].intersection(last))


def width_factors(engine: str, reading: RoleReading) -> tuple[tuple[str, int], ...]:
    """What multiplies into the number of cards of one Pod. Decode-context and expert parallelism never do."""
    declared, modes = reading.parallelism.declared, reading.parallelism.modes
    tensor = ("tensor", declared.get("tensorParallel", 1))
    pipeline = ("pipeline", declared.get("pipelineParallel", 1))
    data = declared.get("dataParallel", 1)
    if engine == "vLLM":
        local = declared.get("dataParallelLocal", 0)
        ranks = ("local data", local) if local else ("data", data)
        return tensor, pipeline, ("prefill context", declared.get("prefillContextParallel", 1)), ranks
    within = (
        modes.get("dpAttention", False)
        or declared.get("dwdpSize", 1) > 1
        or declared.get("moeDpSize", 1) > 1
        or declared.get("attentionContextParallel", 1) > 1
    )
    return (tensor, pipeline) if within else (tensor, pipeline, ("data", data))


# -------------------------------------------------------------------------------------------------------- load balance


def balance_of(reading: RoleReading) -> Balance:
    """The shape of data-parallel load balancing that vLLM's flags ask for."""
    if _SPEAKERS.isdisjoint(reading.last):
        return INTERNAL
    votes = _votes(reading)
    starts = reading.option("data_parallel_start_rank") is not None
    shapes = set(votes.values())
    if len(shapes) > 1 or ("External" in shapes and starts):
        flags = sorted({*votes, _START} if "External" in shapes and starts else votes)
        return Balance("Unknown", f"{' and '.join(flags)} ask for different kinds of load balancing")
    declared = reading.parallelism.declared
    size, local = declared.get("dataParallel", 1), declared.get("dataParallelLocal", 0)
    if shapes == {"MultiPort"}:
        return Balance("MultiPort", f"{_MULTI_PORT} opens a port per rank, a managed role has one HTTP endpoint per Pod")
    if shapes == {"External"}:
        return EXTERNAL
    if shapes == {"Hybrid"}:
        return Balance("External" if local == 1 else "Internal" if local == size else "Hybrid")
    if not starts or _on(reading, "headless"):
        return INTERNAL
    if 0 < local < size:
        return Balance("External" if local == 1 else "Hybrid")
    nodes = reading.option("nnodes")
    if local == 0 and nodes is not None and nodes.stored != 1:
        if not isinstance(nodes.stored, int) or nodes.stored <= 0:
            return Balance("Unknown", f"--nnodes {nodes.value or ''} beside {_START} cannot be read")
        return Balance("Unknown", f"{_START} over several nodes (--nnodes {nodes.stored}) needs an explicit --data-parallel-size-local")
    return INTERNAL


def _votes(reading: RoleReading) -> dict[str, Shape]:
    votes: dict[str, Shape] = {}
    if _on(reading, "data_parallel_external_lb"):
        votes[_EXTERNAL] = "External"
    if reading.option("data_parallel_rank") is not None:
        votes[_RANK] = "External"
    if _on(reading, "data_parallel_hybrid_lb"):
        votes[_HYBRID] = "Hybrid"
    if _on(reading, "data_parallel_multi_port_external_lb"):
        votes[_MULTI_PORT] = "MultiPort"
    return votes


def _on(reading: RoleReading, dest: str) -> bool:
    """A switch that is given and not withdrawn by its negative form."""
    seen = reading.option(dest)
    return seen is not None and seen.stored is not False


def _judged(subject: Subject) -> Iterator[tuple[RoleView, Balance]]:
    """Managed vLLM roles whose line, or whose router, this write touches."""
    if subject.spec.engine.name != "vLLM":
        return
    for view in subject.managed():
        if (view.judges_line or not subject.router_kept) and not BALANCING.isdisjoint(view.heads):
            yield view, balance_of(view.reading(subject.spec))


@rule(
    "MD304",
    "LoadBalanceServed",
    "The data-parallel load balancing asked for is one, and one that a single endpoint per Pod can serve.",
    "spec.roles[i].extraArgs",
    when="balance",
    source="3.6, D5",
)
def load_balance(subject: Subject) -> Iterator[Problem]:
    """External, Hybrid and Internal are admitted on any kind, size and count."""
    for view, balance in _judged(subject):
        if view.judges_line and balance.shape in {"MultiPort", "Unknown"}:
            yield Problem(field=f"{view.path}.extraArgs", said=balance.why, value=view.role.name)


@rule(
    "MD305",
    "RouterRequired",
    "External data parallelism is served behind the engine's own router: vllm-router for vLLM, sglang-gateway for SGLang.",
    "spec.router",
    "spec.router.name",
    when="balance",
    source="3.6, D5",
)
def router_required(subject: Subject) -> Iterator[Problem]:
    """Every rank has an endpoint of its own and none leads."""
    wanted = EXTERNAL_ROUTERS.get(subject.spec.engine.name, "")
    external = [view.role.name for view, balance in _judged(subject) if balance.shape == "External"]
    if not external:
        return
    router = subject.spec.router
    who = f"role{'s' if len(external) > 1 else ''} {', '.join(repr(name) for name in sorted(external))}"
    if router is None:
        yield Problem(
            field="spec.router", reason="Required", said=f"{who}: external data parallelism has no leading rank, so it needs {wanted}"
        )
    elif router.name != wanted:
        yield Problem(field="spec.router.name", value=router.name, said=f"{who}: external data parallelism is served by {wanted} only")


RULES = (arguments_readable, degrees_readable, width_fits, load_balance, router_required)
