"""What does not refuse but should be known: findings of the argument reader, as warnings. Source: decisions D5 (warnings), D6 (findings)."""

from collections.abc import Iterator

from webhooks.validation.findings import Finding
from webhooks.validation.subject import RoleView, Subject

MOST_WARNINGS = 8
WARNING_CHARACTERS = 256


def advise(subject: Subject, refused: frozenset[str] = frozenset()) -> tuple[Finding, ...]:
    """Findings of the argument reader for the roles whose line, or whose engine version, this write touches."""
    if not subject.known_engine:
        return ()
    old = subject.old_spec
    versioned = old is not None and old.engine.version != subject.spec.engine.version
    return tuple(
        finding
        for view in subject.managed()
        if (view.judges_line or versioned) and (view.role.extra_args or view.role.env)
        for finding in _advice(subject, view)
        if finding.field not in refused
    )


def _advice(subject: Subject, view: RoleView) -> Iterator[Finding]:
    for finding in view.reading(subject.spec).findings:
        if finding.severity == "info":
            continue
        at = f"[{finding.position}]" if finding.position is not None else ""
        value = (
            view.role.extra_args[finding.position]
            if finding.position is not None and finding.position < len(view.role.extra_args)
            else None
        )
        yield Finding(
            rule=finding.id,
            name="Arguments",
            field=f"{view.path}.extraArgs{at}",
            message=finding.message,
            value=value,
            refuses=False,
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
