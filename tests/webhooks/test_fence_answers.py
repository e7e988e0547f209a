"""What the fence tells of a refusal, to people and to auditors, and when it needs the scaler to judge at all."""

from typing import Any

import msgspec
import pytest
from fenced import BOUND, FREE, LEFT_OVER, ON_BINDING, ON_DECISION, REPLICAS, UNREADABLE
from reviewing import BINDING, DECISION, SCALER_USER, Deployment, deployment, instance_type, review, role, scaler

from api.objects import ModelDeployment, ModelDeploymentScaler
from webhooks.errors import LookupFailedError
from webhooks.fence import FenceRequest, Scaler, judge, target_of
from webhooks.lookups import ObjectLookup


async def test_a_refusal_names_scaler_field_values_and_ways_out() -> None:
    """Everything D4 wants in the message: who owns the count, what stands there, what was tried, and how to get on."""
    message = (await review(BOUND.scaled(7), BOUND, objects=[scaler()])).message
    for text in (
        "queue-scaler",
        "term 3",
        "spec.roles[0].replicas",
        "present 2",
        "attempted 7",
        "spec.suspend",
        "Shadow",
        "ignoreDifferences",
        ".spec.roles[].replicas",
        "/metadata/annotations/modeldeployment.gpustack.ai~1scaler-binding",
        "/metadata/annotations/modeldeployment.gpustack.ai~1scaler-decision",
        "RespectIgnoreDifferences=true",
        "Flux",
    ):
        assert text in message


async def test_a_refusal_carries_rule_and_term_in_its_audit_annotations() -> None:
    """The auditor reads which rule refused, and under which term."""
    answer = await review(BOUND.scaled(7), BOUND, objects=[scaler()])
    assert answer.audit == {"rule": "ReplicasOwnedByScaler", "term": "3"}


async def test_a_write_that_binds_carries_the_term_that_it_attempts() -> None:
    """There is no other term yet."""
    answer = await review(FREE.bound(1), FREE, by=SCALER_USER)
    assert answer.audit == {"rule": "Bind", "term": "1"}


async def test_a_record_that_nobody_can_read_is_no_fault_of_a_write_that_leaves_it_alone() -> None:
    """A scaler without a binding scales beside it: that alone is told."""
    broken = FREE.annotated(DECISION, "{")
    assert (await review(broken.scaled(5), broken, by=SCALER_USER)).rules == {"UnboundWrite"}


class Unreachable:
    """Look-ups that fail, as those of an API server in trouble."""

    async def get(self, kind: Any, namespace: str | None, name: str) -> Any:
        if kind is ModelDeploymentScaler:
            raise LookupFailedError("the API server is away")
        return await ObjectLookup([instance_type()]).get(kind, namespace, name)

    async def scalers(self, namespace: str) -> Any:
        raise LookupFailedError("the API server is away")


NEEDS_NO_SCALER = {
    "a user edits the binding": (BOUND.bound(4), BOUND, "alice"),
    "a user scales": (BOUND.scaled(7), BOUND, "alice"),
    "the scaler commits": (BOUND.scaled(5).decided(5, sequence=5), BOUND, SCALER_USER),
    "the scaler takes its own binding again": (BOUND.bound(4), BOUND, SCALER_USER),
    "the scaler releases": (BOUND.unbound(), BOUND, SCALER_USER),
    "a user removes the binding of a deployment that goes": (BOUND.deleting().unbound(), BOUND.deleting(), "alice"),
    "a user removes a binding that nobody can read": (UNREADABLE.unbound(), UNREADABLE, "alice"),
}


@pytest.mark.parametrize("name", NEEDS_NO_SCALER)
async def test_the_scaler_is_read_only_where_its_state_decides(name: str) -> None:
    """An API server in trouble makes no failure of a write whose verdict needs nothing of it."""
    new, old, by = NEEDS_NO_SCALER[name]
    assert (await review(new, old, by=by, lookup=Unreachable())).http == 200


def judged(new: Deployment, old: Deployment) -> set[str]:
    """The rules that refuse a user's write when the scaler is known, needed or not, as `mdctl fence explain` may know it."""
    after, before = (msgspec.convert(each.body, ModelDeployment) for each in (new, old))
    owner = Scaler.of(msgspec.convert(scaler(), ModelDeploymentScaler))
    verdict = judge(FenceRequest(name="qwen", old=target_of(before), new=target_of(after), scaler_writer=False, scaler=owner))
    return {violation.rule for violation in verdict.violations}


def test_a_living_scaler_is_held_against_nobody_who_does_not_release() -> None:
    """Scaling is refused for the count alone; what nobody can read is anybody's to remove."""
    assert judged(BOUND.scaled(7), BOUND) == {"ReplicasOwnedByScaler"}
    assert judged(UNREADABLE.unbound(), UNREADABLE) == set()
    assert judged(BOUND.unbound(), BOUND) == {"ScalerAlive"}


async def test_a_write_that_needs_the_scaler_fails_when_it_cannot_be_read() -> None:
    """Fail closed, as a failure and not as a refusal."""
    answer = await review(BOUND.unbound(), BOUND, lookup=Unreachable())
    assert (answer.http, answer.code) == (500, 500)


async def test_a_decision_of_another_term_is_not_told_its_sequence_too() -> None:
    """One field, one reason: in another term a sequence says nothing."""
    answer = await review(BOUND.scaled(5).decided(5, term=2, sequence=3), BOUND, by=SCALER_USER)
    assert (answer.rules, answer.fields) == ({"StaleTerm"}, [ON_DECISION])


async def test_audit_annotations_say_nothing_where_there_is_nothing_to_say() -> None:
    """No rule where the fence had no say, no term where nobody can read one."""
    assert (await review(BOUND.labelled(team="a"), BOUND)).audit == {}
    assert (await review(UNREADABLE.unbound(), UNREADABLE)).audit == {"rule": "ScalerGone"}


async def test_the_scaler_is_looked_for_in_the_namespace_of_the_write() -> None:
    """The request's, or the object's where the request has none."""
    nowhere = BOUND._with("metadata", "namespace", value=None)
    assert (await review(BOUND.unbound(), BOUND, namespace="", objects=[scaler()])).rules == {"ScalerAlive"}
    assert (await review(nowhere.unbound(), nowhere, namespace="team-a", objects=[scaler()])).rules == {"ScalerAlive"}


async def test_every_violation_of_a_write_is_named() -> None:
    """A write that scales and forges is told both."""
    answer = await review(BOUND.scaled(7).bound(9), BOUND, objects=[scaler()])
    assert answer.rules == {"ReplicasOwnedByScaler", "ScalerAnnotationImmutable"}
    assert answer.fields == [ON_BINDING, REPLICAS]


async def test_counts_are_compared_by_the_roles_names() -> None:
    """Roles in another order, one of them scaled: that one is named, where it stands now."""
    old = deployment(role("a", replicas=1), role("b", replicas=4)).bound(3)
    answer = await review(deployment(role("b", replicas=4), role("a", replicas=2)).bound(3), old, objects=[scaler()])
    assert answer.fields == ["spec.roles[1].replicas"]
    assert "present 1 in role 'a', attempted 2" in answer.message


@pytest.mark.parametrize(
    "new",
    [BOUND.bound(9), BOUND.decided(2, sequence=9), BOUND.annotated(DECISION, None), LEFT_OVER],
    ids=["another binding", "another decision", "the decision is gone", "the decision is left over"],
)
async def test_every_refusal_of_an_annotation_names_both_values_and_the_ignore_rules(new: Deployment) -> None:
    """An agent that prunes or resets the annotations is told what stands, what it tried, and how to leave them alone (D4)."""
    message = (await review(new, BOUND, objects=[scaler()])).message
    for text in (
        "queue-scaler",
        "term 3",
        "present ",
        "attempted ",
        "spec.suspend",
        "ignoreDifferences",
        "RespectIgnoreDifferences=true",
        "Flux",
    ):
        assert text in message


async def test_a_forged_binding_binds_nobody() -> None:
    """The refusal shows the attempted text and does not call the deployment bound to whom the forgery names."""
    for old in (None, FREE):
        message = (await review(FREE.bound(5), old)).message
        assert "bound to no scaler" in message
        assert 'present nothing, attempted {"version":1,"scaler":"queue-scaler"' in message


async def test_a_long_text_is_shown_in_part() -> None:
    """A hostile annotation does not become a hostile message."""
    message = (await review(FREE.annotated(BINDING, "\x07" + "é" * 100_000), FREE)).message
    assert len(message) < 2_000
    assert "\x07" not in message
