"""The cache's small forms of Pods, Workloads and Services: they lose nothing that a status is made of, and they share what is alike."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from things import deployment, pod, workload

from api.keys import SCALER_DECISION
from api.status import encode_status
from controller import projection
from controller.dump import snapshots
from controller.kinds import KindName, kinds
from controller.projection import Commons, Remembered, Table, WirePod
from controller.snapshot import Snapshot
from controller.status.judge import judge

CASES = Path(__file__).parents[1] / "contract" / "cases" / "status.jsonl"
Object = dict[str, Any]


def project(kind: KindName, *objects: Object) -> list[Any]:
    """The objects as one cache would keep them."""
    row = next(row for row in kinds("required") if row.name is kind)
    return [row.project(msgspec.json.encode(item)) for item in objects]


def projected(snapshot: Snapshot, objects: list[Object]) -> Snapshot:
    """The snapshot with its Pods, Workloads and Services as a cache would have given them."""
    small: dict[tuple[str, str, str], Any] = {}
    for kind in (KindName.POD, KindName.WORKLOAD, KindName.SERVICE):
        for item in project(kind, *(item for item in objects if item.get("kind") == kind)):
            if item is not None:
                small[kind, item.metadata.namespace, item.metadata.name] = item

    def each(kind: KindName, items: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(small.get((kind, item.metadata.namespace, item.metadata.name), item) for item in items)

    return msgspec.structs.replace(
        snapshot,
        pods=each(KindName.POD, snapshot.pods),
        router_pods=each(KindName.POD, snapshot.router_pods),
        workloads=each(KindName.WORKLOAD, snapshot.workloads),
        services=each(KindName.SERVICE, snapshot.services),
    )


def test_every_contract_case_gives_the_same_status_from_the_cache_as_from_whole_objects() -> None:
    """Whatever a projection leaves out, no judgement reads it."""
    seen = 0
    for line in CASES.read_text().splitlines():
        case = json.loads(line)
        objects = case["input"]["objects"]
        for snapshot in snapshots(objects, case["input"]["now"]):
            small = projected(snapshot, objects)
            if small == snapshot:
                continue
            seen += 1
            assert encode_status(judge(small)) == encode_status(judge(snapshot)), case["name"]
    assert seen > 100, "the cases hold Pods that a projection makes smaller"


def test_pods_of_a_role_share_what_is_alike() -> None:
    """A hundred thousand Pods fit into memory because alike parts are one object."""
    owner = deployment()
    first, second = project(KindName.POD, pod(owner, "a").ready().json, pod(owner, "b", 1).ready().json)
    assert first.metadata.name != second.metadata.name
    for part in ("annotations", "owner_references", "finalizers", "namespace"):
        assert getattr(first.metadata, part) is getattr(second.metadata, part), part
    assert first.spec.containers is second.spec.containers
    assert first.status.conditions is second.status.conditions


def test_a_pod_is_told_apart_by_what_its_role_does_not_share() -> None:
    """Sharing is by value: another argument, readiness or label is another object."""
    owner = deployment()
    other = pod(owner, "b", 7).ready("False").json
    other["spec"]["containers"][0]["args"] = ["--tensor-parallel-size", "2"]
    first, second = project(KindName.POD, pod(owner, "a").ready().json, other)
    assert second.main.args == ("--tensor-parallel-size", "2")
    assert first.main.args == ()
    assert [c.status for c in second.status.conditions] == ["False"]
    assert second.metadata.labels["modeldeployment.gpustack.ai/pod-ordinal"] == "7"
    assert set(first.metadata.labels) == set(pod(owner, "a").json["metadata"]["labels"]) - {"app.kubernetes.io/name"}


def test_a_workload_keeps_what_quota_is_judged_from() -> None:
    """Conditions with their words, the admission's flavors, the checks."""
    raw = workload(pod(deployment(), "a").json)
    raw["status"]["admission"] = {"clusterQueue": "q", "podSetAssignments": [{"name": "main", "flavors": {"gpu": "h100"}}]}
    raw["status"]["admissionChecks"] = [{"name": "joint", "state": "Retry", "message": "parked rather than held"}]
    (small,) = project(KindName.WORKLOAD, raw)
    assert small.status.admission.pod_set_assignments[0].flavors == {"gpu": "h100"}
    assert small.status.admission_checks[0].message == "parked rather than held"
    assert [(c.type, c.status, c.reason) for c in small.status.conditions] == [("QuotaReserved", "True", "x")]
    assert [ref.uid for ref in small.metadata.owner_references] == ["uid-a"]


def test_tables_that_are_full_forget_and_go_on() -> None:
    """Memory is bounded whatever comes; what is forgotten is decoded again."""
    remembered: Remembered[tuple[str, ...]] = Remembered(tuple[str, ...], bound=2)
    assert [remembered(b'["%d"]' % number) for number in range(5)] == [(str(number),) for number in range(5)]
    assert len(remembered._values) <= 2
    commons = Commons(bound=2)
    assert [commons.one(text) for text in "abcab"] == list("abcab")
    assert len(commons._values) <= 2


def test_pods_that_went_leave_no_megabytes_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """What others choose the size of is bounded by its size: arguments, annotations and words of conditions."""
    monkeypatch.setattr(projection, "Table", partial(Table, most=1 << 20))
    commons, text = Commons(), "x" * (1 << 18)
    read = msgspec.json.Decoder(WirePod).decode
    for number in range(12):
        item = pod(deployment(), "a").ready().annotated(SCALER_DECISION, f"{number}{text}").json
        item["spec"]["containers"][0]["args"] = [f"{number}{text}"]
        item["status"]["conditions"][0]["message"] = f"{number}{text}"
        assert commons.pod(read(msgspec.json.encode(item))).main.args == (f"{number}{text}",)  # type: ignore[union-attr]
    assert max(len(table) for table in (commons._containers, commons._annotated, commons._conditioned)) <= 4
    assert len(commons._owners._values) == 1


@pytest.mark.parametrize("kind", [KindName.POD, KindName.WORKLOAD])
def test_an_object_without_its_shape_is_refused(kind: KindName) -> None:
    """The caller keeps its metadata and no more; half a Pod would be judged as if the rest were absent."""
    row = next(row for row in kinds("required") if row.name is kind)
    with pytest.raises(msgspec.ValidationError):
        row.project(b'{"metadata": {"name": "a"}, "spec": 7}')
