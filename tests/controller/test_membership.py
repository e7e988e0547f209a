"""The uncached read that proves a membership."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from controller import membership
from controller.store import Key
from kube.errors import RequestTimeout


class Hanging:
    """A client whose lists never come."""

    async def pages(self, *_: object, **__: object) -> AsyncIterator[object]:
        await asyncio.get_running_loop().create_future()
        yield None


async def test_a_membership_read_that_hangs_holds_up_one_pass_for_a_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pass fails as any failed read does, and is tried again; it does not wait for the client's own retries."""
    monkeypatch.setattr(membership, "SECONDS", 0.05)
    with pytest.raises(RequestTimeout, match="team-a/qwen"):
        await membership.MembershipReader(Hanging()).membership(Key("team-a", "qwen"))
