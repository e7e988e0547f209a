"""The explicit spec hash, and ReplicasUpToDate."""

import hashlib
import json
from collections.abc import Callable

import pytest
from status_builders import Scene, scene

from api import keys
from controller.status.rollout import spec_hash

OLD = "0123456789abcdef"


def test_the_hash_covers_what_a_replica_is_rendered_from() -> None:
    """Canonical JSON: sorted keys, no blanks, absent and null fields left out, an unresolved cache spelled null (D9)."""
    role = {"name": "r", "kind": "Server", "replicas": 3, "size": 2, "image": None, "extraArgs": ["-tp", "4"]}
    spec = {
        "router": {"name": "x"},
        "engine": {"version": "1", "name": "vLLM"},
        "model": {"name": "m"},
        "kvTransfer": None,
        "roles": [role],
    }
    text = '{"engine":{"name":"vLLM","version":"1"},"kvCache":null,"model":{"name":"m"},"role":{"extraArgs":["-tp","4"],"size":2}}'
    assert spec_hash(spec, role, None) == hashlib.sha256(text.encode()).hexdigest()[:16]


def test_the_hash_of_a_resolved_cache_names_binding_pool_and_domain() -> None:
    """A replica rendered with a connector differs from one without."""
    cache = {"binding": "b", "pool": "p", "domain": {"name": "d", "blockSize": 64, "dtype": None}}
    spec = {"model": {"name": "é"}, "engine": {"name": "vLLM"}, "kvTransfer": {"protocol": "RDMA"}}
    basis = {
        "model": {"name": "é"},
        "engine": {"name": "vLLM"},
        "kvTransfer": {"protocol": "RDMA"},
        "role": {},
        "kvCache": {"binding": "b", "pool": "p", "domain": {"name": "d", "blockSize": 64}},
    }
    text = json.dumps(basis, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert spec_hash(spec, {}, cache) == hashlib.sha256(text.encode()).hexdigest()[:16]


def test_fields_that_no_projection_names_are_hashed_too() -> None:
    """The hash is over the spec as it is stored, not over what this program happens to read."""
    assert scene().assess().ground.hashes != scene(someNewField=1).assess().ground.hashes


def test_name_kind_and_replicas_are_outside() -> None:
    """Renaming or scaling turns nothing over."""
    first = scene(name="a", replicas=1).assess().ground.hashes["a"]
    assert Scene().role("b", 5, kind="Prefill", instanceType="a-type").assess().ground.hashes["b"] == first


def aged(*hashes: str | None, versions: tuple[str, ...] = (), minimum: str = "") -> Scene:
    """Replicas with those hashes and render versions."""
    found = scene(replicas=len(hashes)).replicas(*(f"p{i}" for i in range(len(hashes))))
    for pod, value in zip(found.pods, hashes, strict=True):
        if value != "current":
            pod.hash(value)
    for pod, version in zip(found.pods, versions, strict=False):
        pod.annotated(keys.RENDER_VERSION, version)
    return found.annotated(keys.RENDER_VERSION, minimum) if minimum else found


ROLLOUT: dict[str, tuple[Callable[[], Scene], tuple[str, str], str]] = {
    "every hash current": (lambda: aged("current", "current"), ("True", "UpToDate"), "2 replicas"),
    "one of an older spec": (lambda: aged("current", OLD), ("False", "RolloutInProgress"), "1 replica of 2"),
    "one outdated member outdates the replica": (
        lambda: scene(size=2).group("server", 0, "a", "b").tap(lambda s: s.pods[1].hash(OLD)),
        ("False", "RolloutInProgress"),
        "1 replica of 1",
    ),
    "a member without a hash is not accounted for": (lambda: aged(None), ("Unknown", "RolloutNotObserved"), ""),
    "an unhashed member beside an outdated one": (
        lambda: scene(size=2).group("server", 0, "a", "b").tap(lambda s: (s.pods[0].hash(None), s.pods[1].hash(OLD))),
        ("False", "RolloutInProgress"),
        "",
    ),
    "render versions are numbers": (lambda: aged("current", versions=("10",), minimum="9"), ("True", "UpToDate"), ""),
    "render versions may be times": (
        lambda: aged("current", versions=("20260102030405",), minimum="20260101000000"),
        ("True", "UpToDate"),
        "",
    ),
    "an older time": (lambda: aged("current", versions=("20251231000000",), minimum="20260101000000"), ("False", "RolloutInProgress"), ""),
    "below the minimum": (lambda: aged("current", versions=("8",), minimum="9"), ("False", "RolloutInProgress"), ""),
    "no version reads 0": (lambda: aged("current", minimum="1"), ("False", "RolloutInProgress"), ""),
    "an unreadable version reads 0": (lambda: aged("current", versions=("-3",), minimum="1"), ("False", "RolloutInProgress"), ""),
    "an unreadable minimum reads 0": (lambda: aged("current", minimum="soon"), ("True", "UpToDate"), ""),
    "held while the cache does not resolve": (lambda: aged(OLD, OLD).cache("Degraded"), ("False", "RolloutHeldByCache"), "2 of 2"),
    "held while the weights are missing": (lambda: aged(OLD).artifact(""), ("False", "RolloutHeldByWeights"), "WeightsReady"),
    "a cache that resolves holds nothing": (lambda: aged(OLD).cache(), ("False", "RolloutInProgress"), ""),
    "weights speak before the cache": (lambda: aged(OLD).artifact("").cache(None), ("False", "RolloutHeldByWeights"), ""),
    "nothing outdated is held by nothing": (lambda: aged("current").cache(None), ("True", "UpToDate"), ""),
    "a departed replica is missing": (
        lambda: aged("current", "current").tap(lambda s: s.pods[1].departing()),
        ("False", "ReplacementInProgress"),
        "server ordinal 1; departing Pod qwen-p1 still holds a position.",
    ),
    "a gap that a rollout left is still the rollout's": (
        lambda: aged("current", "current").tap(lambda s: s.pods[1].departing()).stood("ReplicasUpToDate", "False", "RolloutInProgress"),
        ("False", "RolloutInProgress"),
        "server ordinal 1",
    ),
    "a role that no Workload holds misses nothing": (
        lambda: Scene().role("a").role("b", 2).replicas("x", role="a").tap(lambda s: s.pod("y", "b")),
        ("True", "UpToDate"),
        "",
    ),
    "a role that only an unseated Pod's Workload holds misses all": (
        lambda: Scene().role("a").role("b").replicas("x", role="a").tap(lambda s: s.pod("y", "b", None)).admitted("y"),
        ("False", "ReplacementInProgress"),
        "b ordinal 0",
    ),
    "without Kueue any Pod of the role holds it": (
        lambda: scene(replicas=2).replicas("a").absent_kueue(),
        ("False", "ReplacementInProgress"),
        "server ordinal 1",
    ),
    "every replica departs": (
        lambda: aged("current").tap(lambda s: s.pods[0].departing()).stood("ReplicasUpToDate", "True", "UpToDate"),
        ("Unknown", "RolloutNotObserved"),
        "",
    ),
    "a teardown renders nothing": (lambda: aged("current").deleting(), ("Unknown", "RolloutNotObserved"), ""),
    "the lowest ordinals are missing": (
        lambda: scene(replicas=4).replicas("x", first=2),
        ("False", "ReplacementInProgress"),
        "server ordinal 0, 1, 3.",
    ),
    "a converging pass's own account wins": (lambda: aged(OLD).rollout(accounted=1), ("True", "UpToDate"), ""),
    "nothing is held although something would hold it": (lambda: aged("current").rollout(heldBy="Weights"), ("True", "UpToDate"), ""),
    "a pass that does not say how many it accounted for": (
        lambda: aged("current", OLD).rollout(accounted=None, outdated=1),
        ("False", "RolloutInProgress"),
        "1 replica of 2",
    ),
    "what holds is this pass's own fact where the account does not name it": (
        lambda: aged(OLD).artifact("").rollout(accounted=1, outdated=1, held=1),
        ("False", "RolloutHeldByWeights"),
        "1 of 1",
    ),
    "a pass that observed nothing": (lambda: aged("current").rollout(observed=False), ("Unknown", "RolloutNotObserved"), ""),
    "a pass that accounted for none": (lambda: aged("current").rollout(accounted=0), ("Unknown", "RolloutNotObserved"), ""),
}


@pytest.mark.parametrize("sentence", ROLLOUT)
def test_rollout(sentence: str) -> None:
    """Whether an edit landed, and why capacity moved, are told apart; nothing is answered from memory."""
    build, verdict, text = ROLLOUT[sentence]
    found = build()
    assert found.verdict("ReplicasUpToDate") == verdict
    assert text in found.condition("ReplicasUpToDate").message


def test_an_attached_replica_is_outdated_once_its_connector_stops_resolving() -> None:
    """The resolved binding is part of the hash, and the outage holds what it outdates."""
    attached = scene().replicas("a").cache()
    assert attached.verdict("ReplicasUpToDate") == ("True", "UpToDate")
    carried = attached.assess().ground.hashes["server"]
    lost = scene().replicas("a").cache("Error").tap(lambda s: s.pods[0].hash(carried))
    assert lost.verdict("ReplicasUpToDate") == ("False", "RolloutHeldByCache")


def test_an_elastic_role_accounts_for_its_master_alone() -> None:
    """Workers join and leave on the elastic path; none of their positions is missing or outdated."""
    found = scene(elasticEp={"width": 4}).replicas("m", "w1", "w2").tap(lambda s: [p.hash(OLD) for p in s.pods[1:]])
    assert found.verdict("ReplicasUpToDate") == ("True", "UpToDate")


def test_a_count_that_no_schema_admits_is_not_walked_to_its_end() -> None:
    """A file may hold any number; the positions named are bounded."""
    found = scene(replicas=10**12).replicas("a").assess()
    assert len(found.rollout.missing) == 1023
