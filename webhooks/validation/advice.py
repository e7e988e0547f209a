"""What does not refuse but should be known: findings of the argument reader, as warnings.

Source: decisions D5 (warnings), D6 (findings).
"""

from collections.abc import Iterator

from webhooks.validation.findings import Finding
from webhooks.validation.subject import RoleView, Subject

MOST_WARNINGS = 8
WARNING_CHARACTERS = 256


def advise(subject: Subject, refused: frozenset[str] = frozenset()) -> tuple[Finding, ...]:
    """What the reader says about the roles whose line, or whose engine version, this write touches, but what is merely worth knowing."""
    if not subject.known_engine:
        return ()
    old = subject.old_spec
    versioned = old is not None and old.engine.version != subject.spec.engine.version
    return tuple(
        finding
        for view in subject.managed()
        if view.judges_line or versioned
        for finding in _advice(subject, view)
        if finding.field not in refused and finding.severity != "info"
    )


def advise_all(subject: Subject, refused: frozenset[str] = frozenset()) -> tuple[Finding, ...]:
    """What the reader says about every managed role."""
    if not subject.known_engine:
        return ()
    return tuple(finding for view in subject.managed() for finding in _advice(subject, view) if finding.field not in refused)


def _advice(subject: Subject, view: RoleView) -> Iterator[Finding]:
    arguments = view.role.extra_args
    if not arguments and not view.role.env:
        return
    for finding in view.reading(subject.spec).findings:
        position = finding.position if finding.position is not None and finding.position < len(arguments) else None
        yield Finding(
            rule=finding.id,
            name="Arguments",
            field=f"{view.path}.extraArgs" + (f"[{position}]" if position is not None else ""),
            message=finding.message,
            value=None if position is None else arguments[position],
            refuses=False,
            severity=finding.severity,
        )


def warnings(findings: tuple[Finding, ...]) -> tuple[str, ...]:
    """At most eight texts of at most 256 characters; the last says how many were left out."""
    texts = [_shorten(f"{finding.rule} {finding.field}: {finding.message}") for finding in findings]
    if len(texts) <= MOST_WARNINGS:
        return tuple(texts)
    rest = len(texts) - MOST_WARNINGS + 1
    return (*texts[: MOST_WARNINGS - 1], f"{rest} more findings: mdctl lint lists them all")


def _shorten(text: str) -> str:
    clean = "".join(character if character.isprintable() else " " for character in text)
    return clean if len(clean) <= WARNING_CHARACTERS else clean[: WARNING_CHARACTERS - 1] + "…"
