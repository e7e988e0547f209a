"""endpoints.serving: what the Routers were observed to select, and when that counts as seen."""

from collections.abc import Callable

import pytest
from status_builders import Scene, scene


def served(*views: Callable[[Scene], object], pods: tuple[str, ...] = ("router-a",)) -> Scene:
    """Three replicas behind a router, with those views."""
    found = scene(replicas=3).replicas("a", "b", "c").router(pods=pods)
    for view in views:
        view(found)
    return found


TWO = ("router-a", "router-b")
SERVING: dict[str, tuple[Callable[[], Scene], str, int | None]] = {
    "no router": (lambda: scene().replicas("a"), "NotConfigured", None),
    "no view": (served, "Unknown", None),
    "one view": (lambda: served(lambda s: s.view("a", "b", "!c")), "Confirmed", 2),
    "an empty selection is a real zero": (lambda: served(lambda s: s.view()), "Confirmed", 0),
    "a failed view is no empty selection": (lambda: served(lambda s: s.view(error="refused")), "Unknown", None),
    "fifteen seconds are fresh": (lambda: served(lambda s: s.view("a", age=15)), "Confirmed", 1),
    "sixteen are not": (lambda: served(lambda s: s.view("a", age=16)), "Unknown", None),
    "a clock that is a little behind": (lambda: served(lambda s: s.view("a", age=-5)), "Confirmed", 1),
    "a view from a future that never comes": (lambda: served(lambda s: s.view("a", age=-60)), "Unknown", None),
    "a view of no readable time": (
        lambda: served(lambda s: s.view("a").observations["routerViews"][0].update(receivedAt="just now")),
        "Unknown",
        None,
    ),
    "a view of no time": (lambda: served(lambda s: s.view("a").observations["routerViews"][0].pop("receivedAt")), "Unknown", None),
    "one of two views is missing": (lambda: served(lambda s: s.view("a"), pods=TWO), "Unknown", None),
    "one of two views is stale": (
        lambda: served(lambda s: s.view("a"), lambda s: s.view("a", router="router-b", age=60), pods=TWO),
        "Unknown",
        None,
    ),
    "views that overlap are united": (
        lambda: served(lambda s: s.view("a", "b"), lambda s: s.view("b", "c", router="router-b", generation=9), pods=TWO),
        "Confirmed",
        3,
    ),
    "one endpoint in and out": (
        lambda: served(lambda s: s.view("a"), lambda s: s.view("!a", router="router-b"), pods=TWO),
        "NotConverged",
        None,
    ),
    "one endpoint under two roles": (
        lambda: served(lambda s: s.view("a@8000/prefill"), lambda s: s.view("a@8000/decode", router="router-b"), pods=TWO),
        "NotConverged",
        None,
    ),
    "one router with two boots": (lambda: served(lambda s: s.view("a"), lambda s: s.view("a", generation=2)), "NotConverged", None),
    "ranks of one listener are one endpoint": (lambda: served(lambda s: s.view("a", "a", "b")), "Confirmed", 2),
    "a view that selects one rank of a listener selects it": (lambda: served(lambda s: s.view("!a", "a", "!a", "b")), "Confirmed", 2),
    "and agrees with one that selects it whole": (
        lambda: served(lambda s: s.view("a"), lambda s: s.view("!a", "a", router="router-b"), pods=TWO),
        "Confirmed",
        1,
    ),
    "one view that names a listener's ranks differently": (lambda: served(lambda s: s.view("a", "a@8000/decode")), "NotConverged", None),
    "a selected Pod that we do not know": (lambda: served(lambda s: s.view("a", "stranger")), "Unknown", None),
    "out of selection it need not be known": (lambda: served(lambda s: s.view("a", "!stranger")), "Confirmed", 1),
    "a selected Pod that does not run": (lambda: served(lambda s: s.view("a"), lambda s: s.pods[0].phase("Pending")), "Unknown", None),
    "a selected Pod on its way out": (lambda: served(lambda s: s.view("a"), lambda s: s.pods[0].departing()), "Unknown", None),
    "a port that the Pod does not declare": (lambda: served(lambda s: s.view("a@9999")), "Unknown", None),
    "a view of a router that we do not know": (
        lambda: served(lambda s: s.view("a"), lambda s: s.view("a", router="ghost")),
        "Unknown",
        None,
    ),
    "a view without an identity proves nothing": (lambda: served(lambda s: s.view("a", router="")), "Unknown", None),
    "views without an identity and of two boots": (
        lambda: served(lambda s: s.view("a", router=""), lambda s: s.view("a", router="", generation=2)),
        "NotConverged",
        None,
    ),
    "such views, stale": (
        lambda: served(lambda s: s.view("a", router=""), lambda s: s.view("a", router="", generation=2, age=60)),
        "Unknown",
        None,
    ),
    "a router that does not name its boot": (lambda: served(lambda s: s.view("a", generation=0)), "Unknown", None),
    "a departing router owes nothing": (
        lambda: served(lambda s: s.view("a"), lambda s: s.router_pod("leaving", departing=True)),
        "Confirmed",
        1,
    ),
    "a departing router's silence is nothing": (
        lambda: served(
            lambda s: s.view("a"),
            lambda s: s.router_pod("leaving", departing=True),
            lambda s: s.view("b", router="leaving", error="gone"),
        ),
        "Confirmed",
        1,
    ),
    "a departing router's stale view is nothing": (
        lambda: served(
            lambda s: s.view("a"),
            lambda s: s.router_pod("leaving", departing=True),
            lambda s: s.view("b", router="leaving", age=60),
        ),
        "Confirmed",
        1,
    ),
    "what a departing router still says counts": (
        lambda: served(
            lambda s: s.view("a"),
            lambda s: s.router_pod("leaving", departing=True),
            lambda s: s.view("!a", router="leaving"),
        ),
        "NotConverged",
        None,
    ),
    "a router Pod of another Deployment owes nothing and is not ours": (
        lambda: served(
            lambda s: s.router_pod("x").view("a", router="x"),
            lambda s: s.objects[-1]["metadata"]["ownerReferences"][0].update(name="other-abc"),
            pods=(),
        ),
        "Unknown",
        None,
    ),
    "a router Pod of no ReplicaSet is not ours": (
        lambda: served(
            lambda s: s.router_pod("x").view("a", router="x"),
            lambda s: s.objects[-1]["metadata"]["ownerReferences"][0].update(kind="StatefulSet"),
            pods=(),
        ),
        "Unknown",
        None,
    ),
    "members of a replica of several Pods": (
        lambda: scene(size=2).group("server", 0, "a", "b").router().view("a", "b"),
        "Confirmed",
        2,
    ),
    "a seat that is no number binds nothing": (
        lambda: served(lambda s: s.view("a"), lambda s: s.pods[0].labelled("modeldeployment.gpustack.ai/member-index", "x")),
        "Unknown",
        None,
    ),
    "no seat in a replica of several Pods binds nothing": (
        lambda: served(lambda s: s.view("a"), lambda s: s.pods[0].total(2)),
        "Unknown",
        None,
    ),
    "router Pods without their Deployment are nobody's": (
        lambda: scene().replicas("a").router(ready=None).view("a"),
        "Unknown",
        None,
    ),
    "router Pods of another owner's Deployment are not ours": (
        lambda: served(lambda s: s.view("a"), lambda s: s.orphan("Deployment")),
        "Unknown",
        None,
    ),
    "a router Pod that ended by itself owes nothing": (
        lambda: served(lambda s: s.view("a"), lambda s: s.router_pod("evicted").objects[-1]["status"].update(phase="Failed")),
        "Confirmed",
        1,
    ),
    "only departing routers": (
        lambda: served(lambda s: s.router_pod("leaving", departing=True).view("a", router="leaving"), pods=()),
        "Unknown",
        None,
    ),
    "Pods of another router implementation owe nothing here": (
        lambda: served(lambda s: s.router_pod("x", router="vllm-router").view("a", router="x"), pods=()),
        "Unknown",
        None,
    ),
}


@pytest.mark.parametrize("sentence", SERVING)
def test_serving(sentence: str) -> None:
    """Confirmed only from complete, fresh, identity-bound views that agree; only then a number."""
    build, state, value = SERVING[sentence]
    endpoints = build().shown().endpoints
    assert endpoints is not None
    assert (endpoints.serving.state, endpoints.serving.value) == (state, value)


def test_each_role_has_its_own_count() -> None:
    """A number beside a confirmed zero."""
    found = Scene().role("p", kind="Prefill").role("d", kind="Decode").router().replicas("x", role="p").replicas("y", role="d")
    found.view("!x", "y")
    values = [entry.endpoints.serving.value for entry in found.judge().roles if entry.endpoints]
    assert values == [0, 1]


@pytest.mark.parametrize(("routed", "state"), [(True, "Unknown"), (False, "NotConfigured")])
def test_an_elastic_role_has_no_count(routed: bool, state: str) -> None:
    """The collective was never evaluated as one group, whatever a router selects."""
    found = scene(elasticEp={"width": 2}).replicas("m", "w")
    shown = (found.router().view("m") if routed else found).shown()
    assert shown.endpoints is not None
    assert (shown.endpoints.serving.state, shown.endpoints.serving.value) == (state, None)
