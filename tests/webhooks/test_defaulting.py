"""Defaults that need a look at the type: what is added, what is left alone, and that a second call adds nothing."""

from typing import Any

import pytest
from reviewing import Deployment, deployment, instance_type, mutate, role

from webhooks.errors import LookupFailedError
from webhooks.lookups import ObjectLookup

CPU = instance_type("cpu", cards=0)

WRITES: dict[str, tuple[Deployment, list[dict[str, Any]]]] = {
    "cards left open": (deployment(), [{"op": "add", "path": "/spec/roles/0/resources", "value": {"accelerator": "1"}}]),
    "resources without cards": (
        deployment(role(resources={"interface": "0"})),
        [{"op": "add", "path": "/spec/roles/0/resources/accelerator", "value": "1"}],
    ),
    "an explicit zero": (deployment(role().cards(0)), []),
    "a type without accelerators": (deployment(role(instanceType="cpu")), []),
    "a type that does not exist": (deployment(role(instanceType="h21")), []),
    "no type": (deployment(role(instanceType="")), []),
    "each role by its own type": (
        deployment(role("a"), role("b", instanceType="cpu"), role("c").cards(4), role("d")),
        [
            {"op": "add", "path": "/spec/roles/0/resources", "value": {"accelerator": "1"}},
            {"op": "add", "path": "/spec/roles/3/resources", "value": {"accelerator": "1"}},
        ],
    ),
    "a deployment on its way out": (deployment().deleting(), []),
    "an engine that nobody knows": (
        deployment(role(elasticEp={"width": 2})).engine("TGI", "1"),
        [{"op": "add", "path": "/spec/roles/0/resources", "value": {"accelerator": "1"}}],
    ),
}


@pytest.mark.parametrize("name", WRITES)
async def test_patch(name: str) -> None:
    """Exactly this patch, and none in answer to the patched object."""
    new, patch = WRITES[name]
    answer = await mutate(new, objects=[CPU])
    assert answer.allowed
    assert answer.patch == patch
    assert ("patchType" in answer.response) is bool(patch)
    assert (await mutate(Deployment(answer.patched), objects=[CPU])).patch == []


async def test_an_update_is_defaulted_too() -> None:
    """Resources unset by an edit come back."""
    assert (await mutate(deployment(), deployment(role().cards(4)))).patch != []


async def test_status_writes_are_left_alone() -> None:
    """The subresource carries no spec of ours to complete."""
    assert (await mutate(deployment(), deployment(), subResource="status")).patch == []


class Counting(ObjectLookup):
    """Counts its reads."""

    reads: list[str]

    async def get(self, kind: Any, namespace: str | None, name: str) -> Any:
        self.reads = [*getattr(self, "reads", []), name]
        return await super().get(kind, namespace, name)


async def test_each_type_is_read_once_and_only_where_it_decides() -> None:
    """Two roles of one type cost one read; explicit cards cost none."""
    lookup = Counting([instance_type()])
    await mutate(deployment(role("a"), role("b"), role("c", instanceType="x").cards(1)), lookup=lookup)
    assert lookup.reads == ["h20"]


async def test_a_failed_read_is_500() -> None:
    """Not a default."""

    class Failing(ObjectLookup):
        async def get(self, kind: Any, namespace: str | None, name: str) -> Any:
            raise LookupFailedError("away")

    answer = await mutate(deployment(), lookup=Failing([]))
    assert (answer.http, answer.code) == (500, 500)
