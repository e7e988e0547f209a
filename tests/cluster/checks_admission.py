"""Checks on admission through webhooks: whom they are called for, in which order, with what, and what their answers do."""

import asyncio
from typing import Any

from aiohttp import web
from checklist import GROUP, WIDGETS, check, config_map, fields, serve_widgets, widget
from clusterkit import HookServer, TestCluster, json_patch

from local.pki import Authority

JSON = dict[str, Any]
ROOT = "/apis/admissionregistration.k8s.io/v1"
ALLOW: JSON = {"allowed": True}


def _allow(request: JSON) -> JSON:
    del request
    return ALLOW


class Guarded:
    """A namespace with webhooks on its ConfigMaps and Widgets."""

    def __init__(self, cluster: TestCluster, space: str, server: HookServer) -> None:
        self.cluster = cluster
        self.space = space
        self.server = server
        self.maps = f"/api/v1/namespaces/{space}/configmaps"
        self.widgets = f"{WIDGETS}/namespaces/{space}/widgets"

    @classmethod
    async def make(cls, cluster: TestCluster) -> "Guarded":
        """A fresh one."""
        await serve_widgets(cluster)
        return cls(cluster, await cluster.namespace(), await cluster.hooks())

    def hook(self, config: JSON, *, resources: tuple[str, ...] = ("configmaps",), **more: Any) -> JSON:
        """One webhook entry for this namespace."""
        group = GROUP if resources[0].startswith("widgets") else ""
        rule = {"operations": more.pop("operations", ["*"]), "apiGroups": [group], "apiVersions": ["v1"], "resources": list(resources)}
        return {
            "name": f"hook.{self.space}.example.com",
            "clientConfig": config,
            "rules": [rule],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "namespaceSelector": {"matchLabels": {"modelwarden.test": self.space}},
            "timeoutSeconds": 5,
        } | more

    async def arm(self, *hooks: JSON, mutating: bool = False, name: str = "c", probe: bool = True) -> None:
        """Store a configuration and wait until the server calls its first hook."""
        plural = "mutatingwebhookconfigurations" if mutating else "validatingwebhookconfigurations"
        await self.cluster.keep(f"{ROOT}/{plural}", {"metadata": {"name": f"{name}-{self.space}"}, "webhooks": list(hooks)})
        if not probe:
            return
        path = hooks[0]["clientConfig"]["url"].removeprefix(self.server.url)
        resources = hooks[0]["rules"][0]["resources"][0]

        async def called() -> bool:
            target, body = (self.widgets, widget("probe")) if resources.startswith("widgets") else (self.maps, config_map("probe"))
            body["metadata"]["labels"] = {"probe": "yes"}
            await self.cluster.wire("POST", target, body, dryRun="All")
            return path in self.server.probed

        await self.cluster.eventually(called, "the webhook is never called")


@check("a refusal carries the webhook's code, reason, message and causes, under its name")
async def _(cluster: TestCluster) -> None:
    guarded = await Guarded.make(cluster)
    causes = [{"reason": "FieldValueForbidden", "message": "no", "field": "data.a"}]
    status = {"code": 422, "reason": "Invalid", "message": "not like this", "details": {"causes": causes}}
    config = guarded.server.on("/v", lambda request: {"allowed": False, "status": status})
    await guarded.arm(guarded.hook(config))
    answer = await cluster.wire("POST", guarded.maps, config_map("a"))
    assert (answer.code, answer.body["reason"]) == (422, "Invalid")
    assert answer.body["message"] == f'admission webhook "hook.{guarded.space}.example.com" denied the request: not like this'
    assert fields(answer.body) == {"data.a"}
    assert (await cluster.wire("GET", f"{guarded.maps}/a")).code == 404


@check("a review says what is done, to what, by whom")
async def _(cluster: TestCluster) -> None:
    guarded = await Guarded.make(cluster)
    await guarded.arm(guarded.hook(guarded.server.on("/v", _allow)))
    (await cluster.wire("POST", guarded.maps, config_map("a", x="1"))).ok()
    (await cluster.wire.patch(f"{guarded.maps}/a", {"data": {"x": "2"}})).ok()
    (await cluster.wire("DELETE", f"{guarded.maps}/a")).ok()
    made, changed, gone = guarded.server.asked
    assert [request["operation"] for request in guarded.server.asked] == ["CREATE", "UPDATE", "DELETE"]
    assert made["kind"] == {"group": "", "version": "v1", "kind": "ConfigMap"}
    assert made["resource"] == {"group": "", "version": "v1", "resource": "configmaps"}
    assert (made["name"], made["namespace"]) == ("a", guarded.space)
    assert made["oldObject"] is None
    assert (changed["oldObject"]["data"], changed["object"]["data"]) == ({"x": "1"}, {"x": "2"})
    assert gone["object"] is None
    assert gone["oldObject"]["data"] == {"x": "2"}
    assert made["dryRun"] is False


@check("userInfo is the caller of the certificate, with groups")
async def _(cluster: TestCluster) -> None:
    guarded = await Guarded.make(cluster)
    await guarded.arm(guarded.hook(guarded.server.on("/v", _allow)))
    caller = cluster.wire_as("alice", ("system:masters", "a-team"))
    (await caller("POST", guarded.maps, config_map("a"))).ok()
    info = guarded.server.asked[0]["userInfo"]
    assert info["username"] == "alice"
    assert set(info["groups"]) >= {"a-team", "system:authenticated"}


@check("an impersonated user is the caller, a service account with its groups")
async def _(cluster: TestCluster) -> None:
    guarded = await Guarded.make(cluster)
    await guarded.arm(guarded.hook(guarded.server.on("/v", _allow)))
    account = f"system:serviceaccount:{guarded.space}:robot"
    headers = {"Impersonate-User": account, "Impersonate-Group": "system:masters"}
    (await cluster.wire("POST", guarded.maps, config_map("a"), headers=headers)).ok()
    assert guarded.server.asked[0]["userInfo"]["username"] == account


@check("a mutating webhook's patch is applied, then defaults and pruning come again")
async def _(cluster: TestCluster) -> None:
    guarded = await Guarded.make(cluster)
    part = {"op": "add", "path": "/spec/parts", "value": [{"name": "p", "bogus": 1}]}
    config = guarded.server.on("/m", lambda request: json_patch(part))
    await guarded.arm(guarded.hook(config, resources=("widgets",), operations=["CREATE"]), mutating=True)
    made = (await cluster.wire("POST", guarded.widgets, widget("a"))).ok()
    assert made["spec"]["parts"] == [{"name": "p", "count": 1}]


@check("a mutated object is validated by its schema")
async def _(cluster: TestCluster) -> None:
    guarded = await Guarded.make(cluster)
    config = guarded.server.on("/m", lambda request: json_patch({"op": "replace", "path": "/spec/color", "value": "green"}))
    await guarded.arm(guarded.hook(config, resources=("widgets",)), mutating=True)
    answer = await cluster.wire("POST", guarded.widgets, widget("a"))
    assert answer.code == 422
    assert "spec.color" in fields(answer.body)


@check("mutating webhooks run by their configuration's name, one after another, before validating ones")
async def _(cluster: TestCluster) -> None:
    guarded = await Guarded.make(cluster)

    def append(letter: str) -> Any:
        def handler(request: JSON) -> JSON:
            present = request["object"]["data"].get("order", "")
            return json_patch({"op": "add", "path": "/data/order", "value": present + letter})

        return handler

    second = guarded.hook(guarded.server.on("/two", append("2")), operations=["CREATE"])
    first = guarded.hook(guarded.server.on("/one", append("1")), operations=["CREATE"])
    await guarded.arm(second, mutating=True, name="b")
    await guarded.arm(first, mutating=True, name="a")
    await guarded.arm(guarded.hook(guarded.server.on("/v", _allow)))
    made = (await cluster.wire("POST", guarded.maps, config_map("x", order="0"))).ok()
    assert made["data"]["order"] == "012"
    assert guarded.server.asked[-1]["object"]["data"]["order"] == "012"


@check("a webhook that cannot be reached refuses under Fail with 500 and its name")
async def _(cluster: TestCluster) -> None:
    guarded = await Guarded.make(cluster)
    config = {"url": "https://127.0.0.1:1/v", "caBundle": guarded.server.ca_bundle}
    await guarded.arm(guarded.hook(config), probe=False)

    async def refused() -> bool:
        return (await cluster.wire("POST", guarded.maps, config_map("a"), dryRun="All")).code == 500

    await cluster.eventually(refused, "the webhook is never called")
    answer = await cluster.wire("POST", guarded.maps, config_map("a"))
    assert (answer.code, answer.body["reason"]) == (500, "InternalError")
    assert f'failed calling webhook "hook.{guarded.space}.example.com"' in answer.body["message"]


@check("under Ignore a webhook that cannot be reached is passed over, the next one still counts")
async def _(cluster: TestCluster) -> None:
    guarded = await Guarded.make(cluster)
    dead = {"url": "https://127.0.0.1:1/v", "caBundle": guarded.server.ca_bundle}
    live = guarded.hook(guarded.server.on("/v", _allow), name=f"live.{guarded.space}.example.com")
    await guarded.arm(live, guarded.hook(dead, failurePolicy="Ignore"))
    (await cluster.wire("POST", guarded.maps, config_map("a"))).ok()
    assert len(guarded.server.asked) == 1


@check("a webhook whose certificate the caBundle does not cover has not been reached")
async def _(cluster: TestCluster) -> None:
    guarded = await Guarded.make(cluster)
    config = guarded.server.on("/v", _allow)
    await guarded.arm(guarded.hook(config))
    other = HookServer()
    other.authority = Authority("somebody-else")
    path = f"{ROOT}/validatingwebhookconfigurations/c-{guarded.space}"
    patch = [{"op": "replace", "path": "/webhooks/0/clientConfig/caBundle", "value": other.ca_bundle}]
    (await cluster.wire.patch(path, patch, "json")).ok()

    async def refused() -> bool:
        return (await cluster.wire("POST", guarded.maps, config_map("a"), dryRun="All")).code == 500

    await cluster.eventually(refused, "the old bundle stays in force")


@check("a webhook that answers too late, with another uid, with rubbish or with 503 has not answered")
async def _(cluster: TestCluster) -> None:
    guarded = await Guarded.make(cluster)

    async def late(request: web.BaseRequest) -> web.Response:
        del request
        await asyncio.sleep(5)
        return web.Response()

    async def rubbish(request: web.BaseRequest) -> web.Response:
        del request
        return web.Response(text="{}")

    async def busy(request: web.BaseRequest) -> web.Response:
        del request
        return web.Response(status=503)

    config = guarded.server.on("/v", lambda request: {"allowed": True, "uid": "another"})
    await guarded.arm(guarded.hook(config, timeoutSeconds=1))
    answers = {"uid": (await cluster.wire("POST", guarded.maps, config_map("a"))).code}
    for name, handler in (("late", late), ("rubbish", rubbish), ("busy", busy)):
        guarded.server.raw("/v", handler)
        answers[name] = (await cluster.wire("POST", guarded.maps, config_map("a"))).code
    assert answers == dict.fromkeys(("uid", "late", "rubbish", "busy"), 500)


@check("objectSelector looks at the new and at the old labels")
async def _(cluster: TestCluster) -> None:
    guarded = await Guarded.make(cluster)
    await guarded.arm(
        guarded.hook(
            guarded.server.on("/v", _allow), objectSelector={"matchExpressions": [{"key": "probe", "operator": "In", "values": ["yes"]}]}
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
    await guarded.arm(guarded.hook(guarded.server.on("/v", _allow)))
    other = await cluster.namespace()
    (await cluster.wire("POST", f"/api/v1/namespaces/{other}/configmaps", config_map("a"))).ok()
    assert guarded.server.asked == []


@check("a rule for the resource does not cover its status, a rule with /status does")
async def _(cluster: TestCluster) -> None:
    guarded = await Guarded.make(cluster)
    await guarded.arm(guarded.hook(guarded.server.on("/v", _allow), resources=("widgets",)))
    (await cluster.wire("POST", guarded.widgets, widget("a"))).ok()
    (await cluster.wire.patch(f"{guarded.widgets}/a/status", {"status": {"phase": "x"}})).ok()
    assert [request["operation"] for request in guarded.server.asked] == ["CREATE"]
    status = guarded.hook(guarded.server.on("/s", _allow), resources=("widgets", "widgets/status"))
    await guarded.arm(status, name="s")
    (await cluster.wire.patch(f"{guarded.widgets}/a/status", {"status": {"phase": "y"}})).ok()
    assert guarded.server.asked[-1]["subResource"] == "status"


@check("a rule for one operation is called for no other")
async def _(cluster: TestCluster) -> None:
    guarded = await Guarded.make(cluster)
    await guarded.arm(guarded.hook(guarded.server.on("/v", _allow), operations=["CREATE"]))
    (await cluster.wire("POST", guarded.maps, config_map("a"))).ok()
    (await cluster.wire.patch(f"{guarded.maps}/a", {"data": {"x": "2"}})).ok()
    assert [request["operation"] for request in guarded.server.asked] == ["CREATE"]


@check("a dry-run reaches the webhook as one")
async def _(cluster: TestCluster) -> None:
    guarded = await Guarded.make(cluster)
    await guarded.arm(guarded.hook(guarded.server.on("/v", _allow)))
    (await cluster.wire("POST", guarded.maps, config_map("a"), dryRun="All")).ok()
    assert guarded.server.asked[0]["dryRun"] is True
    assert (await cluster.wire("GET", f"{guarded.maps}/a")).code == 404


@check("warnings of a webhook reach the client as headers")
async def _(cluster: TestCluster) -> None:
    cluster.needs(19, "admission warnings")
    guarded = await Guarded.make(cluster)
    await guarded.arm(guarded.hook(guarded.server.on("/v", lambda request: {"allowed": True, "warnings": ["mind the gap"]})))
    assert "mind the gap" in (await cluster.wire("POST", guarded.maps, config_map("a"))).warnings


@check("taking the last finalizer off a deleted object passes the webhooks as an UPDATE")
async def _(cluster: TestCluster) -> None:
    guarded = await Guarded.make(cluster)
    await guarded.arm(guarded.hook(guarded.server.on("/v", _allow), resources=("widgets",)))
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
    await guarded.arm(guarded.hook(guarded.server.on("/v", _allow), operations=["CREATE"], matchConditions=[mine, wanted]))
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
    await guarded.arm(guarded.hook(guarded.server.on("/v", _allow)))
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


@check("a patch and its type come together, readable, and leave an object of the kind in its namespace")
async def _(cluster: TestCluster) -> None:
    guarded = await Guarded.make(cluster)
    answer: JSON = {}
    await guarded.arm(
        guarded.hook(guarded.server.on("/m", lambda request: {"allowed": True, **answer}), operations=["CREATE"]), mutating=True
    )

    async def told(**response: Any) -> tuple[int, str]:
        answer.clear()
        answer.update(response)
        made = await cluster.wire("POST", guarded.maps, config_map("a", a="b"), dryRun="All")
        return made.code, made.body.get("message", "")

    typed = {"patchType": "JSONPatch"}
    code, said = await told(**typed)
    assert (code, "response.patchType" in said) == (500, True)
    code, said = await told(patch=json_patch({"op": "add", "path": "/data/x", "value": "y"})["patch"])
    assert (code, "response.patchType" in said) == (500, True)
    for operation, wanted in (
        ({"op": "add", "path": "/data/x", "value": 1}, 500),
        ({"op": "replace", "path": "/metadata/namespace", "value": "other"}, 400),
        ({"op": "remove", "path": "/metadata"}, 422),
        ({"op": "add", "path": "/data/x", "value": "y"}, 201),
    ):
        assert (await told(**json_patch(operation)))[0] == wanted, operation


@check("an answer that cannot be read, patch included, is a call that failed: failurePolicy Ignore goes on")
async def _(cluster: TestCluster) -> None:
    guarded = await Guarded.make(cluster)
    config = guarded.server.on("/m", lambda request: {"allowed": True, "patchType": "JSONPatch", "patch": "***"})
    await guarded.arm(guarded.hook(config, failurePolicy="Ignore", operations=["CREATE"]), mutating=True)
    assert (await cluster.wire("POST", guarded.maps, config_map("a"))).code == 201


@check("a warning with a line break is dropped, and a refusal without a reason has none")
async def _(cluster: TestCluster) -> None:
    guarded = await Guarded.make(cluster)
    config = guarded.server.on("/v", lambda request: {"allowed": False, "warnings": ["one", "two\nlines", "three"]})
    await guarded.arm(guarded.hook(config))
    answer = await cluster.wire("POST", guarded.maps, config_map("a"))
    assert answer.warnings == ["one", "three"]
    assert answer.code == 400
    assert "reason" not in answer.body
