"""What the walkthrough quotes of refusals is what is said."""

import re
from pathlib import Path

from webhooks.fence.gitops import ARGO_LINE, FLUX_LINE
from webhooks.validation.registry import RULES

TEXT = " ".join((Path(__file__).parents[2] / "docs" / "walkthrough.md").read_text("utf-8").split())


def test_the_fence_s_ways_out_are_quoted_as_they_are() -> None:
    """People copy them from the page."""
    assert f"Argo CD: {ARGO_LINE}; Flux: {FLUX_LINE}." in TEXT


def test_the_rules_that_are_quoted_are_there() -> None:
    """Id and name of each."""
    quoted = set(re.findall(r"(MD\d+) (\w+):", TEXT))
    assert len(quoted) >= 6
    assert quoted <= {(rule.id, rule.name) for rule in RULES}
