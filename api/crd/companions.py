"""Minimal definitions of the four kinds that are read and not owned, so that a plain cluster can hold them.

They name what this project reads and keep everything else: where the real operator is installed, its own definitions win and these are not
applied. Source: status facts 1.1 and 2.6, admission facts 3.9, decision D1.
"""

from api.crd import build as b


def companions() -> list[b.Schema]:
    """InstanceType, KVCachePool, KVCachePoolBinding and ModelArtifact."""
    return [_instance_type(), _pool(), _binding(), _artifact()]


def _open(description: str, properties: dict[str, b.Schema] | None = None) -> b.Schema:
    """An object of which only some members are known; the others are kept."""
    return b.obj(description, properties or {}) | {"x-kubernetes-preserve-unknown-fields": True}


def _age() -> b.Schema:
    return b.column("AGE", ".metadata.creationTimestamp", kind="date")


def _instance_type() -> b.Schema:
    count = b.integer("How many there are.", low=0)
    sliced = {
        "logical": _open("Slices by share.", {"count": count}),
        "physical": _open(
            "Partitions of the card.",
            {
                "count": count,
                "profiles": b.atomic(
                    "The profiles on offer.", _open("One profile.", {"name": b.text("Name of the profile.", high=64)}), high=256
                ),
            },
        ),
    }
    return b.definition(
        kind="InstanceType",
        plural="instancetypes",
        cluster=True,
        description="A shape of node that roles run on, and the queue in front of it.",
        spec=_open(
            "What the type offers.",
            {
                "acceleratable": b.boolean("Whether its nodes carry accelerators."),
                "acceleratorGroup": b.text("Group of accelerators that it belongs to.", high=253),
            },
        ),
        status=_open(
            "What was observed.",
            {
                "entrance": b.text("Name of the LocalQueue that Pods enter by.", high=253),
                "accelerator": _open("Whole cards.", {"capacity": b.quantity("How many cards the type has in all.")}),
                "detail": _open("Absent until observed.", {"slicedDetail": _open("How cards can be shared.", sliced)}),
            },
        ),
        columns=[
            b.column("ACCELERATABLE", ".spec.acceleratable", kind="boolean"),
            b.column("ENTRANCE", ".status.entrance"),
            _age(),
        ],
        required=(),
    )


def _pool() -> b.Schema:
    return b.definition(
        kind="KVCachePool",
        plural="kvcachepools",
        short=("kvcp",),
        cluster=True,
        description="A shared KV cache store.",
        spec=_open("How the store is built."),
        status=_open(
            "What was observed.",
            {
                "phase": b.text("Where the pool stands.", high=63),
                "clientEndpoint": b.text("Address that clients dial.", high=512),
            },
        ),
        columns=[b.column("PHASE", ".status.phase"), _age()],
        required=(),
    )


def _binding() -> b.Schema:
    return b.definition(
        kind="KVCachePoolBinding",
        plural="kvcachepoolbindings",
        short=("kvcpb",),
        description="A namespace's claim on a KVCachePool, and the reuse domain within it.",
        spec=_open(
            "What is claimed.",
            {
                "poolRef": _open("The KVCachePool.", {"name": b.text("Its name.", high=253)}),
                "domain": _open(
                    "The reuse domain.",
                    {
                        "name": b.text("Its name.", high=63),
                        "blockSize": b.integer("Tokens in a block.", low=0),
                        "dtype": b.text("Element type of the cache.", high=63),
                    },
                ),
                "quotaCeiling": b.quantity("Most that the namespace may hold."),
            },
        ),
        status=_open(
            "What was observed; an absent figure is not a zero.",
            {
                "phase": b.text("Provisioning, Ready, Degraded, Error or Deleting.", high=63),
                "phaseMessage": b.text("Why.", high=32768),
                "blocks": b.integer("Blocks that are held.", low=0, wide=True),
                "usage": b.quantity("Bytes that are held."),
                "overQuota": b.boolean("Whether more is held than granted."),
                "usedBy": b.atomic(
                    "Who uses the binding.",
                    _open(
                        "One user.",
                        {
                            "kind": b.text("Its kind.", high=63),
                            "namespace": b.text("Its namespace.", high=63),
                            "name": b.text("Its name.", high=253),
                        },
                    ),
                ),
                "conditions": b.keyed(
                    "Observations, QuotaGranted among them.",
                    ("type",),
                    _open(
                        "One observation.",
                        {
                            "type": b.text("What it is about.", high=316),
                            "status": b.text("True, False or Unknown.", high=16),
                            "reason": b.text("Why, for programs.", high=1024),
                            "message": b.text("Why, for people.", high=32768),
                            "lastTransitionTime": b.time("When the status last changed."),
                            "observedGeneration": b.integer("The metadata.generation that was judged.", low=0, wide=True),
                        },
                    )
                    | {"required": ["type"]},
                ),
            },
        ),
        columns=[b.column("POOL", ".spec.poolRef.name"), b.column("PHASE", ".status.phase"), _age()],
        required=(),
    )


def _artifact() -> b.Schema:
    return b.definition(
        kind="ModelArtifact",
        plural="modelartifacts",
        description="Weights of a model, and how they reach the Pods.",
        spec=_open("What is wanted."),
        status=_open("What was resolved."),
        columns=[_age()],
        required=(),
    )
