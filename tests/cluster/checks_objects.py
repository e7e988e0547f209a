"""Checks on the life of objects: creation, update, what is kept apart, what is refused."""

from checklist import check, config_map, fields, maps, pod, widget, widgets
from clusterkit import TestCluster


@check("a created object gets uid, creationTimestamp, resourceVersion and generation 1")
async def _(cluster: TestCluster) -> None:
    made = (await cluster.wire("POST", await widgets(cluster), widget("a"))).ok()["metadata"]
    assert made["uid"]
    assert made["creationTimestamp"].endswith("Z")
    assert int(made["resourceVersion"]) > 0
    assert made["generation"] == 1


@check("a name is generated from its prefix")
async def _(cluster: TestCluster) -> None:
    body = {"metadata": {"generateName": "some-"}}
    made = (await cluster.wire("POST", await maps(cluster), body)).ok()["metadata"]["name"]
    assert made.startswith("some-")
    assert len(made) == len("some-") + 5


@check("the same name twice is 409 AlreadyExists")
async def _(cluster: TestCluster) -> None:
    path = await maps(cluster)
    (await cluster.wire("POST", path, config_map("a"))).ok()
    again = await cluster.wire("POST", path, config_map("a"))
    assert (again.code, again.body["reason"]) == (409, "AlreadyExists")
    assert again.body["details"]["name"] == "a"


@check("an object in a namespace that is not there is 404 and names the namespace")
async def _(cluster: TestCluster) -> None:
    answer = await cluster.wire("POST", "/api/v1/namespaces/nowhere-at-all/configmaps", config_map("a"))
    assert answer.code == 404
    assert 'namespaces "nowhere-at-all" not found' in answer.body["message"]


@check("a body of another namespace than the path's is 400")
async def _(cluster: TestCluster) -> None:
    body = config_map("a")
    body["metadata"]["namespace"] = "another"
    assert (await cluster.wire("POST", await maps(cluster), body)).code == 400


@check("a body of another kind than the path's is 400")
async def _(cluster: TestCluster) -> None:
    assert (await cluster.wire("POST", await maps(cluster), pod("a"))).code == 400


@check("a body that is no JSON is 400")
async def _(cluster: TestCluster) -> None:
    assert (await cluster.wire("POST", await maps(cluster), '{"metadata": ')).code == 400


@check("a new object may not carry a resourceVersion")
async def _(cluster: TestCluster) -> None:
    body = config_map("a")
    body["metadata"]["resourceVersion"] = "5"
    assert (await cluster.wire("POST", await maps(cluster), body)).code >= 400


@check("a bad name is 422 at metadata.name")
async def _(cluster: TestCluster) -> None:
    answer = await cluster.wire("POST", await maps(cluster), config_map("No_Good"))
    assert (answer.code, answer.body["reason"]) == (422, "Invalid")
    assert fields(answer.body) == {"metadata.name"}


@check("a bad label value is 422 at metadata.labels")
async def _(cluster: TestCluster) -> None:
    body = config_map("a")
    body["metadata"]["labels"] = {"a": "not good!"}
    answer = await cluster.wire("POST", await maps(cluster), body)
    assert answer.code == 422
    assert fields(answer.body) == {"metadata.labels"}


@check("a missing object is 404 with its name")
async def _(cluster: TestCluster) -> None:
    answer = await cluster.wire("GET", f"{await widgets(cluster)}/nobody")
    assert (answer.code, answer.body["reason"], answer.body["details"]["name"]) == (404, "NotFound", "nobody")


@check("a path that nothing serves is 404")
async def _(cluster: TestCluster) -> None:
    assert (await cluster.wire("GET", "/apis/nothing.example/v1/things")).code == 404


@check("an update on a stale resourceVersion is 409 Conflict")
async def _(cluster: TestCluster) -> None:
    path = await maps(cluster)
    old = (await cluster.wire("POST", path, config_map("a", x="1"))).ok()
    (await cluster.wire.patch(f"{path}/a", {"data": {"x": "2"}})).ok()
    answer = await cluster.wire("PUT", f"{path}/a", old)
    assert (answer.code, answer.body["reason"]) == (409, "Conflict")
    stale = await cluster.wire.patch(f"{path}/a", {"metadata": {"resourceVersion": old["metadata"]["resourceVersion"]}, "data": {"x": "3"}})
    assert stale.code == 409


@check("a custom resource is not replaced without a resourceVersion")
async def _(cluster: TestCluster) -> None:
    path = await widgets(cluster)
    (await cluster.wire("POST", path, widget("a"))).ok()
    answer = await cluster.wire("PUT", f"{path}/a", widget("a", "blue"))
    assert answer.code == 422
    assert fields(answer.body) == {"metadata.resourceVersion"}


@check("a ConfigMap may be replaced without a resourceVersion")
async def _(cluster: TestCluster) -> None:
    path = await maps(cluster)
    (await cluster.wire("POST", path, config_map("a", x="1"))).ok()
    assert (await cluster.wire("PUT", f"{path}/a", config_map("a", y="2"))).ok()["data"] == {"y": "2"}


@check("a write that changes nothing keeps the resourceVersion")
async def _(cluster: TestCluster) -> None:
    path = await widgets(cluster)
    (await cluster.wire("POST", path, widget("a"))).ok()
    first = (await cluster.wire.patch(f"{path}/a", {"spec": {"size": 3}}, fieldManager="m")).ok()
    again = (await cluster.wire.patch(f"{path}/a", {"spec": {"size": 3}}, fieldManager="m")).ok()
    assert again["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


@check("generation steps with the spec and not with labels")
async def _(cluster: TestCluster) -> None:
    path = await widgets(cluster)
    (await cluster.wire("POST", path, widget("a"))).ok()
    labelled = (await cluster.wire.patch(f"{path}/a", {"metadata": {"labels": {"x": "y"}}})).ok()
    changed = (await cluster.wire.patch(f"{path}/a", {"spec": {"size": 2}})).ok()
    assert (labelled["metadata"]["generation"], changed["metadata"]["generation"]) == (1, 2)


@check("status in a plain write is ignored, at creation and at update")
async def _(cluster: TestCluster) -> None:
    path = await widgets(cluster)
    made = (await cluster.wire("POST", path, widget("a") | {"status": {"phase": "X"}})).ok()
    changed = (await cluster.wire.patch(f"{path}/a", {"status": {"phase": "Y"}})).ok()
    assert "status" not in made
    assert "status" not in changed


@check("a new Pod is Pending whatever status it came with")
async def _(cluster: TestCluster) -> None:
    body = pod("a") | {"status": {"phase": "Running", "podIP": "10.0.0.1"}}
    made = (await cluster.wire("POST", f"/api/v1/namespaces/{await cluster.namespace()}/pods", body)).ok()["status"]
    assert made["phase"] == "Pending"
    assert "podIP" not in made


@check("spec and labels in a status write are ignored, and generation stays")
async def _(cluster: TestCluster) -> None:
    path = await widgets(cluster)
    (await cluster.wire("POST", path, widget("a"))).ok()
    patch = {"metadata": {"labels": {"x": "y"}}, "spec": {"size": 9}, "status": {"phase": "Y"}}
    after = (await cluster.wire.patch(f"{path}/a/status", patch)).ok()
    assert after["status"] == {"phase": "Y"}
    assert after["spec"]["size"] == 1
    assert "labels" not in after["metadata"]
    assert after["metadata"]["generation"] == 1


@check("identity cannot be written: uid mismatch is 409, creationTimestamp stays")
async def _(cluster: TestCluster) -> None:
    path = await maps(cluster)
    made = (await cluster.wire("POST", path, config_map("a"))).ok()
    forged = await cluster.wire.patch(f"{path}/a", {"metadata": {"uid": "00000000-0000-0000-0000-000000000000"}})
    assert forged.code in {409, 422}
    after = await cluster.wire.patch(f"{path}/a", {"metadata": {"creationTimestamp": None}, "data": {"x": "y"}})
    assert after.ok()["metadata"]["creationTimestamp"] == made["metadata"]["creationTimestamp"]
