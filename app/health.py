"""Liveness and readiness: named checks, each a question with a reason for an answer.

`/livez` says that the loop turns and nothing more: an API server that is away must not restart every replica. `/readyz` says whether
reviews can be answered and caches are in step; with `?verbose`, check by check.
"""

from collections.abc import Callable

# None where all is well, else the reason why not, for people.
Check = Callable[[], str | None]


class Health:
    """The checks of one process."""

    def __init__(self) -> None:
        self._checks: dict[str, Check] = {}
        self.stopping = False

    def add(self, name: str, check: Check) -> None:
        """Ask this too before saying ready."""
        self._checks[name] = check

    def ready(self, excluded: frozenset[str] = frozenset()) -> tuple[bool, str]:
        """Whether all checks pass, and the verbose text."""
        lines: list[str] = []
        good = True
        for name, check in (("shutdown", self._shutdown), *self._checks.items()):
            if name in excluded:
                lines.append(f"[+]{name} excluded: ok")
                continue
            reason = _asked(check)
            good = good and reason is None
            lines.append(f"[+]{name} ok" if reason is None else f"[-]{name} failed: {reason}")
        lines.append(f"readyz check {'passed' if good else 'failed'}")
        return good, "\n".join(lines) + "\n"

    def _shutdown(self) -> str | None:
        return "the process is stopping" if self.stopping else None


def _asked(check: Check) -> str | None:
    try:
        return check()
    except Exception as error:  # noqa: BLE001  # a broken check is a failed check, and must not break the probe
        return f"the check itself failed: {error}"
