"""Checks on the life of objects: creation, update, deletion, what is kept apart, what is refused."""

from checklist import check, config_map, fields, pod, widget, widgets
from clusterkit import TestCluster


async def _maps(cluster: TestCluster) -> str:
    return f"/api/v1/namespaces/{await cluster.namespace()}/configmaps"


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
    made = (await cluster.wire("POST", await _maps(cluster), body)).ok()["metadata"]["name"]
    assert made.startswith("some-")
    assert len(made) == len("some-") + 5


@check("the same name twice is 409 AlreadyExists")
async def _(cluster: TestCluster) -> None:
    path = await _maps(cluster)
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
    assert (await cluster.wire("POST", await _maps(cluster), body)).code == 400


@check("a body of another kind than the path's is 400")
async def _(cluster: TestCluster) -> None:
    assert (await cluster.wire("POST", await _maps(cluster), pod("a"))).code == 400


@check("a body that is no JSON is 400")
async def _(cluster: TestCluster) -> None:
    assert (await cluster.wire("POST", await _maps(cluster), '{"metadata": ')).code == 400


@check("a new object may not carry a resourceVersion")
async def _(cluster: TestCluster) -> None:
    body = config_map("a")
    body["metadata"]["resourceVersion"] = "5"
    assert (await cluster.wire("POST", await _maps(cluster), body)).code >= 400


@check("a bad name is 422 at metadata.name")
async def _(cluster: TestCluster) -> None:
    answer = await cluster.wire("POST", await _maps(cluster), config_map("No_Good"))
    assert (answer.code, answer.body["reason"]) == (422, "Invalid")
    assert fields(answer.body) == {"metadata.name"}


@check("a bad label value is 422 at metadata.labels")
async def _(cluster: TestCluster) -> None:
    body = config_map("a")
    body["metadata"]["labels"] = {"a": "not good!"}
    answer = await cluster.wire("POST", await _maps(cluster), body)
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
    path = await _maps(cluster)
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
    path = await _maps(cluster)
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
    path = await _maps(cluster)
    made = (await cluster.wire("POST", path, config_map("a"))).ok()
    forged = await cluster.wire.patch(f"{path}/a", {"metadata": {"uid": "00000000-0000-0000-0000-000000000000"}})
    assert forged.code in {409, 422}
    after = await cluster.wire.patch(f"{path}/a", {"metadata": {"creationTimestamp": None}, "data": {"x": "y"}})
    assert after.ok()["metadata"]["creationTimestamp"] == made["metadata"]["creationTimestamp"]


@check("deletion under a wrong uid or version is 409, under the right ones it is done")
async def _(cluster: TestCluster) -> None:
    path = await _maps(cluster)
    made = (await cluster.wire("POST", path, config_map("a"))).ok()["metadata"]
    for wrong in ({"uid": "00000000-0000-0000-0000-000000000000"}, {"resourceVersion": "1"}):
        assert (await cluster.wire("DELETE", f"{path}/a", {"preconditions": wrong})).code == 409
    (await cluster.wire("DELETE", f"{path}/a", {"preconditions": {"uid": made["uid"], "resourceVersion": made["resourceVersion"]}})).ok()
    assert (await cluster.wire("GET", f"{path}/a")).code == 404


@check("a finalizer holds a deleted object until it is taken off, and no new one may be added")
async def _(cluster: TestCluster) -> None:
    path = await widgets(cluster)
    body = widget("a")
    body["metadata"]["finalizers"] = ["example.com/hold"]
    (await cluster.wire("POST", path, body)).ok()
    held = (await cluster.wire("DELETE", f"{path}/a")).ok()
    assert held["metadata"]["deletionTimestamp"]
    assert held["metadata"]["generation"] == 2
    more = await cluster.wire.patch(f"{path}/a", {"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}})
    assert more.code == 422
    (await cluster.wire.patch(f"{path}/a", {"metadata": {"finalizers": None}})).ok()
    assert (await cluster.wire("GET", f"{path}/a")).code == 404


async def _family(cluster: TestCluster) -> tuple[str, str]:
    path = await _maps(cluster)
    owner = (await cluster.wire("POST", path, config_map("owner"))).ok()["metadata"]
    child = config_map("child")
    child["metadata"]["ownerReferences"] = [{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["uid"]}]
    (await cluster.wire("POST", path, child)).ok()
    return path, owner["uid"]


@check("dependents follow their deleted owner")
async def _(cluster: TestCluster) -> None:
    path, _ = await _family(cluster)
    (await cluster.wire("DELETE", f"{path}/owner", {"propagationPolicy": "Background"})).ok()

    async def gone() -> bool:
        return (await cluster.wire("GET", f"{path}/child")).code == 404

    await cluster.eventually(gone, "the dependent stays")


@check("Orphan leaves the dependents, without their reference")
async def _(cluster: TestCluster) -> None:
    path, _ = await _family(cluster)
    (await cluster.wire("DELETE", f"{path}/owner", {"propagationPolicy": "Orphan"})).ok()

    async def free() -> bool:
        child = await cluster.wire("GET", f"{path}/child")
        return (await cluster.wire("GET", f"{path}/owner")).code == 404 and "ownerReferences" not in child.ok()["metadata"]

    await cluster.eventually(free, "the dependent keeps its reference")


@check("in the foreground an owner waits for what blocks it only, and what another owns stays")
async def _(cluster: TestCluster) -> None:
    path = await _maps(cluster)

    def reference(name: str, uid: str, **more: bool) -> dict[str, object]:
        return {"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid, **more}

    head, other = [(await cluster.wire("POST", path, config_map(name))).ok()["metadata"]["uid"] for name in ("head", "other")]
    for name, references in (
        ("blocks", [reference("head", head, blockOwnerDeletion=True)]),
        ("lingers", [reference("head", head)]),
        ("shared", [reference("head", head, blockOwnerDeletion=True), reference("other", other)]),
    ):
        child = config_map(name)
        child["metadata"] |= {"ownerReferences": references, "finalizers": [] if name == "shared" else ["example.com/hold"]}
        (await cluster.wire("POST", path, child)).ok()
    (await cluster.wire("DELETE", f"{path}/head", {"propagationPolicy": "Foreground"})).ok()

    async def meta(name: str) -> dict[str, object]:
        return (await cluster.wire("GET", f"{path}/{name}")).body["metadata"]

    async def under_way() -> bool:
        going = [bool((await meta(name)).get("deletionTimestamp")) for name in ("head", "blocks", "lingers")]
        return all(going) and len((await meta("shared"))["ownerReferences"]) == 1

    await cluster.eventually(under_way, "the dependents are never told")
    assert "deletionTimestamp" not in await meta("shared")
    (await cluster.wire.patch(f"{path}/blocks", {"metadata": {"finalizers": None}})).ok()

    async def gone() -> bool:
        return (await cluster.wire("GET", f"{path}/head")).code == 404

    await cluster.eventually(gone, "the owner waits for what does not block it")
    (await cluster.wire.patch(f"{path}/lingers", {"metadata": {"finalizers": None}})).ok()


@check("an object whose owner never was is collected")
async def _(cluster: TestCluster) -> None:
    path = await _maps(cluster)
    child = config_map("child")
    child["metadata"]["ownerReferences"] = [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": "ghost", "uid": "00000000-0000-0000-0000-000000000000"}
    ]
    (await cluster.wire("POST", path, child)).ok()

    async def gone() -> bool:
        return (await cluster.wire("GET", f"{path}/child")).code == 404

    await cluster.eventually(gone, "the dependent stays")


@check("a Pod without a node goes at once, one on a node gets its grace")
async def _(cluster: TestCluster) -> None:
    path = f"/api/v1/namespaces/{await cluster.namespace()}/pods"
    (await cluster.wire("POST", path, pod("loose"))).ok()
    (await cluster.wire("POST", path, pod("placed", node="n1"))).ok()
    (await cluster.wire("DELETE", f"{path}/loose")).ok()
    assert (await cluster.wire("GET", f"{path}/loose")).code == 404
    ending = (await cluster.wire("DELETE", f"{path}/placed")).ok()["metadata"]
    assert ending["deletionGracePeriodSeconds"] == 30
    assert ending["deletionTimestamp"]
    (await cluster.wire("DELETE", f"{path}/placed", {"gracePeriodSeconds": 0})).ok()
    assert (await cluster.wire("GET", f"{path}/placed")).code == 404


@check("a deleted namespace takes what it holds, and takes nothing new")
async def _(cluster: TestCluster) -> None:
    path = await _maps(cluster)
    body = config_map("held")
    body["metadata"]["finalizers"] = ["example.com/hold"]
    (await cluster.wire("POST", path, body)).ok()
    (await cluster.wire("POST", path, config_map("free"))).ok()
    space = path.removesuffix("/configmaps")
    (await cluster.wire("DELETE", space)).ok()
    refused = await cluster.wire("POST", path, config_map("late"))
    assert (refused.code, refused.body["reason"]) == (403, "Forbidden")

    async def only_held() -> bool:
        held, free = await cluster.wire("GET", f"{path}/held"), await cluster.wire("GET", f"{path}/free")
        return free.code == 404 and "deletionTimestamp" in held.ok()["metadata"]

    await cluster.eventually(only_held, "the namespace is not emptied", 40)
    (await cluster.wire.patch(f"{path}/held", {"metadata": {"finalizers": None}})).ok()

    async def gone() -> bool:
        return (await cluster.wire("GET", space)).code == 404

    await cluster.eventually(gone, "the namespace stays", 40)


@check("a collection is deleted by label")
async def _(cluster: TestCluster) -> None:
    path = await _maps(cluster)
    for name, label in (("a", "x"), ("b", "x"), ("c", "y")):
        body = config_map(name)
        body["metadata"]["labels"] = {"l": label}
        (await cluster.wire("POST", path, body)).ok()
    (await cluster.wire("DELETE", path, labelSelector="l=x")).ok()
    left = {item["metadata"]["name"] for item in (await cluster.wire("GET", path)).ok()["items"]}
    assert not left & {"a", "b"}
    assert "c" in left


@check("dry-run changes nothing: create, patch, delete")
async def _(cluster: TestCluster) -> None:
    path = await widgets(cluster)
    (await cluster.wire("POST", path, widget("dry"), dryRun="All")).ok()
    assert (await cluster.wire("GET", f"{path}/dry")).code == 404
    (await cluster.wire("POST", path, widget("a"))).ok()
    assert (await cluster.wire.patch(f"{path}/a", {"spec": {"size": 4}}, dryRun="All")).ok()["spec"]["size"] == 4
    (await cluster.wire("DELETE", f"{path}/a", dryRun="All")).ok()
    assert (await cluster.wire("GET", f"{path}/a")).ok()["spec"]["size"] == 1
    assert (await cluster.wire("POST", path, widget("b"), dryRun="Some")).code in {400, 422}


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
    answer = await cluster.wire("POST", await _maps(cluster), config_map("a", x="y" * (4 << 20)))
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
