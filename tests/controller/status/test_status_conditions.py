"""The conditions that have no page of their own: domain, cache, weights, router, KV events, kinds, elastic resize."""

from collections.abc import Callable

import msgspec
import pytest
from status_builders import Scene, entries, scene

from controller.status.judge import judge

Verdict = tuple[str, str]


def check(found: Scene, kind: str, verdict: Verdict, *texts: str) -> None:
    """The condition shows that verdict, and its message has those texts."""
    assert found.verdict(kind) == verdict
    message = found.condition(kind).message
    assert [text for text in texts if text not in message] == [], message


DOMAIN: dict[str, tuple[Callable[[], Scene], Verdict, tuple[str, ...]]] = {
    "no cache declared": (scene, ("True", "NotApplicable"), ()),
    "no Binding": (lambda: scene().cache(None), ("False", "BindingNotFound"), ("Binding b", "team-a")),
    "a Binding on its way out": (lambda: scene().cache(deleting=True), ("False", "BindingDeleting"), ("b", "pool-a", "d1")),
    "not observed yet": (lambda: scene().cache(""), ("False", "BindingNotReady"), ("not been observed",)),
    "in error": (lambda: scene().cache("Error", phaseMessage="no space"), ("False", "BindingNotReady"), ("Error", "no space")),
    "ready without quota": (lambda: scene().cache(granted=False), ("False", "BindingNotReady"), ("quota is not granted",)),
    "ready, and nobody says that quota is granted": (
        lambda: scene().cache(conditions=[]),
        ("False", "BindingNotReady"),
        ("quota is not known to be granted",),
    ),
    "ready and granted": (lambda: scene().cache(), ("True", "Registered"), ("b", "pool-a", "d1")),
}


@pytest.mark.parametrize("sentence", DOMAIN)
def test_domain_registered(sentence: str) -> None:
    """First match; the message names the Binding."""
    build, verdict, texts = DOMAIN[sentence]
    check(build(), "DomainRegistered", verdict, *texts)


def test_a_binding_that_is_lost_keeps_what_was_published() -> None:
    """kvCache appears with the first resolution, stays when the Binding goes, and never appears unresolved."""
    published = scene().cache().judge().kv_cache
    assert published is not None
    assert (published.binding, published.pool, published.domain.name, published.domain.block_size) == ("b", "pool-a", "d1", 64)
    assert scene().cache("Error").judge().kv_cache is None
    assert scene().cache(None).before(kv_cache=published).judge().kv_cache == published


def test_a_binding_that_came_back_is_registered_now() -> None:
    """Outside a teardown the stored answer is no answer."""
    found = scene().cache().stood("DomainRegistered", "False", "BindingNotFound")
    assert found.verdict("DomainRegistered") == ("True", "Registered")


CACHE: dict[str, tuple[Callable[[], Scene], Verdict, tuple[str, ...]]] = {
    "no cache declared": (scene, ("True", "NotApplicable"), ()),
    "a replica stored": (lambda: scene().cache().replicas("a").stored("a", 1, 9), ("True", "CacheActive"), ("server ordinal 0",)),
    "every operation failed": (lambda: scene().cache(blocks=5).replicas("a").stored("a", 0, 9), ("False", "CacheOperationsFailing"), ()),
    "one stores, the other fails": (
        lambda: scene(replicas=2).cache().replicas("a", "b").stored("a", 0, 3).stored("b", 1, 0),
        ("True", "CacheActive"),
        (),
    ),
    "no operation is no account": (lambda: scene().cache().replicas("a").stored("a"), ("Unknown", "NoObservationAvailable"), ()),
    "the domain holds blocks": (lambda: scene().cache(blocks=5).replicas("a"), ("True", "CacheActive"), ("shared domain d1",)),
    "the domain is used": (lambda: scene().cache(usage="4Gi").replicas("a"), ("True", "CacheActive"), ("domain",)),
    "the domain is used, told as a number": (lambda: scene().cache(usage=7).replicas("a"), ("True", "CacheActive"), ("domain",)),
    "no blocks": (lambda: scene().cache(blocks=0, usage="0").replicas("a"), ("Unknown", "NoObservationAvailable"), ()),
    "a figure that is no quantity": (lambda: scene().cache(usage="many").replicas("a"), ("Unknown", "NoObservationAvailable"), ()),
    "a negative figure": (lambda: scene().cache(usage="-1Gi").replicas("a"), ("Unknown", "NoObservationAvailable"), ()),
    "nothing ready": (
        lambda: scene().cache(blocks=5).replicas("a").tap(lambda s: s.pods[0].unready()).stored("a", 5),
        ("Unknown", "NoReplicaReady"),
        (),
    ),
    "took over": (
        lambda: scene().cache(blocks=5).replicas("a").tap(lambda s: s.pods[0].taken_over()).stored("a", 5),
        ("Unknown", "Unmanaged"),
        ("server",),
    ),
}


@pytest.mark.parametrize("sentence", CACHE)
def test_cache_attached(sentence: str) -> None:
    """Judged downstream of the engine; silence is Unknown, never False."""
    build, verdict, texts = CACHE[sentence]
    check(build(), "CacheAttached", verdict, *texts)


def mounting(reported: str | None) -> Scene:
    """A replica whose weights come by a volume, and what the kubelet says of its volumes."""
    found = scene().artifact("persistentVolumeClaim").replicas("a")
    conditions = found.pods[0].conditions
    conditions.pop("PodReadyToStartContainers")
    conditions.update({} if reported is None else {"PodReadyToStartContainers": reported})
    return found


WEIGHTS: dict[str, tuple[Callable[[], Scene], Verdict, tuple[str, ...]]] = {
    "no artifact referenced": (scene, ("True", "NotApplicable"), ()),
    "no such artifact": (lambda: scene().artifact(""), ("False", "ArtifactNotFound"), ("weights", "team-a")),
    "not resolved": (
        lambda: scene().artifact(resolved="False:Fetching:no such revision"),
        ("False", "ArtifactNotResolved"),
        ("no such revision",),
    ),
    "nobody said that it is resolved": (lambda: scene().artifact(conditions=[]), ("False", "ArtifactNotResolved"), ()),
    "the artifact's own reason is passed on": (
        lambda: scene().artifact(resolved="False:ClaimNotBound:pending"),
        ("False", "ClaimNotBound"),
        (),
    ),
    "no Pod yet": (lambda: scene().artifact(), ("True", "Downloaded"), ()),
    "an engine still downloads": (
        lambda: scene().artifact().replicas("a").tap(lambda s: s.pods[0].unready()),
        ("False", "Downloading"),
        ("qwen-a",),
    ),
    "every engine is up": (lambda: scene().artifact().replicas("a"), ("True", "Downloaded"), ()),
    "a departing engine is not waited for": (
        lambda: scene(replicas=2).artifact().replicas("a", "b").tap(lambda s: s.pods[1].unready().departing()),
        ("True", "Downloaded"),
        (),
    ),
    "a failed Pod is not waited for": (
        lambda: scene(replicas=2).artifact().replicas("a", "b").tap(lambda s: s.pods[1].phase("Failed")),
        ("True", "Downloaded"),
        (),
    ),
    "a volume is not mounted": (lambda: mounting("False").tap(lambda s: s.pods[0].unready()), ("False", "WeightsNotMounted"), ("qwen-a",)),
    "nobody says whether it is": (lambda: mounting(None).tap(lambda s: s.pods[0].unready()), ("False", "WeightsNotMounted"), ("qwen-a",)),
    "nobody says so, but the engine is ready, which wants its volumes": (lambda: mounting(None), ("True", "Mounted"), ()),
    "a volume is mounted though the engine is not ready": (
        lambda: scene().artifact("persistentVolumeClaim").replicas("a").tap(lambda s: s.pods[0].unready()),
        ("True", "Mounted"),
        (),
    ),
}


@pytest.mark.parametrize("sentence", WEIGHTS)
def test_weights_ready(sentence: str) -> None:
    """The artifact's own state first, then the Pods that wait."""
    build, verdict, texts = WEIGHTS[sentence]
    check(build(), "WeightsReady", verdict, *texts)


def test_a_node_that_failed_speaks_before_nodes_that_fetch() -> None:
    """Among the waiting Pods' nodes a failure is told with its digest, reason and next try."""
    nodes = [
        {"name": "n1", "state": "Fetching"},
        {"name": "n2", "state": "Failed", "digest": "sha256:1", "reason": "DiskFull", "message": "no space", "retryTime": "later"},
        {"name": "elsewhere", "state": "Failed"},
    ]
    found = scene(replicas=2).artifact(delivery="Node", nodes=nodes).replicas("a", "b")
    for pod in found.pods:
        pod.conditions["PodReadyToStartContainers"] = "False"
    snapshot = found.snapshot()
    placed = tuple(
        msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=f"n{i}")) for i, pod in enumerate(snapshot.pods, 1)
    )
    failed = next(c for c in judge(msgspec.structs.replace(snapshot, pods=placed)).conditions if c.type == "WeightsReady")
    assert (failed.reason, [t for t in ("n2", "sha256:1", "DiskFull", "later") if t not in failed.message]) == ("MaterializationFailed", [])
    fetching = next(c for c in judge(msgspec.structs.replace(snapshot, pods=placed[:1])).conditions if c.type == "WeightsReady")
    assert (fetching.reason, "n1" in fetching.message) == ("Materializing", True)


def test_the_model_is_published_while_resolved() -> None:
    """Artifact, revision, digest and delivery; absent otherwise."""
    found = scene().artifact("persistentVolumeClaim").judge().model
    assert found is not None
    assert (found.artifact, found.revision, found.manifest_digest, found.delivery) == ("weights", "r1", "sha256:1", "PVC")
    assert scene().artifact(resolved="False").judge().model is None


ROUTER: dict[str, tuple[Callable[[], Scene], Verdict, tuple[str, ...]]] = {
    "no router": (scene, ("True", "NotApplicable"), ()),
    "not deployed": (lambda: scene().router(ready=None), ("Unknown", "NotDeployed"), ("qwen-router",)),
    "deployed by somebody else": (
        lambda: scene().router().tap(lambda s: s.objects[0]["metadata"]["ownerReferences"][0].update(uid="x")),
        ("Unknown", "NotDeployed"),
        ("another owner",),
    ),
    "no ready replica": (lambda: scene().router(ready=0), ("False", "NoReadyReplicas"), ()),
    "ready": (lambda: scene().router(ready=2), ("True", "Ready"), ("qwen-router", "2")),
    "two serving ports": (
        lambda: Scene().role("a", ports=[{"port": 9000}]).role("b", ports=[{"port": 80}]).router(),
        ("False", "RenderFailed"),
        ("80, 9000",),
    ),
    "a router of another engine": (lambda: scene().engine("SGLang").router("vllm-router"), ("False", "RenderFailed"), ("vLLM only",)),
}


@pytest.mark.parametrize("sentence", ROUTER)
def test_router_ready(sentence: str) -> None:
    """A refusal is a reason here and never an error of the pass."""
    build, verdict, texts = ROUTER[sentence]
    check(build(), "RouterReady", verdict, *texts)


def pair(**more: object) -> Scene:
    """Prefill and decode behind llm-d-router."""
    return Scene().role("pre", kind="Prefill", **more).role("dec", kind="Decode").router()


EVENTS: dict[str, tuple[Callable[[], Scene], Verdict, bool]] = {
    "servers without a router": (scene, ("True", "NotApplicable"), False),
    "a pair without a router": (lambda: Scene().role("pre", kind="Prefill").role("dec", kind="Decode"), ("False", "NoRouter"), False),
    "rendered to publish, no Pod yet": (pair, ("True", "Publishing"), True),
    "Pods that publish": (lambda: pair().tap(lambda s: s.pod("a", "pre").publishing()), ("True", "Publishing"), True),
    "Pods that publish, spelt with underscores": (
        lambda: pair().tap(lambda s: s.pod("a", "pre").publishing("--kv_events_config")),
        ("True", "Publishing"),
        True,
    ),
    "Pods whose whole line is the command": (
        lambda: pair().tap(
            lambda s: s.pod("a", "pre").publishing().main.update(args=[], command=["vllm", "serve", "m", "--kv-events-config", "{}"])
        ),
        ("True", "Publishing"),
        True,
    ),
    "Pods that publish by their command, with other arguments behind it": (
        lambda: pair().tap(
            lambda s: (
                s.pod("a", "pre").publishing().main.update(args=["--port", "8000"], command=["vllm", "serve", "--kv-events-config", "{}"])
            )
        ),
        ("True", "Publishing"),
        True,
    ),
    "Pods that do not": (lambda: pair().tap(lambda s: s.pod("a", "pre")), ("False", "PublisherDisabled"), False),
    "one replica of two does not": (
        lambda: pair(replicas=2).tap(lambda s: (s.pod("a", "pre").publishing(), s.pod("b", "pre", 1))),
        ("False", "PublisherDisabled"),
        False,
    ),
    "only the leader publishes": (
        lambda: pair(size=2).tap(lambda s: (s.pod("a", "pre").seat(0, 2).publishing(), s.pod("b", "pre").seat(1, 2))),
        ("True", "Publishing"),
        True,
    ),
    "a Pod without an engine container": (
        lambda: pair().tap(lambda s: s.pod("a", "pre").publishing().main.update(name="sidecar")),
        ("False", "PublisherDisabled"),
        False,
    ),
    "the ports without the flag": (
        lambda: pair().tap(lambda s: s.pod("a", "pre").publishing().main.update(args=[])),
        ("False", "PublisherDisabled"),
        False,
    ),
    "the ports are missing": (
        lambda: pair().tap(lambda s: s.pod("a", "pre").publishing().main.update(ports=[])),
        ("False", "PublisherDisabled"),
        False,
    ),
    "a producer that took over": (lambda: pair(command=["x"]), ("Unknown", "RoleUnmanaged"), False),
    "SGLang": (lambda: pair().engine("SGLang"), ("False", "PublisherDisabled"), False),
    "another router": (lambda: scene().router("vllm-router"), ("False", "PublisherDisabled"), False),
}


@pytest.mark.parametrize("sentence", EVENTS)
def test_kv_events(sentence: str) -> None:
    """Configuration in rendered Pods; Decode and Encode produce nothing, and the contract agrees with the condition."""
    build, verdict, published = EVENTS[sentence]
    found = build()
    check(found, "KVEventsPublishing", verdict)
    contract = found.judge().router
    assert any(role.kv_events for role in contract.roles) is published if contract else not published


def test_kinds_are_named_in_role_order() -> None:
    """Every lacking kind, as the spec orders them."""
    found = Scene().role("d", kind="Decode").role("p", kind="Prefill").role("e", kind="Encode").replicas("x", role="e")
    check(found, "RoleKindsReady", ("False", "KindsNotReady"), "Decode, Prefill")


def test_without_roles_no_kind_is_known() -> None:
    """A spec that no schema admits, which a file can hold: nothing is ready, and nothing is known to lack."""
    check(Scene(), "RoleKindsReady", ("Unknown", "NoRoleStatuses"))


def test_one_ready_replica_of_a_kind_is_enough() -> None:
    """Completeness is what phase answers."""
    found = Scene().role("a", 5).role("b", 5).replicas("x", role="b")
    check(found, "RoleKindsReady", ("True", "AllKindsReady"))
    assert found.judge().phase == "Degraded"


def elastic(**seen: object) -> Scene:
    """An elastic role of width 4 and what was seen of it."""
    return scene(elasticEp={"width": 4}).elastic(**seen)


RESIZE: dict[str, tuple[Callable[[], Scene], Verdict, str]] = {
    "nothing refused": (lambda: elastic(desired=4, observed=4, known=True, record=False), ("True", "NoRefusal"), ""),
    "in flight": (lambda: elastic(desired=4, observed=2, known=True, record=True), ("True", "NoRefusal"), ""),
    "a refusal inside its bound": (
        lambda: elastic(observed=2, known=True, record=True, refusal={"attempts": 2, "message": "busy"}),
        ("True", "NoRefusal"),
        "",
    ),
    "a refusal inside its bound though the record is gone": (
        lambda: elastic(observed=2, known=True, record=False, refusal={"attempts": 1, "message": "busy"}),
        ("True", "NoRefusal"),
        "",
    ),
    "refused for good": (
        lambda: elastic(record=True, refusal={"attempts": 5, "message": "503 busy", "abandoned": True}),
        ("False", "ScaleRefused"),
        "503 busy",
    ),
    "the record is gone and the width differs": (
        lambda: elastic(desired=4, observed=3, known=True, record=False, proof="ranks"),
        ("Unknown", "WorldUnprovable"),
        "Desired width 4, observed width 3; failed proof: ranks.",
    ),
    "the record is gone and the width cannot be named": (
        lambda: elastic(observed=3, known=False, record=False),
        ("Unknown", "WorldUnprovable"),
        "observed width unknown (last seen: 3).",
    ),
    "the width is the spec's where the path names none": (lambda: elastic(observed=4, known=True, record=False), ("True", "NoRefusal"), ""),
    "the world that was asked for is not the spec's any more": (
        lambda: elastic(desired=2, observed=2, known=True, record=False),
        ("Unknown", "WorldUnprovable"),
        "Desired width 4 (last asked for: 2), observed width 2.",
    ),
    "nor is the spec's the one that was asked for": (
        lambda: elastic(desired=8, observed=4, known=True, record=False),
        ("Unknown", "WorldUnprovable"),
        "last asked for: 8",
    ),
    "the width alone was read": (lambda: elastic(observed=2, known=True), ("Unknown", "NotObserved"), ""),
    "a width that is known to be nothing": (
        lambda: elastic(known=True, record=False),
        ("Unknown", "WorldUnprovable"),
        "observed width unknown.",
    ),
    "never read": (lambda: scene(elasticEp={"width": 4}), ("Unknown", "NotObserved"), ""),
}


@pytest.mark.parametrize("sentence", RESIZE)
def test_elastic_resize(sentence: str) -> None:
    """A refusal is False only once it is terminal."""
    build, verdict, text = RESIZE[sentence]
    check(build(), "ElasticResize", verdict, text)


def test_a_pass_that_did_not_read_the_record_leaves_the_condition_alone() -> None:
    """Verdict, message, time and generation: all as they stood."""
    found = scene(elasticEp={"width": 4}).stood("ElasticResize", "False", "ScaleRefused", message="503")
    assert found.previous is not None
    assert found.condition("ElasticResize") == found.previous.conditions[0]


def test_the_router_contract() -> None:
    """Selector, addresses and metrics names; the eligibility term only once the role's Service is narrowed."""
    found = Scene().role("pre", kind="Prefill", extraArgs=["--ssl-certfile", "/c"]).role("dec", kind="Decode").router().cache()
    contract = found.service("qwen-dec", **{"modeldeployment.gpustack.ai/endpoint-eligible": "true"}).judge().router
    assert contract is not None
    assert (contract.endpoint, contract.pool_endpoint) == ("http://qwen-router.team-a.svc:8081", "master.kvcache.svc:50051")
    assert contract.metrics is not None
    assert contract.metrics.running_requests == "vllm:num_requests_running"
    prefill, decode = contract.roles
    assert (prefill.endpoint, decode.endpoint) == ("https://qwen-pre.team-a.svc:8000", "http://qwen-dec.team-a.svc:8000")
    assert prefill.selector == {
        "app.kubernetes.io/name": "model-deployment",
        "app.kubernetes.io/instance": "qwen",
        "app.kubernetes.io/component": "pre",
        "modeldeployment.gpustack.ai/role-kind": "prefill",
        "modeldeployment.gpustack.ai/member-index": "0",
    }
    assert decode.selector["modeldeployment.gpustack.ai/endpoint-eligible"] == "true"


def test_the_narrowed_service_of_another_deployment_narrows_nothing() -> None:
    """Its name may be the role's, and its owner may even have been called the same: the owner's UID decides."""
    narrowed = {"modeldeployment.gpustack.ai/endpoint-eligible": "true"}
    contract = Scene().role("dec").router().service("qwen-dec", "an earlier one", **narrowed).judge().router
    assert contract is not None
    assert "modeldeployment.gpustack.ai/endpoint-eligible" not in contract.roles[0].selector


def test_no_contract_where_the_router_cannot_be_rendered() -> None:
    """Published although the Deployment does not exist, withheld after a refusal, gone with the router."""
    assert scene().router(ready=None).judge().router is not None
    assert Scene().role("a", ports=[{"port": 1}]).role("b").router().judge().router is None
    assert scene().judge().router is None
    assert entries(A="True:B:c") == [{"type": "A", "status": "True", "reason": "B", "message": "c"}]


def test_every_elastic_worker_waits_for_its_weights() -> None:
    """Not the master alone; the Ray head needs none, and a departing worker is not waited for."""
    found = scene(elasticEp={"width": 3}).artifact().replicas("m", "w1", "w2").tap(lambda s: s.pod("h", "qwen-elastic-head", 0).unready())
    assert found.verdict("WeightsReady") == ("True", "Downloaded")
    found.pods[1].unready()
    assert found.verdict("WeightsReady") == ("False", "Downloading")
    found.pods[1].departing()
    assert found.verdict("WeightsReady") == ("True", "Downloaded")
