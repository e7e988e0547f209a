"""Every row of the fence's table, by real users through a real API server's webhook calls, in every form that a write can have.

Each row is tried as PUT, JSON patch, merge patch and forced server-side apply, each first as a dry-run: one answer for all of them.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
import pytest_asyncio
from clusterkit import Wire
from fencekit import BINDING, DECISION, STRANGER, Edit, Fence, Stored, fenced, on_either, told

pytestmark = [pytest.mark.cluster, pytest.mark.asyncio(loop_scope="module")]

REPLICAS = "spec.roles[0].replicas"
ON_BINDING, ON_DECISION = f"metadata.annotations[{BINDING}]", f"metadata.annotations[{DECISION}]"


ATOMIC_APPLY = 20
"""A server of 1.20 cannot read a definition that holds a quantity for server-side apply ("invalid property: anyOf", a form that it makes
itself), and takes every list of the kind for atomic: an apply that leaves the count out resets it there, and is refused."""


@dataclass(frozen=True)
class Row:
    """A stored object, a writer and a write; the rule that refuses it at which field, or neither."""

    stored: Stored
    by: str
    edit: Edit
    refused: str = ""
    field: str = ""
    apply_passes: bool = False


FREE = Stored()
LEFT_OVER = Stored(decided=(3, 4))
BOUND = Stored(term=3, decided=(3, 4))
FRESH = Stored(term=3)
TWO = Stored(term=3, counts={"a": 1, "b": 4})
GONE, REBORN = Stored(term=3, decided=(3, 4), scaler="gone"), Stored(term=3, decided=(3, 4), scaler="reborn")
SUSPENDED, SHADOW = Stored(term=3, decided=(3, 4), scaler="suspended"), Stored(term=3, decided=(3, 4), scaler="shadow")
ELSEWHERE = Stored(term=3, decided=(3, 4), scaler="elsewhere")
UNREADABLE = Stored(decided=(3, 4), texts={BINDING: '{"version":1'})
OVERSIZED = Stored(texts={BINDING: '{"version":1,"scaler":"' + "a" * 2000 + '"}'})
TWICE = Stored(texts={BINDING: '{"version":1,"scaler":"s","uid":"u","term":3,"term":4,"acquiredAt":"2026-01-01T00:00:00Z"}'}, scaler="gone")
DELETING = Stored(term=3, decided=(3, 4), deleting=True)
DELETING_FREE = Stored(deleting=True)

FORGED, IMMUTABLE, OWNED = "ScalerAnnotationForged", "ScalerAnnotationImmutable", "ReplicasOwnedByScaler"
INVALID, STALE, STALE_TERM, UNBOUND = "ScalerAnnotationInvalid", "StaleDecision", "StaleTerm", "UnboundWrite"

ROWS = {
    # unbound
    "unbound: a user scales": Row(FREE, "alice", lambda w: w.scale(5)),
    "unbound: a user adds a binding": Row(FREE, "alice", lambda w: w.bind(1), FORGED, ON_BINDING),
    "unbound: a user adds a decision": Row(FREE, "alice", lambda w: w.decide(1), FORGED, ON_DECISION),
    "unbound: a user edits the left-over decision": Row(LEFT_OVER, "alice", lambda w: w.decide(3, 9), FORGED, ON_DECISION),
    "unbound: a user removes the left-over decision": Row(LEFT_OVER, "alice", lambda w: w.note(DECISION, None)),
    "unbound: a user scales beside a left-over decision": Row(LEFT_OVER, "alice", lambda w: w.scale(5)),
    "unbound: the scaler binds with term one": Row(FREE, "scaler", lambda w: w.bind(1)),
    "unbound: the scaler's first binding has term two": Row(FREE, "scaler", lambda w: w.bind(2), STALE_TERM, ON_BINDING),
    "unbound: the scaler binds above the left-over decision": Row(LEFT_OVER, "scaler", lambda w: w.bind(4)),
    "unbound: the scaler binds at the left-over decision's term": Row(LEFT_OVER, "scaler", lambda w: w.bind(3), STALE_TERM, ON_BINDING),
    "unbound: bind and commit in one write": Row(FREE, "scaler", lambda w: w.bind(1).scale(5).decide(1)),
    "unbound: bind and scale without a decision": Row(FREE, "scaler", lambda w: w.bind(1).scale(5), STALE, REPLICAS),
    "unbound: the scaler scales": Row(FREE, "scaler", lambda w: w.scale(5), UNBOUND, REPLICAS),
    "unbound: the scaler sets the decision": Row(FREE, "scaler", lambda w: w.decide(1)),
    "unbound: the scaler turns the record back": Row(LEFT_OVER, "scaler", lambda w: w.decide(2, 1), STALE_TERM, ON_DECISION),
    "unbound: the scaler binds with a binding nobody can read": Row(FREE, "scaler", lambda w: w.note(BINDING, "{"), INVALID, ON_BINDING),
    "unbound: the scaler binds with an oversized binding": Row(
        FREE, "scaler", lambda w: w.bind(1, scaler="a." * 600 + "a"), INVALID, ON_BINDING
    ),
    # bound, somebody else
    "bound: a user scales": Row(BOUND, "alice", lambda w: w.scale(7), OWNED, REPLICAS),
    "bound: a cluster administrator scales": Row(BOUND, "admin", lambda w: w.scale(7), OWNED, REPLICAS),
    "bound: a user scales the second role": Row(TWO, "alice", lambda w: w.scale(1, 7), OWNED, "spec.roles[1].replicas"),
    "bound: a user swaps two counts": Row(TWO, "alice", lambda w: w.scale(4, 1), OWNED, REPLICAS),
    "bound: a user leaves the count out, which reads 1": Row(
        BOUND, "alice", lambda w: w.scale(None).label(), OWNED, REPLICAS, apply_passes=True
    ),
    "bound: a user restates the count": Row(BOUND, "alice", lambda w: w.scale(2).label()),
    "bound: a user turns the roles round": Row(TWO, "alice", lambda w: w.reorder()),
    "bound: a user edits the image": Row(BOUND, "alice", lambda w: w.image()),
    "bound: a user edits labels": Row(BOUND, "alice", lambda w: w.label()),
    "bound: a user edits another annotation": Row(BOUND, "alice", lambda w: w.note("example.com/note", "x")),
    "bound: a user adds a finalizer and takes it": Row(BOUND, "alice", lambda w: w.finalizers()),
    "bound: a user edits the binding": Row(BOUND, "alice", lambda w: w.bind(4), IMMUTABLE, ON_BINDING),
    "bound: a user edits the decision": Row(BOUND, "alice", lambda w: w.decide(3, 5), IMMUTABLE, ON_DECISION),
    "bound: a user adds the first decision": Row(FRESH, "alice", lambda w: w.decide(3), FORGED, ON_DECISION),
    "bound: a user removes the decision alone": Row(BOUND, "alice", lambda w: w.note(DECISION, None), IMMUTABLE, ON_DECISION),
    "bound: a user commits like a scaler": Row(BOUND, "alice", lambda w: w.scale(5).decide(3, 5), OWNED, REPLICAS),
    # the hatch
    "hatch: the scaler is alive": Row(BOUND, "alice", lambda w: w.unbind(), "ScalerAlive", ON_BINDING),
    "hatch: the scaler is gone": Row(GONE, "alice", lambda w: w.unbind()),
    "hatch: the scaler was made anew": Row(REBORN, "alice", lambda w: w.unbind()),
    "hatch: the scaler is suspended": Row(SUSPENDED, "alice", lambda w: w.unbind()),
    "hatch: the scaler is Shadow": Row(SHADOW, "alice", lambda w: w.unbind()),
    "hatch: the scaler points elsewhere": Row(ELSEWHERE, "alice", lambda w: w.unbind()),
    "hatch: both annotations go": Row(GONE, "alice", lambda w: w.unbind().note(DECISION, None)),
    "hatch: the decision is edited": Row(GONE, "alice", lambda w: w.unbind().decide(3, 9), IMMUTABLE, ON_DECISION),
    "hatch: scaling in the same write": Row(GONE, "alice", lambda w: w.unbind().scale(9), OWNED, REPLICAS),
    # payloads nobody can read
    "malformed binding: a user scales": Row(UNREADABLE, "alice", lambda w: w.scale(7), OWNED, REPLICAS),
    "malformed binding: a user edits it": Row(UNREADABLE, "alice", lambda w: w.note(BINDING, "{}"), IMMUTABLE, ON_BINDING),
    "malformed binding: a user removes it": Row(UNREADABLE, "alice", lambda w: w.unbind()),
    "malformed binding: a user edits the image": Row(UNREADABLE, "alice", lambda w: w.image()),
    "malformed binding: the scaler commits": Row(UNREADABLE, "scaler", lambda w: w.scale(5).decide(3, 5), OWNED, REPLICAS),
    "malformed binding: the scaler binds over it": Row(UNREADABLE, "scaler", lambda w: w.bind(9), IMMUTABLE, ON_BINDING),
    "malformed binding: the scaler removes it": Row(UNREADABLE, "scaler", lambda w: w.unbind()),
    "oversized binding: a user scales": Row(OVERSIZED, "alice", lambda w: w.scale(7), OWNED, REPLICAS),
    "oversized binding: a user removes it": Row(OVERSIZED, "alice", lambda w: w.unbind()),
    "a binding with a key twice: a user scales": Row(TWICE, "alice", lambda w: w.scale(7), OWNED, REPLICAS),
    "a binding with a key twice: a user removes it": Row(TWICE, "alice", lambda w: w.unbind()),
    # bound, the scaler
    "scaler: commits": Row(BOUND, "scaler", lambda w: w.scale(5).decide(3, 5)),
    "scaler: commits for two roles": Row(TWO, "scaler", lambda w: w.scale(2, 4).decide(3)),
    "scaler: scales without a decision": Row(FRESH, "scaler", lambda w: w.scale(5), STALE, REPLICAS),
    "scaler: scales by the old decision": Row(BOUND, "scaler", lambda w: w.scale(5), STALE, REPLICAS),
    "scaler: replays a sequence": Row(BOUND, "scaler", lambda w: w.scale(5).decide(3, 4), STALE, ON_DECISION),
    "scaler: goes back in sequence": Row(BOUND, "scaler", lambda w: w.scale(5).decide(3, 3), STALE, ON_DECISION),
    "scaler: planned on another generation": Row(
        BOUND, "scaler", lambda w: w.scale(5).decide(3, 5, targetGeneration=99), STALE, ON_DECISION
    ),
    "scaler: decides under an older term": Row(BOUND, "scaler", lambda w: w.scale(5).decide(2, 5), STALE_TERM, ON_DECISION),
    "scaler: decides under a newer term": Row(BOUND, "scaler", lambda w: w.scale(5).decide(4), STALE_TERM, ON_DECISION),
    "scaler: decides for another owner": Row(BOUND, "scaler", lambda w: w.scale(5).decide(3, 5, uid=STRANGER), STALE, ON_DECISION),
    "scaler: writes a wrong digest": Row(
        BOUND, "scaler", lambda w: w.scale(5).decide(3, 5, digest="sha256:" + "0" * 64), STALE, ON_DECISION
    ),
    "scaler: writes another count than it decided": Row(
        BOUND, "scaler", lambda w: w.scale(6).decide(3, 5, counts={"server": 5}), STALE, ON_DECISION
    ),
    "scaler: leaves a role out of its decision": Row(TWO, "scaler", lambda w: w.scale(2, 4).decide(3, counts={"a": 2}), STALE, ON_DECISION),
    "scaler: writes a decision nobody can read": Row(BOUND, "scaler", lambda w: w.note(DECISION, "{"), INVALID, ON_DECISION),
    "scaler: writes an oversized decision": Row(BOUND, "scaler", lambda w: w.decide(3, 5, decidedAt="2" * 5000), INVALID, ON_DECISION),
    "scaler: removes the decision alone": Row(BOUND, "scaler", lambda w: w.note(DECISION, None), IMMUTABLE, ON_DECISION),
    "scaler: edits its binding within the term": Row(
        BOUND, "scaler", lambda w: w.bind(3, acquiredAt="2026-02-02T00:00:00Z"), IMMUTABLE, ON_BINDING
    ),
    "scaler: takes a new term": Row(BOUND, "scaler", lambda w: w.bind(4)),
    "scaler: takes an older term": Row(BOUND, "scaler", lambda w: w.bind(2), STALE_TERM, ON_BINDING),
    "scaler: the first commit of a new term": Row(BOUND, "scaler", lambda w: w.bind(4).scale(5).decide(4)),
    "scaler: releases": Row(BOUND, "scaler", lambda w: w.unbind()),
    "scaler: releases and removes the decision": Row(BOUND, "scaler", lambda w: w.unbind().note(DECISION, None)),
    "scaler: releases and edits the decision": Row(BOUND, "scaler", lambda w: w.unbind().decide(3, 5), IMMUTABLE, ON_DECISION),
    "scaler: releases and scales": Row(BOUND, "scaler", lambda w: w.unbind().scale(5), UNBOUND, REPLICAS),
    "scaler: edits the image": Row(BOUND, "scaler", lambda w: w.image()),
    # handover
    "handover: the old scaler is gone": Row(GONE, "scaler", lambda w: w.bind(4, uid="u2", scaler="next")),
    "handover: the old scaler is suspended": Row(SUSPENDED, "scaler", lambda w: w.bind(4, uid="u2", scaler="next")),
    "handover: the old scaler is Shadow": Row(SHADOW, "scaler", lambda w: w.bind(4, uid="u2", scaler="next")),
    "handover: the old scaler was made anew": Row(REBORN, "scaler", lambda w: w.bind(4, uid="u2")),
    "handover: the term jumps": Row(GONE, "scaler", lambda w: w.bind(8, uid="u2", scaler="next")),
    "handover: the old scaler is alive": Row(BOUND, "scaler", lambda w: w.bind(4, uid="u2", scaler="next"), "ScalerAlive", ON_BINDING),
    "handover: the term does not move": Row(GONE, "scaler", lambda w: w.bind(3, uid="u2", scaler="next"), STALE_TERM, ON_BINDING),
    "handover: the term is above the binding, not the decision": Row(
        Stored(term=3, decided=(5, 1), scaler="gone"), "scaler", lambda w: w.bind(4, uid="u2"), STALE_TERM, ON_BINDING
    ),
    "handover: scaling without a decision": Row(GONE, "scaler", lambda w: w.bind(4, uid="u2").scale(5), STALE, REPLICAS),
    # deletion
    "deleting: a finalizer goes": Row(DELETING, "alice", lambda w: w.finalizers("example.com/second")),
    "deleting: a user scales": Row(DELETING, "alice", lambda w: w.scale(7)),
    "deleting: a user removes both annotations": Row(DELETING, "alice", lambda w: w.unbind().note(DECISION, None)),
    "deleting: a user adds a binding": Row(DELETING_FREE, "alice", lambda w: w.bind(1), FORGED, ON_BINDING),
    "deleting: a user adds a decision": Row(DELETING_FREE, "alice", lambda w: w.decide(1), FORGED, ON_DECISION),
    "deleting: a user edits the binding": Row(DELETING, "alice", lambda w: w.bind(4), IMMUTABLE, ON_BINDING),
    "deleting: a user edits the decision": Row(DELETING, "alice", lambda w: w.decide(3, 9), IMMUTABLE, ON_DECISION),
}
NAMES = {sentence: f"row-{index}" for index, sentence in enumerate(ROWS)}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def fence(request: pytest.FixtureRequest, cluster_kind: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Fence]:
    """One product for the whole table; every row has a deployment of its own."""
    planted = {NAMES[sentence]: row.stored for sentence, row in ROWS.items()}
    async with on_either(request, cluster_kind, tmp_path_factory) as cluster, fenced(cluster, planted) as found:
        yield found


def writer(fence: Fence, by: str) -> Wire:
    """The wire of a user."""
    return {"alice": fence.alice, "scaler": fence.scaler, "admin": fence.admin}[by]


@pytest.mark.parametrize("sentence", ROWS)
async def test_row(fence: Fence, sentence: str) -> None:
    """Every form gets the row's answer, dry or not; what was refused or dry left nothing behind, what was allowed stands."""
    row, name = ROWS[sentence], NAMES[sentence]
    before, wire = await fence.live(name), writer(fence, row.by)
    forms = (await fence.draft(name, row.edit)).forms()
    if row.apply_passes:
        answer = await fence.write(wire, name, row.edit, "apply", dryRun="All")
        if fence.cluster.minor > ATOMIC_APPLY:
            answer.ok()
        else:
            assert told(answer).get(row.field) == row.refused
        forms = forms[:-1]
    for form in forms:
        answer = await fence.write(wire, name, row.edit, form, dryRun="All")
        if row.refused:
            assert (form, told(answer).get(row.field)) == (form, row.refused)
        else:
            answer.ok()
    assert _guarded(await fence.live(name)) == _guarded(before)
    chosen = forms[list(ROWS).index(sentence) % len(forms)]
    wanted = _guarded((await fence.draft(name, row.edit)).obj)
    written = await fence.write(wire, name, row.edit, chosen)
    if row.refused:
        assert told(written) == told(answer)
        wanted = _guarded(before)
    else:
        written.ok()
    assert _guarded(await fence.live(name)) == wanted


def _guarded(obj: dict) -> tuple:  # type: ignore[type-arg]  # a raw object
    """What the fence guards."""
    notes = obj["metadata"].get("annotations") or {}
    return notes.get(BINDING), notes.get(DECISION), {role["name"]: role.get("replicas", 1) for role in obj["spec"]["roles"]}


async def test_every_rule_of_the_fence_is_met() -> None:
    """The table names each rule that can refuse an update."""
    from webhooks.fence import words

    known = {getattr(words, name) for name in ("FORGED", "IMMUTABLE", "OWNED", "ALIVE", "UNBOUND_WRITE", "STALE_TERM", "STALE_DECISION")}
    assert known | {words.INVALID} == {row.refused for row in ROWS.values()} - {""}
