"""What a replica keeps of the objects of shards that are not its own: streams of two kinds have no common order."""

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from sharded import SHARDS
from things import deployment, pod, workload

from controller.keeping import Keeping
from controller.kinds import KindName, kinds
from controller.shards import shard_of


def project(keeping: Keeping, kind: KindName, *, listed: bool) -> Callable[[bytes], Any]:
    """The narrowed projection of a kind, as a list's page is decoded or as a watch's event is."""
    narrowed = next(keeping.narrowed(each) for each in kinds("required") if each.name is kind)
    return (lambda raw: narrowed.shrink(msgspec.json.decode(raw, type=narrowed.shape))) if listed else narrowed.project


@pytest.mark.parametrize("listed", [True, False], ids=["in a list", "in a watch"])
def test_a_workload_goes_when_its_pod_is_known_to_be_foreign_and_not_before(listed: bool) -> None:
    """Streams of two kinds have no common order: what cannot be told is kept."""
    made = {**deployment("chat0"), "metadata": {**deployment("chat0")["metadata"], "uid": "uid-chat0"}}
    member = {**pod(made, "chat0-0", 0).json}
    member["metadata"] = {**member["metadata"], "uid": "uid-pod"}
    quota = json.dumps(workload(member, name="w")).encode()
    keeping = Keeping(SHARDS)
    pods, workloads = project(keeping, KindName.POD, listed=listed), project(keeping, KindName.WORKLOAD, listed=listed)
    foreign = (shard_of("uid-chat0", SHARDS) + 1) % SHARDS
    keeping.keep(frozenset({foreign}))
    assert workloads(quota) is not None
    assert pods(json.dumps(member).encode()) is None
    assert workloads(quota) is None
    keeping.keep(frozenset({foreign, shard_of("uid-chat0", SHARDS)}))
    assert workloads(quota) is not None
    assert pods(json.dumps(member).encode()) is not None


def test_a_list_shows_the_shards_that_came_before_it_began() -> None:
    """A shard that left and came again needs a new list."""
    keeping = Keeping(SHARDS)
    keeping.keep(frozenset({0, 1}))
    listed = keeping.serial
    assert keeping.covered(listed) == {0, 1}
    keeping.keep(frozenset({0, 1, 2}))
    assert keeping.covered(listed) == {0, 1}
    keeping.keep(frozenset({0}))
    keeping.keep(frozenset({0, 1}))
    assert keeping.covered(listed) == {0}
    assert keeping.covered(keeping.serial) == {0, 1}
