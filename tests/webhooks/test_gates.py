"""Pod gates: which flags and probes are filled, that a second call changes nothing, and that other webhooks may stand around us."""

import copy
from typing import Any

import pytest
from reviewing import Deployment, Role, deployment, review_pod, role

PROBES = ("startupProbe", "readinessProbe", "livenessProbe")
HOST, PORT = ["--host", "0.0.0.0"], ["--port", "8000"]


def pod(made: Role | None = None, args: list[str] | None = None, *, owner: str | None = "qwen", **labels: str) -> dict[str, Any]:
    """A replica Pod of a role, with a sidecar in front of `main`."""
    name = (made or role()).fields["name"]
    main: dict[str, Any] = {"name": "main", "image": "engine:1"}
    if args is not None:
        main["args"] = args
    references = [{"apiVersion": "worker.gpustack.ai/v1", "kind": "ModelDeployment", "name": owner, "uid": "md-uid", "controller": True}]
    known = {"app.kubernetes.io/name": "model-deployment", "app.kubernetes.io/instance": "qwen", "app.kubernetes.io/component": name}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": "qwen-", "labels": known | labels, "ownerReferences": references if owner else []},
        "spec": {"containers": [{"name": "sidecar"}, main]},
    }


def main_of(obj: dict[str, Any]) -> dict[str, Any]:
    """The engine's container."""
    return next(container for container in obj["spec"]["containers"] if container["name"] == "main")


def probe(failures: int, scheme: str = "HTTP", port: int = 8000) -> dict[str, Any]:
    """The contract's probe."""
    return {
        "httpGet": {"path": "/health", "port": port, "scheme": scheme},
        "periodSeconds": 10,
        "timeoutSeconds": 3,
        "failureThreshold": failures,
    }


def gated(scheme: str = "HTTP", port: int = 8000) -> dict[str, Any]:
    """The three gates."""
    return dict(zip(PROBES, (probe(180, scheme, port), probe(3, scheme, port), probe(6, scheme, port)), strict=True))


PODS: dict[str, tuple[Role, list[str] | None, list[str] | None, dict[str, Any]]] = {
    "a Pod without arguments": (role(), None, HOST + PORT, gated()),
    "a Pod with no arguments": (role(), [], HOST + PORT, gated()),
    "a Pod with arguments": (role(), ["--x", "1"], ["--x", "1", *HOST, *PORT], gated()),
    "a declared port": (role().ports(9100), [], [*HOST, "--port", "9100"], gated(port=9100)),
    "TLS": (role().args("--ssl-certfile=/c"), ["--ssl-certfile=/c"], ["--ssl-certfile=/c", *HOST, *PORT], gated("HTTPS")),
    "TLS, abbreviated": (role().args("--ssl_certf=/c"), ["--ssl_certf=/c"], ["--ssl_certf=/c", *HOST, *PORT], gated("HTTPS")),
    "TLS with an optional client certificate": (
        role().args("--ssl-keyfile=/k", "--ssl-cert-reqs=1"),
        [],
        HOST + PORT,
        gated("HTTPS"),
    ),
    "TLS with a demanded client certificate": (role().args("--ssl-keyfile=/k", "--ssl-cert-reqs=2"), [], HOST + PORT, {}),
    "a demanded client certificate without TLS": (role().args("--ssl-cert-reqs=2"), [], HOST + PORT, gated()),
    "a role's own host": (role().args("--host=::"), ["--host=::"], ["--host=::", *PORT], {}),
    "a role's own port": (role().args("--por=1"), ["--por=1"], ["--por=1", *HOST], {}),
    "a role's own port that is the serving port": (role().args(*PORT), [*PORT], [*PORT, *HOST], {}),
    "a role's own host and port": (role().args("--host=::", "--port=1"), ["--host=::", "--port=1"], ["--host=::", "--port=1"], {}),
    "UDP": (role().ports(8000, protocol="UDP"), [], HOST + PORT, {}),
    "a second port over UDP": (role().ports(8000), [], HOST + PORT, gated()),
    "a replaced command": (role(command=["x"]), ["serve"], ["serve"], {}),
    "a replaced command and no arguments": (role(command=["x"]), None, None, {}),
    "an encoder": (role(kind="Encode"), [], HOST + PORT, gated()),
    "a bare -- that hides what is filled": (role().args("--", "x"), ["--", "x"], ["--", "x", *HOST, *PORT], gated()),
    "a dotted member that swallows what is filled": (
        role().args("--additional-config.a"),
        ["--additional-config.a"],
        ["--additional-config.a", *HOST, *PORT],
        gated(),
    ),
    "a Pod that listens elsewhere than its role says": (role(), ["--port=9"], ["--port=9", *HOST], {}),
}


@pytest.mark.parametrize("name", PODS)
async def test_pod(name: str) -> None:
    """Exactly these arguments and probes; everything else stays."""
    made, args, wanted, probes = PODS[name]
    sent = pod(made, args)
    answer = await review_pod(sent, deployment(made))
    assert answer.allowed
    done = main_of(answer.patched)
    assert done.get("args") == wanted
    assert {key: done[key] for key in PROBES if key in done} == probes
    for key in (*PROBES, "args"):
        done.pop(key, None)
    assert done == {"name": "main", "image": "engine:1"}


@pytest.mark.parametrize("name", PODS)
async def test_a_second_call_changes_nothing(name: str) -> None:
    """reinvocationPolicy IfNeeded: our own patch, or another webhook's, brings the Pod back to us."""
    made, args, _, _ = PODS[name]
    first = await review_pod(pod(made, args), deployment(made))
    assert (await review_pod(first.patched, deployment(made))).patch == []


def inject(obj: dict[str, Any]) -> dict[str, Any]:
    """Another webhook: a sidecar in front, an argument and a variable for ours."""
    changed = copy.deepcopy(obj)
    changed["spec"]["containers"].insert(0, {"name": "proxy"})
    main = main_of(changed)
    main["args"] = ["--injected", *main.get("args", [])]
    main.setdefault("env", []).append({"name": "X", "value": "1"})
    return changed


@pytest.mark.parametrize("policy", ["Never", "IfNeeded"])
@pytest.mark.parametrize("order", ["before", "after", "before and after"])
async def test_other_webhooks_around_us(policy: str, order: str) -> None:
    """Whoever mutates first, and whether we are called again: the Pod ends with one of each flag and the three gates."""
    obj = pod(None, ["--x"])
    if "before" in order:
        obj = inject(obj)
    obj = (await review_pod(obj, deployment())).patched
    if "after" in order:
        obj = inject(obj)
        if policy == "IfNeeded":
            again = await review_pod(obj, deployment())
            assert again.patch == []
            obj = again.patched
    main = main_of(obj)
    assert [token for token in main["args"] if token != "--injected"] == ["--x", *HOST, *PORT]
    assert {key: main[key] for key in PROBES} == gated()


async def test_flags_that_another_webhook_took_away_come_back() -> None:
    """Called again, only what is missing is filled."""
    obj = (await review_pod(pod(), deployment())).patched
    main_of(obj)["args"] = [*PORT]
    answer = await review_pod(obj, deployment())
    assert main_of(answer.patched)["args"] == [*PORT, *HOST]
    assert len(answer.patch) == 2


OWN = {"httpGet": {"path": "/ready", "port": 1}}


@pytest.mark.parametrize("which", PROBES)
async def test_a_pod_with_a_probe_of_its_own_keeps_it(which: str) -> None:
    """The Pod declares one: none is added."""
    obj = pod()
    main_of(obj)[which] = OWN
    done = main_of((await review_pod(obj, deployment())).patched)
    assert {key: done[key] for key in PROBES if key in done} == {which: OWN}
    assert done["args"] == HOST + PORT


async def test_a_null_probe_is_no_probe() -> None:
    """As the API has it."""
    obj = pod()
    main_of(obj)["startupProbe"] = None
    assert main_of((await review_pod(obj, deployment())).patched)["startupProbe"] == probe(180)


def _without_label(obj: dict[str, Any]) -> dict[str, Any]:
    del obj["metadata"]["labels"]["app.kubernetes.io/name"]
    return obj


def _without_main(obj: dict[str, Any]) -> dict[str, Any]:
    obj["spec"]["containers"] = [{"name": "other"}]
    return obj


def _of_another_kind(obj: dict[str, Any]) -> dict[str, Any]:
    obj["metadata"]["ownerReferences"][0]["kind"] = "ReplicaSet"
    obj["metadata"]["labels"]["app.kubernetes.io/instance"] = "other"
    return obj


ALONE: dict[str, tuple[dict[str, Any], list[Deployment]]] = {
    "no label of ours": (_without_label(pod()), [deployment()]),
    "a component that is no role": (pod(role("qwen-elastic-head")), [deployment()]),
    "a deployment that is gone": (pod(), []),
    "a deployment of another UID": (pod(), [deployment()._with("metadata", "uid", value="another")]),
    "a deployment in another namespace": (pod(), [deployment()._with("metadata", "namespace", value="team-b")]),
    "no container of ours": (_without_main(pod()), [deployment()]),
    "another kind's Pod": (_of_another_kind(pod()), [deployment()]),
    "an engine that nobody knows": (pod(), [deployment().engine("TGI", "1")]),
}


@pytest.mark.parametrize("name", ALONE)
async def test_pods_that_are_not_ours_are_left_alone(name: str) -> None:
    """Allowed, and not touched."""
    obj, owners = ALONE[name]
    answer = await review_pod(obj, *owners)
    assert answer.allowed
    assert answer.patch == []


async def test_a_pod_without_an_owner_is_found_by_its_labels() -> None:
    """The instance label names the deployment."""
    assert (await review_pod(pod(owner=None), deployment())).patch != []


async def test_updates_of_pods_are_left_alone() -> None:
    """Probes of a Pod cannot change."""
    assert (await review_pod(pod(), deployment(), operation="UPDATE")).patch == []
