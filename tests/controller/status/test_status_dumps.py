"""Dumps: what a stream may look like, what is found in it for a deployment, and how a bad one is refused."""

import json
from collections.abc import Callable
from typing import Any

import pytest
import yaml
from status_builders import NOW, Scene, ago, scene

from api import keys
from api.status import encode_status
from controller.dump import DumpError, parse, snapshots
from controller.status.judge import judge


def whole() -> Scene:
    """A deployment with everything that a dump may hold."""
    return scene().replicas("a").cache().artifact().router().view("a")


def forms() -> dict[str, str]:
    """The same objects, written in every way that is read."""
    objects = whole().document()
    return {
        "a YAML stream": yaml.safe_dump_all(objects),
        "a YAML list": yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": objects}),
        "a JSON list": json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}),
        "JSON documents one after another": "\n".join(json.dumps(item, indent=1) for item in objects),
        "a typed list beside single objects": yaml.safe_dump_all(
            [{"apiVersion": "v1", "kind": "PodList", "items": objects[:-1]}, objects[-1]]
        ),
        "empty documents between": "---\n".join(["", *(yaml.safe_dump(item) for item in objects), ""]),
    }


@pytest.mark.parametrize("form", forms())
def test_forms(form: str) -> None:
    """Every form gives the same status."""
    (snapshot,) = snapshots(parse(forms()[form]), NOW)
    assert encode_status(judge(snapshot)) == encode_status(whole().judge())


def test_times_stay_the_texts_of_the_wire() -> None:
    """YAML's own timestamps would read as another type."""
    assert parse("a: 2026-01-01T00:00:00Z\nb: 2026-01-01")[0] == {"a": "2026-01-01T00:00:00Z", "b": "2026-01-01"}


CLOCKS = {
    "the Observations' own": (None, ago(3), None, ago(3)),
    "--now overrides": (ago(9), ago(3), None, ago(9)),
    "a fallback where there is none": (None, None, NOW, ago(0)),
}


@pytest.mark.parametrize("sentence", CLOCKS)
def test_clock(sentence: str) -> None:
    """Where the pass's clock comes from."""
    override, own, fallback, expected = CLOCKS[sentence]
    found = scene()
    if own:
        found.observations["now"] = own
    (snapshot,) = snapshots(found.document(), override, fallback=fallback)
    assert snapshot.now.strftime("%Y-%m-%dT%H:%M:%SZ") == expected


def test_only_the_deployment_s_own_namespace_is_read() -> None:
    """A Binding, an artifact and a Pod of that name elsewhere are none of ours."""
    found = whole().document()
    for item in found[1:]:
        if "namespace" in item["metadata"]:
            item["metadata"]["namespace"] = "elsewhere"
    (snapshot,) = snapshots(found, NOW)
    assert (snapshot.binding, snapshot.artifact, snapshot.router_deployment, snapshot.observations) == (None, None, None, None)
    assert snapshot.pods == snapshot.router_pods == snapshot.workloads == ()


def test_two_deployments_in_one_dump() -> None:
    """Each gets its own, in the dump's order."""
    first, second = scene().replicas("a").document(), scene().document()
    second[0] = second[0] | {"metadata": second[0]["metadata"] | {"name": "other", "uid": "other"}}
    found = [(s.deployment.metadata.name, len(s.pods)) for s in snapshots([*first, *second], NOW)]
    assert found == [("qwen", 1), ("other", 0)]


def test_kinds_that_a_pass_need_not_know_are_ignored() -> None:
    """Foreign kinds, also of a known name in another group."""
    extra = [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {}}, {"apiVersion": "x/v1", "kind": "Pod", "metadata": 3}]
    assert len(snapshots([*whole().document(), *extra], NOW)) == 1


def test_null_members_are_absent() -> None:
    """A hand-written file may spell absence as null."""
    found = scene().replicas("a").document()
    found[0]["spec"]["router"] = found[0]["metadata"]["annotations"] = found[-1]["status"]["reason"] = None
    assert judge(snapshots(found, NOW)[0]).phase == "Ready"


BAD = {
    "no YAML": "a: [",
    "a JSON document that breaks off": '{"a": ',
    "a document that is no object": "- 1\n",
    "a list item that is no object": '{"kind": "List", "items": [3]}',
}


@pytest.mark.parametrize("sentence", BAD)
def test_unreadable_text(sentence: str) -> None:
    """Refused, with a reason."""
    with pytest.raises(DumpError):
        parse(BAD[sentence])


def test_an_object_of_another_shape_is_named() -> None:
    """Who collects no faults gets nothing half read: the message has the kind, the name and the field."""
    found = scene().replicas("a").document()
    found[-1]["spec"]["containers"] = "main"
    with pytest.raises(DumpError, match=r"Pod team-a/qwen-a: .*containers"):
        snapshots(found, NOW)


@pytest.mark.parametrize("now", [None, "noon"])
def test_a_dump_without_a_clock(now: str | None) -> None:
    """A missing or unreadable clock is an error, never the wall clock by surprise."""
    with pytest.raises(DumpError, match="team-a/qwen"):
        snapshots(scene().document(), now)


def two() -> list[dict[str, Any]]:
    """Two deployments, each with one ready replica."""
    first, second = scene().replicas("a").document(), scene().document()
    return [*first, second[0] | {"metadata": second[0]["metadata"] | {"name": "other", "uid": "other"}}]


def at(found: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    """The first object of that kind."""
    return next(item for item in found if item["kind"] == kind)


FAULTS: dict[str, tuple[Callable[[list[dict[str, Any]]], object], str, int, int]] = {
    "a label that is no text leaves the Pod without a position, not without its report": (
        lambda found: at(found, "Pod")["metadata"]["labels"].update({keys.POD_ORDINAL: 0}),
        "Pod team-a/qwen-a",
        0,
        1,
    ),
    "an annotation that is no text reads as absent": (
        lambda found: at(found, "Pod")["metadata"]["annotations"].update({keys.POD_GROUP_TOTAL_COUNT: 1}),
        "Pod team-a/qwen-a",
        1,
        1,
    ),
    "containers that are none leave a Pod of which only its existence is known": (
        lambda found: at(found, "Pod")["spec"].update(containers="main"),
        "Pod team-a/qwen-a",
        0,
        1,
    ),
    "a Workload of another shape still claims its Pods": (
        lambda found: at(found, "Workload").update(status="Admitted"),
        "Workload team-a/wl-a",
        1,
        1,
    ),
    "an object without metadata is nobody's": (
        lambda found: found.append({"apiVersion": "v1", "kind": "Pod", "metadata": 3}),
        "Pod /",
        1,
        1,
    ),
    "a list item that is no object": (lambda found: found.append({"kind": "List", "items": [3]}), "int", 1, 1),
}


@pytest.mark.parametrize("sentence", FAULTS)
def test_one_bad_object_does_not_lose_the_rest(sentence: str) -> None:
    """The fault is named, both deployments get their snapshots, and what can be read of the object counts."""
    spoil, named, ready, pods = FAULTS[sentence]
    found = two()
    spoil(found)
    faults: list[str] = []
    first, second = snapshots(found, NOW, faults=faults)
    assert len(faults) == 1
    assert named in faults[0]
    assert (judge(first).roles[0].ready, len(first.pods)) == (ready, pods)
    assert judge(second).phase == "Starting"


def test_a_deployment_whose_spec_cannot_be_read_has_no_snapshot() -> None:
    """The other one has; a dump of which none is left is an error."""
    found, faults = two(), list[str]()
    found[0]["spec"]["roles"] = "server"
    (snapshot,) = snapshots(found, NOW, faults=faults)
    assert snapshot.deployment.metadata.name == "other"
    assert "ModelDeployment team-a/qwen" in faults[0]
    with pytest.raises(DumpError, match="ModelDeployment team-a/qwen"):
        snapshots(found[:1], NOW, faults=[])


def test_a_deployment_with_an_annotation_that_is_no_text_is_judged_without_it() -> None:
    """A number that a YAML file forgot to quote."""
    found, faults = two(), list[str]()
    found[0]["metadata"]["annotations"] = {keys.RENDER_VERSION: 3}
    assert [judge(snapshot).phase for snapshot in snapshots(found, NOW, faults=faults)] == ["Ready", "Starting"]
    assert len(faults) == 1


def test_a_clock_that_cannot_be_read_concerns_its_own_deployment() -> None:
    """Every deployment has an Observations document of its own."""
    found, faults = scene().tap(lambda s: s.observations.update(now="noon")).document(), list[str]()
    other = found[0] | {"metadata": found[0]["metadata"] | {"name": "other"}}
    (snapshot,) = snapshots([*found, other], fallback=NOW, faults=faults)
    assert (snapshot.deployment.metadata.name, len(faults)) == ("other", 1)


def test_an_object_that_is_there_twice_counts_once() -> None:
    """Two captures in one stream: a Pod is not its own second member, and a deployment has one status."""
    found = whole().document()
    (snapshot,) = snapshots([*found, *found], NOW)
    assert encode_status(judge(snapshot)) == encode_status(whole().judge())
