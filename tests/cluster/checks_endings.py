"""Checks on how objects end: finalizers, grace, what goes with an owner or a namespace, and what a dry-run leaves."""

from checklist import check, config_map, maps, pod, widget, widgets
from clusterkit import TestCluster


@check("deletion under a wrong uid or version is 409, under the right ones it is done")
async def _(cluster: TestCluster) -> None:
    path = await maps(cluster)
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
    path = await maps(cluster)
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
    path = await maps(cluster)

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
    path = await maps(cluster)
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
    path = await maps(cluster)
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
    path = await maps(cluster)
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
