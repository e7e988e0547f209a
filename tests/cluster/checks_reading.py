"""Checks on lists, tables, watches, discovery and who may ask."""

import httpx
import pytest
from checklist import WIDGETS, check, config_map, pod, widget, widgets
from clusterkit import TestCluster

TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"}


async def _labelled(cluster: TestCluster) -> str:
    path = await widgets(cluster)
    for name, labels in (("a", {"l": "x"}), ("b", {"l": "y", "n": "5"}), ("c", {})):
        body = widget(name)
        body["metadata"]["labels"] = labels
        (await cluster.wire("POST", path, body)).ok()
    return path


@check("label selectors: =, !=, in, notin, presence, absence, and several together")
async def _(cluster: TestCluster) -> None:
    path = await _labelled(cluster)
    table = {
        "l=x": "a",
        "l==x": "a",
        "l!=x": "bc",
        "l in (x,y)": "ab",
        "l notin (x)": "bc",
        "l": "ab",
        "!l": "c",
        "l in (x,y),l!=y": "a",
        "n,l=y": "b",
    }
    found = {}
    for selector in table:
        items = (await cluster.wire("GET", path, labelSelector=selector)).ok()["items"]
        found[selector] = "".join(item["metadata"]["name"] for item in items)
    assert found == table
    assert (await cluster.wire("GET", path, labelSelector="l===")).code == 400


@check("field selectors: metadata.name everywhere, phase and node for Pods, anything else 400")
async def _(cluster: TestCluster) -> None:
    path = await _labelled(cluster)
    items = (await cluster.wire("GET", path, fieldSelector="metadata.name!=b")).ok()["items"]
    assert [item["metadata"]["name"] for item in items] == ["a", "c"]
    pods = path.replace(WIDGETS, "/api/v1").replace("widgets", "pods")
    (await cluster.wire("POST", pods, pod("p", node="n1"))).ok()
    (await cluster.wire("POST", pods, pod("q"))).ok()
    for selector, wanted in (("spec.nodeName=n1", ["p"]), ("spec.nodeName=", ["q"]), ("status.phase=Pending", ["p", "q"])):
        items = (await cluster.wire("GET", pods, fieldSelector=selector)).ok()["items"]
        assert [item["metadata"]["name"] for item in items] == wanted
    assert (await cluster.wire("GET", path, fieldSelector="spec.nothing=x")).code == 400


@check("pages of a list show one version, whatever is written in between")
async def _(cluster: TestCluster) -> None:
    path = f"/api/v1/namespaces/{await cluster.namespace()}/secrets"
    for index in range(5):
        (await cluster.wire("POST", path, {"metadata": {"name": f"s{index}", "labels": {"t": "t"}}})).ok()
    first = (await cluster.wire("GET", path, limit=2, labelSelector="t=t")).ok()
    assert [item["metadata"]["name"] for item in first["items"]] == ["s0", "s1"]
    (await cluster.wire("DELETE", f"{path}/s3")).ok()
    (await cluster.wire("POST", path, {"metadata": {"name": "s31", "labels": {"t": "t"}}})).ok()
    names, page = [], first
    while page["metadata"].get("continue"):
        page = (await cluster.wire("GET", path, limit=2, labelSelector="t=t", **{"continue": page["metadata"]["continue"]})).ok()
        assert page["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
        names += [item["metadata"]["name"] for item in page["items"]]
    assert names == ["s2", "s3", "s4"]
    assert (await cluster.wire("GET", path, **{"continue": "nonsense!"})).code == 400


@check("remainingItemCount tells what a page left")
async def _(cluster: TestCluster) -> None:
    path = f"/api/v1/namespaces/{await cluster.namespace()}/secrets"
    for index in range(5):
        (await cluster.wire("POST", path, {"metadata": {"name": f"s{index}"}, "type": "t/t"})).ok()
    page = (await cluster.wire("GET", path, limit=2)).ok()
    everything = (await cluster.wire("GET", path)).ok()["items"]
    assert page["metadata"]["remainingItemCount"] == len(everything) - 2


@check("a Table shows the definition's columns")
async def _(cluster: TestCluster) -> None:
    path = await widgets(cluster)
    (await cluster.wire("POST", path, widget("a", size=3, tags=["x"]))).ok()
    (await cluster.wire.patch(f"{path}/a/status", {"status": {"phase": "Up"}})).ok()
    table = (await cluster.wire("GET", path, headers=TABLE)).ok()
    assert table["kind"] == "Table"
    assert [(column["name"], column["priority"]) for column in table["columnDefinitions"]] == [
        ("Name", 0),
        ("Color", 0),
        ("Size", 0),
        ("Phase", 0),
        ("Tags", 1),
        ("Age", 0),
    ]
    row = table["rows"][0]
    assert row["cells"][:4] == ["a", "red", 3, "Up"]
    assert row["object"]["kind"] == "PartialObjectMetadata"
    assert row["object"]["metadata"]["name"] == "a"


@check("a Table of Pods shows readiness and phase")
async def _(cluster: TestCluster) -> None:
    path = f"/api/v1/namespaces/{await cluster.namespace()}/pods"
    (await cluster.wire("POST", path, pod("a"))).ok()
    table = (await cluster.wire("GET", path, headers=TABLE)).ok()
    names = [column["name"] for column in table["columnDefinitions"]]
    assert names[:5] == ["Name", "Ready", "Status", "Restarts", "Age"]
    assert table["rows"][0]["cells"][:3] == ["a", "0/1", "Pending"]


@check("metadata alone can be asked for")
async def _(cluster: TestCluster) -> None:
    path = await _labelled(cluster)
    accept = {"Accept": "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"}
    body = (await cluster.wire("GET", path, headers=accept)).ok()
    assert body["kind"] == "PartialObjectMetadataList"
    assert [item["metadata"]["name"] for item in body["items"]] == ["a", "b", "c"]
    assert all("spec" not in item for item in body["items"])


@check("a representation that nobody makes is 406")
async def _(cluster: TestCluster) -> None:
    assert (await cluster.wire("GET", await widgets(cluster), headers={"Accept": "text/csv"})).code == 406


# -------------------------------------------------------------------------------------------------------------- watch


async def _version(cluster: TestCluster, path: str) -> str:
    version: str = (await cluster.wire("GET", path)).ok()["metadata"]["resourceVersion"]
    return version


@check("a watch from a list's version tells every change once, in order, and nothing older")
async def _(cluster: TestCluster) -> None:
    path = await _labelled(cluster)
    start = await _version(cluster, path)
    (await cluster.wire("POST", path, widget("w"))).ok()
    async with cluster.wire.watch(path, resourceVersion=start) as lines:
        (await cluster.wire.patch(f"{path}/w", {"spec": {"size": 2}})).ok()
        (await cluster.wire("DELETE", f"{path}/w")).ok()
        seen = [await lines.next() for _ in range(3)]
    assert [(event["type"], event["object"]["metadata"]["name"]) for event in seen] == [("ADDED", "w"), ("MODIFIED", "w"), ("DELETED", "w")]
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in seen]
    assert versions == sorted(set(versions))
    assert seen[-1]["object"]["spec"]["size"] == 2


@check("a watch without a version begins with what is there")
async def _(cluster: TestCluster) -> None:
    path = await _labelled(cluster)
    async with cluster.wire.watch(path) as lines:
        seen = [await lines.next() for _ in range(3)]
    assert sorted((event["type"], event["object"]["metadata"]["name"]) for event in seen) == [
        ("ADDED", "a"),
        ("ADDED", "b"),
        ("ADDED", "c"),
    ]


@check("a selector's watcher sees an object come as ADDED and leave as DELETED")
async def _(cluster: TestCluster) -> None:
    path = await _labelled(cluster)
    start = await _version(cluster, path)
    async with cluster.wire.watch(path, resourceVersion=start, labelSelector="l=x") as lines:
        (await cluster.wire.patch(f"{path}/c", {"metadata": {"labels": {"l": "x"}}})).ok()
        (await cluster.wire.patch(f"{path}/b", {"spec": {"size": 2}})).ok()
        (await cluster.wire.patch(f"{path}/c", {"metadata": {"labels": {"l": None}}})).ok()
        seen = [await lines.next() for _ in range(2)]
    assert [(event["type"], event["object"]["metadata"]["name"]) for event in seen] == [("ADDED", "c"), ("DELETED", "c")]


@check("a watch by name sees that object only")
async def _(cluster: TestCluster) -> None:
    path = await _labelled(cluster)
    start = await _version(cluster, path)
    async with cluster.wire.watch(path, resourceVersion=start, fieldSelector="metadata.name=b") as lines:
        for name in ("a", "b"):
            (await cluster.wire.patch(f"{path}/{name}", {"spec": {"size": 2}})).ok()
        assert (await lines.next())["object"]["metadata"]["name"] == "b"


@check("bookmarks come with the version that was reached, and the stream ends with its time")
async def _(cluster: TestCluster) -> None:
    path = await _labelled(cluster)
    start = await _version(cluster, path)
    async with cluster.wire.watch(path, resourceVersion=start, allowWatchBookmarks="true", timeoutSeconds="4") as lines:
        bookmark = await lines.until("BOOKMARK")
        assert int(bookmark["object"]["metadata"]["resourceVersion"]) >= int(start)
        assert bookmark["object"]["kind"] == "Widget"
        with pytest.raises(StopAsyncIteration):
            await lines.until("ADDED")


@check("a watch from a forgotten version is told 410")
async def _(cluster: TestCluster) -> None:
    path = await _labelled(cluster)
    if cluster.embedded is not None:
        cluster.embedded.faults.forget_history()
    async with cluster.wire.watch(path, resourceVersion="1") as lines:
        event = await lines.next()
    assert event["type"] == "ERROR"
    assert event["object"]["code"] == 410
    assert event["object"]["reason"] in {"Expired", "Gone"}


@check("a list can be streamed: initial events, then a bookmark that says so")
async def _(cluster: TestCluster) -> None:
    cluster.needs(32, "streaming lists")
    path = await _labelled(cluster)
    query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
    async with cluster.wire.watch(path, **query) as lines:
        seen = [await lines.next() for _ in range(4)]
    assert [event["type"] for event in seen] == ["ADDED"] * 3 + ["BOOKMARK"]
    assert seen[-1]["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"] == "true"


@check("a watch can be asked for as Tables")
async def _(cluster: TestCluster) -> None:
    path = await _labelled(cluster)
    async with cluster.wire.watch(path, fieldSelector="metadata.name=a", headers=TABLE) as lines:
        event = await lines.next()
    assert event["object"]["kind"] == "Table"
    assert event["object"]["rows"][0]["cells"][0] == "a"


# ------------------------------------------------------------------------------------------------- discovery and access


@check("discovery lists groups, resources, verbs and subresources")
async def _(cluster: TestCluster) -> None:
    await widgets(cluster)
    assert "v1" in (await cluster.wire("GET", "/api")).ok()["versions"]
    groups = {group["name"]: group for group in (await cluster.wire("GET", "/apis")).ok()["groups"]}
    assert groups["apps"]["preferredVersion"]["groupVersion"] == "apps/v1"
    rows = {row["name"]: row for row in (await cluster.wire("GET", "/api/v1")).ok()["resources"]}
    assert rows["pods"]["kind"] == "Pod"
    assert {"get", "list", "watch", "create", "patch", "delete"} <= set(rows["pods"]["verbs"])
    assert "pods/status" in rows
    assert not rows["namespaces"]["namespaced"]


@check("OpenAPI v2 describes a custom resource's fields")
async def _(cluster: TestCluster) -> None:
    await widgets(cluster)

    async def described() -> bool:
        definitions = (await cluster.wire("GET", "/openapi/v2", headers={"Accept": "application/json"})).ok()["definitions"]
        wanted = {"group": "conformance.modelwarden.dev", "version": "v1", "kind": "Widget"}
        found = [entry for entry in definitions.values() if wanted in entry.get("x-kubernetes-group-version-kind", ())]
        return bool(found) and "color" in found[0]["properties"]["spec"]["properties"]

    await cluster.eventually(described, "the kind is not described")


@check("OpenAPI v3 describes a custom resource's fields")
async def _(cluster: TestCluster) -> None:
    cluster.needs(24, "OpenAPI v3")
    await widgets(cluster)
    index = (await cluster.wire("GET", "/openapi/v3")).ok()["paths"]
    document = (await cluster.wire("GET", index[WIDGETS.removeprefix("/")]["serverRelativeURL"])).ok()
    assert any("color" in str(schema) for schema in document["components"]["schemas"].values())


@check("readiness and version are open to ask")
async def _(cluster: TestCluster) -> None:
    assert (await cluster.wire("GET", "/readyz")).body == "ok"
    assert (await cluster.wire("GET", "/version")).ok()["major"] == "1"


@check("nobody is let in without credentials, and a wrong token is 401")
async def _(cluster: TestCluster) -> None:
    async with httpx.AsyncClient(verify=False, trust_env=False) as client:
        url = str(cluster.wire._client.base_url).rstrip("/")
        assert (await client.get(f"{url}/api/v1/namespaces")).status_code in {401, 403}
        wrong = await client.get(f"{url}/api/v1/namespaces", headers={"Authorization": "Bearer wrong"})
        assert wrong.status_code == 401


@check("a user without rights is refused with 403")
async def _(cluster: TestCluster) -> None:
    space = await cluster.namespace()
    answer = await cluster.wire_as("somebody")("POST", f"/api/v1/namespaces/{space}/configmaps", config_map("a"))
    assert (answer.code, answer.body["reason"]) == (403, "Forbidden")


@check("a caller can ask who they are")
async def _(cluster: TestCluster) -> None:
    cluster.needs(28, "SelfSubjectReview")
    answer = await cluster.wire_as("somebody", ("a-team",))("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", {})
    info = answer.ok()["status"]["userInfo"]
    assert info["username"] == "somebody"
    assert set(info["groups"]) == {"a-team", "system:authenticated"}


@check("an object that leaves a selector is DELETED as it last was, at the version of the change")
async def _(cluster: TestCluster) -> None:
    path = f"/api/v1/namespaces/{await cluster.namespace()}/configmaps"
    body = config_map("a")
    body["metadata"]["labels"] = {"l": "in"}
    made = (await cluster.wire("POST", path, body)).ok()["metadata"]
    async with cluster.wire.watch(path, resourceVersion=made["resourceVersion"], labelSelector="l=in") as events:
        left = (await cluster.wire.patch(f"{path}/a", {"metadata": {"labels": {"l": "out"}}})).ok()["metadata"]
        told = await events.next()
    assert told["type"] == "DELETED"
    assert told["object"]["metadata"]["labels"] == {"l": "in"}
    assert told["object"]["metadata"]["resourceVersion"] == left["resourceVersion"]


@check("a Pod that is deleted at once is seen ending before it is gone")
async def _(cluster: TestCluster) -> None:
    path = f"/api/v1/namespaces/{await cluster.namespace()}/pods"
    for name, node in (("loose", ""), ("placed", "n1")):
        made = (await cluster.wire("POST", path, pod(name, node=node))).ok()["metadata"]
        async with cluster.wire.watch(path, resourceVersion=made["resourceVersion"]) as events:
            (await cluster.wire("DELETE", f"{path}/{name}", gracePeriodSeconds="0")).ok()
            seen = [await events.next() for _ in range(2)]
        assert [event["type"] for event in seen] == ["MODIFIED", "DELETED"]
        assert seen[0]["object"]["metadata"]["deletionGracePeriodSeconds"] == 0


@check("a selector of labels has keys and values that labels can have; one of fields may have empty terms")
async def _(cluster: TestCluster) -> None:
    path = f"/api/v1/namespaces/{await cluster.namespace()}/configmaps"
    (await cluster.wire("POST", path, config_map("a"))).ok()
    for text in ("A/b=1", "a=_", "a in (1,_)", "a notin (1,a b)", "!A/b"):
        assert (await cluster.wire("GET", path, labelSelector=text)).code == 400, text
    for text in (",metadata.name=a", "metadata.name=a,", "="):
        assert len((await cluster.wire("GET", path, fieldSelector=text)).ok()["items"]) == 1, text
    assert (await cluster.wire("GET", path, fieldSelector="metadata.name=a\\,b")).ok()["items"] == []
