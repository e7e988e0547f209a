"""Checks on patches, server-side apply, and the schema of custom resources."""

from checklist import GROUP, WIDGETS, check, config_map, fields, pod, serve_widgets, widget, widgets
from clusterkit import TestCluster


@check("a JSON patch is applied in order, and a test that fails refuses it")
async def _(cluster: TestCluster) -> None:
    path = await widgets(cluster)
    (await cluster.wire("POST", path, widget("a", tags=["x"]))).ok()
    operations = [{"op": "add", "path": "/spec/tags/-", "value": "y"}, {"op": "replace", "path": "/spec/color", "value": "blue"}]
    done = await cluster.wire.patch(f"{path}/a", operations, "json")
    assert done.ok()["spec"]["tags"] == ["x", "y"]
    failed = await cluster.wire.patch(f"{path}/a", [{"op": "test", "path": "/spec/color", "value": "red"}], "json")
    assert failed.code == 422


@check("a merge patch replaces lists and removes by null")
async def _(cluster: TestCluster) -> None:
    path = await widgets(cluster)
    (await cluster.wire("POST", path, widget("a", tags=["x"], note="n"))).ok()
    after = (await cluster.wire.patch(f"{path}/a", {"spec": {"tags": ["z"], "note": None}})).ok()["spec"]
    assert after["tags"] == ["z"]
    assert "note" not in after


@check("a strategic merge patch merges containers and env by name, and deletes by directive")
async def _(cluster: TestCluster) -> None:
    path = f"/apis/apps/v1/namespaces/{await cluster.namespace()}/deployments"
    template = {"metadata": {"labels": {"a": "b"}}, "spec": pod("x")["spec"]}
    body = {"metadata": {"name": "d"}, "spec": {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": template}}
    (await cluster.wire("POST", path, body)).ok()
    container = {"name": "main", "env": [{"name": "B", "value": "2"}]}
    patch = {"spec": {"template": {"spec": {"containers": [container]}}}}
    after = (await cluster.wire.patch(f"{path}/d", patch, "strategic")).ok()["spec"]["template"]["spec"]["containers"]
    assert len(after) == 1
    assert {entry["name"] for entry in after[0]["env"]} == {"A", "B"}
    assert after[0]["image"] == "example.invalid/engine:1"
    container["env"] = [{"name": "A", "$patch": "delete"}]
    after = (await cluster.wire.patch(f"{path}/d", patch, "strategic")).ok()["spec"]["template"]["spec"]["containers"]
    assert [entry["name"] for entry in after[0]["env"]] == ["B"]


@check("a custom resource takes no strategic merge patch, and nothing takes an unknown patch: 415")
async def _(cluster: TestCluster) -> None:
    path = await widgets(cluster)
    (await cluster.wire("POST", path, widget("a"))).ok()
    assert (await cluster.wire.patch(f"{path}/a", {"spec": {}}, "strategic")).code == 415
    assert (await cluster.wire("PATCH", f"{path}/a", {"spec": {}}, headers={"Content-Type": "text/plain"})).code == 415


def _manifest(name: str = "a", **spec: object) -> dict[str, object]:
    return {"apiVersion": f"{GROUP}/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec}


@check("apply creates what is not there and records its manager")
async def _(cluster: TestCluster) -> None:
    path = await widgets(cluster)
    made = await cluster.wire.patch(f"{path}/a", _manifest(color="red", parts=[{"name": "p"}]), "apply", fieldManager="one")
    assert made.code == 201
    entry = made.body["metadata"]["managedFields"][0]
    assert (entry["manager"], entry["operation"]) == ("one", "Apply")
    assert entry["fieldsV1"]["f:spec"]["f:parts"]['k:{"name":"p"}'].keys() >= {".", "f:name"}
    again = await cluster.wire.patch(f"{path}/a", _manifest(color="red", parts=[{"name": "p"}]), "apply", fieldManager="one")
    assert again.code == 200
    assert again.body["metadata"]["resourceVersion"] == made.body["metadata"]["resourceVersion"]


@check("applying another manager's field with another value is 409 with the field and the manager")
async def _(cluster: TestCluster) -> None:
    path = await widgets(cluster)
    (await cluster.wire.patch(f"{path}/a", _manifest(color="red", size=2), "apply", fieldManager="one")).ok()
    answer = await cluster.wire.patch(f"{path}/a", _manifest(size=3), "apply", fieldManager="two")
    assert (answer.code, answer.body["reason"]) == (409, "Conflict")
    cause = answer.body["details"]["causes"][0]
    assert (cause["reason"], cause["field"]) == ("FieldManagerConflict", ".spec.size")
    assert '"one"' in cause["message"]
    same = await cluster.wire.patch(f"{path}/a", _manifest(size=2), "apply", fieldManager="two")
    assert same.code == 200


@check("a field changed by a plain update conflicts with a later apply, and force takes it")
async def _(cluster: TestCluster) -> None:
    path = await widgets(cluster)
    (await cluster.wire.patch(f"{path}/a", _manifest(color="red", size=2), "apply", fieldManager="one")).ok()
    (await cluster.wire.patch(f"{path}/a", {"spec": {"size": 5}}, fieldManager="hand")).ok()
    assert (await cluster.wire.patch(f"{path}/a", _manifest(color="red", size=2), "apply", fieldManager="one")).code == 409
    forced = await cluster.wire.patch(f"{path}/a", _manifest(color="red", size=2), "apply", fieldManager="one", force="true")
    assert forced.ok()["spec"]["size"] == 2
    assert not [entry for entry in forced.body["metadata"]["managedFields"] if "f:size" in str(entry) and entry["manager"] == "hand"]


@check("a field that its only manager stops applying goes away; a shared one stays")
async def _(cluster: TestCluster) -> None:
    path = await widgets(cluster)
    whole = _manifest(color="red", note="n", parts=[{"name": "p"}, {"name": "q"}], tags=["x"])
    (await cluster.wire.patch(f"{path}/a", whole, "apply", fieldManager="one")).ok()
    (await cluster.wire.patch(f"{path}/a", _manifest(tags=["x"], parts=[{"name": "q"}]), "apply", fieldManager="two")).ok()
    after = (await cluster.wire.patch(f"{path}/a", _manifest(color="red"), "apply", fieldManager="one")).ok()["spec"]
    assert "note" not in after
    assert [part["name"] for part in after["parts"]] == ["q"]
    assert after["tags"] == ["x"]


@check("apply needs a fieldManager and takes no managedFields")
async def _(cluster: TestCluster) -> None:
    path = await widgets(cluster)
    assert (await cluster.wire.patch(f"{path}/a", _manifest(color="red"), "apply")).code in {400, 422}
    body = _manifest(color="red")
    body["metadata"] = {"name": "a", "managedFields": [{"manager": "x", "operation": "Apply"}]}
    assert (await cluster.wire.patch(f"{path}/a", body, "apply", fieldManager="one")).code == 400


@check("managers of the status are told apart from those of the rest")
async def _(cluster: TestCluster) -> None:
    path = await widgets(cluster)
    (await cluster.wire("POST", path, widget("a"), fieldManager="maker")).ok()
    after = (await cluster.wire.patch(f"{path}/a/status", {"status": {"phase": "X"}}, fieldManager="warden")).ok()
    entries = {entry["manager"]: entry["fieldsV1"].keys() for entry in after["metadata"]["managedFields"]}
    assert "f:status" in entries["warden"]
    assert "f:status" not in entries["maker"]
    assert "f:spec" in entries["maker"]


# ------------------------------------------------------------------------------------------------------------- schema


@check("unknown fields are pruned, except where they are preserved")
async def _(cluster: TestCluster) -> None:
    made = (await cluster.wire("POST", await widgets(cluster), widget("a", bogus=1, free={"any": {"thing": 1}}))).ok()["spec"]
    assert "bogus" not in made
    assert made["free"] == {"any": {"thing": 1}}


@check("unknown fields come back as warnings, or as a refusal where the client is strict")
async def _(cluster: TestCluster) -> None:
    cluster.needs(25, "fieldValidation")
    path = await widgets(cluster)
    warned = await cluster.wire("POST", path, widget("a", bogus=1), fieldValidation="Warn")
    assert warned.warnings == ['unknown field \\"spec.bogus\\"']
    strict = await cluster.wire("POST", path, widget("b", bogus=1), fieldValidation="Strict")
    assert strict.code == 400
    assert 'unknown field "spec.bogus"' in strict.body["message"]


@check("defaults are filled, also inside lists")
async def _(cluster: TestCluster) -> None:
    made = (await cluster.wire("POST", await widgets(cluster), widget("a", parts=[{"name": "p"}]))).ok()["spec"]
    assert made["size"] == 1
    assert made["parts"] == [{"name": "p", "count": 1}]


@check("every fault of one object comes back at once, each with its field")
async def _(cluster: TestCluster) -> None:
    answer = await cluster.wire("POST", await widgets(cluster), widget("a", "green", size=11, note="x" * 21))
    assert (answer.code, answer.body["reason"]) == (422, "Invalid")
    assert fields(answer.body) >= {"spec.color", "spec.size", "spec.note"}


@check("a value of the wrong type is 422 at its field")
async def _(cluster: TestCluster) -> None:
    answer = await cluster.wire("POST", await widgets(cluster), widget("a", size="big"))
    assert answer.code == 422
    assert "spec.size" in fields(answer.body)


@check("a required field that is missing is 422 at its field")
async def _(cluster: TestCluster) -> None:
    body = widget("a")
    body["spec"] = {}
    answer = await cluster.wire("POST", await widgets(cluster), body)
    assert answer.code == 422
    assert "spec.color" in fields(answer.body)


@check("a key twice in a keyed list is 422 at the item")
async def _(cluster: TestCluster) -> None:
    answer = await cluster.wire("POST", await widgets(cluster), widget("a", parts=[{"name": "p"}, {"name": "p"}]))
    assert answer.code == 422
    assert "spec.parts[1]" in fields(answer.body)


@check("a CEL rule of the definition refuses with its message")
async def _(cluster: TestCluster) -> None:
    cluster.needs(25, "CEL rules in definitions")
    answer = await cluster.wire("POST", await widgets(cluster), widget("a", size=7))
    assert answer.code == 422
    assert "seven is right out" in answer.body["message"]


@check("the status is validated too")
async def _(cluster: TestCluster) -> None:
    path = await widgets(cluster)
    (await cluster.wire("POST", path, widget("a"))).ok()
    answer = await cluster.wire.patch(f"{path}/a/status", {"status": {"seen": "never"}})
    assert answer.code == 422
    assert "status.seen" in fields(answer.body)


@check("a definition is served with its names, and gone with its objects when it is deleted")
async def _(cluster: TestCluster) -> None:
    await serve_widgets(cluster, "gadgets", "Gadget")
    space = await cluster.namespace()
    body = widget("a") | {"kind": "Gadget"}
    (await cluster.wire("POST", f"{WIDGETS}/namespaces/{space}/gadgets", body)).ok()

    async def listed() -> bool:
        rows = (await cluster.wire("GET", WIDGETS)).ok()["resources"]
        row = next((entry for entry in rows if entry["name"] == "gadgets"), None)
        return row is not None and (row["shortNames"], row["categories"]) == (["gdg"], ["conformance"])

    await cluster.eventually(listed, "discovery does not list it")
    (await cluster.wire("DELETE", f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/gadgets.{GROUP}")).ok()

    async def gone() -> bool:
        return (await cluster.wire("GET", f"{WIDGETS}/namespaces/{space}/gadgets/a")).code == 404

    await cluster.eventually(gone, "its objects stay")


@check("a definition whose name does not fit is 422")
async def _(cluster: TestCluster) -> None:
    await serve_widgets(cluster)
    answer = await cluster.wire(
        "POST",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        {"metadata": {"name": "wrong.example.com"}, "spec": {"group": GROUP, "scope": "Namespaced", "names": {}, "versions": []}},
    )
    assert answer.code == 422
    assert "metadata.name" in fields(answer.body)


@check("managedFields of a keyed list of a built-in kind name its key")
async def _(cluster: TestCluster) -> None:
    path = f"/api/v1/namespaces/{await cluster.namespace()}/pods"
    made = (await cluster.wire("POST", path, pod("a"), fieldManager="m")).ok()
    entry = next(entry for entry in made["metadata"]["managedFields"] if entry["manager"] == "m")
    assert 'k:{"name":"main"}' in entry["fieldsV1"]["f:spec"]["f:containers"]


@check("a client may wipe the managedFields")
async def _(cluster: TestCluster) -> None:
    path = f"/api/v1/namespaces/{await cluster.namespace()}/configmaps"
    (await cluster.wire("POST", path, config_map("a", x="y"))).ok()
    after = (await cluster.wire.patch(f"{path}/a", {"metadata": {"managedFields": [{}]}})).ok()
    assert not after["metadata"].get("managedFields")


@check("whoever applied an empty map and fills it keeps what they fill, and what others put there")
async def _(cluster: TestCluster) -> None:
    path = await widgets(cluster)
    for manager, free in (("one", {}), ("two", {"y": 2}), ("one", {"x": 1})):
        made = await cluster.wire.patch(f"{path}/a", widget("a", free=free), "apply", fieldManager=manager)
    assert made.ok()["spec"]["free"] == {"x": 1, "y": 2}
