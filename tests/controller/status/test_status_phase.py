"""Phase, phase message, the ROLES column and the endpoint."""

from collections.abc import Callable

import pytest
from status_builders import Scene, scene


def pair(prefill: int, decode: int) -> Scene:
    """Two of each kind declared, so many of them ready."""
    found = Scene().role("p", 2, kind="Prefill").role("d", 2, kind="Decode")
    for role, ready in (("p", prefill), ("d", decode)):
        found.replicas(f"{role}0", f"{role}1", role=role)
        for pod in found.pods[-2:][ready:]:
            pod.unready()
    return found


PHASES: dict[str, tuple[Callable[[], Scene], str, str]] = {
    "all replicas ready": (lambda: scene(replicas=2).replicas("a", "b"), "Ready", ""),
    "one kind wholly down": (lambda: pair(0, 2), "Degraded", "2 of 4"),
    "nothing ready": (lambda: pair(0, 0), "Starting", "hold quota"),
    "nothing there": (scene, "Starting", "No replica exists"),
    "all ready, router not ready": (lambda: scene().replicas("a").router(ready=0), "Degraded", "no ready replica"),
    "all ready, router not deployed": (lambda: scene().replicas("a").router(ready=None), "Degraded", "does not exist yet"),
    "all ready, router refused": (
        lambda: (
            Scene().role("a", ports=[{"port": 1}]).role("b", ports=[{"port": 2}]).router().replicas("x", role="a").replicas("y", role="b")
        ),
        "Degraded",
        "share one serving port",
    ),
    "on its way out": (lambda: scene().replicas("a").deleting(), "Deleting", "torn down"),
    "stopped by hand": (lambda: scene(replicas=0), "Ready", ""),
    "a scale-down that waits is no loss of required capacity": (lambda: scene(replicas=1).replicas("a", "b"), "Ready", ""),
    "surplus of one role does not make up for another": (
        lambda: Scene().role("a", 1).role("b", 1).replicas("x", "y", role="a"),
        "Degraded",
        "1 of 2",
    ),
    "an evicted Pod is named with the kubelet's words": (
        lambda: scene(replicas=2).replicas("a", "b").tap(lambda s: s.pods[1].phase("Failed", reason="Evicted", message="low on disk")),
        "Degraded",
        "1 of 2 replicas is ready.; Pod qwen-b was evicted: low on disk",
    ),
    "blocked weights speak while no Pod exists": (
        lambda: scene().artifact(""),
        "Starting",
        "Artifact weights of namespace team-a does not exist",
    ),
    "blocked weights do not speak over Pods": (
        lambda: scene().artifact("").replicas("a").tap(lambda s: s.pods[0].unready()),
        "Starting",
        "holds quota",
    ),
}


@pytest.mark.parametrize("sentence", PHASES)
def test_phase(sentence: str) -> None:
    """Sums run over all roles together, and the message carries the one fact to read next."""
    build, phase, message = PHASES[sentence]
    status = build().judge()
    assert status.phase == phase
    assert message in status.phase_message
    assert bool(message) == bool(status.phase_message)


def test_an_eviction_is_no_note_on_a_ready_deployment() -> None:
    """Ready has an empty message."""
    found = scene().replicas("a")
    found.pod("old", ordinal=None).phase("Failed", reason="Evicted", message="low on disk")
    assert (found.judge().phase, found.judge().phase_message) == ("Ready", "")


@pytest.mark.parametrize("status", [{"reason": "Evicted"}, {"reason": "Error", "message": "exit 1"}])
def test_only_an_eviction_with_the_kubelet_s_words_is_a_note(status: dict[str, str]) -> None:
    """Another end, or an eviction without words, adds nothing."""
    found = scene(replicas=2).replicas("a", "b").tap(lambda s: s.pods[1].phase("Failed", **status))
    assert found.judge().phase_message == "1 of 2 replicas is ready."


def test_the_message_of_starting_is_the_quota_condition_s() -> None:
    """A deployment that starts says what its quota says."""
    found = scene().replicas("a").tap(lambda s: s.pods[0].unready())
    assert found.judge().phase_message == found.condition("QuotaReserved").message


SUMMARIES: dict[str, tuple[Callable[[], Scene], str]] = {
    "a router and two servers": (lambda: scene(replicas=2).replicas("a", "b").router(), "1R2S"),
    "every disaggregated kind": (
        lambda: Scene().role("d", kind="Decode").role("p", kind="Prefill").role("e", kind="Encode").router().replicas("x", role="e"),
        "1R1E0P0D",
    ),
    "roles of a kind are summed": (lambda: Scene().role("a").role("b").replicas("x", role="a").replicas("y", role="b"), "2S"),
    "a replica of several Pods counts once": (lambda: scene(size=2).group("server", 0, "a", "b"), "1S"),
    "no router, no R": (scene, "0S"),
    "a router that is not deployed": (lambda: scene().router(ready=None), "0R0S"),
    "a router Deployment of another owner": (
        lambda: scene().router().tap(lambda s: s.objects[0]["metadata"]["ownerReferences"][0].update(uid="other")),
        "0R0S",
    ),
}


@pytest.mark.parametrize("sentence", SUMMARIES)
def test_summary(sentence: str) -> None:
    """Order R, S, E, P, D; a declared kind with nothing ready shows zero."""
    build, summary = SUMMARIES[sentence]
    assert build().judge().role_summary == summary


ENDPOINTS: dict[str, tuple[Callable[[], Scene], str]] = {
    "nothing declared": (scene, "http://qwen.team-a.svc:8000"),
    "the first port declared": (lambda: scene(ports=[{"port": 9000}, {"port": 9001}]), "http://qwen.team-a.svc:9000"),
    "a certificate alone": (lambda: scene(extraArgs=["--ssl-certfile", "/c"]), "https://qwen.team-a.svc:8000"),
    "a key alone, spelt with an underscore": (lambda: scene(extraArgs=["--ssl_keyfile=/k"]), "https://qwen.team-a.svc:8000"),
    "another ssl flag alone": (lambda: scene(extraArgs=["--ssl-ca-certs", "/ca"]), "http://qwen.team-a.svc:8000"),
    "a take-over role's command": (
        lambda: scene(command=["vllm", "serve", "m", "--ssl-certfile", "/c"], extraArgs=[]),
        "https://qwen.team-a.svc:8000",
    ),
    "a take-over role's extraArgs are inert": (
        lambda: scene(command=["vllm", "serve"], extraArgs=["--ssl-certfile", "/c"]),
        "http://qwen.team-a.svc:8000",
    ),
    "Encode comes first in the spec": (
        lambda: Scene().role("e", kind="Encode", ports=[{"port": 1}], extraArgs=["--ssl-certfile", "/c"]).role("p", kind="Prefill"),
        "http://qwen.team-a.svc:8000",
    ),
    "a ready router": (lambda: scene(extraArgs=["--ssl-certfile", "/c"]).router(), "http://qwen-router.team-a.svc:8081"),
    "a router that is not ready": (lambda: scene().router(ready=0), ""),
}


@pytest.mark.parametrize("sentence", ENDPOINTS)
def test_endpoint(sentence: str) -> None:
    """Derived from the spec and the role's own arguments, as its engine reads them."""
    build, endpoint = ENDPOINTS[sentence]
    assert build().judge().endpoint == endpoint
