"""The single-writer fence on the wire: each row of its table as a write, the verdict, the rule, and who counts as a scaler."""

from typing import Any, NamedTuple

import pytest
from fenced import BOUND, FREE, LEFT_OVER, ON_BINDING, ON_DECISION, REPLICAS, UNREADABLE
from reviewing import BINDING, DECISION, RIVAL, SCALER_USER, Deployment, binding, decision, deployment, review, role, scaler

from webhooks.settings import AdmissionSettings

TWO = deployment(role("a", replicas=1), role("b", replicas=1)).bound(3)


class Write(NamedTuple):
    """Old and new object, who writes, what look-ups find; the rule that refuses, "" where the write passes."""

    old: Deployment | None
    new: Deployment
    by: str | None = "alice"
    scalers: tuple[dict[str, Any], ...] = (scaler(),)
    refused: str = ""
    field: str = ""
    allowed_as: str = ""


ACTIVE, GONE = (scaler(),), ()
SUSPENDED = (scaler(suspend=True),)
SHADOW = (scaler(mode="Shadow"),)
ELSEWHERE = (scaler(targetRef={"name": "other"}),)
REBORN = (scaler(RIVAL),)
AWAY = (scaler(namespace="team-b"),)

WRITES = {
    # create
    "anyone creates without annotations": Write(None, FREE),
    "a scaler creates without annotations": Write(None, FREE, SCALER_USER),
    "a user creates with a binding (a restored backup)": Write(None, FREE.bound(), refused="ScalerAnnotationForged", field=ON_BINDING),
    "a user creates with a decision": Write(None, FREE.decided(2), refused="ScalerAnnotationForged", field=ON_DECISION),
    "a scaler creates with a binding": Write(None, FREE.bound(1), SCALER_USER, refused="BindingRequiresExistingTarget", field=ON_BINDING),
    "a scaler creates with a decision": Write(None, FREE.decided(2), SCALER_USER, refused="BindingRequiresExistingTarget"),
    # unbound
    "unbound: a user scales": Write(FREE, FREE.scaled(5)),
    "unbound: a user edits labels": Write(FREE, FREE.labelled(team="a")),
    "unbound: a user adds a binding": Write(FREE, FREE.bound(1), refused="ScalerAnnotationForged", field=ON_BINDING),
    "unbound: a user adds a decision": Write(FREE, FREE.decided(2), refused="ScalerAnnotationForged", field=ON_DECISION),
    "unbound: a user edits the left-over decision": Write(
        LEFT_OVER, LEFT_OVER.decided(2, sequence=9), refused="ScalerAnnotationForged", field=ON_DECISION
    ),
    "unbound: a user removes the left-over decision": Write(LEFT_OVER, FREE),
    "unbound: a user scales beside a left-over decision": Write(LEFT_OVER, LEFT_OVER.scaled(5)),
    "unbound: a scaler binds with term one": Write(FREE, FREE.bound(1), SCALER_USER, allowed_as="Bind"),
    "unbound: a scaler's first binding has term two": Write(FREE, FREE.bound(2), SCALER_USER, refused="StaleTerm", field=ON_BINDING),
    "unbound: a scaler binds above the left-over decision": Write(LEFT_OVER, LEFT_OVER.bound(4), SCALER_USER, allowed_as="Bind"),
    "unbound: a scaler binds far above the left-over decision": Write(LEFT_OVER, LEFT_OVER.bound(40), SCALER_USER, allowed_as="Bind"),
    "unbound: a scaler binds at the left-over decision's term": Write(LEFT_OVER, LEFT_OVER.bound(3), SCALER_USER, refused="StaleTerm"),
    "unbound: a scaler binds below the left-over decision's term": Write(LEFT_OVER, LEFT_OVER.bound(2), SCALER_USER, refused="StaleTerm"),
    "unbound: a scaler binds beside a decision nobody can read": Write(
        FREE.annotated(DECISION, "{"), FREE.annotated(DECISION, "{").bound(1), SCALER_USER, refused="StaleTerm", field=ON_DECISION
    ),
    "unbound: bind and commit in one write": Write(FREE, FREE.bound(1).scaled(5).decided(5, term=1), SCALER_USER, allowed_as="Commit"),
    "unbound: bind and scale without a decision": Write(
        FREE, FREE.bound(1).scaled(5), SCALER_USER, refused="StaleDecision", field=REPLICAS
    ),
    "unbound: bind and commit by an older term": Write(
        FREE, FREE.bound(1).scaled(5).decided(5, term=2), SCALER_USER, refused="StaleTerm", field=ON_DECISION
    ),
    "unbound: a scaler scales": Write(FREE, FREE.scaled(5), SCALER_USER, refused="UnboundWrite", field=REPLICAS),
    "unbound: a scaler scales with a decision but no binding": Write(
        FREE, FREE.scaled(5).decided(5, term=1), SCALER_USER, refused="UnboundWrite", field=REPLICAS
    ),
    "unbound: a scaler sets the decision": Write(FREE, FREE.decided(2, term=1), SCALER_USER),
    "unbound: a scaler sets a decision nobody can read": Write(
        FREE, FREE.annotated(DECISION, "{"), SCALER_USER, refused="ScalerAnnotationInvalid", field=ON_DECISION
    ),
    "unbound: a scaler turns the record back": Write(
        LEFT_OVER, LEFT_OVER.decided(2, term=2, sequence=1), SCALER_USER, refused="StaleTerm", field=ON_DECISION
    ),
    "unbound: a scaler writes the record anew at its term and sequence": Write(
        LEFT_OVER, LEFT_OVER.decided(2, sequence=4, scalerGeneration=9), SCALER_USER, refused="StaleDecision", field=ON_DECISION
    ),
    "unbound: a scaler turns the record back within its term": Write(
        LEFT_OVER, LEFT_OVER.decided(2, sequence=3), SCALER_USER, refused="StaleDecision", field=ON_DECISION
    ),
    "unbound: a scaler's record of a newer term begins at one": Write(LEFT_OVER, LEFT_OVER.decided(2, term=4, sequence=1), SCALER_USER),
    "unbound: a scaler sets a decision whose digest is another's": Write(
        FREE, FREE.decided(2, term=1, digest="sha256:" + "0" * 64), SCALER_USER, refused="StaleDecision", field=ON_DECISION
    ),
    "unbound: a scaler moves the record on": Write(LEFT_OVER, LEFT_OVER.decided(2, sequence=5), SCALER_USER),
    "unbound: a scaler removes the left-over decision": Write(LEFT_OVER, FREE, SCALER_USER),
    "unbound: a scaler edits the image": Write(FREE, FREE.roles(role(replicas=2, image="engine:2")), SCALER_USER),
    "unbound: a scaler binds with an oversized binding": Write(
        FREE, FREE.bound(1, scaler="a." * 600 + "a"), SCALER_USER, refused="ScalerAnnotationInvalid", field=ON_BINDING
    ),
    # bound, somebody else
    "bound: a user scales": Write(BOUND, BOUND.scaled(7), refused="ReplicasOwnedByScaler", field=REPLICAS),
    "bound: a user scales where no decision was made yet": Write(
        FREE.bound(3), FREE.bound(3).scaled(7), refused="ReplicasOwnedByScaler", field=REPLICAS
    ),
    "bound: a user scales the second role": Write(TWO, TWO.scaled(1, 7), refused="ReplicasOwnedByScaler", field="spec.roles[1].replicas"),
    "bound: a cluster admin scales": Write(BOUND, BOUND.scaled(7), "kubernetes-admin", refused="ReplicasOwnedByScaler"),
    "bound: nobody scales": Write(BOUND, BOUND.scaled(7), None, refused="ReplicasOwnedByScaler"),
    "bound: a user whose name is empty scales": Write(BOUND, BOUND.scaled(7), "", refused="ReplicasOwnedByScaler"),
    "bound: a merge patch leaves replicas out": Write(BOUND, BOUND.scaled(1), refused="ReplicasOwnedByScaler", field=REPLICAS),
    "bound: a server-side apply restates the count": Write(BOUND, BOUND.scaled(2).labelled(by="apply")),
    "bound: roles in another order are no change": Write(
        deployment(role("a", replicas=1), role("b", replicas=4)).bound(3), deployment(role("b", replicas=4), role("a", replicas=1)).bound(3)
    ),
    "bound: counts swapped between two roles": Write(
        deployment(role("a", replicas=1), role("b", replicas=4)).bound(3),
        deployment(role("a", replicas=4), role("b", replicas=1)).bound(3),
        refused="ReplicasOwnedByScaler",
    ),
    "bound: a user edits the image": Write(BOUND, BOUND.roles(role(replicas=2, image="engine:2"))),
    "bound: a user edits labels": Write(BOUND, BOUND.labelled(team="b")),
    "bound: a user edits other annotations": Write(BOUND, BOUND.annotated("example.com/note", "x")),
    "bound: a user edits finalizers": Write(BOUND, BOUND.finalizers("a/b")),
    "bound: a user edits the binding": Write(BOUND, BOUND.bound(4), refused="ScalerAnnotationImmutable", field=ON_BINDING),
    "bound: a user edits the decision": Write(BOUND, BOUND.decided(2, sequence=5), refused="ScalerAnnotationImmutable", field=ON_DECISION),
    "bound: a user adds a decision": Write(FREE.bound(3), FREE.bound(3).decided(2), refused="ScalerAnnotationForged", field=ON_DECISION),
    "bound: a user removes the decision alone": Write(
        BOUND, BOUND.annotated(DECISION, None), refused="ScalerAnnotationImmutable", field=ON_DECISION
    ),
    "bound: a user commits like a scaler": Write(
        BOUND, BOUND.scaled(5).decided(5, sequence=5), refused="ReplicasOwnedByScaler", field=REPLICAS
    ),
    # the hatch
    "hatch: the scaler is alive": Write(BOUND, BOUND.unbound(), refused="ScalerAlive", field=ON_BINDING),
    "hatch: the scaler is gone": Write(BOUND, BOUND.unbound(), scalers=GONE, allowed_as="ScalerGone"),
    "hatch: the scaler was made anew": Write(BOUND, BOUND.unbound(), scalers=REBORN, allowed_as="ScalerGone"),
    "hatch: the scaler is suspended": Write(BOUND, BOUND.unbound(), scalers=SUSPENDED, allowed_as="ScalerGone"),
    "hatch: the scaler is Shadow": Write(BOUND, BOUND.unbound(), scalers=SHADOW, allowed_as="ScalerGone"),
    "hatch: the scaler points elsewhere": Write(BOUND, BOUND.unbound(), scalers=ELSEWHERE, allowed_as="ScalerGone"),
    "hatch: a namesake lives in another namespace": Write(BOUND, BOUND.unbound(), scalers=AWAY, allowed_as="ScalerGone"),
    "hatch: the decision goes too": Write(BOUND, FREE, scalers=GONE, allowed_as="ScalerGone"),
    "hatch: the decision is edited": Write(
        BOUND, BOUND.unbound().decided(2, sequence=9), scalers=GONE, refused="ScalerAnnotationImmutable", field=ON_DECISION
    ),
    "hatch: scaling in the same write": Write(
        BOUND, BOUND.unbound().scaled(9), scalers=GONE, refused="ReplicasOwnedByScaler", field=REPLICAS
    ),
    "hatch: a binding nobody can read is removed": Write(UNREADABLE, UNREADABLE.unbound(), allowed_as="ScalerGone"),
    # a binding nobody can read
    "unreadable binding: a user scales": Write(UNREADABLE, UNREADABLE.scaled(7), refused="ReplicasOwnedByScaler", field=REPLICAS),
    "unreadable binding: a scaler commits": Write(
        UNREADABLE, UNREADABLE.scaled(5).decided(5, sequence=5), SCALER_USER, refused="ReplicasOwnedByScaler", field=REPLICAS
    ),
    "unreadable binding: a scaler binds over it": Write(
        UNREADABLE, UNREADABLE.bound(9), SCALER_USER, refused="ScalerAnnotationImmutable", field=ON_BINDING
    ),
    "unreadable binding: a scaler releases it": Write(UNREADABLE, UNREADABLE.unbound(), SCALER_USER, allowed_as="Release"),
    "unreadable binding: a user edits the image": Write(UNREADABLE, UNREADABLE.roles(role(replicas=2, image="engine:2"))),
    # bound, a scaler
    "scaler: commits": Write(BOUND, BOUND.scaled(5).decided(5, sequence=5), SCALER_USER, allowed_as="Commit"),
    "scaler: commits with a gap in the sequence": Write(BOUND, BOUND.scaled(5).decided(5, sequence=50), SCALER_USER, allowed_as="Commit"),
    "scaler: commits for two roles": Write(TWO, TWO.scaled(2, 4).decided(2, 4), SCALER_USER, allowed_as="Commit"),
    "scaler: commits the count that is there": Write(BOUND, BOUND.decided(2, sequence=5), SCALER_USER, allowed_as="Commit"),
    "scaler: scales without a decision": Write(
        FREE.bound(3), FREE.bound(3).scaled(5), SCALER_USER, refused="StaleDecision", field=REPLICAS
    ),
    "scaler: scales by the old decision": Write(BOUND, BOUND.scaled(5), SCALER_USER, refused="StaleDecision", field=REPLICAS),
    "scaler: replays a sequence": Write(BOUND, BOUND.scaled(5).decided(5, sequence=4), SCALER_USER, refused="StaleDecision"),
    "scaler: goes back in sequence": Write(BOUND, BOUND.scaled(5).decided(5, sequence=3), SCALER_USER, refused="StaleDecision"),
    "scaler: goes on below its own record of a later term": Write(
        FREE.bound(3).decided(2, term=4, sequence=1), FREE.bound(3).scaled(5).decided(5, sequence=9), SCALER_USER, refused="StaleDecision"
    ),
    "scaler: planned on an old generation": Write(
        BOUND.generation(8), BOUND.generation(9).scaled(5).decided(5, sequence=5), SCALER_USER, refused="StaleDecision"
    ),
    "scaler: decides under an older term": Write(
        BOUND, BOUND.scaled(5).decided(5, term=2, sequence=5), SCALER_USER, refused="StaleTerm", field=ON_DECISION
    ),
    "scaler: decides under a newer term": Write(BOUND, BOUND.scaled(5).decided(5, term=4), SCALER_USER, refused="StaleTerm"),
    "scaler: decides for another owner": Write(
        BOUND, BOUND.scaled(5).decided(5, sequence=5, uid=RIVAL), SCALER_USER, refused="StaleDecision"
    ),
    "scaler: writes a wrong digest": Write(
        BOUND, BOUND.scaled(5).decided(5, sequence=5, digest="sha256:" + "0" * 64), SCALER_USER, refused="StaleDecision"
    ),
    "scaler: writes another count than it decided": Write(
        BOUND, BOUND.scaled(6).decided(5, sequence=5), SCALER_USER, refused="StaleDecision"
    ),
    "scaler: leaves a role out": Write(TWO, TWO.scaled(2, 1).annotated(DECISION, decision({"a": 2})), SCALER_USER, refused="StaleDecision"),
    "scaler: decides for a role that is not there": Write(
        TWO, TWO.scaled(2, 1).annotated(DECISION, decision({"a": 2, "b": 1, "c": 1})), SCALER_USER, refused="StaleDecision"
    ),
    "scaler: commits over a decision nobody can read": Write(
        FREE.bound(3).annotated(DECISION, "{"), FREE.bound(3).scaled(5).decided(5), SCALER_USER, refused="StaleDecision"
    ),
    "scaler: scales by a decision nobody can read": Write(
        BOUND, BOUND.scaled(5).annotated(DECISION, "{"), SCALER_USER, refused="StaleDecision"
    ),
    "scaler: writes a decision nobody can read": Write(
        BOUND, BOUND.annotated(DECISION, "{"), SCALER_USER, refused="ScalerAnnotationInvalid", field=ON_DECISION
    ),
    "scaler: removes the decision alone": Write(
        BOUND, BOUND.annotated(DECISION, None), SCALER_USER, refused="ScalerAnnotationImmutable", field=ON_DECISION
    ),
    "scaler: removes the decision and scales": Write(
        BOUND, BOUND.annotated(DECISION, None).scaled(5), SCALER_USER, refused="StaleDecision"
    ),
    "scaler: edits its binding within the term": Write(
        BOUND, BOUND.bound(3, acquiredAt="2026-02-02T00:00:00Z"), SCALER_USER, refused="ScalerAnnotationImmutable", field=ON_BINDING
    ),
    "scaler: writes a binding nobody can read": Write(
        BOUND, BOUND.annotated(BINDING, "{"), SCALER_USER, refused="ScalerAnnotationInvalid", field=ON_BINDING
    ),
    "scaler: takes a new term": Write(BOUND, BOUND.bound(4), SCALER_USER, allowed_as="Reacquire"),
    "scaler: takes an older term": Write(BOUND, BOUND.bound(2), SCALER_USER, refused="StaleTerm", field=ON_BINDING),
    "scaler: the first commit of a new term": Write(
        BOUND, BOUND.bound(4).scaled(5).decided(5, term=4, sequence=1), SCALER_USER, allowed_as="Reacquire"
    ),
    "scaler: commits its first sequence beside another scaler's record of the same term": Write(
        FREE.bound(3).decided(2, sequence=9, uid=RIVAL), FREE.bound(3).scaled(5).decided(5, sequence=1), SCALER_USER, allowed_as="Commit"
    ),
    "scaler: releases": Write(BOUND, BOUND.unbound(), SCALER_USER, allowed_as="Release"),
    "scaler: releases and removes the decision": Write(BOUND, FREE, SCALER_USER, allowed_as="Release"),
    "scaler: releases and edits the decision": Write(
        BOUND, BOUND.unbound().decided(2, sequence=5), SCALER_USER, refused="ScalerAnnotationImmutable", field=ON_DECISION
    ),
    "scaler: releases and scales": Write(BOUND, BOUND.unbound().scaled(5), SCALER_USER, refused="UnboundWrite", field=REPLICAS),
    "scaler: edits the image": Write(BOUND, BOUND.roles(role(replicas=2, image="engine:2")), SCALER_USER),
    # handover
    "handover: the old scaler is gone": Write(BOUND, BOUND.bound(4, RIVAL, "other"), SCALER_USER, GONE, allowed_as="Handover"),
    "handover: the old scaler is suspended": Write(BOUND, BOUND.bound(4, RIVAL, "other"), SCALER_USER, SUSPENDED, allowed_as="Handover"),
    "handover: the old scaler is Shadow": Write(BOUND, BOUND.bound(4, RIVAL, "other"), SCALER_USER, SHADOW, allowed_as="Handover"),
    "handover: the old scaler was made anew": Write(BOUND, BOUND.bound(4, RIVAL), SCALER_USER, REBORN, allowed_as="Handover"),
    "handover: the term jumps": Write(BOUND, BOUND.bound(8, RIVAL, "other"), SCALER_USER, GONE, allowed_as="Handover"),
    "handover: the term does not move": Write(BOUND, BOUND.bound(3, RIVAL, "other"), SCALER_USER, GONE, refused="StaleTerm"),
    "handover: the term goes back": Write(BOUND, BOUND.bound(1, RIVAL, "other"), SCALER_USER, GONE, refused="StaleTerm"),
    "handover: the term is above the binding but not the decision": Write(
        FREE.bound(3).decided(2, term=5, uid=RIVAL),
        FREE.bound(4, RIVAL).decided(2, term=5, uid=RIVAL),
        SCALER_USER,
        GONE,
        refused="StaleTerm",
    ),
    "handover: the term is above the decision but not the binding": Write(
        FREE.bound(5).decided(2, term=3), FREE.bound(4, RIVAL).decided(2, term=3), SCALER_USER, GONE, refused="StaleTerm"
    ),
    "handover: no decision was made yet": Write(FREE.bound(3), FREE.bound(4, RIVAL), SCALER_USER, GONE, allowed_as="Handover"),
    "handover: no decision was made yet, and the term is 1 again": Write(
        FREE.bound(3), FREE.bound(1, RIVAL), SCALER_USER, GONE, refused="StaleTerm"
    ),
    "handover: the old scaler is alive": Write(BOUND, BOUND.bound(4, RIVAL, "other"), SCALER_USER, ACTIVE, refused="ScalerAlive"),
    "handover: scaling without a decision": Write(
        BOUND, BOUND.bound(4, RIVAL, "other").scaled(5), SCALER_USER, GONE, refused="StaleDecision"
    ),
    # deletion
    "deleting: finalizers go": Write(BOUND.deleting().finalizers("a/b"), BOUND.deleting().finalizers()),
    "deleting: a user scales": Write(BOUND.deleting(), BOUND.deleting().scaled(7)),
    "deleting: a user removes the binding": Write(BOUND.deleting(), BOUND.deleting().unbound()),
    "deleting: a user removes both annotations": Write(BOUND.deleting(), FREE.deleting()),
    "deleting: a user removes the decision": Write(BOUND.deleting(), BOUND.deleting().annotated(DECISION, None)),
    "deleting: a user adds a decision": Write(
        FREE.deleting(), FREE.deleting().decided(2), refused="ScalerAnnotationForged", field=ON_DECISION
    ),
    "deleting: a user adds a binding": Write(FREE.deleting(), FREE.deleting().bound(1), refused="ScalerAnnotationForged", field=ON_BINDING),
    "deleting: a user edits the binding": Write(BOUND.deleting(), BOUND.deleting().bound(4), refused="ScalerAnnotationImmutable"),
    "deleting: a user edits the decision": Write(
        BOUND.deleting(), BOUND.deleting().decided(2, sequence=9), refused="ScalerAnnotationImmutable"
    ),
    "deleting: a scaler edits the binding": Write(BOUND.deleting(), BOUND.deleting().bound(4), SCALER_USER),
    "deleting: a scaler edits the decision": Write(BOUND.deleting(), BOUND.deleting().decided(2, sequence=9), SCALER_USER),
    "a new object that claims to be deleting is not": Write(BOUND, BOUND.deleting().scaled(7), refused="ReplicasOwnedByScaler"),
}


@pytest.mark.parametrize("name", WRITES)
@pytest.mark.parametrize("dry", [False, True], ids=["real", "dry-run"])
async def test_write(name: str, dry: bool) -> None:
    """Each row is answered as the table says, and a dry run as the real write."""
    write = WRITES[name]
    answer = await review(write.new, write.old, by=write.by, objects=write.scalers, dryRun=dry)
    assert answer.http == 200
    if not write.refused:
        assert answer.allowed, answer.message
        assert answer.audit.get("rule", "") == write.allowed_as
        return
    assert not answer.allowed
    assert answer.code == 403
    assert write.refused in answer.rules
    assert not write.field or write.field in answer.fields
    assert all(field in answer.message for field in answer.fields)


WRITERS = {
    "letter by letter": (SCALER_USER, (SCALER_USER,), True),
    "one of several": (SCALER_USER, ("other", SCALER_USER), True),
    "another case of letters": (SCALER_USER.upper(), (SCALER_USER,), False),
    "a longer name": (SCALER_USER + "-2", (SCALER_USER,), False),
    "a shorter name": (SCALER_USER[:-1], (SCALER_USER,), False),
    "nobody configured": (SCALER_USER, (), False),
    "an empty name that is configured": ("", ("",), False),
    "no name at all, though an empty one is configured": (None, ("",), False),
}


@pytest.mark.parametrize("name", WRITERS)
async def test_writer(name: str) -> None:
    """A scaler writer is who the setting names, exactly; a request without a name is nobody."""
    by, configured, counts = WRITERS[name]
    settings = AdmissionSettings(scaler_usernames=configured)
    answer = await review(BOUND.scaled(5).decided(5, sequence=5), BOUND, by=by, settings=settings, objects=[scaler()])
    assert answer.allowed is counts


async def test_groups_never_make_a_scaler() -> None:
    """The scaler's name among the groups of another user counts for nothing, nor does system:masters."""
    user = {"username": "alice", "groups": [SCALER_USER, "system:masters"]}
    answer = await review(BOUND.scaled(5).decided(5, sequence=5), BOUND, userInfo=user, objects=[scaler()])
    assert "ReplicasOwnedByScaler" in answer.rules


async def test_deletes_and_status_writes_pass() -> None:
    """Neither is the fence's business."""
    assert (await review(None, BOUND, operation="DELETE")).allowed
    assert (await review(BOUND.scaled(7), BOUND, subResource="status")).allowed


async def test_restating_binding_text_is_no_edit() -> None:
    """An apply that carries the stored annotations changes nothing."""
    assert (await review(BOUND.annotated(BINDING, binding(3)), BOUND)).allowed
