"""`status` of a ModelDeployment, as `api.status` encodes it. Source: seed "Status" and "Group status", status facts 1.3, decision D1."""

from typing import Final

from api.crd import build as b

KINDS: Final = ("Server", "Prefill", "Decode", "Encode")
DEGREES: Final = {
    "tensorParallel": "Tensor-parallel degree.",
    "pipelineParallel": "Pipeline-parallel degree.",
    "dataParallel": "Data-parallel degree.",
    "dataParallelLocal": "Data-parallel ranks in one Pod; an explicit 0 is kept.",
    "prefillContextParallel": "Prefill context-parallel degree.",
    "decodeContextParallel": "Decode context-parallel degree.",
    "expertParallel": "Expert-parallel degree, where the engine takes one.",
    "attentionContextParallel": "Attention context-parallel degree.",
    "attentionDataParallel": "Attention data-parallel degree.",
    "moeDpSize": "Data-parallel degree of the expert layers.",
    "dwdpSize": "Size of distributed-weight data parallelism.",
}


def status() -> b.Schema:
    """The status schema."""
    return b.obj(
        "What is observed. Rebuilt from observation on every pass.",
        {
            "observedGeneration": b.observed_generation(),
            "phase": b.enum(
                "Where the deployment stands. Degraded: some required capacity is ready, and some is not.",
                "Starting",
                "Ready",
                "Degraded",
                "Deleting",
            ),
            "phaseMessage": b.text("Why the phase is what it is; absent while Ready.", high=32768),
            "roleSummary": b.text(
                "Ready instances by kind, such as 1R1P1D: R router, S servers, E encoders, P prefillers, D decoders.", high=128
            ),
            "endpoint": b.text("Where requests go. Behind a router it is absent until the router is ready.", high=512),
            "roles": b.keyed("One entry per role of the spec, in its order.", ("name",), _role(), high=64),
            "router": _router(),
            "kvCache": _kv_cache(),
            "model": _model(),
            "retirement": _retirement(),
            "conditions": b.conditions("Ten independent observations; each is always present, Unknown where nothing is known."),
        },
    )


def _role() -> b.Schema:
    return b.obj(
        "One role.",
        {
            "name": b.text("Name of the role.", low=1, high=63),
            "kind": b.enum("Effective kind of the role.", *KINDS),
            "desired": b.integer("Replicas that the spec asks for.", low=0),
            "ready": b.integer("Replicas of which every member is ready.", low=0),
            "quotaReserved": b.integer(
                "Replicas that hold a quota reservation. A zero was observed; absent means that no Workload is read.", low=0
            ),
            "unmanaged": b.boolean("Whether a deployed replica replaced its command line."),
            "assignedFlavors": b.atomic(
                "Accelerator flavors that the role's replicas were assigned, sorted; absent where there is none.",
                b.text("One flavor.", high=253),
                high=256,
            ),
            "parallelism": _parallelism(),
            "endpoints": _endpoints(),
            "groups": b.keyed("The serving groups of the role, lowest ordinals first.", ("ordinal",), _group(), high=64),
        },
        required=("name", "desired", "ready"),
    )


def _parallelism() -> b.Schema:
    return b.obj(
        "What the role's own arguments declare, read as the engine reads them.",
        {
            "declared": b.obj(
                "The declared degrees; a degree that was not declared is absent.",
                {name: b.integer(meaning, low=0, nullable=True) for name, meaning in DEGREES.items()},
            ),
            "modes": b.mapping("The modes that were read; a missing key is not false.", b.boolean("Whether the mode is on.")),
            "loadBalance": b.enum(
                "How requests spread over data-parallel ranks.", "Internal", "External", "Hybrid", "MultiPort", "Unknown"
            ),
            "source": b.obj(
                "Where the reading came from.",
                {
                    "kind": b.enum("Which argument stream was read.", "ExtraArgs", "Command", "UnmanagedCommand", "Unknown"),
                    "complete": b.boolean("Whether the reading itself was complete."),
                    "unreadableReason": b.text("What could not be established.", high=32768),
                },
            ),
        },
    )


def _endpoints() -> b.Schema:
    return b.obj(
        "What was qualified, and what Routers were seen to select.",
        {
            "eligible": b.integer(
                "Endpoints on the qualification list; null where the list was never observed whole.", low=0, nullable=True
            ),
            "serving": b.obj(
                "What Routers agree on.",
                {
                    "state": b.enum(
                        "Whether complete and fresh Router views agree.", "Confirmed", "NotConverged", "Unknown", "NotConfigured"
                    ),
                    "value": b.integer("Endpoints in every Router's selection; only with Confirmed.", low=0, nullable=True),
                },
            ),
        },
    )


def _group() -> b.Schema:
    return b.obj(
        "The Pods that form one serving replica.",
        {
            "ordinal": b.integer("Ordinal of the replica; 0 is a real position.", low=0),
            "generation": b.text("Identity of the member set: the first 16 hex digits of the SHA-256 over its sorted UIDs.", high=64),
            "state": b.enum(
                "What holds the group, or that nothing does.",
                "Eligible",
                "AwaitingObservation",
                "Incomplete",
                "NotReady",
                "Unverified",
                "Retiring",
                "Replacing",
                "Unknown",
            ),
            "reason": b.text("The one criterion or observation that decides.", high=256),
            "message": b.text("The same for people.", high=32768),
            "qualifiedAt": b.time("When the group became Eligible."),
            "members": b.keyed(
                "The members, by seat.",
                ("name",),
                b.obj(
                    "One Pod.",
                    {
                        "name": b.text("Name of the Pod.", low=1, high=253),
                        "uid": b.text("UID of the Pod.", high=128),
                        "seat": b.integer("The seat that it claims.", low=0),
                        "ready": b.enum("What it reported; Unknown where nobody did.", "True", "False", "Unknown"),
                    },
                    required=("name",),
                ),
                high=128,
            ),
        },
        required=("ordinal", "state"),
    )


def _router() -> b.Schema:
    metrics = "Name of the metric that tells {}."
    return b.obj(
        "The contract used to render the router; absent without one.",
        {
            "name": b.text("Which router.", high=63),
            "endpoint": b.text("Address of the router's Service.", high=512),
            "poolEndpoint": b.text("Client endpoint of the KV cache pool; absent while unresolved.", high=512),
            "metrics": b.obj(
                "Names of metrics sources, not samples.",
                {
                    "port": b.integer("Port that the engines serve metrics on.", low=1, high=65535),
                    "queuedRequests": b.text(metrics.format("how many requests wait"), high=256),
                    "runningRequests": b.text(metrics.format("how many requests run"), high=256),
                    "kvCacheUtilization": b.text(metrics.format("how full the KV cache is"), high=256),
                },
            ),
            "roles": b.keyed(
                "One entry per role.",
                ("name",),
                b.obj(
                    "How the router reaches one role.",
                    {
                        "name": b.text("Name of the role.", low=1, high=63),
                        "kind": b.enum("Effective kind of the role.", *KINDS),
                        "selector": b.mapping("Labels that select the role's endpoints.", b.text("Value of the label.", high=253)),
                        "endpoint": b.text("Address of the role's own Service.", high=512),
                        "kvEvents": b.obj(
                            "Where KV events are published; absent without a publisher.",
                            {
                                "endpoint": b.text("Address of the event stream.", high=512),
                                "replayEndpoint": b.text("Address that lost events are asked again from.", high=512),
                                "topic": b.text("Prefix of the topics.", high=256),
                            },
                        ),
                    },
                    required=("name",),
                ),
                high=64,
            ),
        },
    )


def _kv_cache() -> b.Schema:
    return b.obj(
        "The resolved KV cache; absent until the Binding resolved once, kept after it is lost.",
        {
            "binding": b.text("Name of the KVCachePoolBinding.", high=253),
            "pool": b.text("Name of the KVCachePool.", high=253),
            "domain": b.obj(
                "The reuse domain.",
                {
                    "name": b.text("Name of the domain.", high=63),
                    "blockSize": b.integer("Tokens in a block.", low=0),
                    "dtype": b.text("Element type of the cache.", high=63),
                },
            ),
        },
    )


def _model() -> b.Schema:
    return b.obj(
        "The resolved ModelArtifact; absent without one.",
        {
            "artifact": b.text("Name of the ModelArtifact.", high=253),
            "revision": b.text("Resolved revision.", high=512),
            "manifestDigest": b.text("Digest of the resolved manifest.", high=256),
            "delivery": b.enum("How the weights reach the Pods.", "PVC", "Engine", "Node", "Image"),
        },
    )


def _retirement() -> b.Schema:
    return b.obj(
        "The one removal of a replica that is in progress or held; absent without one.",
        {
            "roleName": b.text("Role of the replica.", low=1, high=63),
            "replicaOrdinal": b.integer("Ordinal of the replica; 0 is a real position.", low=0),
            "observedGeneration": b.integer("The metadata.generation that the operation was admitted against.", low=0, wide=True),
            "targetMemberUIDs": b.atomic(
                "UIDs of the member Pods, sorted; deletions carry them as preconditions.", b.text("One UID.", high=128), high=128
            ),
            "targetWorkloadUID": b.text("UID of the Workload; empty where there is none.", high=128),
            "state": b.enum(
                "Step of the protocol.",
                "Admitted",
                "Disqualified",
                "Withdrawing",
                "Draining",
                "Deleting",
                "Settling",
                "Aborted",
                "Completed",
            ),
            "reason": b.text("What put it there.", high=32768),
            "startedAt": b.time("When the operation started."),
            "deadline": b.time("When the whole operation has to be over."),
            "phaseStartedAt": b.time("When the present budget began."),
            "lastConsumedRetryToken": b.text("The retry token that was consumed last.", high=1024),
        },
        required=("roleName", "replicaOrdinal", "state"),
    )
