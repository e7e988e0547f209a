"""Launch-time rules of the engines: what makes a line that parses impossible to start, or end in something else than it says."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from engines.findings import Finding
from engines.listener import Tls
from engines.parallelism import Parallelism
from engines.tokens import Occurrence

if TYPE_CHECKING:
    from engines.facade import Reading


def launch_findings(
    reading: "Reading", last: Mapping[str, Occurrence], occurrences: Sequence[Occurrence], parallelism: Parallelism, encryption: Tls
) -> list[Finding]:
    """Findings of the launch rules. Empty for an unreadable line."""
    return []
