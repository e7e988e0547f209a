"""The ModelDeployment: its spec beside the roles, the rules that hold between parts of it, and the definition.

The CEL rules hold what needs no other object and no reading of a command line, so that it stays true while the webhook is down. What they
leave to the webhook: everything read from extraArgs, the InstanceType, the scaler's fence, and what older stored objects are spared.
Source: status facts 1.2, admission facts 3.1 to 3.8, decisions D1 and D5.
"""

from typing import Final

from api.crd import build as b
from api.crd.deployment_status import status
from api.crd.roles import arguments, pull_policy, pull_secrets, roles

OWNED_ENV: Final = {
    "vLLM": ("MOONCAKE_CONFIG_PATH", "VLLM_MOONCAKE_BOOTSTRAP_PORT"),
    "SGLang": (
        "SGLANG_HICACHE_MOONCAKE_CONFIG_PATH",
        "MOONCAKE_MASTER",
        "MOONCAKE_TE_META_DATA_SERVER",
        "MOONCAKE_PROTOCOL",
        "MOONCAKE_DEVICE",
        "MOONCAKE_GLOBAL_SEGMENT_SIZE",
        "MOONCAKE_LOCAL_HOSTNAME",
        "MOONCAKE_TENANT_ID",
    ),
}
_PAIR: Final = "self.roles.exists(r, r.kind == 'Prefill') && self.roles.exists(r, r.kind == 'Decode')"
_IDENTITY: Final = "is part of what identifies the deployment: a different value means creating another deployment"


def model_deployment() -> b.Schema:
    """The CustomResourceDefinition of ModelDeployment."""
    return b.definition(
        kind="ModelDeployment",
        plural="modeldeployments",
        short=("md",),
        description="A model served by one engine: its roles, their replicas, an optional router and an optional KV cache.",
        spec=_spec(),
        status=status(),
        validations=b.rules(_member_name_rule()),
        columns=[
            b.column("ENGINE", ".spec.engine.name", description="The engine that serves."),
            b.column(
                "ROLES", ".status.roleSummary", description="Ready instances by kind: R router, S servers, E, P and D the split kinds."
            ),
            b.column("PHASE", ".status.phase", description="Starting, Ready, Degraded or Deleting."),
            b.column("ENDPOINT", ".status.endpoint", priority=1, description="Where requests go."),
            b.column("AGE", ".metadata.creationTimestamp", kind="date", description="How old the deployment is."),
        ],
    )


def _member_name_rule() -> b.Schema:
    """The names of Services have no rule here: a role that is stored is spared (3.3), and a rule that looks at creations only is younger
    than the servers that should hold these. Without it no update of such an object would pass, not even the last one of its finalizers."""
    return b.rule(
        "!has(self.metadata.name) || self.spec.roles.all(r, r.size <= 1 || self.metadata.name.size() + r.name.size() + "
        "string(r.replicas - 1).size() + string(r.size - 1).size() + 5 <= 63)",
        "a member of a replica is named <deployment>-<role>-r<replica>-m<member>, which may have at most 63 characters",
        at=".spec.roles",
    )


def _spec() -> b.Schema:
    return b.obj(
        "What is wanted.",
        {
            "model": b.obj(
                "The model. Fixed at creation.",
                {
                    "name": b.text(
                        "Name under which the model is served; a managed role that passes --served-model-name has to repeat it.",
                        low=1,
                        high=253,
                    ),
                    "artifactRef": b.local_ref("ModelArtifact of the same namespace that the weights are taken from.", "ModelArtifact"),
                },
                required=("name",),
                **b.rules(b.rule("self == oldSelf", f"the model {_IDENTITY}")),
            ),
            "engine": b.obj(
                "The engine that serves the model.",
                {
                    "name": b.enum(
                        "Name of the engine. Fixed at creation.",
                        "vLLM",
                        "SGLang",
                        **b.rules(b.rule("self == oldSelf", f"the engine {_IDENTITY}")),
                    ),
                    "version": b.text("Version of the engine; needed as soon as one role names no image.", low=1, high=64),
                },
                required=("name",),
            ),
            "kvCache": b.obj(
                "The shared KV cache that the roles attach to. Fixed at creation.",
                {
                    "poolRef": b.local_ref("KVCachePoolBinding of the same namespace, not the pool itself.", "KVCachePoolBinding"),
                    "connector": b.enum("How the engine reaches the cache.", "Mooncake", default="Mooncake"),
                },
                required=("poolRef",),
                **b.rules(b.rule("self == oldSelf", f"the KV cache {_IDENTITY}")),
            ),
            "kvTransfer": b.obj(
                "How prefill and decode hand blocks to each other.",
                {"protocol": b.enum("Transport protocol; TCP where absent.", "Auto", "TCP", "RDMA", "EFA", "CANN", "ROCM")},
            ),
            "roles": roles(),
            "router": _router(),
        },
        required=("model", "engine", "roles"),
        **b.rules(*_kind_rules(), *_engine_rules(), *_router_rules(), *_port_rules()),
    )


def _router() -> b.Schema:
    return b.obj(
        "A managed router in front of the roles. It may be added and removed, not renamed.",
        {
            "name": b.enum(
                "Which router: llm-d-router for both engines, vllm-router for vLLM, sglang-gateway for SGLang.",
                "llm-d-router",
                "vllm-router",
                "sglang-gateway",
                **b.rules(b.rule("self == oldSelf", "field is immutable: remove the router and add another one in two steps")),
            ),
            "replicas": b.integer("How many router Pods run; 1 where absent.", low=1),
            "image": b.text("Image of the router; derived from its name where absent.", high=512),
            "extraArgs": arguments("Appended to the router's command line. Arguments that the operator owns are refused."),
            "imagePullPolicy": pull_policy(),
            "imagePullSecrets": pull_secrets(),
            "requestTimeoutSeconds": b.integer("Seconds that a request may take.", low=1),
            "disaggregationThresholdTokens": b.integer(
                "Prompts shorter than this are not split between prefill and decode; 0 never splits. llm-d-router only.", low=0
            ),
        },
        required=("name",),
        **b.rules(
            b.rule(
                "!has(self.disaggregationThresholdTokens) || self.name == 'llm-d-router'",
                "only llm-d-router knows a disaggregation threshold",
                at=".disaggregationThresholdTokens",
            )
        ),
    )


def _kind_rules() -> list[b.Schema]:
    def at_most_one(kind: str) -> b.Schema:
        return b.rule(f"self.roles.filter(r, r.kind == '{kind}').size() <= 1", f"at most one role may be of kind {kind}", at=".roles")

    return [
        b.rule(
            "self.roles.all(r, r.kind == 'Server') || self.roles.all(r, r.kind != 'Server')",
            "roles of kind Server and roles of other kinds exclude each other",
            at=".roles",
        ),
        at_most_one("Prefill"),
        at_most_one("Decode"),
        at_most_one("Encode"),
        b.rule(
            f"!self.roles.exists(r, r.kind == 'Encode') || ({_PAIR})",
            "an Encode role stands beside a Prefill and a Decode role",
            at=".roles",
        ),
        b.rule(
            "!self.roles.exists(r, r.kind == 'Encode') || has(self.router)",
            "an Encode role needs a router in front of it",
            at=".router",
            reason=b.REQUIRED,
        ),
        b.rule(
            "!self.roles.exists(r, has(r.elasticEp)) || self.roles.size() == 1",
            "an elastic role has to be the only role",
            at=".roles",
            reason=b.FORBIDDEN,
        ),
        b.rule("has(self.kvCache) == has(oldSelf.kvCache)", f"whether there is a KV cache {_IDENTITY}", at=".kvCache"),
    ]


def _engine_rules() -> list[b.Schema]:
    def owned(engine: str) -> b.Schema:
        names = ", ".join(f"'{name}'" for name in OWNED_ENV[engine])
        return b.rule(
            f"self.engine.name != '{engine}' || self.roles.all(r, !has(r.env) || r.env.all(e, !(e.name in [{names}])))",
            f"the operator owns these variables on {engine}: {', '.join(OWNED_ENV[engine])}",
            at=".roles",
        )

    return [
        b.rule(
            "has(self.engine.version) || self.roles.all(r, has(r.image) && r.image != '')",
            "the engine's version is needed as soon as one role names no image",
            at=".engine.version",
            reason=b.REQUIRED,
        ),
        b.rule(
            "!self.roles.exists(r, has(r.elasticEp)) || self.engine.name == 'vLLM'",
            "only vLLM has elastic expert parallelism",
            at=".engine.name",
        ),
        owned("vLLM"),
        owned("SGLang"),
    ]


def _router_rules() -> list[b.Schema]:
    first = "(has(self.roles[0].ports) && self.roles[0].ports.size() > 0 ? self.roles[0].ports[0].port : 8000)"
    return [
        b.rule(
            "!has(self.router) || self.router.name != 'vllm-router' || self.engine.name == 'vLLM'",
            "vllm-router routes to vLLM only; use llm-d-router",
            at=".router.name",
        ),
        b.rule(
            "!has(self.router) || self.router.name != 'sglang-gateway' || self.engine.name == 'SGLang'",
            "sglang-gateway routes to SGLang only; use llm-d-router",
            at=".router.name",
        ),
        b.rule(
            f"!has(self.router) || self.roles.all(r, (has(r.ports) && r.ports.size() > 0 ? r.ports[0].port : 8000) == {first})",
            "behind a router all roles have to share one serving port",
            at=".router",
        ),
        b.rule(
            "!has(self.router) || self.roles.all(r, !has(r.ports) || r.ports.size() == 0 || r.ports[0].protocol == 'TCP')",
            "behind a router every role has to serve TCP",
            at=".router",
        ),
        b.rule(
            "!has(self.router) || self.roles.all(r, r.name != 'router')",
            "a role named router and the router would share the Service <deployment>-router",
            at=".roles",
        ),
    ]


def _port_rules() -> list[b.Schema]:
    unmanaged = "(has(r.command) && r.command.size() > 0)"
    free = "!has(r.ports) || r.ports.all(p, p.port != {})"
    events = f"({free.format(5557)}) && ({free.format(5558)})"
    bootstrap = f"self.roles.all(r, r.kind != 'Prefill' || {unmanaged} || {free.format(8998)})"
    return [
        b.rule(
            "!has(self.router) || self.router.name != 'llm-d-router' || self.engine.name != 'vLLM' || "
            f"self.roles.all(r, r.kind in ['Decode', 'Encode'] || {unmanaged} || ({events}))",
            "behind llm-d-router, ports 5557 and 5558 carry the KV events of a vLLM role",
            at=".router",
        ),
        b.rule(
            f"!(has(self.router) || (self.engine.name == 'SGLang' && has(self.kvCache))) || !({_PAIR}) || {bootstrap}",
            "port 8998 is the bootstrap port of a Prefill role that is paired with a Decode role",
            at=".roles",
        ),
    ]
