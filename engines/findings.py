"""Findings: what a person should know about a line that reads. Stable ids, one catalogue, from which the docs and the lint output come."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal

import msgspec

Severity = Literal["error", "warning", "info"]


class Finding(msgspec.Struct, frozen=True, gc=False):
    """One fact about the line. `position` indexes the role's arguments, None when it is not about one of them.

    error: the engine refuses to start. warning: it starts and does something else than the line seems to say, or cannot be judged.
    info: worth knowing.
    """

    id: str
    severity: Severity
    message: str
    position: int | None = None


class Kind(msgspec.Struct, frozen=True):
    """One entry of the catalogue."""

    id: str
    severity: Severity
    title: str


def _kinds(*rows: tuple[str, Severity, str]) -> Mapping[str, Kind]:
    return MappingProxyType({row[0]: Kind(*row) for row in rows})


CATALOGUE: Final = _kinds(
    # 0xx is about the line itself,
    ("EA001", "error", "the line is unreadable: the engine's parser refuses it, or its reading depends on what is not known here"),
    ("EA002", "error", "an option that the engine release does not register"),
    ("EA003", "error", "a stray word: the engine takes no positional argument there"),
    ("EA004", "error", "a bare -- : everything behind it is ignored, and the engine refuses to start with one"),
    ("EA005", "error", "a value that the option's type or choices refuse"),
    ("EA006", "warning", "a configuration file may declare more than the line does"),
    ("EA007", "warning", "--config=FILE or an abbreviation of it is accepted and the file is not read"),
    ("EA008", "info", "a repeated option: the last one wins"),
    ("EA009", "error", "--model replaces the model that the deployment serves"),
    ("EA010", "error", "the engine prints its help or version and exits"),
    ("EA011", "warning", "a $(VAR) reference that the role's own environment does not define"),
    ("EA012", "warning", "a value that different Python releases read differently"),
    ("EA013", "warning", "a deprecated spelling"),
    ("EA014", "warning", "the declared version names no release; the newest table was used"),
    ("EA015", "info", "the declared version has no table of its own"),
    ("EA016", "error", "a configuration file whose name does not say YAML"),
    ("EA017", "warning", "a model path of the role's own is served instead of the deployment's"),
    ("EA019", "info", "more findings of the same kind were left out"),
    # 1xx about data parallelism and load balance,
    ("EA101", "error", "data-parallel load-balance options that contradict each other"),
    ("EA102", "error", "the local data-parallel size exceeds the data-parallel size"),
    ("EA103", "error", "a data-parallel rank outside 0..size-1"),
    ("EA104", "error", "an assigned data-parallel rank without data parallelism"),
    ("EA105", "error", "external balancing without a rank"),
    ("EA106", "error", "hybrid balancing without a local size"),
    ("EA107", "warning", "the engine ends in another load-balance mode than the flags say"),
    ("EA108", "error", "--headless where the engine does not allow it"),
    ("EA109", "error", "the multi-port mode's own demands are not met"),
    ("EA110", "warning", "a start rank that the engine drops"),
    ("EA111", "error", "an assigned rank allows one local rank only"),
    ("EA112", "info", "the data-parallel size comes from the environment"),
    ("EA113", "warning", "the environment replaces the assigned data-parallel rank"),
    ("EA114", "error", "an unknown data-parallel backend"),
    # 2xx about degrees against each other,
    ("EA201", "error", "the decode-context size does not fit the tensor size"),
    ("EA202", "error", "prefill context parallelism beside data parallelism"),
    ("EA203", "error", "the node count does not divide the world"),
    ("EA204", "error", "a node rank outside 0..nnodes-1"),
    ("EA205", "error", "elastic expert parallelism without what it needs"),
    ("EA206", "error", "elastic expert parallelism beside what it excludes"),
    ("EA207", "error", "the elastic maximum is below the data-parallel size"),
    ("EA208", "error", "the degrees of this engine exclude each other"),
    ("EA209", "error", "a degree that does not divide the tensor size"),
    ("EA210", "warning", "a mode that has no effect with these degrees"),
    # 3xx about the listener and TLS.
    ("EA301", "error", "a TLS option without the certificate or key that it needs"),
    ("EA302", "error", "this engine registers no --ssl-cert-reqs"),
    ("EA303", "warning", "--ssl-cert-reqs outside 0..2"),
    ("EA304", "warning", "no HTTP server on host and port: no probe can answer"),
    ("EA305", "error", "a number that is no TCP port"),
    ("EA306", "info", "a TLS option without certificate or key has no effect"),
)


def finding(id: str, message: str, position: int | None = None) -> Finding:  # noqa: A002 - the wire's own word
    """A finding of the catalogue, with its severity. Positions in front of the role's arguments are none."""
    return Finding(id, CATALOGUE[id].severity, message, None if position is None or position < 0 else position)
