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
