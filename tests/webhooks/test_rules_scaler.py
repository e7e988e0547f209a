"""The scaler kind: each sentence is a write, and what the rules say about it."""

import re
from typing import Any

import pytest
from reviewing import RIVAL, review_scaler, scaler

PARAMETERS = {"metric": "QueueDepth", "roleTargets": [{"name": "server", "target": "8"}]}


def algorithm(**proportional: Any) -> dict[str, Any]:
    """A scaler whose proportional parameters differ."""
    return scaler(algorithm={"type": "Proportional", "proportional": PARAMETERS | proportional})


def bounds(*roles: tuple[str, int, int]) -> dict[str, Any]:
    """A scaler with those bounds and no role targets."""
    entries = [{"name": name, "minReplicas": low, "maxReplicas": high} for name, low, high in roles]
    return algorithm(roleTargets=[]) | {"spec": algorithm(roleTargets=[])["spec"] | {"roles": entries}}


BLOCK = "spec.algorithm.proportional"

CREATES: dict[str, tuple[dict[str, Any], set[str]]] = {
    "a scaler": (scaler(), set()),
    "no target": (scaler(targetRef={"name": ""}), {"MD901 spec.targetRef.name"}),
    "no algorithm": (scaler(algorithm={}), {"MD903 spec.algorithm.type"}),
    "no parameters": (scaler(algorithm={"type": "Proportional"}), {f"MD903 {BLOCK}"}),
    "parameters of another algorithm too": (
        scaler(algorithm={"type": "Proportional", "proportional": PARAMETERS, "step": {}}),
        {"MD903 spec.algorithm.step"},
    ),
    "parameters of another algorithm only": (
        scaler(algorithm={"type": "Step", "proportional": PARAMETERS}),
        {"MD903 spec.algorithm.step", f"MD903 {BLOCK}"},
    ),
    "an upper bound below the lower": (bounds(("server", 4, 3)), {"MD904 spec.roles[0].maxReplicas"}),
    "equal bounds": (bounds(("server", 4, 4)), set()),
    "a role twice": (bounds(("server", 1, 2), ("server", 1, 2)), {"MD904 spec.roles[1].name"}),
    "no roles": (bounds(), {"MD904 spec.roles"}),
    "no metric": (algorithm(metric=""), {f"MD905 {BLOCK}.metric"}),
    "a tolerance of zero": (algorithm(tolerance="0"), {f"MD905 {BLOCK}.tolerance"}),
    "a tolerance of one": (algorithm(tolerance="1"), set()),
    "a tolerance above one": (algorithm(tolerance="1100m"), {f"MD905 {BLOCK}.tolerance"}),
    "a tolerance that its exponent makes larger": (algorithm(tolerance="100e-1"), {f"MD905 {BLOCK}.tolerance"}),
    "a tolerance of ten tenths": (algorithm(tolerance="10e-1"), set()),
    "a tolerance that is none": (algorithm(tolerance="wide"), {f"MD905 {BLOCK}.tolerance"}),
    "a target of zero": (algorithm(roleTargets=[{"name": "server", "target": "0"}]), {f"MD905 {BLOCK}.roleTargets[0].target"}),
    "a target for a role that is not bounded": (
        algorithm(roleTargets=[{"name": "other", "target": "8"}]),
        {f"MD905 {BLOCK}.roleTargets[0].name"},
    ),
    "a target twice": (
        algorithm(roleTargets=[{"name": "server", "target": "8"}, {"name": "server", "target": "8"}]),
        {f"MD905 {BLOCK}.roleTargets[1].name"},
    ),
}


def said_by(answer: Any) -> set[str]:
    """Rule and field of every cause."""
    return {f"{re.search(r'MD[0-9]{3}', cause['message'])[0]} {cause['field']}" for cause in answer.causes}  # type: ignore[index]


@pytest.mark.parametrize("name", CREATES)
async def test_create(name: str) -> None:
    """Exactly these rules at exactly these fields."""
    new, said = CREATES[name]
    answer = await review_scaler(new)
    assert said_by(answer) == said
    assert answer.allowed is not bool(said)
    assert answer.allowed or answer.code == 422


async def test_target_does_not_change() -> None:
    """Another target is another scaler; everything else may change."""
    assert said_by(await review_scaler(scaler(targetRef={"name": "other"}), scaler())) == {"MD902 spec.targetRef"}
    assert (await review_scaler(scaler(mode="Shadow"), scaler())).allowed


RIVALS: dict[str, tuple[dict[str, Any], dict[str, Any] | None, list[dict[str, Any]], bool]] = {
    "a second active scaler": (scaler(name="b"), None, [scaler(RIVAL, "a")], False),
    "itself": (scaler(name="a"), scaler(name="a", mode="Shadow"), [scaler(name="a")], True),
    "a second scaler beside a suspended one": (scaler(name="b"), None, [scaler(RIVAL, "a", suspend=True)], True),
    "a second scaler beside a Shadow one": (scaler(name="b"), None, [scaler(RIVAL, "a", mode="Shadow")], True),
    "a second scaler of another target": (scaler(name="b"), None, [scaler(RIVAL, "a", targetRef={"name": "other"})], True),
    "a second scaler in another namespace": (scaler(name="b"), None, [scaler(RIVAL, "a", namespace="team-b")], True),
    "a second Shadow scaler": (scaler(name="b", mode="Shadow"), None, [scaler(RIVAL, "a")], True),
    "a Shadow scaler that becomes active": (scaler(name="b"), scaler(name="b", mode="Shadow"), [scaler(RIVAL, "a")], False),
    "a suspended scaler that wakes up": (scaler(name="b"), scaler(name="b", suspend=True), [scaler(RIVAL, "a")], False),
    "a stored second active scaler": (scaler(name="b"), scaler(name="b"), [scaler(RIVAL, "a")], True),
}


@pytest.mark.parametrize("name", RIVALS)
async def test_one_active_scaler(name: str) -> None:
    """At most one scaler acts on a deployment; judged when it begins to."""
    new, old, others, allowed = RIVALS[name]
    assert said_by(await review_scaler(new, old, others)) == (set() if allowed else {"MD906 spec.mode"})


async def test_deletes_and_scalers_on_their_way_out_pass() -> None:
    """Teardown is never blocked."""
    leaving = scaler(targetRef={"name": ""})
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert (await review_scaler(leaving, leaving)).allowed
    assert (await review_scaler(None, scaler(), operation="DELETE")).allowed
