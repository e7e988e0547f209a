"""An act asks whether it is still permitted, each anew: a process that stood still may have lost the Lease between two of them."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from things import deployment

from api.status import decode_status
from controller.acting import RetirementActs
from controller.snapshot import Snapshot, decode_deployment
from controller.status.acts import Act
from controller.store import Key
from kube.errors import NotFound
from kube.resources import Resource

KEY = Key("team", "chat")


class Client:
    """Remembers what it was asked to write; the Lease is lost after the first `grace` requests, whatever they are."""

    def __init__(self, stored: dict[str, Any], grace: int) -> None:
        self.stored, self.left, self.written = stored, grace, []

    def permitted(self) -> bool:
        return self.left > 0

    async def get(self, *_: Any, **__: Any) -> bytes:
        self.left -= 1
        return msgspec.json.encode(self.stored)

    async def patch(self, _: Any, name: str, *__: Any, **___: Any) -> bytes:
        self.left -= 1
        self.written.append(name)
        return b"{}"

    async def delete(self, _: Any, name: str, *__: Any, **___: Any) -> bytes:
        self.left -= 1
        self.written.append(name)
        return b"{}"


def act(kind: Any, name: str) -> Act:
    return Act(kind=kind, namespace="team", name=name, uid=f"uid-{name}", resource_version="7")


@pytest.mark.parametrize(
    ("grace", "kind", "written"),
    [
        pytest.param(9, "unlabel", ["a", "b"], id="a Lease that holds"),
        pytest.param(1, "unlabel", ["a"], id="lost after the first label"),
        pytest.param(0, "label", [], id="lost before the first"),
        pytest.param(1, "deletePod", [], id="lost while the operation was read once more"),
        pytest.param(2, "deletePod", ["a"], id="lost after the first deletion"),
    ],
)
async def test_what_is_no_longer_permitted_is_left_to_the_next_leader(grace: int, kind: Any, written: list[str]) -> None:
    """Nothing is sent after the Lease is lost."""
    operation = {"state": "Deleting", "targetMemberUIDs": ["uid-a", "uid-b"], "roleName": "server", "replicaOrdinal": 1}
    stored = deployment()
    stored["metadata"]["uid"] = "uid-chat"
    stored["status"] = {"retirement": operation}
    found, spec = decode_deployment(msgspec.json.encode(stored))
    snapshot = Snapshot(deployment=found, spec_json=spec, now=datetime(2026, 1, 1, tzinfo=UTC), previous=decode_status(found.status))
    client = Client(stored, grace)
    await RetirementActs(client).perform(KEY, snapshot, (act(kind, "a"), act(kind, "b")), client.permitted)  # type: ignore[arg-type]
    assert client.written == written


class Upgraded(Client):
    """Serves one version of Workloads, then another."""

    def __init__(self, stored: dict[str, Any]) -> None:
        super().__init__(stored, 99)
        self.version = "v1beta1"
        self.asked: list[str] = []

    async def serves(self, resource: Resource) -> bool:
        return resource.version == self.version

    async def delete(self, resource: Resource, *_: Any, **__: Any) -> bytes:
        self.asked.append(resource.version)
        if resource.version != self.version:
            raise NotFound(404, "NotFound", "the server could not find the requested resource")
        return b"{}"


async def test_a_kueue_that_was_upgraded_meanwhile_is_deleted_from_in_its_new_version() -> None:
    """A version that is no longer served answers 404 as well: that is no Workload that is gone, for ever."""
    operation = {"state": "Settling", "targetMemberUIDs": [], "targetWorkloadUID": "uid-w", "roleName": "server", "replicaOrdinal": 1}
    stored = deployment() | {"status": {"phase": "Ready", "retirement": operation}}
    made, spec = decode_deployment(msgspec.json.encode(stored))
    snapshot = Snapshot(deployment=made, spec_json=spec, now=datetime(2026, 1, 1, tzinfo=UTC), previous=decode_status(made.status))
    client = Upgraded(stored)
    acts = RetirementActs(client)  # type: ignore[arg-type]  # as much as acts ask for
    await acts.perform(KEY, snapshot, [act("deleteWorkload", "w")], lambda: True)
    client.version = "v1beta2"
    for _ in range(2):
        await acts.perform(KEY, snapshot, [act("deleteWorkload", "w")], lambda: True)
    assert client.asked == ["v1beta1", "v1beta1", "v1beta2"]
