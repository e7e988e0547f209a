"""What the definitions refuse by themselves, with no webhook in the way. The keys are the rules."""

from typing import Any

import pytest
from crd_builders import DeploymentBuilder, ScalerBuilder, deployment, scaler, server, split

from api.crd.check import admit

Pair = tuple[DeploymentBuilder | ScalerBuilder, str]

REFUSED: dict[str, Pair] = {
    "Server beside another kind": (deployment().role("a").role("b", "Prefill"), "spec.roles"),
    "two Prefill roles": (deployment().role("a", "Prefill").role("b", "Prefill"), "spec.roles"),
    "two Decode roles": (split().role("c", "Decode"), "spec.roles"),
    "Encode without Decode": (deployment().role("e", "Encode").role("p", "Prefill").router(), "spec.roles"),
    "Encode without a router": (deployment().role("e", "Encode").role("p", "Prefill").role("d", "Decode"), "spec.router"),
    "Encode with a command": (split().role("e", "Encode", command=["x"]), "spec.roles[2].command"),
    "eleven roles": (server().spec(roles=[{"name": f"r{n}", "instanceType": "t"} for n in range(11)]), "spec.roles"),
    "vllm-router in front of SGLang": (server(engine="SGLang").router("vllm-router"), "spec.router.name"),
    "sglang-gateway in front of vLLM": (server().router("sglang-gateway"), "spec.router.name"),
    "a threshold on vllm-router": (
        server().router("vllm-router", disaggregationThresholdTokens=1),
        "spec.router.disaggregationThresholdTokens",
    ),
    "two serving ports behind a router": (split(ports=[{"port": 9000}]), "spec.router"),
    "UDP behind a router": (server(ports=[{"port": 8000, "protocol": "UDP"}]).router(), "spec.router"),
    "a role named router beside the router": (server(role="router").router(), "spec.roles"),
    "no version and a role without an image": (server().unversioned(), "spec.engine.version"),
    "a port that carries KV events": (server(ports=[{"port": 8000}, {"port": 5557}]).router(), "spec.router"),
    "the bootstrap port on a paired Prefill role": (split(ports=[{"port": 8000}, {"port": 8998}]), "spec.roles"),
    "a member name of 64 characters": (server("a" * 50, size=2, replicas=11), "spec.roles"),
    "an elastic role on SGLang": (server(engine="SGLang", elasticEp={"width": 2}), "spec.engine.name"),
    "an elastic role beside another": (server(elasticEp={"width": 2}).role("b"), "spec.roles"),
    "an elastic role with two replicas": (server(elasticEp={"width": 2}, replicas=2), "spec.roles[0].replicas"),
    "an elastic role of size two": (server(elasticEp={"width": 2}, size=2), "spec.roles[0].size"),
    "an elastic role with a command": (server(elasticEp={"width": 2}, command=["x"]), "spec.roles[0].command"),
    "an elastic Prefill role": (server(kind="Prefill", elasticEp={"width": 2}), "spec.roles[0].kind"),
    "an elastic role with a slice": (
        server(elasticEp={"width": 2}, resources={"acceleratorSlicedMemoryPercentage": 5}),
        "spec.roles[0].resources",
    ),
    "an elastic role with an interface": (
        server(elasticEp={"width": 2}, resources={"interface": "1"}),
        "spec.roles[0].resources.interface",
    ),
    "a profile and a slice": (
        server(resources={"acceleratorPartitionedProfile": "1g", "acceleratorSlicedCoresPercentage": 5}),
        "spec.roles[0].resources.acceleratorPartitionedProfile",
    ),
    "a variable that replicas own": (server(env=[{"name": "GPUSTACK_MEMBER_INDEX"}]), "spec.roles[0].env[0].name"),
    "a variable that the operator owns on vLLM": (server(env=[{"name": "MOONCAKE_CONFIG_PATH"}]), "spec.roles"),
    "a variable that the operator owns on SGLang": (server(engine="SGLang", env=[{"name": "MOONCAKE_TENANT_ID"}]), "spec.roles"),
    "a volume without a source": (server(additionalVolumes=[{"mountPath": "/d"}]), "spec.roles[0].additionalVolumes[0]"),
    "a volume of two sources": (
        server(additionalVolumes=[{"mountPath": "/d", "configMap": {"name": "c"}, "hostPath": {"path": "/h"}}]),
        "spec.roles[0].additionalVolumes[0]",
    ),
    "the same mount path twice": (
        server(additionalVolumes=[{"mountPath": "/d", "configMap": {"name": "c"}}, {"mountPath": "/d", "configMap": {"name": "d"}}]),
        "spec.roles[0].additionalVolumes[1]",
    ),
    "a sub-path that steps out": (
        server(additionalVolumes=[{"mountPath": "/d", "configMap": {"name": "c"}, "subPath": "a/../b"}]),
        "spec.roles[0].additionalVolumes[0].subPath",
    ),
    "a replica bound to one host": (server(topology={"requiredLevel": "kubernetes.io/hostname"}), "spec.roles[0].topology.requiredLevel"),
    "most below fewest": (scaler().role("server", 3, 2), "spec.roles[0].maxReplicas"),
    "a target of a role that is not scaled": (
        scaler().proportional(roleTargets=[{"name": "other", "target": 1}]),
        "spec.algorithm.proportional.roleTargets",
    ),
    "a type without its block": (scaler().spec(algorithm={"type": "Proportional"}), "spec.algorithm.proportional"),
    "a target of zero": (
        scaler().proportional(roleTargets=[{"name": "server", "target": "0"}]),
        "spec.algorithm.proportional.roleTargets[0].target",
    ),
    "a tolerance of 1001 thousandths": (scaler().proportional(tolerance="1001m"), "spec.algorithm.proportional.tolerance"),
    "a tolerance of no thousandths": (scaler().proportional(tolerance="0.0m"), "spec.algorithm.proportional.tolerance"),
    "a tolerance above one as a number": (scaler().proportional(tolerance=2), "spec.algorithm.proportional.tolerance"),
}

ADMITTED: dict[str, DeploymentBuilder | ScalerBuilder] = {
    "one Server role": server(),
    "several Server roles": deployment().role("a").role("b"),
    "a lone Prefill": deployment().role("a", "Prefill"),
    "a pair without a router": deployment().role("a", "Prefill").role("b", "Decode"),
    "encode, prefill and decode behind a router": split().role("e", "Encode"),
    "an image on every role needs no version": server(image="x").unversioned(),
    "5557 without llm-d-router": server(ports=[{"port": 8000}, {"port": 5557}]),
    "5557 on a role that replaced its command": server(ports=[{"port": 8000}, {"port": 5557}], command=["x"]).router(),
    "8998 on a lone Prefill": deployment().role("a", "Prefill", ports=[{"port": 8000}, {"port": 8998}]),
    "a Service name of 64 characters, which only the webhook refuses, and only a new role's": server("a" * 57),
    "a name with a dot, likewise": server("a.b"),
    "a variable that only SGLang owns, on vLLM": server(env=[{"name": "MOONCAKE_TENANT_ID"}]),
    "an elastic role": server(elasticEp={"width": 2}, resources={"interface": "0", "accelerator": 1}),
    "a sub-path with dots in a name": server(additionalVolumes=[{"mountPath": "/d", "secret": {"name": "s"}, "subPath": "a..b"}]),
    "the same port under two protocols": server(ports=[{"port": 80}, {"port": 80, "protocol": "UDP"}]),
    "a tolerance in thousandths": scaler().proportional(tolerance="250m"),
    "a tolerance in parts of a thousandth": scaler().proportional(tolerance="0.5m"),
    "a tolerance of ten tenths": scaler().proportional(tolerance="10e-1"),
    "a tolerance with an exponent that changes nothing": scaler().proportional(tolerance="1.0E0"),
    "a tolerance in thousands": scaler().proportional(tolerance="0.001k"),
    "a tolerance of one as a number": scaler().proportional(tolerance=1),
    "a target as a number": scaler().proportional(roleTargets=[{"name": "server", "target": 8}]),
    "equal bounds": scaler().role("server", 2, 2),
}


@pytest.mark.parametrize(("builder", "field"), REFUSED.values(), ids=REFUSED.keys())
def test_what_the_definitions_refuse(builder: Any, field: str) -> None:
    """Exactly one fault, at the field that has to change (besides the note that rules rest while the shape is wrong)."""
    assert [fault.field for fault in admit(builder.build())[1] if fault.field != "<nil>"] == [field]


@pytest.mark.parametrize("builder", ADMITTED.values(), ids=ADMITTED.keys())
def test_what_the_definitions_admit(builder: Any) -> None:
    """The neighbours of each rule pass."""
    assert admit(builder.build())[1] == []


FROZEN: dict[str, tuple[Any, Any, str]] = {
    "the model's name": (server(), server().spec(model={"name": "other"}), "spec.model"),
    "an artifact added": (server(), server().spec(model={"name": "m", "artifactRef": {"name": "a"}}), "spec.model"),
    "the engine": (server(), server(engine="SGLang"), "spec.engine.name"),
    "a KV cache added": (server(), server().cached(), "spec.kvCache"),
    "a KV cache removed": (server().cached(), server(), "spec.kvCache"),
    "a KV cache re-pointed": (server().cached("a"), server().cached("b"), "spec.kvCache"),
    "a role added": (server(), server().role("b"), "spec.roles"),
    "a role renamed": (server(), server(role="other"), "spec.roles"),
    "a role's kind": (server(), server(kind="Decode"), "spec.roles[0].kind"),
    "the router's name": (server().router(), server().router("vllm-router"), "spec.router.name"),
    "elasticEp removed": (server(elasticEp={"width": 2}), server(), "spec.roles[0].elasticEp"),
    "a smaller width": (server(elasticEp={"width": 3}), server(elasticEp={"width": 2}), "spec.roles[0].elasticEp.width"),
    "the instance type of an elastic role": (
        server(elasticEp={"width": 2}),
        deployment().role(elasticEp={"width": 2}, instanceType="other"),
        "spec.roles[0].instanceType",
    ),
    "a scaler's target": (scaler(), scaler().spec(targetRef={"name": "other"}), "spec.targetRef"),
}

FREE: dict[str, tuple[Any, Any]] = {
    "replicas, size and instance type": (server(), deployment().role(instanceType="other", replicas=9, size=2)),
    "roles in another order": (deployment().role("a").role("b"), deployment().role("b").role("a")),
    "a router added": (server(), server().router()),
    "a router removed": (server().router(), server()),
    "a command given up": (server(command=["x"]), server()),
    "the engine's version": (server(), server().spec(engine={"name": "vLLM", "version": "0.33.0"})),
    "a larger width": (server(elasticEp={"width": 2}), server(elasticEp={"width": 3})),
    "a default written out": (server(), server(kind="Server", replicas=1)),
    "a scaler's mode": (scaler(), scaler().spec(mode="Active")),
}


@pytest.mark.parametrize(("old", "new", "field"), FROZEN.values(), ids=FROZEN.keys())
def test_what_cannot_be_changed(old: Any, new: Any, field: str) -> None:
    """What answers which deployment this is stays; and the new object alone would be fine."""
    assert admit(new.build())[1] == []
    assert [fault.field for fault in admit(new.build(), old.build())[1]] == [field]


@pytest.mark.parametrize(("old", "new"), FREE.values(), ids=FREE.keys())
def test_what_can_be_changed(old: Any, new: Any) -> None:
    """What answers how it is run now is free."""
    assert admit(new.build(), old.build())[1] == []


def test_a_role_is_filled_with_its_defaults() -> None:
    """Kind, replicas, size, the protocol of a port and the connector of a cache; nothing else is invented."""
    stored = admit(server(ports=[{"port": 80}]).cached().build())[0]["spec"]
    assert stored["roles"] == [
        {"name": "server", "instanceType": "h20", "ports": [{"port": 80, "protocol": "TCP"}], "kind": "Server", "replicas": 1, "size": 1}
    ]
    assert stored["kvCache"] == {"poolRef": {"name": "shared"}, "connector": "Mooncake"}


def test_a_scaler_is_filled_with_its_defaults() -> None:
    """Shadow, not suspended, sampling every 15 seconds, a tenth of tolerance."""
    stored = admit(scaler().build())[0]["spec"]
    assert (stored["mode"], stored["suspend"], stored["sampling"]) == (
        "Shadow",
        False,
        {"intervalSeconds": 15, "pendingTimeoutSeconds": 300},
    )
    assert stored["algorithm"]["proportional"]["tolerance"] == "0.1"
    assert stored["roles"] == [{"name": "server", "maxReplicas": 4, "minReplicas": 1}]


def test_a_replica_count_of_the_routers_is_not_defaulted() -> None:
    """Absent means one, and stays absent on purpose."""
    assert admit(server().router().build())[0]["spec"]["router"] == {"name": "llm-d-router"}


def test_an_object_that_has_no_name_yet_is_judged_all_the_same() -> None:
    """A manifest with generateName gets its name from the server; the rules about names wait for it."""
    document = server().build()
    document["metadata"] = {"generateName": "qwen-"}
    assert admit(document)[1] == []


def test_the_owned_variables_are_those_of_the_webhook() -> None:
    """Two lists of one fact: the definition's and the webhook's."""
    from api.crd.deployment import OWNED_ENV
    from api.crd.roles import REPLICA_ENV
    from webhooks.validation.owned import REPLICA_VARIABLES, VARIABLES

    assert {engine: set(names) for engine, names in OWNED_ENV.items()} == VARIABLES
    assert set(REPLICA_ENV) == REPLICA_VARIABLES
