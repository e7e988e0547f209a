"""The difference that is written, and the notices that Events come from."""

from contextlib import nullcontext
from typing import Any

import msgspec
import pytest
from cluster import merge
from things import deployment, pod
from virtual import VirtualClock

from api.objects import ObjectMeta, Pod
from api.status import Condition, Retirement, Status
from controller.kinds import CachedDeployment, project_deployment
from controller.store import Key
from controller.transitions import Notice, pod_notices, sight, status_notices
from controller.writer import OWNED, Writer, difference
from kube.errors import KubeError, ServerError

META = ObjectMeta(name="chat", namespace="team", uid="u1")


@pytest.mark.parametrize(
    ("stored", "wanted", "patch"),
    [
        pytest.param(None, {"phase": "Ready"}, {"phase": "Ready"}, id="a first status is written whole"),
        pytest.param({"phase": "Ready"}, {"phase": "Ready"}, {}, id="an equal one not at all"),
        pytest.param(
            {"phase": "Ready", "phaseMessage": "x"}, {"phase": "Ready"}, {"phaseMessage": None}, id="what goes is an explicit null"
        ),
        pytest.param(
            {"retirement": {"state": "Settling"}, "phase": "Ready"},
            {"phase": "Ready"},
            {"retirement": None},
            id="a retirement is cleared with an explicit null",
        ),
        pytest.param({"theirs": 1, "phase": "A"}, {"phase": "B"}, {"phase": "B"}, id="a field of another writer stays"),
        pytest.param(
            {"kvCache": {"binding": "b", "domain": {"name": "n", "dtype": "x"}}},
            {"kvCache": {"binding": "b", "domain": {"name": "n"}}},
            {"kvCache": {"domain": {"dtype": None}}},
            id="an inner field is removed by its own null",
        ),
        pytest.param({"roles": [{"name": "a"}]}, {"roles": [{"name": "b"}]}, {"roles": [{"name": "b"}]}, id="a list is replaced whole"),
        pytest.param({"router": "odd"}, {"router": {"name": "r"}}, {"router": {"name": "r"}}, id="a value of another shape is replaced"),
        pytest.param({"observedGeneration": True}, {"observedGeneration": 1}, {"observedGeneration": 1}, id="true is not one"),
        pytest.param("broken", {"phase": "A"}, {"phase": "A"}, id="a status that is no object is as none"),
    ],
)
def test_difference(stored: Any, wanted: dict[str, Any], patch: dict[str, Any]) -> None:
    """The merge patch holds what differs among our fields, and applying it gives what was wanted."""
    found = difference(stored, wanted)
    assert found == patch
    if isinstance(stored, dict):
        assert {name: value for name, value in merge(stored, found).items() if name in OWNED} == wanted


def status(phase: str = "Ready", **parts: Any) -> Status:
    return Status(phase=phase, **parts)


def ready(state: str, reason: str = "R") -> tuple[Condition, ...]:
    return (Condition(type="QuotaReserved", status=state, reason=reason, message="m"),)


@pytest.mark.parametrize(
    ("old", "new", "reasons"),
    [
        pytest.param(None, status(), [], id="a first status is no transition"),
        pytest.param(status("Starting"), status("Ready"), ["Ready"], id="a phase that changed"),
        pytest.param(status(), status(), [], id="nothing changed"),
        pytest.param(
            status(conditions=ready("True")), status(conditions=ready("False", "Pending")), ["Pending"], id="a condition that fell"
        ),
        pytest.param(status(conditions=ready("True")), status(conditions=ready("Unknown", "X")), [], id="Unknown is no news"),
        pytest.param(status(), status(retirement=Retirement(state="Admitted")), ["RetirementAdmitted"], id="an operation that began"),
        pytest.param(status(retirement=Retirement(state="Settling")), status(), ["RetirementEnded"], id="an operation that ended"),
    ],
)
def test_status_notices(old: Status | None, new: Status, reasons: list[str]) -> None:
    """Events tell of transitions only."""
    assert [notice.reason for notice in status_notices(old, new)] == reasons


def decoded(*made: Any) -> list[Pod]:
    import msgspec

    return [msgspec.convert(item, Pod) for item in made]


def test_pod_notices() -> None:
    """Evictions, departures and restarts are told once, with every Pod in one sentence."""
    owner = deployment()
    before = sight(decoded(pod(owner, "a").json, pod(owner, "b").json))
    gone = [pod(owner, name).json for name in "ab"]
    for item in gone:
        item["status"].update(reason="Evicted")
    after = sight(decoded(*gone))
    assert pod_notices(None, after) == []
    assert pod_notices(before, after) == [Notice("Warning", "ReplicaEvicted", "Pods evicted: a, b")]
    assert pod_notices(after, after) == []


class Echo:
    """A client whose patches are shown by the watch before they are answered, and perhaps overtaken by somebody else's change."""

    def __init__(self, shown: list[str], error: KubeError | None = None) -> None:
        self.shown, self.error, self.asked = shown, error, []
        self.writer = Writer(self, VirtualClock())  # type: ignore[arg-type]  # patches only

    async def patch(self, *_: object, **__: object) -> bytes:
        for version in self.shown:
            self.asked.append(not self.writer.settled_by(KEY, stored(version)))
        if self.error is not None:
            raise self.error
        return msgspec.json.encode({"metadata": {"resourceVersion": "2"}, "status": {"phase": "Ready", "roleSummary": ""}})


KEY = Key("team", "chat")


def stored(version: str) -> CachedDeployment:
    raw = {"metadata": {"name": "chat", "namespace": "team", "uid": "u", "resourceVersion": version}, "spec": {}}
    return project_deployment(msgspec.json.encode(raw))


@pytest.mark.parametrize(
    ("shown", "final", "error", "asked", "again"),
    [
        pytest.param(["2"], True, None, [False], False, id="our own write alone needs no pass"),
        pytest.param(["2", "3"], True, None, [False, False], True, id="another's change after ours needs one"),
        pytest.param(["3"], True, None, [False], True, id="so does one that hides ours"),
        pytest.param(["2"], False, None, [False], True, id="a write that may change the next verdict is judged"),
        pytest.param(["1", "1"], True, None, [True, True], False, id="a change of another object asks at once"),
        pytest.param(["3"], True, ServerError(500, "", ""), [False], True, id="what came during a patch that failed is not lost"),
        pytest.param([], True, None, [], False, id="nothing came"),
    ],
)
async def test_what_a_watch_shows_before_the_patch_is_answered(
    shown: list[str], final: bool, error: KubeError | None, asked: list[bool], again: bool
) -> None:
    """Whose doing a new version is can only be told once the answer is there; it asks for nothing before, and then for what is due."""
    echo = Echo(shown, error)
    with pytest.raises(type(error)) if error else nullcontext():
        await echo.writer.write(KEY, stored("1"), status(), final=final)
    assert echo.asked == asked
    assert (echo.writer.overtaken(KEY), echo.writer.overtaken(KEY)) == (again, False)
    if shown == ["2"] and final:
        assert not echo.writer.pending(KEY, stored("2"))
