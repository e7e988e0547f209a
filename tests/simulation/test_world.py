"""The world that the scenarios play in keeps an API server's rules, and its time runs by itself."""

import asyncio
import random
import time

import pytest

from kube.resources import LEASES, PODS
from tests.simulation import timing
from tests.simulation.running import play, shrunk
from tests.simulation.store import RefusedError, Store, meta


def stored() -> Store:
    """A store that serves Pods and Leases."""
    store = Store(timing.VirtualClock(), random.Random(1))
    store.serve(PODS, has_status=True)
    store.serve(LEASES)
    return store


def test_hours_pass_at_once() -> None:
    """A sleep costs nothing, and two sleepers wake in the order of their moments."""
    woken = []

    async def sleeper(seconds: float) -> None:
        await asyncio.sleep(seconds)
        woken.append((seconds, round(asyncio.get_running_loop().time())))

    async def main() -> None:
        await asyncio.gather(sleeper(7200), sleeper(3600))

    began = time.perf_counter()
    timing.run(main)
    assert woken == [(3600, 3600), (7200, 7200)]
    assert time.perf_counter() - began < 5


def test_a_loop_that_can_never_go_on_is_told() -> None:
    """Waiting for what nobody will do is an error, not a hanging test."""

    async def main() -> None:
        await asyncio.Event().wait()

    with pytest.raises(timing.DeadlockError):
        timing.run(main)


def test_a_hot_loop_is_told() -> None:
    """So is running without ever waiting."""

    async def main() -> None:
        while True:  # noqa: ASYNC110 - that is the point
            await asyncio.sleep(0)

    with pytest.raises(timing.HotLoopError):
        timing.run(main)


def test_writes_keep_an_api_servers_rules() -> None:
    """Stale versions and foreign UIDs conflict, a write that changes nothing is none, `generation` and the status are apart."""

    async def main() -> None:
        store = stored()
        made = store.create(PODS, {"metadata": {"name": "p", "namespace": "n"}, "spec": {"a": 1}})
        version = meta(made)["resourceVersion"]
        assert store.patch(PODS, "n", "p", {"spec": {"a": 1}}, author="client") is made
        changed = store.patch(PODS, "n", "p", {"spec": {"a": 2}, "status": {"phase": "Running"}}, author="client")
        assert (changed["spec"], changed["status"]) == ({"a": 2}, {"phase": "Pending"})
        with pytest.raises(RefusedError, match="409 Conflict"):
            store.patch(PODS, "n", "p", {"metadata": {"resourceVersion": version}, "spec": {"a": 3}})
        with pytest.raises(RefusedError, match="precondition"):
            store.delete(PODS, "n", "p", uid="another")
        leaving = store.delete(PODS, "n", "p", uid=meta(made)["uid"])
        assert "deletionTimestamp" in meta(leaving)
        store.delete(PODS, "n", "p", grace=0)
        assert store.find(PODS, "n", "p") is None
        assert [change.new is None for change in store.since(PODS, int(version))] == [False, False, True]
        store.compact(PODS)
        with pytest.raises(RefusedError, match="410"):
            store.since(PODS, int(version))

    timing.run(main)


def test_a_failure_shrinks_to_the_steps_that_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a scenario that breaks by one of its steps, that step is left."""
    from tests.simulation.steps import Steps

    kinds = [step.kind for step in play_steps(7)]

    def broken(self: Steps, _step: object) -> None:
        self._stage.invariants.breach("nothing happens", "something did")

    monkeypatch.setattr(Steps, "_" + kinds[1].replace("-", "_"), broken)
    assert play(7).broken is not None
    assert [kinds[index] for index in shrunk(7)] == [kinds[1]]


def play_steps(seed: int) -> tuple[object, ...]:
    """The steps of a seed."""
    from tests.simulation.scenario import draw

    return draw(seed).steps
