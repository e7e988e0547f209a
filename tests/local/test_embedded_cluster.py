"""The embedded cluster over HTTPS: who is let in, what it is honest about not doing, discovery, and the switches for a bad day."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from local_world import MAPS, PODS, config_map, lines, pod, running

from local.cluster import EmbeddedCluster
from local.protobuf import MAGIC

World = tuple[EmbeddedCluster, httpx.AsyncClient]


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    """A started cluster and its administrator."""
    async with running(tmp_path, bookmark_seconds=0.05) as found:
        yield found


async def test_it_binds_loopback_and_its_files_are_the_owners(world: World) -> None:
    """Nobody else on the machine reads a key, nobody on the network reaches the port."""
    cluster, _ = world
    assert cluster.url.startswith("https://127.0.0.1:")
    written = [path for path in cluster.state_dir.iterdir() if not path.name.startswith(".")]
    assert {path.stat().st_mode & 0o077 for path in written} == {0}


async def test_a_token_is_a_user(world: World) -> None:
    """A wrong one is 401, none at all 403, a service account's brings its groups."""
    cluster, client = world
    token = (await client.post("/api/v1/namespaces/default/serviceaccounts/default/token", json={})).json()["status"]["token"]
    trust = ssl.create_default_context(cadata=cluster.ca_pem.decode())
    async with httpx.AsyncClient(base_url=cluster.url, verify=trust, trust_env=False) as other:
        for header, code in (({}, 403), ({"Authorization": "Bearer wrong"}, 401)):
            answer = await other.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", json={}, headers=header)
            assert answer.status_code == code
        answer = await other.post(
            "/apis/authentication.k8s.io/v1/selfsubjectreviews", json={}, headers={"Authorization": f"Bearer {token}"}
        )
    info = answer.json()["status"]["userInfo"]
    assert info["username"] == "system:serviceaccount:default:default"
    assert set(info["groups"]) == {"system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"}


async def test_impersonation_takes_user_groups_and_extra(world: World) -> None:
    """As headers say; groups without a user are refused."""
    _, client = world
    headers = [("Impersonate-User", "eve"), ("Impersonate-Group", "a"), ("Impersonate-Group", "b"), ("Impersonate-Extra-Scope", "x")]
    info = (await client.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", json={}, headers=headers)).json()["status"]["userInfo"]
    assert info == {"username": "eve", "groups": ["a", "b", "system:authenticated"], "extra": {"scope": ["x"]}}
    assert (await client.get(MAPS, headers={"Impersonate-Group": "a"})).status_code == 400


EDGES = {
    "logs": ("GET", f"{PODS}/p/log", 501, "no container runs here"),
    "exec": ("POST", f"{PODS}/p/exec", 501, "no container runs here"),
    "scale": ("GET", "/apis/apps/v1/namespaces/default/deployments/d/scale", 501, "patch spec.replicas"),
    "eviction": ("POST", f"{PODS}/p/eviction", 501, "delete them"),
    "watches by path": ("GET", "/api/v1/watch/pods", 501, "?watch=true"),
    "an unknown kind": ("GET", "/apis/batch/v1/jobs", 404, "could not find the requested resource"),
    "metrics": ("GET", "/metrics", 404, "could not find"),
    "creation over all namespaces": ("POST", "/api/v1/pods", 405, "does not allow this method"),
    "a namespaced path of a cluster kind": ("GET", "/api/v1/namespaces/default/nodes", 404, "could not find"),
}


@pytest.mark.parametrize(("method", "path", "code", "words"), EDGES.values(), ids=EDGES)
async def test_the_edge_is_said_in_a_sentence(world: World, method: str, path: str, code: int, words: str) -> None:
    """What it does not do is 404, 405 or 501, as a Status with words."""
    answer = await world[1].request(method, path, json={} if method == "POST" else None)
    assert answer.status_code == code
    assert answer.json()["kind"] == "Status"
    assert words in answer.json()["message"]


HOOK = {"name": "a.b.c", "clientConfig": {"url": "https://127.0.0.1:1/"}, "sideEffects": "None", "admissionReviewVersions": ["v1"]}
RULE = {"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}
BROKEN_HOOKS = {
    "a rule that is no mapping": HOOK | {"rules": [1]},
    "a rule without groups": HOOK | {"rules": [{**RULE, "apiGroups": None}]},
    "resources that are a number": HOOK | {"rules": [{**RULE, "resources": 3}]},
    "a selector that is none": HOOK | {"rules": [RULE], "objectSelector": {"matchLabels": 7}},
    "a condition that is no CEL": HOOK | {"rules": [RULE], "matchConditions": [{"name": "x", "expression": "1 +"}]},
}


@pytest.mark.parametrize("hook", BROKEN_HOOKS.values(), ids=BROKEN_HOOKS)
async def test_a_webhook_that_cannot_be_read_is_not_stored(world: World, hook: dict) -> None:
    """Or every later write of anybody would trip over it."""
    _, client = world
    root = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
    answer = await client.post(root, json={"metadata": {"name": "x"}, "webhooks": [hook]})
    assert answer.status_code in {400, 422}
    assert (await client.post(MAPS, json=config_map("a"))).status_code == 201


async def test_a_service_keeps_its_address(world: World) -> None:
    """Two have two; a replacement that does not mention it changes nothing; headless and external ones have none."""
    _, client = world
    path = "/api/v1/namespaces/default/services"
    body = {"metadata": {"name": "a"}, "spec": {"ports": [{"port": 80}]}}
    first = (await client.post(path, json=body)).json()["spec"]["clusterIP"]
    other = (await client.post(path, json=body | {"metadata": {"name": "b"}})).json()["spec"]["clusterIP"]
    assert first != other
    assert (await client.put(f"{path}/a", json=body)).json()["spec"]["clusterIP"] == first
    external = {"metadata": {"name": "c"}, "spec": {"type": "ExternalName", "externalName": "x.example"}}
    assert "clusterIP" not in (await client.post(path, json=external)).json()["spec"]
    assert "clusterIP" not in (await client.put(f"{path}/c", json=external)).json()["spec"]


async def test_rbac_is_stored_and_said_not_to_be_enforced(world: World) -> None:
    """A person who asks is told."""
    answer = await world[1].post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", json={"spec": {}})
    assert answer.json()["status"] == {"allowed": True, "reason": "the embedded cluster stores RBAC and does not enforce it"}


async def test_the_aggregated_discovery_says_the_same_as_the_old_one(world: World) -> None:
    """Newer clients ask for one document, older ones for many."""
    _, client = world
    accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"
    new = (await client.get("/apis", headers={"Accept": accept})).json()
    assert new["kind"] == "APIGroupDiscoveryList"
    found = {
        (item["metadata"]["name"], version["version"], resource["resource"])
        for item in new["items"]
        for version in item["versions"]
        for resource in version["resources"]
    }
    old = set()
    for group in (await client.get("/apis")).json()["groups"]:
        for version in group["versions"]:
            listing = (await client.get(f"/apis/{version['groupVersion']}")).json()
            old |= {(group["name"], version["version"], row["name"]) for row in listing["resources"] if "/" not in row["name"]}
    assert found == old
    assert ("kueue.x-k8s.io", "v1beta2", "workloads") in found


async def test_openapi_as_protobuf_is_a_document(world: World) -> None:
    """kubectl asks in this form before it applies a built-in kind."""
    accept = {"Accept": "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"}
    answer = await world[1].get("/openapi/v2", headers=accept)
    assert answer.headers["Content-Type"].startswith("application/com.github.proto-openapi")
    assert answer.content.startswith(b"\x0a\x032.0")


async def test_both_versions_of_a_definition_show_the_same_object(world: World) -> None:
    """Conversion is by name only, in reads, lists and watches."""
    _, client = world
    body = {"metadata": {"name": "w"}, "spec": {"active": True}}
    root = "/apis/kueue.x-k8s.io/{}/namespaces/default/workloads"
    made = await client.post(root.format("v1beta1"), json=body)
    assert made.json()["apiVersion"] == "kueue.x-k8s.io/v1beta1"
    for version in ("v1beta1", "v1beta2"):
        (item,) = (await client.get(root.format(version))).json()["items"]
        watched = lines((await client.get(root.format(version), params={"watch": "true", "timeoutSeconds": 1})).text)
        assert item["apiVersion"] == watched[0]["object"]["apiVersion"] == f"kueue.x-k8s.io/{version}"


# -------------------------------------------------------------------------------------------------------------- faults


@pytest.mark.parametrize("code", [409, 410, 429, 500, 503, 504])
async def test_a_request_fails_as_often_as_it_was_told(world: World, code: int) -> None:
    """The first two lists fail, the third does not; other verbs and resources never did."""
    cluster, client = world
    cluster.faults.fail(code, verb="list", resource="configmaps", times=2)
    assert (await client.post(MAPS, json=config_map("a"))).status_code == 201
    assert (await client.get(PODS)).status_code == 200
    answers = [await client.get(MAPS) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [code, code, 200]
    assert answers[0].json()["code"] == code
    if code in {429, 503}:
        assert answers[0].headers["Retry-After"] == "1"


async def test_a_status_write_is_a_resource_of_its_own(world: World) -> None:
    """So that a test can make only status writes fail."""
    cluster, client = world
    await client.post(PODS, json=pod("p"))
    cluster.faults.fail(409, verb="patch", resource="pods/status")
    merge = {"Content-Type": "application/merge-patch+json"}
    assert (await client.patch(f"{PODS}/p", json={"metadata": {"labels": {"a": "b"}}}, headers=merge)).status_code == 200
    assert (await client.patch(f"{PODS}/p/status", json={"status": {}}, headers=merge)).status_code == 409


async def test_a_dropped_watch_breaks_and_an_expired_one_says_410(world: World) -> None:
    """Both are what a client meets in the field."""
    cluster, client = world

    async def follow() -> list[dict]:
        answer = await client.get(MAPS, params={"watch": "true", "resourceVersion": str(cluster.store.revision)})
        return lines(answer.text)

    async def opened() -> None:
        while not cluster.store.table(("", "configmaps")).watchers:  # noqa: ASYNC110  the store rings no bell for a new follower
            await asyncio.sleep(0)

    broken = asyncio.create_task(follow())
    await opened()
    assert cluster.faults.drop_watches("configmaps") == 1
    with pytest.raises(httpx.RemoteProtocolError):
        await broken
    told = asyncio.create_task(follow())
    await opened()
    cluster.faults.expire_watches()
    (event,) = await told
    assert (event["type"], event["object"]["code"]) == ("ERROR", 410)


async def test_an_event_comes_twice_when_a_test_asks_for_it(world: World) -> None:
    """Once."""
    cluster, client = world
    cluster.faults.duplicate_events("configmaps")
    version = cluster.store.revision
    for name in ("a", "b"):
        await client.post(MAPS, json=config_map(name))
    events = lines((await client.get(MAPS, params={"watch": "true", "resourceVersion": version, "timeoutSeconds": 1})).text)
    assert [event["object"]["metadata"]["name"] for event in events] == ["a", "a", "b"]


async def test_a_forgotten_history_is_410_for_watches_and_pages(world: World) -> None:
    """A quiet table's history is forgotten too."""
    cluster, client = world
    for name in ("a", "b"):
        await client.post(MAPS, json=config_map(name))
    page = (await client.get(MAPS, params={"limit": 1})).json()
    await client.post(MAPS, json=config_map("c"))
    cluster.faults.forget_history("configmaps")
    token = page["metadata"]["continue"]
    assert (await client.get(MAPS, params={"limit": 1, "continue": token})).status_code == 410
    events = lines((await client.get(MAPS, params={"watch": "true", "resourceVersion": page["metadata"]["resourceVersion"]})).text)
    assert events[0]["object"]["code"] == 410


async def test_a_version_from_the_future_is_504(world: World) -> None:
    """With the time to wait, as the API server says it."""
    answer = await world[1].get(MAPS, params={"watch": "true", "resourceVersion": "999999"})
    assert (answer.status_code, answer.headers["Retry-After"]) == (504, "1")


async def test_a_crash_is_a_status(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever happens inside, a client gets a body that it can read."""
    cluster, client = world

    async def crash(verb: str, resource: str) -> None:
        raise RuntimeError("boom")

    monkeypatch.setattr(cluster.faults, "before", crash)
    answer = await client.get(MAPS)
    assert (answer.status_code, answer.json()["reason"]) == (500, "InternalError")
    assert "boom" in answer.json()["message"]


# ------------------------------------------------------------------------------------------------------------ protobuf


def _field(number: int, value: bytes) -> bytes:
    return bytes([number << 3 | 2, len(value)]) + value


def _envelope(kind: str, raw: bytes) -> bytes:
    return MAGIC + _field(1, _field(1, b"v1") + _field(2, kind.encode())) + _field(2, raw)


async def test_kubectl_creates_small_objects_in_protobuf(world: World) -> None:
    """A ConfigMap with its data."""
    _, client = world
    meta = _field(1, _field(1, b"c") + _field(11, _field(1, b"l") + _field(2, b"x")))
    data = _field(2, _field(1, b"k") + _field(2, b"v"))
    headers = {"Content-Type": "application/vnd.kubernetes.protobuf"}
    made = (await client.post(MAPS, content=_envelope("ConfigMap", meta + data), headers=headers)).json()
    assert (made["metadata"]["name"], made["metadata"]["labels"], made["data"]) == ("c", {"l": "x"}, {"k": "v"})


PROTOBUF_EDGES = {
    "no envelope": b"nonsense",
    "a kind that is not read": _envelope("Pod", b""),
    "a field that is not read": _envelope("ConfigMap", _field(9, b"x")),
    "a number where a text should be": _envelope("ConfigMap", bytes([1 << 3, 5])),
    "a number in the envelope": MAGIC + bytes([1 << 3, 5]),
    "cut off": _envelope("ConfigMap", _field(1, b"abc"))[:-2],
}


@pytest.mark.parametrize("body", PROTOBUF_EDGES.values(), ids=PROTOBUF_EDGES)
async def test_other_protobuf_is_415_and_loses_nothing_in_silence(world: World, body: bytes) -> None:
    """The words name JSON as the way."""
    headers = {"Content-Type": "application/vnd.kubernetes.protobuf"}
    assert (await world[1].post(MAPS, content=body, headers=headers)).status_code == 415


async def test_a_yaml_body_is_read_without_dates(world: World) -> None:
    """As Kubernetes reads YAML: a timestamp stays a text."""
    body = "metadata: {name: y}\ndata: {when: 2026-01-01T00:00:00Z}\n"
    made = await world[1].post(MAPS, content=body, headers={"Content-Type": "application/yaml"})
    assert made.json()["data"] == {"when": "2026-01-01T00:00:00Z"}


async def test_a_generated_name_that_is_taken_is_drawn_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """10,000 objects of one prefix do meet by chance."""
    _, client = world
    letters = iter("aaaaa" + "aaaaa" + "bbbbb")
    monkeypatch.setattr("local.metadata.secrets.choice", lambda choices: next(letters))
    names = [(await client.post(MAPS, json={"metadata": {"generateName": "x-"}})).json()["metadata"]["name"] for _ in range(2)]
    assert names == ["x-aaaaa", "x-bbbbb"]


async def test_a_patch_that_another_writer_overtakes_is_tried_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """It lands on the newer object; one that names its version is told 409 instead."""
    cluster, client = world
    merge = {"Content-Type": "application/merge-patch+json"}
    await client.post(MAPS, json=config_map("a"))
    ask = cluster.admission.validate
    others = ["1", "2"]

    async def overtaken(op: Any, obj: Any, old: Any) -> None:
        await ask(op, obj, old)
        if others and op.manager == "slow":
            await client.patch(f"{MAPS}/a", json={"data": {"other": others.pop()}}, headers=merge, params={"fieldManager": "fast"})

    monkeypatch.setattr(cluster.admission, "validate", overtaken)
    plain = await client.patch(f"{MAPS}/a", json={"data": {"mine": "x"}}, headers=merge, params={"fieldManager": "slow"})
    assert plain.json()["data"] == {"a": "b", "other": "1", "mine": "x"}
    others.append("3")
    version = plain.json()["metadata"]["resourceVersion"]
    body = {"metadata": {"resourceVersion": version}, "data": {"mine": "y"}}
    named = await client.patch(f"{MAPS}/a", json=body, headers=merge, params={"fieldManager": "slow"})
    assert named.status_code == 409
