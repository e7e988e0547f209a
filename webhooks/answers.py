"""Findings as the answer that kubectl prints: one Invalid status with a cause for each, as the API server's own validation makes it."""

from collections.abc import Sequence

from api import keys
from webhooks import response
from webhooks.response import Cause, Details, Response
from webhooks.validation.findings import Finding

CAUSES = 64
"""More causes than that help nobody; the message says how many there are."""


def invalid(
    kind: str, name: str, findings: Sequence[Finding], *, audit: dict[str, str] | None = None, warnings: tuple[str, ...] = ()
) -> Response:
    """The refusal of a write that rules find wrong: code 422, reason Invalid."""
    causes = tuple(Cause(reason=f.cause_reason, message=f.cause_message, field=f.field) for f in findings[:CAUSES])
    said = [f"{cause.field}: {cause.message}" for cause in causes]
    more = f", and {len(findings) - CAUSES} more" if len(findings) > CAUSES else ""
    text = said[0] if len(said) == 1 else f"[{', '.join(said)}{more}]"
    rules = ",".join(dict.fromkeys(f.rule for f in findings))
    fence = (audit or {}).get("rule")
    return response.refuse(
        422,
        "Invalid",
        f'{kind}.{keys.GROUP} "{name}" is invalid: {text}',
        details=Details(name=name, group=keys.GROUP, kind=kind, causes=causes),
        audit={**(audit or {}), "rule": f"{fence},{rules}" if fence else rules},
        warnings=warnings,
    )
