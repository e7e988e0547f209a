"""What every line that is logged during a pass says."""

from typing import Any

import structlog
from atwork import ready_deployment, running
from cluster import FakeCluster, Request


async def test_a_line_says_which_pass_it_is_of() -> None:
    """Lines that were logged below one pass are found together; two passes are told apart, and between them there is none."""
    api, seen = FakeCluster(), list[dict[str, Any]]()

    def note(request: Request) -> None:
        if request.subresource == "status":
            seen.append(structlog.contextvars.get_contextvars())

    api.fail = note
    async with running(api, prepare=ready_deployment) as world:
        api.touch("Pod", "chat-0", lambda item: item["status"].update(conditions=[{"type": "Ready", "status": "False"}]))
        await world.clock.advance(1)
        assert structlog.contextvars.get_contextvars() == {}
    assert [each["controller"] for each in seen] == ["modeldeployment"] * 2
    assert len({each["reconcileID"] for each in seen}) == 2
