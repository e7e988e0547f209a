"""The fence over a deployment's life: born, bound, scaled, handed over, released, restored, deleted; and what the fence must not touch."""

import asyncio
import json
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from clusterkit import Wire
from fencekit import BINDING, DECISION, MASTERS, STRANGER, Draft, Fence, Stored, body_of, fenced, on_either, scaler_body, told
from product import SCALER

from kube import client as kube_client
from kube.errors import Forbidden, RequestTimeout, ServerError

pytestmark = [pytest.mark.cluster, pytest.mark.asyncio(loop_scope="module")]

BOUND = Stored(term=3, decided=(3, 4))
GONE = Stored(term=3, decided=(3, 4), scaler="gone")
PLANTED = {
    "held": BOUND,
    "orphan": GONE,
    "status": BOUND,
    "going": Stored(term=3, decided=(3, 4), deleting=True),
    "away": GONE,
    "fin": BOUND,
}
ON_BINDING, ON_DECISION = f"metadata.annotations[{BINDING}]", f"metadata.annotations[{DECISION}]"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def fence(request: pytest.FixtureRequest, cluster_kind: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Fence]:
    """One product for the module."""
    async with on_either(request, cluster_kind, tmp_path_factory) as cluster, fenced(cluster, PLANTED) as found:
        yield found


async def _made(fence: Fence, name: str, **counts: int) -> str:
    """A fresh deployment, and an Active scaler of it, whose uid is returned."""
    (await fence.alice("POST", fence.path(), body_of(name, counts or {"server": 2}))).ok()
    made = (await fence.alice("POST", fence.scaler_path(), scaler_body(name, name, counts or {"server": 2}))).ok()
    uid: str = made["metadata"]["uid"]
    fence.uids[name] = uid
    return uid


async def _do(fence: Fence, wire: Wire, name: str, edit: "type[Draft] | object") -> dict[str, str]:
    """A write by JSON patch: the rules by field that refused it, nothing where it passed."""
    answer = await fence.write(wire, name, edit, "json")  # type: ignore[arg-type]
    if answer.code == 403:
        return told(answer)
    answer.ok()
    return {}


async def test_a_whole_life(fence: Fence) -> None:
    """Bind, commit, replay, suspend, release, bind again above the record, hand over: each step as the table has it, on one object."""
    await _made(fence, "life")
    scaler, alice = fence.scaler, fence.alice
    assert await _do(fence, scaler, "life", lambda w: w.scale(3)) == {"spec.roles[0].replicas": "UnboundWrite"}
    assert await _do(fence, scaler, "life", lambda w: w.bind(1)) == {}
    assert await _do(fence, scaler, "life", lambda w: w.scale(3).decide(1, 1)) == {}
    assert ON_DECISION in await _do(fence, scaler, "life", lambda w: w.scale(4).decide(1, 1))
    assert await _do(fence, alice, "life", lambda w: w.scale(9)) == {"spec.roles[0].replicas": "ReplicasOwnedByScaler"}
    assert await _do(fence, alice, "life", lambda w: w.unbind()) == {ON_BINDING: "ScalerAlive"}
    (await alice.patch(fence.scaler_path("life"), {"spec": {"suspend": True}})).ok()
    assert await _do(fence, alice, "life", lambda w: w.unbind()) == {}
    assert await _do(fence, alice, "life", lambda w: w.scale(9)) == {}
    assert DECISION in (await fence.live("life"))["metadata"]["annotations"]
    assert await _do(fence, scaler, "life", lambda w: w.bind(1)) == {ON_BINDING: "StaleTerm"}
    assert await _do(fence, scaler, "life", lambda w: w.bind(2)) == {}
    assert await _do(fence, scaler, "life", lambda w: w.bind(3, uid=STRANGER, scaler="next")) == {}
    assert await _do(fence, scaler, "life", lambda w: w.scale(5).decide(2, 1, uid=STRANGER)) == {ON_DECISION: "StaleTerm"}
    assert await _do(fence, scaler, "life", lambda w: w.scale(5).decide(3, 1, uid=STRANGER)) == {}
    assert await _do(fence, scaler, "life", lambda w: w.unbind()) == {}
    assert await _do(fence, scaler, "life", lambda w: w.bind(3)) == {ON_BINDING: "StaleTerm"}


async def test_a_restored_backup_is_refused_until_it_is_cleaned(fence: Fence) -> None:
    """A create with either annotation is refused for a user, for an administrator and for the scaler; without them it passes."""
    live = await fence.live("held")
    copy = {"apiVersion": live["apiVersion"], "kind": live["kind"], "spec": live["spec"]}
    notes = live["metadata"]["annotations"]
    for wire, rule in ((fence.alice, "ScalerAnnotationForged"), (fence.admin, "ScalerAnnotationForged")):
        for dry in ({}, {"dryRun": "All"}):
            answer = await wire("POST", fence.path(), copy | {"metadata": {"name": "restored", "annotations": notes}}, **dry)
            assert told(answer) == {ON_BINDING: rule, ON_DECISION: rule}
    answer = await fence.scaler("POST", fence.path(), copy | {"metadata": {"name": "restored", "annotations": notes}})
    assert set(told(answer).values()) == {"BindingRequiresExistingTarget"}
    applied = copy | {"metadata": {"name": "restored", "annotations": {BINDING: "rubbish"}}}
    assert told(await fence.alice.patch(fence.path("restored"), applied, "apply", fieldManager="gitops")) == {
        ON_BINDING: "ScalerAnnotationForged"
    }
    assert (await fence.admin("GET", fence.path("restored"))).code == 404
    (await fence.alice("POST", fence.path(), copy | {"metadata": {"name": "restored"}})).ok()


async def test_the_hatch_and_the_count_are_two_writes(fence: Fence) -> None:
    """First the binding goes, then the count moves; both at once is refused."""
    assert await _do(fence, fence.alice, "orphan", lambda w: w.unbind().scale(9)) == {"spec.roles[0].replicas": "ReplicasOwnedByScaler"}
    assert await _do(fence, fence.alice, "orphan", lambda w: w.unbind()) == {}
    assert await _do(fence, fence.alice, "orphan", lambda w: w.scale(9)) == {}


READS = {
    "a refused read": Forbidden(403, "Forbidden", "no"),
    "a broken server": ServerError(500, "InternalError", "no"),
    "a read that takes too long": RequestTimeout("no"),
}


@pytest.mark.parametrize("name", READS)
async def test_a_failing_read_of_the_scaler_opens_nothing(fence: Fence, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Neither the hatch nor a handover: the API server is told 500, and its failurePolicy refuses."""
    read = kube_client.Client.get

    async def get(self: kube_client.Client, resource: object, name_: str, namespace: str | None = None) -> bytes:
        if getattr(resource, "plural", "") == "modeldeploymentscalers":
            raise READS[name]
        return await read(self, resource, name_, namespace)  # type: ignore[arg-type]

    monkeypatch.setattr(kube_client.Client, "get", get)
    for wire, edit in ((fence.alice, lambda w: w.unbind()), (fence.scaler, lambda w: w.bind(4, uid="u2", scaler="next"))):
        for dry in ({}, {"dryRun": "All"}):
            answer = await fence.write(wire, "away", edit, "json", **dry)
            assert answer.code == 500, answer.body
            assert "failed calling webhook" in answer.body["message"]
    monkeypatch.undo()
    assert BINDING in (await fence.live("away"))["metadata"]["annotations"]


async def test_status_is_not_the_fences_affair(fence: Fence) -> None:
    """A status write passes whatever it carries, and takes neither counts nor annotations with it."""
    before = await fence.live("status")
    draft = await fence.draft("status", lambda w: w.scale(9).unbind())
    (await fence.alice.patch(fence.path("status") + "/status", {"status": {"phaseMessage": "by hand"}})).ok()
    written = await fence.alice.patch(fence.path("status") + "/status", {"spec": {"roles": draft.obj["spec"]["roles"]}})
    assert written.code in {200, 422}
    after = await fence.live("status")
    assert after["spec"] == before["spec"]
    assert after["metadata"]["annotations"][BINDING] == before["metadata"]["annotations"][BINDING]


async def test_annotations_do_not_come_in_through_the_status(fence: Fence) -> None:
    """The status subresource of a custom resource ignores metadata but for managed fields, so no binding is forged or torn off there."""
    for notes in ({BINDING: None}, {BINDING: "forged"}, {DECISION: None}):
        await fence.alice.patch(fence.path("status") + "/status", {"metadata": {"annotations": notes}})
        live = (await fence.live("status"))["metadata"]["annotations"]
        assert json.loads(live[BINDING])["term"] == 3
        assert json.loads(live[DECISION])["sequence"] == 4


async def test_there_is_no_scale_to_go_around_by(fence: Fence) -> None:
    """Neither reading nor writing /scale exists."""
    path = fence.path("held") + "/scale"
    assert (await fence.alice("GET", path)).code == 404
    assert (await fence.alice.patch(path, {"spec": {"replicas": 9}})).code == 404


async def test_finalizers_come_and_go_on_a_bound_deployment(fence: Fence) -> None:
    """By anyone, in every form."""
    for wire, names in ((fence.alice, ("example.com/a",)), (fence.scaler, ("example.com/a", "example.com/b")), (fence.admin, ())):
        assert await _do(fence, wire, "fin", lambda w, names=names: w.finalizers(*names)) == {}
        assert (await fence.live("fin"))["metadata"].get("finalizers", []) == list(names)


async def test_a_deletion_ends_though_a_scaler_is_bound(fence: Fence) -> None:
    """Finalizers go one by one, forging stays refused meanwhile, and the object is gone at the end."""
    assert await _do(fence, fence.alice, "going", lambda w: w.bind(9)) == {ON_BINDING: "ScalerAnnotationImmutable"}
    assert await _do(fence, fence.alice, "going", lambda w: w.finalizers("example.com/second")) == {}
    assert await _do(fence, fence.alice, "going", lambda w: w.scale(1)) == {}
    assert await _do(fence, fence.alice, "going", lambda w: w.finalizers()) == {}
    assert (await fence.admin("GET", fence.path("going"))).code == 404


async def test_a_bound_deployment_is_deleted_like_any_other(fence: Fence) -> None:
    """DELETE is never refused."""
    await _made(fence, "shortlived")
    assert await _do(fence, fence.scaler, "shortlived", lambda w: w.bind(1)) == {}
    (await fence.alice("DELETE", fence.path("shortlived"))).ok()
    assert (await fence.admin("GET", fence.path("shortlived"))).code == 404


async def test_impersonation_counts_and_groups_do_not(fence: Fence) -> None:
    """Who impersonates the scaler is the scaler; who carries its name as a group is not, nor who has a longer name."""
    await _made(fence, "masks")
    uid = fence.uids["masks"]
    draft = await fence.draft("masks", lambda w: w.bind(1))
    body = draft.patch("merge")
    mask = {"Content-Type": "application/merge-patch+json", "Impersonate-Group": "system:masters"}
    for user in ("alice", SCALER + "-2", SCALER.upper(), "system:serviceaccount:default:modeldeployment-scaler"):
        answer = await fence.admin("PATCH", fence.path("masks"), body, headers=mask | {"Impersonate-User": user})
        assert told(answer) == {ON_BINDING: "ScalerAnnotationForged"}
    grouped = fence.cluster.wire_as("mallory", (*MASTERS, SCALER))
    assert told(await grouped.patch(fence.path("masks"), body)) == {ON_BINDING: "ScalerAnnotationForged"}
    (await fence.admin("PATCH", fence.path("masks"), body, headers=mask | {"Impersonate-User": SCALER})).ok()
    assert json.loads((await fence.live("masks"))["metadata"]["annotations"][BINDING])["uid"] == uid


async def test_of_two_acquisitions_at_once_one_wins(fence: Fence) -> None:
    """Both saw the same version; the second is told of the conflict, and its next try meets the newer term."""
    await _made(fence, "race")
    drafts = [await fence.draft("race", lambda w, uid=uid: w.bind(1, uid=uid)) for uid in ("u1", "u2")]
    codes = [answer.code for answer in await asyncio.gather(*(fence.scaler("PUT", fence.path("race"), draft.obj) for draft in drafts))]
    while codes == [409, 409]:  # the status was written in between
        drafts = [await fence.draft("race", lambda w, uid=uid: w.bind(1, uid=uid)) for uid in ("u1", "u2")]
        codes = [answer.code for answer in await asyncio.gather(*(fence.scaler("PUT", fence.path("race"), d.obj) for d in drafts))]
    assert sorted(codes) == [200, 409]
    assert ON_BINDING in await _do(fence, fence.scaler, "race", lambda w: w.bind(1, uid="u3"))


async def test_the_refusal_tells_the_ways_out(fence: Fence) -> None:
    """A person at a terminal reads who owns the count, what stands, what was tried, and what to write into Argo CD or Flux."""
    answer = await fence.write(fence.alice, "held", lambda w: w.scale(7), "merge")
    texts = (
        "held",
        "term 3",
        "spec.roles[0].replicas",
        "present 2",
        "attempted 7",
        "suspend",
        "Shadow",
        "RespectIgnoreDifferences=true",
        "Flux",
    )
    assert [text for text in texts if text not in answer.body["message"]] == []
