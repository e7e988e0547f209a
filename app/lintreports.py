"""Lint findings as text, JSON, SARIF 2.1.0, or GitHub workflow commands."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from webhooks.linting import LintFinding


class Placed(msgspec.Struct, frozen=True, kw_only=True):
    """A finding with its file and line."""

    finding: LintFinding
    file: str
    line: int


def as_text(placed: Sequence[Placed]) -> str:
    """One line each: file, line, severity, rule, field, message."""
    return "\n".join(
        f"{p.file}:{p.line}: {p.finding.severity}: {p.finding.id} {p.finding.field}: {p.finding.message}"
        + (f" [{p.finding.fix}]" if p.finding.fix else "")
        for p in placed
    )


def as_json(placed: Sequence[Placed]) -> str:
    """`{"findings": […]}`, each with its file and line."""
    return json.dumps({"findings": [{**plain(p.finding), "file": p.file, "line": p.line} for p in placed]}, indent=2, ensure_ascii=False)


def plain(finding: LintFinding) -> dict[str, Any]:
    """The members of D8's result line."""
    return {
        "id": finding.id,
        "severity": finding.severity,
        "object": finding.object,
        "field": finding.field,
        "message": finding.message,
        "fix": finding.fix,
    }


def as_github(placed: Sequence[Placed]) -> str:
    """Workflow commands that put each finding beside its line."""
    words = {"error": "error", "warning": "warning", "info": "notice"}
    return "\n".join(
        f"::{words[p.finding.severity]} file={_property(p.file)},line={p.line},title={_property(p.finding.id)}::"
        + _data(f"{p.finding.field}: {p.finding.message}")
        for p in placed
    )


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def as_sarif(placed: Sequence[Placed], sentences: Mapping[str, str], version: str) -> str:
    """A SARIF log of one run, with the sentence of every rule that was broken."""
    rules = sorted({p.finding.id for p in placed})
    levels = {"error": "error", "warning": "warning", "info": "note"}
    log = {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "mdctl lint",
                        "version": version,
                        "rules": [{"id": rule, "shortDescription": {"text": sentences.get(rule, rule)}} for rule in rules],
                    }
                },
                "results": [
                    {
                        "ruleId": p.finding.id,
                        "ruleIndex": rules.index(p.finding.id),
                        "level": levels[p.finding.severity],
                        "message": {"text": f"{p.finding.object}: {p.finding.field}: {p.finding.message}"},
                        "locations": [
                            {"physicalLocation": {"artifactLocation": {"uri": p.file}, "region": {"startLine": p.line}}},
                        ],
                    }
                    for p in placed
                ],
            }
        ],
    }
    return json.dumps(log, indent=2, ensure_ascii=False)
