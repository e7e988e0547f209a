"""Checks on which webhooks are asked: by rule, selector, condition and order of labels, for a dry-run and for the collector."""

from checklist import check, config_map, widget
from clusterkit import TestCluster, json_patch
from guarded import JSON, ROOT, Guarded, allow


@check("objectSelector looks at the new and at the old labels")
async def _(cluster: TestCluster) -> None:
    guarded = await Guarded.make(cluster)
    await guarded.arm(
        guarded.hook(
            guarded.server.on("/v", allow), objectSelector={"matchExpressions": [{"key": "probe", "operator": "In", "values": ["yes"]}]}
        )
    )
    (await cluster.wire("POST", guarded.maps, config_map("a"))).ok()
    assert guarded.server.asked == []
    (await cluster.wire.patch(f"{guarded.maps}/a", {"metadata": {"labels": {"probe": "yes"}}})).ok()
    (await cluster.wire.patch(f"{guarded.maps}/a", {"metadata": {"labels": {"probe": None}}})).ok()
    (await cluster.wire.patch(f"{guarded.maps}/a", {"data": {"x": "y"}})).ok()
    assert len(guarded.server.asked) == 2


@check("namespaceSelector looks at the namespace's labels")
async def _(cluster: TestCluster) -> None:
    guarded = await Guarded.make(cluster)
    await guarded.arm(guarded.hook(guarded.server.on("/v", allow)))
    other = await cluster.namespace()
    (await cluster.wire("POST", f"/api/v1/namespaces/{other}/configmaps", config_map("a"))).ok()
    assert guarded.server.asked == []


@check("a rule for the resource does not cover its status, a rule with /status does")
async def _(cluster: TestCluster) -> None:
    guarded = await Guarded.make(cluster)
    await guarded.arm(guarded.hook(guarded.server.on("/v", allow), resources=("widgets",)))
    (await cluster.wire("POST", guarded.widgets, widget("a"))).ok()
    (await cluster.wire.patch(f"{guarded.widgets}/a/status", {"status": {"phase": "x"}})).ok()
    assert [request["operation"] for request in guarded.server.asked] == ["CREATE"]
    status = guarded.hook(guarded.server.on("/s", allow), resources=("widgets", "widgets/status"))
    await guarded.arm(status, name="s")
    (await cluster.wire.patch(f"{guarded.widgets}/a/status", {"status": {"phase": "y"}})).ok()
    assert guarded.server.asked[-1]["subResource"] == "status"


@check("a rule for one operation is called for no other")
async def _(cluster: TestCluster) -> None:
    guarded = await Guarded.make(cluster)
    await guarded.arm(guarded.hook(guarded.server.on("/v", allow), operations=["CREATE"]))
    (await cluster.wire("POST", guarded.maps, config_map("a"))).ok()
    (await cluster.wire.patch(f"{guarded.maps}/a", {"data": {"x": "2"}})).ok()
    assert [request["operation"] for request in guarded.server.asked] == ["CREATE"]


@check("a dry-run reaches the webhook as one")
async def _(cluster: TestCluster) -> None:
    guarded = await Guarded.make(cluster)
    await guarded.arm(guarded.hook(guarded.server.on("/v", allow)))
    (await cluster.wire("POST", guarded.maps, config_map("a"), dryRun="All")).ok()
    assert guarded.server.asked[0]["dryRun"] is True
    assert (await cluster.wire("GET", f"{guarded.maps}/a")).code == 404


@check("taking the last finalizer off a deleted object passes the webhooks as an UPDATE")
async def _(cluster: TestCluster) -> None:
    guarded = await Guarded.make(cluster)
    await guarded.arm(guarded.hook(guarded.server.on("/v", allow), resources=("widgets",)))
    body = widget("a")
    body["metadata"]["finalizers"] = ["example.com/hold"]
    (await cluster.wire("POST", guarded.widgets, body)).ok()
    (await cluster.wire("DELETE", f"{guarded.widgets}/a")).ok()
    (await cluster.wire.patch(f"{guarded.widgets}/a", {"metadata": {"finalizers": None}})).ok()
    assert (await cluster.wire("GET", f"{guarded.widgets}/a")).code == 404
    last = guarded.server.asked[-1]
    assert last["operation"] == "UPDATE"
    assert last["oldObject"]["metadata"]["deletionTimestamp"]


@check("a webhook configuration gets its defaults and is checked")
async def _(cluster: TestCluster) -> None:
    guarded = await Guarded.make(cluster)
    entry = guarded.hook({"url": "https://127.0.0.1:1/v"})
    del entry["timeoutSeconds"]
    made = await cluster.keep(f"{ROOT}/validatingwebhookconfigurations", {"metadata": {"name": f"d-{guarded.space}"}, "webhooks": [entry]})
    hook = made["webhooks"][0]
    assert (hook["failurePolicy"], hook["matchPolicy"], hook["timeoutSeconds"]) == ("Fail", "Equivalent", 10)
    bad = [entry | {"sideEffects": "Unknown"}, entry | {"clientConfig": {"url": "http://plain"}}]
    for each in bad:
        body = {"metadata": {"name": f"e-{guarded.space}"}, "webhooks": [each]}
        assert (await cluster.wire("POST", f"{ROOT}/validatingwebhookconfigurations", body)).code == 422


@check("matchConditions keep a webhook from being asked, and one that cannot be evaluated refuses under Fail")
async def _(cluster: TestCluster) -> None:
    cluster.needs(28, "matchConditions")
    guarded = await Guarded.make(cluster)
    mine = {"name": "not-mine", "expression": "request.userInfo.username != 'carol'"}
    wanted = {"name": "wanted", "expression": "!has(object.data) || object.data.kind == 'x' || object.metadata.name.startsWith('probe')"}
    await guarded.arm(guarded.hook(guarded.server.on("/v", allow), operations=["CREATE"], matchConditions=[mine, wanted]))
    carol = cluster.wire_as("carol", ("system:masters",))
    (await carol("POST", guarded.maps, config_map("a", kind="x"))).ok()
    (await cluster.wire("POST", guarded.maps, config_map("b", kind="y"))).ok()
    (await cluster.wire("POST", guarded.maps, config_map("c", kind="x"))).ok()
    assert [request["name"] for request in guarded.server.asked] == ["c"]
    assert (await cluster.wire("POST", guarded.maps, config_map("d", other="x"))).code == 403
    bad = guarded.hook({"url": "https://127.0.0.1:1/v"}, matchConditions=[{"name": "bad", "expression": "this is not CEL"}])
    body = {"metadata": {"name": f"bad-{guarded.space}"}, "webhooks": [bad]}
    assert (await cluster.wire("POST", f"{ROOT}/validatingwebhookconfigurations", body)).code == 422


@check("what the garbage collector deletes passes webhooks, as its own user")
async def _(cluster: TestCluster) -> None:
    guarded = await Guarded.make(cluster)
    await guarded.arm(guarded.hook(guarded.server.on("/v", allow)))
    head = (await cluster.wire("POST", guarded.maps, config_map("head"))).ok()["metadata"]
    child = config_map("child")
    child["metadata"]["ownerReferences"] = [{"apiVersion": "v1", "kind": "ConfigMap", "name": "head", "uid": head["uid"]}]
    (await cluster.wire("POST", guarded.maps, child)).ok()
    (await cluster.wire("DELETE", f"{guarded.maps}/head", {"propagationPolicy": "Background"})).ok()

    async def told() -> list[JSON]:
        return [asked for asked in guarded.server.asked if (asked["operation"], asked["name"]) == ("DELETE", "child")]

    (asked,) = await cluster.eventually(told, "the webhook is never asked")
    assert asked["userInfo"]["username"] == "system:serviceaccount:kube-system:generic-garbage-collector"
    assert asked["oldObject"]["metadata"]["name"] == "child"


@check("a mutating webhook is chosen by the labels that one before it gave")
async def _(cluster: TestCluster) -> None:
    guarded = await Guarded.make(cluster)
    first = guarded.server.on("/m1", lambda request: json_patch({"op": "add", "path": "/metadata/labels", "value": {"chosen": "yes"}}))
    second = guarded.server.on("/m2", lambda request: json_patch({"op": "add", "path": "/data/second", "value": "was here"}))
    await guarded.arm(
        guarded.hook(first, operations=["CREATE"]),
        guarded.hook(second, operations=["CREATE"], name=f"later.{guarded.space}.example.com")
        | {"objectSelector": {"matchLabels": {"chosen": "yes"}}},
        mutating=True,
    )
    made = (await cluster.wire("POST", guarded.maps, config_map("a", a="b"))).ok()
    assert made["data"]["second"] == "was here"
