"""Findings about the line itself: what was set aside, refused without mattering, repeated, left open. Launch rules come from
`engines.launch`."""

from collections.abc import Container, Mapping, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

from engines import launch_sglang, launch_vllm
from engines.findings import Finding, finding
from engines.kubelet import PROVIDED
from engines.launch import Facts
from engines.listener import CERT_REQS
from engines.parallelism import Parallelism
from engines.table import VLLM, Table, load, order, versions
from engines.tokens import Consumed, Fault, Occurrence, Stray
from engines.values import show

if TYPE_CHECKING:
    from engines.facade import Reading

# A hostile line must not become a hostile answer.
MOST: Final = 32


def judge_line(  # noqa: PLR0917 - everything that was read
    reading: "Reading",
    last: Mapping[str, Occurrence],
    consumed: Consumed,
    parallelism: Parallelism,
    rewriting: Sequence[Finding],
    watched: frozenset[str],
    unresolved: Mapping[int, tuple[str, ...]],
) -> tuple[Finding, ...]:
    """Every finding of one line: what is wrong with it first, then what its launch rules say. Bounded in number."""
    table = load(reading.engine, reading.table)
    found: list[Finding] = []
    if reading.faults:
        found += [finding("EA001", fault.message, fault.position) for fault in reading.faults[:MOST]]
    if rewriting:
        found += rewriting
    if consumed.strays:
        found += _strays(reading, consumed.strays, unresolved)
    if consumed.bad:
        found += [_bad(fault) for fault in consumed.bad if fault.dest not in watched]
    if "config" in last or reading.config is not None:
        found += _config(reading, last)
    if "help" in last:
        found.append(finding("EA010", f"{show(last['help'].spelling)} prints the help text and exits", last["help"].position))
    if len(last) < len(consumed.occurrences):
        found += _repeats(consumed.occurrences, last, table)
    if reading.version and reading.choice != "exact":
        found.append(_other_table(reading))
    if table.deprecated or unresolved:
        told = {fault.position for fault in reading.faults if fault.kind == "unresolved"}
        found += _uses(consumed.occurrences, table.deprecated, told)
    if last and not reading.faults:
        facts = Facts(last, table.release)
        if reading.engine == VLLM:
            launch_vllm.judge(facts, parallelism)
        else:
            launch_sglang.judge(facts)
        found += facts.found
    if len(found) > MOST:
        left = len(found) - MOST
        found = [*found[:MOST], finding("EA019", f"{left} more findings were left out")]
    return tuple(found)


def _strays(reading: "Reading", strays: Sequence[Stray], unresolved: Mapping[int, tuple[str, ...]]) -> list[Finding]:
    found: list[Finding] = []
    behind: list[str] = []
    for stray in strays[: 4 * MOST]:
        if stray.kind == "unknown":
            found.append(_unknown(reading, stray))
        elif stray.kind == "word" and stray.position >= 0:
            names = _open(unresolved.get(stray.position, ()))
            if names:
                found.append(finding("EA011", f"{show(stray.token)}: {names} may stand for an option or for a stray word", stray.position))
            else:
                found.append(finding("EA003", f"{_quoted(stray.token)} is a stray word: no option takes it", stray.position))
        elif stray.kind == "behind-terminator":
            behind.append(stray.token)
    terminator = next((stray for stray in strays if stray.kind == "terminator"), None)
    if terminator is not None:
        ignored = f" ({' '.join(show(token) for token in behind[:8])}{' …' if len(behind) > 8 else ''})" if behind else ""
        found.append(
            finding("EA004", f"a bare -- : everything behind it is ignored{ignored}, and the engine refuses to start", terminator.position)
        )
    return found


def _quoted(token: str) -> str:
    return f"'{show(token)}'" if not token or " " in token else show(token)


def _unknown(reading: "Reading", stray: Stray) -> Finding:
    name = stray.token.partition("=")[0]
    if reading.engine != VLLM and name == CERT_REQS:
        return finding("EA302", f"{CERT_REQS} is no option of {reading.engine}: the engine refuses to start with it", stray.position)
    known = [v for v in versions(reading.engine) if v != reading.table and name in load(reading.engine, v).spellings]
    elsewhere = f"; {', '.join(known)} {'has' if len(known) == 1 else 'have'} it" if known else ""
    return finding("EA002", f"{show(name)} is no option of {reading.engine} {reading.table}{elsewhere}", stray.position)


def _bad(fault: Fault) -> Finding:
    return finding("EA012" if fault.kind == "families-differ" else "EA005", fault.message, fault.position)


def _open(names: Sequence[str]) -> str:
    """References that neither the role nor the operator defines, as messages name them; empty when there is none."""
    return ", ".join(f"$({show(name)})" for name in names[:4] if name not in PROVIDED)


def _config(reading: "Reading", last: Mapping[str, Occurrence]) -> list[Finding]:
    found: list[Finding] = []
    file = reading.config_file
    if file is not None and not any(fault.position == reading.config for fault in reading.faults):
        found.append(finding("EA006", "--config names a file that may declare more than this line does", reading.config))
        if not _is_yaml(reading.engine, file) and "$(" not in file:
            found.append(finding("EA016", f"--config {show(file)}: the engine takes files that end in .yaml or .yml", reading.config))
    inline = last.get("config")
    if inline is not None and inline.fault is None:
        found.append(
            finding(
                "EA007", f"{show(inline.spelling)} is accepted but the file is not read: write --config and the file apart", inline.position
            )
        )
    return found


def _is_yaml(engine: str, file: str) -> bool:
    """Each engine's own look at the name: vLLM at what is behind the last dot, SGLang at a suffix in any case of letters."""
    if engine == VLLM:
        return file.rpartition(".")[2] in {"yaml", "yml"}
    return PurePosixPath(file).suffix.lower() in {".yaml", ".yml"}


def _uses(occurrences: Sequence[Occurrence], deprecated: frozenset[str], told: Container[int | None]) -> list[Finding]:
    found: list[Finding] = []
    for use in occurrences:
        if use.unresolved and use.position not in told and (names := _open(use.unresolved)):
            found.append(finding("EA011", f"{show(use.spelling)}: the role's own environment does not define {names}", use.position))
        if use.registered in deprecated:
            found.append(finding("EA013", f"{use.registered} is deprecated: the engine warns and may drop it", use.position))
        if len(found) >= MOST:
            break
    return found


def _repeats(occurrences: Sequence[Occurrence], last: Mapping[str, Occurrence], table: Table) -> list[Finding]:
    found: list[Finding] = []
    told: set[str] = set()
    for occurrence in occurrences:
        final = last[occurrence.dest]
        if occurrence is final or occurrence.dest in told or table.spellings[occurrence.registered].appends:
            continue
        told.add(occurrence.dest)
        effective = f"{show(final.spelling)} {_quoted(final.value)}" if final.value is not None else show(final.spelling)
        found.append(finding("EA008", f"{show(occurrence.spelling)} is repeated: the last one wins ({effective})", final.position))
        if len(found) == MOST:
            break
    return found


def _other_table(reading: "Reading") -> Finding:
    version = show(reading.version or "")
    if order(reading.version or "") is None:
        return finding("EA014", f"{version} names no release of {reading.engine}: read with the newest table, {reading.table}")
    return finding("EA015", f"{reading.engine} {version} has no table of its own: read with {reading.table}")
