"""The embedded cluster behaves as a Kubernetes API server: the same checks on both, both columns printed.

With --cluster=real each check runs on the real server and on the embedded one. A check that only the real one passes is listed in
docs/local-cluster.md under "Only a real cluster"; a check listed there that the embedded cluster passes is a stale line.
"""

from pathlib import Path

import checks_admission  # noqa: F401  registers its checks
import checks_builtins  # noqa: F401
import checks_edges  # noqa: F401
import checks_endings  # noqa: F401
import checks_objects  # noqa: F401
import checks_patches  # noqa: F401
import checks_reading  # noqa: F401
import checks_webhook_choice  # noqa: F401
import pytest
from checklist import CHECKS
from clusterkit import Columns, NewerFeatureError, TestCluster, embedded

pytestmark = pytest.mark.cluster

PAGE = Path(__file__).parents[2] / "docs" / "local-cluster.md"


def only_real() -> set[str]:
    """The sentences that the page lists."""
    part = PAGE.read_text().split("## Only a real cluster", 1)[1].split("\n## ", 1)[0]
    return {line.removeprefix("* ").strip() for line in part.splitlines() if line.startswith("* ")}


async def _try(sentence: str, cluster: TestCluster, columns: Columns) -> BaseException | None:
    row = columns.setdefault(sentence, {})
    try:
        await CHECKS[sentence](cluster)
    except NewerFeatureError as newer:
        row[cluster.kind] = "newer"
        return newer
    except (Exception, pytest.fail.Exception) as fault:  # noqa: BLE001  whatever a check meets is its outcome
        row[cluster.kind] = "no"
        return fault
    row[cluster.kind] = "yes"
    return None


@pytest.mark.parametrize("sentence", CHECKS)
async def test_conformance(sentence: str, cluster: TestCluster, columns: Columns, tmp_path: Path) -> None:
    """Each sentence holds on the cluster at hand, and on the embedded one unless the page says otherwise."""
    outcome = await _try(sentence, cluster, columns)
    if cluster.kind == "real":
        async with embedded(tmp_path / "beside") as other:
            beside = await _try(sentence, other, columns)
        _judge_embedded(sentence, beside)
        if isinstance(outcome, NewerFeatureError):
            pytest.skip(str(outcome))
        if outcome is not None:
            raise outcome
    else:
        _judge_embedded(sentence, outcome)


def _judge_embedded(sentence: str, outcome: BaseException | None) -> None:
    listed = sentence in only_real()
    if outcome is None:
        assert not listed, "the embedded cluster does this now; take the line off docs/local-cluster.md"
    elif not listed:
        raise outcome


def test_the_page_lists_no_check_that_is_not_there() -> None:
    """Every line under "Only a real cluster" is a check's sentence."""
    assert only_real() <= set(CHECKS)
