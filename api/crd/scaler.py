"""The ModelDeploymentScaler. Source: admission facts 2."""

from typing import Final

from api.crd import build as b

_ABOVE_ZERO: Final = r"(0*[1-9][0-9]*(\.[0-9]*)?|0*\.[0-9]*[1-9][0-9]*)"
_BELOW_ONE: Final = r"0*\.[0-9]*[1-9][0-9]*"


def _up_to(digits: int) -> str:
    """Above zero and at most a one with that many zeros."""
    return rf"(0*[1-9][0-9]{{0,{digits - 1}}}(\.[0-9]*)?|{_BELOW_ONE}|0*10{{{digits}}}(\.0*)?)"


# Above zero and at most one. As text it cannot be a number bound, and CEL's quantity library is younger than the servers that should hold
# this. No form of such a quantity is refused; of those with an exponent or a suffix above one, which nobody writes, some larger ones pass:
# the webhook counts them.
FRACTION: Final = (
    rf"^\+?({_BELOW_ONE}|0*1(\.0*)?|{_up_to(3)}m|{_up_to(6)}u|{_up_to(9)}n"
    rf"|{_ABOVE_ZERO}[eE]-0*[1-9][0-9]*|0*1(\.0*)?[eE][+-]?0+|{_BELOW_ONE}[eE][+-]?[0-9]+|0*\.00[0-9]*[1-9][0-9]*([KMGTPE]i|[kMGTPE]))$"
)
POSITIVE: Final = r"^\+?([0-9]*[1-9][0-9]*(\.[0-9]*)?|[0-9]*\.[0-9]*[1-9][0-9]*)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?$"


def model_deployment_scaler() -> b.Schema:
    """The CustomResourceDefinition of ModelDeploymentScaler."""
    return b.definition(
        kind="ModelDeploymentScaler",
        plural="modeldeploymentscalers",
        short=("mds",),
        description="Plans the replica counts of one ModelDeployment, and in Active mode is the only one that may write them.",
        spec=_spec(),
        status=_status(),
        columns=[
            b.column("TARGET", ".spec.targetRef.name", description="The ModelDeployment that is scaled."),
            b.column("MODE", ".spec.mode", description="Shadow reports, Active writes."),
            b.column("SUSPEND", ".spec.suspend", kind="boolean", priority=1, description="Whether planning rests."),
            b.column("AGE", ".metadata.creationTimestamp", kind="date", description="How old the scaler is."),
        ],
    )


def _spec() -> b.Schema:
    immutable = b.rules(b.rule("self == oldSelf", "the target cannot be changed: create another scaler"))
    return b.obj(
        "What is wanted.",
        {
            "targetRef": b.local_ref(
                "The ModelDeployment of the same namespace that is scaled. Fixed at creation.", "ModelDeployment", **immutable
            ),
            "mode": b.enum("Shadow only reports what it would do; Active writes it.", "Shadow", "Active", default="Shadow"),
            "suspend": b.boolean("Stops planning and releases the binding.", default=False),
            "sampling": b.obj(
                "How metrics are sampled.",
                {
                    "intervalSeconds": b.integer("Seconds between two samples.", low=5, high=300, default=15),
                    "pendingTimeoutSeconds": b.integer("Seconds that a scale-up may wait for capacity.", low=60, high=1200, default=300),
                },
                default={},
            ),
            "roles": b.keyed(
                "Bounds for every role of the target.",
                ("name",),
                b.obj(
                    "Bounds of one role.",
                    {
                        "name": b.text("Name of the role.", low=1, high=63, pattern=b.DNS_LABEL),
                        "minReplicas": b.integer("Fewest replicas.", low=1, high=1024, default=1),
                        "maxReplicas": b.integer("Most replicas.", low=1, high=1024),
                    },
                    required=("name", "maxReplicas"),
                    **b.rules(
                        b.rule("self.maxReplicas >= self.minReplicas", "maxReplicas may not be below minReplicas", at=".maxReplicas")
                    ),
                ),
                low=1,
                high=10,
            ),
            "algorithm": _algorithm(),
        },
        required=("targetRef", "roles", "algorithm"),
        **b.rules(
            b.rule(
                "!has(self.algorithm.proportional) || !has(self.algorithm.proportional.roleTargets) || "
                "self.algorithm.proportional.roleTargets.all(t, self.roles.exists(r, r.name == t.name))",
                "a target has to name a role that is scaled",
                at=".algorithm.proportional.roleTargets",
            )
        ),
    )


def _algorithm() -> b.Schema:
    return b.obj(
        "How the counts are computed: one type, and the block of that type.",
        {
            "type": b.enum("Which algorithm.", "Proportional"),
            "proportional": b.obj(
                "Replicas in proportion to a metric.",
                {
                    "metric": b.text(
                        "What is measured; QueueDepth counts running and waiting requests.", low=1, high=63, pattern="^[A-Z][A-Za-z0-9]*$"
                    ),
                    "tolerance": b.quantity(
                        "Relative deviation that is left alone, above 0 and at most 1.", pattern=FRACTION, low=1, high=1, default="0.1"
                    ),
                    "roleTargets": b.keyed(
                        "What one replica of each scaled role should carry.",
                        ("name",),
                        b.obj(
                            "Target of one role.",
                            {
                                "name": b.text("Name of the role.", low=1, high=63, pattern=b.DNS_LABEL),
                                "target": b.quantity("Value of the metric per replica, above 0.", pattern=POSITIVE, low=1),
                            },
                            required=("name", "target"),
                        ),
                        low=1,
                        high=10,
                    ),
                },
                required=("metric",),
            ),
        },
        required=("type",),
        **b.rules(
            b.rule(
                "self.type != 'Proportional' || has(self.proportional)",
                "type Proportional needs its block",
                at=".proportional",
                reason=b.REQUIRED,
            )
        ),
    )


def _status() -> b.Schema:
    return b.obj(
        "What the scaler observed, recommends, and is blocked by. Written by the scaler's controller.",
        {
            "observedGeneration": b.observed_generation(),
            "binding": b.obj(
                "The binding that is held; absent without one.",
                {"term": b.integer("Fencing term.", low=1, wide=True), "acquiredAt": b.time("When it was acquired.")},
            ),
            "roles": b.keyed(
                "One entry per role.",
                ("name",),
                b.obj(
                    "One role.",
                    {
                        "name": b.text("Name of the role.", low=1, high=63),
                        "current": b.integer("Replicas that the target's spec asks for.", low=0),
                        "desired": b.integer("Replicas after bounds and pacing.", low=0),
                        "recommended": b.integer("Replicas that the algorithm recommends.", low=0),
                        "boundedBy": b.text("The bound that changed the recommendation.", high=63),
                        "metrics": b.keyed(
                            "What was measured.",
                            ("name",),
                            b.obj(
                                "One metric.",
                                {
                                    "name": b.text("Name of the metric.", low=1, high=253),
                                    "value": b.quantity("Its value."),
                                    "observedAt": b.time("When it was sampled."),
                                    "coverage": b.text("How many replicas answered, of how many.", high=63),
                                },
                                required=("name",),
                            ),
                            high=32,
                        ),
                    },
                    required=("name",),
                ),
                high=64,
            ),
            "lastDecision": b.obj(
                "The decision that was committed last.",
                {
                    "sequence": b.integer("Its number within the term.", low=1, wide=True),
                    "decidedAt": b.time("When it was taken."),
                    "digest": b.text("Its digest.", high=128),
                },
            ),
            "conditions": b.conditions("TargetResolved, MetricsAvailable, Planning, Bound and Committed."),
        },
    )
