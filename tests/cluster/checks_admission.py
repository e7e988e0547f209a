"""Checks on admission through webhooks: what they are told, in which order, and what their answers do."""

import asyncio
from typing import Any

from aiohttp import web
from checklist import check, config_map, fields, widget
from clusterkit import HookServer, TestCluster, json_patch
from guarded import JSON, ROOT, Guarded, allow

from local.pki import Authority


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
    await guarded.arm(guarded.hook(guarded.server.on("/v", allow)))
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
    await guarded.arm(guarded.hook(guarded.server.on("/v", allow)))
    caller = cluster.wire_as("alice", ("system:masters", "a-team"))
    (await caller("POST", guarded.maps, config_map("a"))).ok()
    info = guarded.server.asked[0]["userInfo"]
    assert info["username"] == "alice"
    assert set(info["groups"]) >= {"a-team", "system:authenticated"}


@check("an impersonated user is the caller, a service account with its groups")
async def _(cluster: TestCluster) -> None:
    guarded = await Guarded.make(cluster)
    await guarded.arm(guarded.hook(guarded.server.on("/v", allow)))
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
    await guarded.arm(guarded.hook(guarded.server.on("/v", allow)))
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
    live = guarded.hook(guarded.server.on("/v", allow), name=f"live.{guarded.space}.example.com")
    await guarded.arm(live, guarded.hook(dead, failurePolicy="Ignore"))
    (await cluster.wire("POST", guarded.maps, config_map("a"))).ok()
    assert len(guarded.server.asked) == 1


@check("a webhook whose certificate the caBundle does not cover has not been reached")
async def _(cluster: TestCluster) -> None:
    guarded = await Guarded.make(cluster)
    config = guarded.server.on("/v", allow)
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


@check("warnings of a webhook reach the client as headers")
async def _(cluster: TestCluster) -> None:
    cluster.needs(19, "admission warnings")
    guarded = await Guarded.make(cluster)
    await guarded.arm(guarded.hook(guarded.server.on("/v", lambda request: {"allowed": True, "warnings": ["mind the gap"]})))
    assert "mind the gap" in (await cluster.wire("POST", guarded.maps, config_map("a"))).warnings


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
