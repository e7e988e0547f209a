"""Checks on what a client may get wrong: options, selectors, metadata and bodies that an API server refuses, and how."""

from typing import Any

from checklist import JSON, check, config_map, fields, maps, pod, widget, widget_crd, widgets
from clusterkit import Answer, TestCluster

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
VALIDATING = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"


def refused(answer: Answer, code: int, said: str = "") -> None:
    """Make sure of a refusal."""
    assert answer.code == code, f"{answer.code}, not {code}: {answer.body}"
    assert said in str(answer.body), answer.body


@check("options of a delete that no server takes are 422, and nothing is deleted")
async def _(cluster: TestCluster) -> None:
    path = await maps(cluster)
    (await cluster.wire("POST", path, config_map("a"))).ok()
    for options, field in (
        ({"propagationPolicy": "Sideways"}, "propagationPolicy"),
        ({"propagationPolicy": "Orphan", "orphanDependents": True}, "propagationPolicy"),
        ({"dryRun": ["Some"]}, "dryRun"),
    ):
        refused(await cluster.wire("DELETE", f"{path}/a", {"kind": "DeleteOptions", "apiVersion": "v1", **options}), 422, field)
    refused(await cluster.wire("DELETE", f"{path}/a", gracePeriodSeconds="x"), 400)
    (await cluster.wire("GET", f"{path}/a")).ok()


@check("a delete whose body is something else, or of another shape, deletes nothing")
async def _(cluster: TestCluster) -> None:
    path = await maps(cluster)
    (await cluster.wire("POST", path, config_map("a"))).ok()
    for body in (config_map("a") | {"kind": "ConfigMap", "apiVersion": "v1"}, {"kind": "DeleteOptions", "gracePeriodSeconds": "x"}):
        assert (await cluster.wire("DELETE", f"{path}/a", {"apiVersion": "v1", **body})).code >= 400
    (await cluster.wire("GET", f"{path}/a")).ok()


@check("the namespaces of the system stay, and nobody deletes all namespaces at once")
async def _(cluster: TestCluster) -> None:
    for name in ("default", "kube-system", "kube-public"):
        refused(await cluster.wire("DELETE", f"/api/v1/namespaces/{name}", dryRun="All"), 403, "may not be deleted")
    refused(await cluster.wire("DELETE", "/api/v1/namespaces", labelSelector="no=such"), 405)


@check("options of a list that do not go together are refused")
async def _(cluster: TestCluster) -> None:
    path = await maps(cluster)
    for name in "ab":
        (await cluster.wire("POST", path, config_map(name))).ok()
    for options in ({"resourceVersionMatch": "Exact"}, {"resourceVersionMatch": "Exact", "resourceVersion": "0"}):
        refused(await cluster.wire("GET", path, **options), 422, "resourceVersionMatch")
    refused(await cluster.wire("GET", path, resourceVersionMatch="Maybe", resourceVersion="1"), 422, "Unsupported value")
    refused(await cluster.wire("GET", path, resourceVersionMatch="Exact", resourceVersion="x"), 400)
    token = (await cluster.wire("GET", path, limit="1")).ok()["metadata"]["continue"]
    refused(await cluster.wire("GET", path, **{"limit": "1", "continue": token, "resourceVersion": "1"}), 400)


@check("a list at a version that is yet to come is 504 and says which one stands")
async def _(cluster: TestCluster) -> None:
    refused(await cluster.wire("GET", await maps(cluster), resourceVersion="99999999999"), 504, "Too large resource version")


@check("a field manager is at most 128 printable characters, and only an apply can be forced")
async def _(cluster: TestCluster) -> None:
    path = await maps(cluster)
    for name in ("m" * 129, "m\n"):
        refused(await cluster.wire("POST", path, config_map("a"), fieldManager=name), 422, "fieldManager")
    (await cluster.wire("POST", path, config_map("a"))).ok()
    refused(await cluster.wire.patch(f"{path}/a", {"data": {"x": "y"}}, force="true"), 422, "force")


@check("a PUT makes a Lease that is not there, and no ConfigMap")
async def _(cluster: TestCluster) -> None:
    path = await maps(cluster)
    leases = path.replace("/api/v1", "/apis/coordination.k8s.io/v1").replace("configmaps", "leases")
    assert (await cluster.wire("PUT", f"{leases}/l", {"metadata": {"name": "l"}, "spec": {}})).code == 201
    refused(await cluster.wire("PUT", f"{path}/a", config_map("a")), 404)


@check("an empty body is 400, and a path that is no resource is read only")
async def _(cluster: TestCluster) -> None:
    refused(await cluster.wire("POST", await maps(cluster), ""), 400)
    refused(await cluster.wire("POST", "/version", {}), 405)


@check("a body of two megabytes is read")
async def _(cluster: TestCluster) -> None:
    body = {"metadata": {"name": "big", "annotations": {"a": "x" * (2 << 20)}}}
    refused(await cluster.wire("POST", await maps(cluster), body), 422, "metadata.annotations")


@check("metadata of another shape is 400, and a finalizer has to be qualified")
async def _(cluster: TestCluster) -> None:
    path = await maps(cluster)
    shapes: tuple[JSON, ...] = (
        {"ownerReferences": ["x"]},
        {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": 5}]},
        {"finalizers": [1]},
        {"managedFields": ["x"]},
        {"generation": "x"},
        {"creationTimestamp": "x"},
    )
    for meta in shapes:
        refused(await cluster.wire("POST", path, {"metadata": {"name": "a", **meta}}), 400)
    for name in ("a b/c", "plain"):
        answer = await cluster.wire("POST", path, {"metadata": {"name": "a", "finalizers": [name]}})
        refused(answer, 422)
        assert all(field.startswith("metadata.finalizers") for field in fields(answer.body))
    made = widget("a")
    made["metadata"]["finalizers"] = ["plain"]
    assert (await cluster.wire("POST", await widgets(cluster), made)).code == 201, "a custom resource takes one without a prefix"


@check("a UID that is not the object's is 409 for a PUT, 422 for a patch, and applied makes nothing")
async def _(cluster: TestCluster) -> None:
    path = await maps(cluster)
    (await cluster.wire("POST", path, config_map("a"))).ok()
    other = config_map("a")
    other["metadata"]["uid"] = "z"
    refused(await cluster.wire("PUT", f"{path}/a", other), 409, "z")
    refused(await cluster.wire.patch(f"{path}/a", {"metadata": {"uid": "z"}}), 422, "metadata.uid")
    other["metadata"]["name"] = "b"
    refused(await cluster.wire.patch(f"{path}/b", other, "apply", fieldManager="m"), 409, "uid mismatch")
    refused(await cluster.wire("GET", f"{path}/b"), 404)


@check("a selector with a hole in it, or a bound that is no number, is 400")
async def _(cluster: TestCluster) -> None:
    path = await maps(cluster)
    for text in ("a,,b", "a>--5", "a in b"):
        refused(await cluster.wire("GET", path, labelSelector=text), 400)


@check("a definition with a version or column without a name, or an unreadable path, is 422")
async def _(cluster: TestCluster) -> None:
    async def tried(change: dict[str, Any], version: dict[str, Any]) -> Answer:
        made = widget_crd("gizmos", "Gizmo")
        found = made["spec"]["versions"][0]
        found["additionalPrinterColumns"][0] |= change
        found |= version
        return await cluster.wire("POST", CRDS, made, dryRun="All")

    refused(await tried({"jsonPath": "{x"}, {}), 422, "JSONPath")
    refused(await tried({"name": ""}, {}), 422, "additionalPrinterColumns[0].name")
    refused(await tried({"type": "colour"}, {}), 422, "additionalPrinterColumns[0].type")
    refused(await tried({}, {"name": ""}), 422, "spec.versions[0].name")
    twice = widget_crd("gizmos", "Gizmo")
    twice["spec"]["versions"].append(twice["spec"]["versions"][0] | {"storage": False})
    refused(await cluster.wire("POST", CRDS, twice, dryRun="All"), 422, "spec.versions")


@check("data has keys fit for files and a limit; a Secret keeps its type, one for TLS has both halves")
async def _(cluster: TestCluster) -> None:
    path = await maps(cluster)
    secrets = path.replace("configmaps", "secrets")
    refused(await cluster.wire("POST", path, {"metadata": {"name": "a"}, "data": {"x": 1}}), 400)
    refused(await cluster.wire("POST", path, {"metadata": {"name": "a"}, "data": {"a b": "x"}}), 422, "data[a b]")
    refused(await cluster.wire("POST", path, {"metadata": {"name": "a"}, "data": {"x": "x" * 1_100_000}}), 422, "Too long")
    refused(await cluster.wire("POST", secrets, {"metadata": {"name": "s"}, "data": {"x": "***"}}), 400)
    tls = await cluster.wire("POST", secrets, {"metadata": {"name": "s"}, "type": "kubernetes.io/tls"})
    refused(tls, 422)
    assert fields(tls.body) == {"data[tls.crt]", "data[tls.key]"}
    (await cluster.wire("POST", secrets, {"metadata": {"name": "s"}, "type": "Opaque"})).ok()
    refused(await cluster.wire.patch(f"{secrets}/s", {"type": "example.com/other"}), 422, "immutable")


@check("a Lease counts in whole seconds above zero, and its times are times")
async def _(cluster: TestCluster) -> None:
    leases = (await maps(cluster)).replace("/api/v1", "/apis/coordination.k8s.io/v1").replace("configmaps", "leases")
    refused(
        await cluster.wire("POST", leases, {"metadata": {"name": "l"}, "spec": {"leaseDurationSeconds": 0}}), 422, "leaseDurationSeconds"
    )
    for spec in ({"leaseDurationSeconds": "x"}, {"renewTime": "x"}):
        refused(await cluster.wire("POST", leases, {"metadata": {"name": "l"}, "spec": spec}), 400)


@check("an Event of events.k8s.io says when, who and what, in a note of a kilobyte")
async def _(cluster: TestCluster) -> None:
    path = (await maps(cluster)).replace("/api/v1", "/apis/events.k8s.io/v1").replace("configmaps", "events")
    event: JSON = {"metadata": {"name": "e"}, "eventTime": "2026-01-01T00:00:00.000000Z", "action": "a", "reason": "r", "type": "Normal"}
    event |= {"reportingController": "example.com/c", "reportingInstance": "i"}
    event["regarding"] = {"kind": "ConfigMap", "name": "a", "namespace": path.split("/")[-2]}
    for key in ("eventTime", "reportingController", "action", "reason", "type"):
        refused(await cluster.wire("POST", path, {name: value for name, value in event.items() if name != key}), 422)
    refused(await cluster.wire("POST", path, event | {"note": "x" * 1025}), 422)
    assert (await cluster.wire("POST", path, event | {"note": "x" * 1024})).code == 201


@check("an Event of events.k8s.io may begin as a series of two or more")
async def _(cluster: TestCluster) -> None:
    path = (await maps(cluster)).replace("/api/v1", "/apis/events.k8s.io/v1").replace("configmaps", "events")
    event: JSON = {"metadata": {"name": "e"}, "eventTime": "2026-01-01T00:00:00.000000Z", "action": "a", "reason": "r", "type": "Normal"}
    event |= {"reportingController": "example.com/c", "reportingInstance": "i", "note": "n"}
    event["regarding"] = {"kind": "ConfigMap", "name": "a", "namespace": path.split("/")[-2]}
    seen = {"lastObservedTime": "2026-01-01T00:00:00.000000Z"}
    refused(await cluster.wire("POST", path, event | {"series": seen | {"count": 1}}), 422, "series.count")
    refused(await cluster.wire("POST", path, event | {"series": {"count": 2}}), 422, "series.lastObservedTime")
    (await cluster.wire("POST", path, event | {"series": seen | {"count": 2}})).ok()
    (await cluster.wire.patch(f"{path}/e", {"series": seen | {"count": 5}})).ok()


@check("a webhook configuration that could not be read or reached is refused")
async def _(cluster: TestCluster) -> None:
    good: JSON = {"name": "a.b.c", "sideEffects": "None", "admissionReviewVersions": ["v1"], "clientConfig": {"url": "https://x.invalid/y"}}

    async def tried(*hooks: JSON) -> Answer:
        return await cluster.wire("POST", VALIDATING, {"metadata": {"name": "edges"}, "webhooks": list(hooks)}, dryRun="All")

    rule = {"operations": ["EAT"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
    term = {"matchExpressions": [{"key": "a", "operator": "Near"}]}
    (await tried(good)).ok()
    refused(await tried(good, good), 422, "webhooks[1].name")
    refused(await tried(good | {"failurePolicy": "Perhaps"}), 422, "failurePolicy")
    refused(await tried(good | {"rules": [rule]}), 422, "operations[0]")
    refused(await tried(good | {"objectSelector": term}), 422, "matchExpressions[0].operator")
    refused(await tried(good | {"clientConfig": {"service": {"namespace": "x"}}}), 422, "clientConfig.service.name")
    refused(await tried(good | {"clientConfig": {"url": "https://x.invalid/y", "caBundle": "***"}}), 400)


@check("a token of a service account lives ten minutes or longer")
async def _(cluster: TestCluster) -> None:
    namespace = await cluster.namespace()
    account = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    (await cluster.wire("POST", account, {"metadata": {"name": "robot"}})).ok()
    refused(await cluster.wire("POST", f"{account}/robot/token", {"spec": {"expirationSeconds": 5}}), 422, "expirationSeconds")
    assert (await cluster.wire("POST", f"{account}/robot/token", {"spec": {"expirationSeconds": 600}})).code == 201


@check("a Pod on a node that is deleted with a negative grace gets a second")
async def _(cluster: TestCluster) -> None:
    cluster.needs(21, "a negative grace as a second")
    path = (await maps(cluster)).replace("configmaps", "pods")
    (await cluster.wire("POST", path, pod("p", node="n1"))).ok()
    answer = await cluster.wire("DELETE", f"{path}/p", {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": -1})
    assert answer.ok()["metadata"]["deletionGracePeriodSeconds"] == 1


@check("an applied object with an unknown field, another type or an item that is there twice is 500")
async def _(cluster: TestCluster) -> None:
    path = await widgets(cluster)
    for spec, said in (
        ({"unknown": 1}, ".spec.unknown: field not declared in schema"),
        ({"size": "x"}, ".spec.size: expected numeric"),
        ({"tags": ["x", "x"]}, ".spec.tags: duplicate entries"),
        ({"parts": [{"name": "p"}, {"name": "p"}]}, ".spec.parts: duplicate entries"),
    ):
        answer = await cluster.wire.patch(f"{path}/a", widget("a", **spec), "apply", fieldManager="m")
        refused(answer, 500, "failed to create typed patch object")
        assert said in answer.body["message"]


@check("a patch that makes something that is no object of its kind is 422")
async def _(cluster: TestCluster) -> None:
    path = await maps(cluster)
    (await cluster.wire("POST", path, config_map("a", x="y"))).ok()
    for body in ({"data": {"x": 1}}, {"kind": "Secret"}, {"metadata": {"labels": "red"}}):
        refused(await cluster.wire.patch(f"{path}/a", body), 422, "patch")


@check("a deletion tells the Pod that is gone, and a Status of a ConfigMap; a null label is empty")
async def _(cluster: TestCluster) -> None:
    path = await maps(cluster)
    pods = path.replace("configmaps", "pods")
    body = config_map("a")
    body["metadata"]["labels"] = {"x": None}
    assert (await cluster.wire("POST", path, body)).ok()["metadata"]["labels"] == {"x": ""}
    (await cluster.wire("POST", pods, pod("p"))).ok()
    assert (await cluster.wire("DELETE", f"{path}/a")).ok()["kind"] == "Status"
    assert (await cluster.wire("DELETE", f"{pods}/p")).ok()["kind"] == "Pod"


@check("a Service's address is nobody's field")
async def _(cluster: TestCluster) -> None:
    path = (await maps(cluster)).replace("configmaps", "services")
    made = (await cluster.wire("POST", path, {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}})).ok()
    assert made["spec"]["clusterIP"]
    assert "f:clusterIP" not in str(made["metadata"]["managedFields"])
