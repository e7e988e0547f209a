"""docs/refusals.md is what kubectl really prints."""

import os
from pathlib import Path

import pytest
from clusterkit import embedded
from fencekit import fenced
from refusals import SCENES, has_kubectl, page, prepare

PAGE = Path(__file__).parents[2] / "docs" / "refusals.md"

pytestmark = pytest.mark.cluster


@pytest.mark.timeout(110)
@pytest.mark.skipif(not has_kubectl(), reason="no kubectl on PATH: the transcripts of docs/refusals.md are compared where there is one")
async def test_the_page_of_refusals_is_current(tmp_path: Path) -> None:
    """Each command of the page is run again, and its output is the page's but for times, ports and uids."""
    work = tmp_path / "work"
    work.mkdir()
    async with embedded(tmp_path / "cluster") as cluster, fenced(cluster, {}) as fence:
        await prepare(fence)
        found = await page(fence, work)
    if os.environ.get("WRITE_PAGES") == "1":
        PAGE.write_text(found, encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == found


def test_the_page_tells_ten_refusals() -> None:
    """No less."""
    assert len(SCENES) == 10
    text = PAGE.read_text(encoding="utf-8")
    assert [scene.title for scene in SCENES if scene.title not in text] == []
