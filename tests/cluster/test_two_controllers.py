"""Two controllers of one Lease: the holder is frozen at the worst moment, the other takes over, then the first sends what it had in hand.

The guards differ by what is written. A status carries the resourceVersion it was judged from; a label carries the Pod's; a deletion carries
the captured UID. So a late write meets exactly what its writer saw, or nothing.
"""

import json
import signal
from typing import Any

import pytest
from clusterkit import TestCluster
from household import Children, House, children, gone, house

from kube.resources import LEASES, PODS

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(115)]


async def frozen(born: Children, point: str, count: int = 1) -> int:
    """The first controller; it stops itself right before that write leaves."""
    return await born.born(identity="first", lease=True, hold=f"before:{point}", count=count, stopped=True)


async def taken_over(at: House, born: Children) -> int:
    """The second controller, once the Lease is its own."""
    pid = await born.born(identity="second", lease=True)

    async def holds() -> bool:
        lease = json.loads(await at.client.get(LEASES, "modelwarden-test", at.namespace))
        return bool(lease["spec"]["holderIdentity"] == "second")

    await at.cluster.eventually(holds, "the Lease is never taken over", 30)
    return pid


async def answered(born: Children, pid: int, point: str) -> list[str]:
    """What became of the write that was held back: refused, or cut off as the Lease was found lost, whichever came first."""
    outcome = await born.heard(
        lambda words: words[0] in {"did", "refused", "cut"} and words[1:3] == [str(pid), point], since=len(born.told)
    )
    if outcome[0] == "refused":
        assert outcome[4] == "409"
    return outcome


def ready(status: dict[str, Any]) -> int:
    """Of the only role."""
    return int(status["roles"][0]["ready"])


async def test_a_late_status_is_refused_once_the_new_holder_wrote(cluster: TestCluster) -> None:
    """Frozen between its check of the Lease and its write: the write carries a resourceVersion that is gone by then."""
    async with house(cluster) as at, children(at) as born:
        await at.whole({"name": "server"}, router="")
        first = await frozen(born, "status")
        await born.held(first)
        await at.cast.ready("chat", ready=False)
        second = await taken_over(at, born)
        await at.until(lambda s: ready(s) == 0, "the second never writes")
        born.signal(first, signal.SIGCONT)
        late = await answered(born, first, "status")
        assert late[0] in {"refused", "cut"}
        await at.cast.ready("chat")
        await at.until(lambda s: ready(s) == 1, "the second no longer writes")
        assert born.did("status", first) == []
        assert born.did("status", second) != []


async def test_a_late_status_that_nobody_preceded_is_put_right_by_the_new_holder(cluster: TestCluster) -> None:
    """Where the new holder found nothing to write the version still stands, and the late write lands: the next pass judges it away."""
    async with house(cluster) as at, children(at) as born:
        await at.whole({"name": "server"}, router="")
        await at.cast.ready("chat", ready=False)
        setting = await born.born()
        await at.until(lambda s: ready(s) == 0, "no first status")
        born.kill(setting)
        first = await frozen(born, "status")
        await at.cast.ready("chat")
        await born.held(first)
        await at.cast.ready("chat", ready=False)
        await taken_over(at, born)
        born.signal(first, signal.SIGCONT)
        await answered(born, first, "status")
        await at.until(lambda s: ready(s) == 0, "the late status stays")


async def test_a_late_deletion_meets_nobody_but_the_captured_pod(cluster: TestCluster) -> None:
    """While the first is frozen before its delete the second ends the operation, and another Pod takes the name: it stays."""
    async with house(cluster) as at, children(at) as born:
        await at.whole({"name": "server", "replicas": 2})
        first = await frozen(born, "delete:Pod")
        await at.until(lambda s: s["roles"][0]["endpoints"]["eligible"] == 2, "the replicas are never eligible")
        await at.scale(server=1)
        await born.held(first)
        target = (await at.pod("chat-server-1"))["metadata"]["uid"]
        second = await taken_over(at, born)
        await at.until_over()
        assert await gone(at.client, PODS, "chat-server-1", at.namespace)
        assert born.did("delete:Pod") == [target]
        await at.scale(server=2)
        heir = await at.seat("chat-server-1", ordinal=1)
        born.signal(first, signal.SIGCONT)
        late = await answered(born, first, "delete:Pod")
        assert (late[0], late[3]) in {("refused", target), ("cut", target)}
        found = await at.pod("chat-server-1")
        assert found["metadata"]["uid"] == heir["metadata"]["uid"]
        assert "deletionTimestamp" not in found["metadata"]
        assert born.did("delete:Pod", second) == [target]


async def test_a_late_label_does_not_make_a_retiring_pod_eligible_again(cluster: TestCluster) -> None:
    """The first is frozen before it labels a Pod; the second labels it, and unlabels it for a retirement: the late label is refused."""
    async with house(cluster) as at, children(at) as born:
        await at.whole({"name": "server", "replicas": 2})
        at.busy.add("chat-server-1")
        first = await frozen(born, "label", 2)
        await born.held(first)
        (pending,) = {"chat-server-0", "chat-server-1"} - await at.labelled()
        assert pending == "chat-server-1"
        await taken_over(at, born)
        await at.cluster.eventually(lambda: _labelled(at, "chat-server-1"), "the second never labels")
        await at.scale(server=1)
        await at.until_step("Draining")
        assert await at.labelled() == {"chat-server-0"}
        born.signal(first, signal.SIGCONT)
        late = await answered(born, first, "label")
        assert late[0] in {"refused", "cut"}
        assert await at.labelled() == {"chat-server-0"}


async def _labelled(at: House, name: str) -> bool:
    return name in await at.labelled()
