"""A token on the wire: refused, aged, or behind a plugin that hangs."""

import asyncio

import pytest
from faulty import Script, refusal, reply, served

from kube.errors import (
    ConfigError,
    Unauthorized,
)
from kube.resources import PODS


async def test_a_refused_token_is_read_again() -> None:
    """A 401 renews the credential once and sends again; the same credential twice is a refusal."""
    script = Script([refusal(401), reply({}), refusal(401)], authorization=["Bearer old", "Bearer new"])
    async with served(script) as client:
        await client.get(PODS, "a", "ns")
        with pytest.raises(Unauthorized):
            await client.get(PODS, "a", "ns")
    assert [s.headers["Authorization"] for s in script.seen] == ["Bearer old", "Bearer new", "Bearer new"]


async def test_a_token_is_read_again_when_its_time_is_up() -> None:
    """A service account's token is fresh before the server has to refuse it."""
    script = Script([reply({})], authorization=["Bearer old", "Bearer new"])
    async with served(script, good_for=60) as client:
        await client.get(PODS, "a", "ns")
        script.now = 61.0
        await client.get(PODS, "a", "ns")
    assert [s.headers["Authorization"] for s in script.seen] == ["Bearer old", "Bearer new"]


async def test_a_renewal_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """An exec plugin that never answers costs one request its deadline, not every later one its life."""
    monkeypatch.setattr("kube.session.RENEWAL_SECONDS", 0.01)
    script = Script([refusal(401), reply({})])
    async with served(script) as client:
        source = client._session._source
        load, calls = source.load, []

        async def hang() -> object:
            calls.append(1)
            await asyncio.Event().wait()
            raise AssertionError("unreachable")

        source.load = hang
        with pytest.raises(ConfigError, match="could not be renewed"):
            await client.get(PODS, "a", "ns")
        source.load = load
        assert await client.get(PODS, "a", "ns") == b"{}"
        assert len(calls) == 1
