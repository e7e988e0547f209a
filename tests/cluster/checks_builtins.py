"""Checks on kinds that an API server knows by itself: what it fills in, freezes and refuses of them."""

from checklist import check, config_map, maps, pod
from clusterkit import TestCluster


@check("a Secret's stringData becomes data")
async def _(cluster: TestCluster) -> None:
    path = f"/api/v1/namespaces/{await cluster.namespace()}/secrets"
    made = (await cluster.wire("POST", path, {"metadata": {"name": "s"}, "stringData": {"a": "b"}})).ok()
    assert made["data"] == {"a": "Yg=="}
    assert made["type"] == "Opaque"
    assert "stringData" not in made


@check("a Lease is taken by one of two who saw the same version")
async def _(cluster: TestCluster) -> None:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{await cluster.namespace()}/leases"
    lease = (await cluster.wire("POST", path, {"metadata": {"name": "l"}, "spec": {"holderIdentity": "", "leaseDurationSeconds": 15}})).ok()
    first = await cluster.wire("PUT", f"{path}/l", lease | {"spec": {"holderIdentity": "one", "leaseDurationSeconds": 15}})
    second = await cluster.wire("PUT", f"{path}/l", lease | {"spec": {"holderIdentity": "two", "leaseDurationSeconds": 15}})
    assert (first.code, second.code) == (200, 409)


@check("an Event of events.k8s.io is the core Event of the same name")
async def _(cluster: TestCluster) -> None:
    space = await cluster.namespace()
    body = {
        "metadata": {"name": "e"},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "example.com/c",
        "reportingInstance": "i",
        "action": "Act",
        "reason": "Because",
        "note": "text",
        "type": "Normal",
        "regarding": {"apiVersion": "v1", "kind": "Pod", "name": "p", "namespace": space},
    }
    (await cluster.wire("POST", f"/apis/events.k8s.io/v1/namespaces/{space}/events", body)).ok()
    seen = (await cluster.wire("GET", f"/api/v1/namespaces/{space}/events", fieldSelector="involvedObject.name=p")).ok()["items"]
    assert [(item["message"], item["involvedObject"]["kind"], item["reason"]) for item in seen] == [("text", "Pod", "Because")]


@check("a Pod's spec is frozen but for its image")
async def _(cluster: TestCluster) -> None:
    path = f"/api/v1/namespaces/{await cluster.namespace()}/pods"
    (await cluster.wire("POST", path, pod("a"))).ok()
    image = {"spec": {"containers": [{"name": "main", "image": "example.invalid/engine:2"}]}}
    (await cluster.wire.patch(f"{path}/a", image, "strategic")).ok()
    changed = await cluster.wire.patch(f"{path}/a", {"spec": {"restartPolicy": "Never"}})
    assert (changed.code, changed.body["reason"]) == (422, "Invalid")


@check("a body over the limit is 413")
async def _(cluster: TestCluster) -> None:
    answer = await cluster.wire("POST", await maps(cluster), config_map("a", x="y" * (4 << 20)))
    assert answer.code == 413


@check("a built-in object of the wrong type is 400")
async def _(cluster: TestCluster) -> None:
    body = pod("a")
    body["spec"]["containers"][0]["image"] = 7
    assert (await cluster.wire("POST", f"/api/v1/namespaces/{await cluster.namespace()}/pods", body)).code == 400


@check("a Service gets a cluster address")
async def _(cluster: TestCluster) -> None:
    body = {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}], "selector": {"a": "b"}}}
    made = (await cluster.wire("POST", f"/api/v1/namespaces/{await cluster.namespace()}/services", body)).ok()
    assert made["spec"]["clusterIP"].count(".") == 3
