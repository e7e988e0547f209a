"""A pass says to a tracer whose it was and what it came to; without one nothing is said and nothing made."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from cluster import FakeCluster, Request
from things import deployment, pod, workload
from virtual import VirtualClock, settle

from api.spans import Fact, Span
from controller.service import Controller
from controller.settings import ControllerSettings, ObserverSettings
from controller.snapshot import StatusSettings
from kube.errors import Conflict, KubeError, ServerError


class Noted:
    """A span as a test reads it."""

    def __init__(self, name: str, facts: dict[str, Fact]) -> None:
        self.name = name
        self.facts = facts
        self.error = ""

    def say(self, **facts: Fact) -> None:
        self.facts |= facts

    def failed(self, error: str) -> None:
        self.error = error


class Notes:
    """`api.spans.Spans` that keeps what it was told."""

    def __init__(self) -> None:
        self.spans: list[Noted] = []

    @contextmanager
    def work(self, name: str, **facts: Fact) -> Iterator[Span]:
        span = Noted(name, facts)
        yield span
        self.spans.append(span)


async def passes(prepare: Callable[[FakeCluster], None]) -> list[Noted]:
    """The spans of a controller that found what was prepared."""
    api, notes = FakeCluster(), Notes()
    made = api.put(deployment("chat"))
    api.put(workload(api.put(pod(made, "chat-0", 0).ready().json), name="w-chat-0"))
    prepare(api)
    chosen = ControllerSettings(
        status=StatusSettings(kueue="required", act="status"),
        observers=ObserverSettings(enabled=False),
        leader_election=False,
        identity="a",
    )
    controller: Any = Controller(api, chosen, VirtualClock(), notes)  # type: ignore[arg-type]
    task = asyncio.create_task(controller.run())
    await settle(200)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return notes.spans


def patching(error: KubeError) -> Callable[[FakeCluster], None]:
    """Every status patch ends so."""

    def fails(request: Request) -> KubeError | None:
        return error if (request.verb, request.subresource) == ("patch", "status") else None

    def prepare(api: FakeCluster) -> None:
        api.fail = fails

    return prepare


ENDS: dict[str, tuple[Callable[[FakeCluster], None], dict[str, Fact], str]] = {
    "a status is written": (lambda _: None, {"result": "success", "outcome": "written", "phase": "Ready"}, ""),
    "somebody wrote meanwhile": (
        patching(Conflict(409, "Conflict", "stale")),
        {"result": "requeue", "outcome": "conflict", "phase": ""},
        "",
    ),
    "the server fails": (
        patching(ServerError(500, "InternalError", "a secret")),
        {"result": "error", "outcome": "ServerError", "phase": ""},
        "ServerError",
    ),
}


@pytest.mark.parametrize("sentence", ENDS)
async def test_a_pass_says_whose_it_was_and_what_it_came_to(sentence: str) -> None:
    """The key, how it is counted, the outcome and the phase; of an error its type and not its words."""
    prepare, facts, error = ENDS[sentence]
    span = next(span for span in await passes(prepare) if span.facts["modelwarden__outcome"] != "held")
    assert span.name == "reconcile"
    assert span.facts == {
        "k8s__namespace__name": "team",
        "modelwarden__deployment": "chat",
        **{f"modelwarden__{name}": value for name, value in facts.items()},
    }
    assert span.error == error


async def test_a_pass_that_is_held_says_so() -> None:
    """While a kind cannot be read, nothing else comes of any pass."""

    def unreadable(api: FakeCluster) -> None:
        api.fail = lambda request: ServerError(500, "InternalError", "x") if (request.verb, request.kind) == ("list", "Pod") else None

    spans = await passes(unreadable)
    assert {span.facts["modelwarden__outcome"] for span in spans} == {"held"}
    assert {span.error for span in spans} == {""}


async def test_a_deployment_that_went_has_no_phase() -> None:
    """Its pass forgets it."""
    spans = await passes(lambda api: api.remove("ModelDeployment", "chat"))
    assert {(span.facts["modelwarden__outcome"], span.facts["modelwarden__phase"]) for span in spans} == {("gone", "")}
