"""`spec.roles[]` of a ModelDeployment: what a role is, and the rules that one role can be judged by.

Source: status facts 1.2, admission facts 3.1 to 3.8, decision D5.
"""

from typing import Any, Final

from api.crd import build as b

REPLICA_ENV: Final = ("GPUSTACK_REPLICA_LEADER_ADDRESS", "GPUSTACK_REPLICA_SIZE", "GPUSTACK_MEMBER_INDEX")
_PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")


def pull_policy() -> b.Schema:
    """`imagePullPolicy`."""
    return b.enum("When the image is pulled; the kubelet's own default where absent.", *_PULL_POLICIES)


def pull_secrets() -> b.Schema:
    """`imagePullSecrets`."""
    return b.atomic("Secrets of the same namespace that the image is pulled with.", b.local_ref("One of them.", "Secret"), high=32)


def arguments(description: str) -> b.Schema:
    """A list of command-line words."""
    return b.atomic(description, b.text("One word.", high=32768), high=1024)


def roles() -> b.Schema:
    """`spec.roles`."""
    frozen = b.rule(
        "oldSelf.all(o, self.exists(n, n.name == o.name)) && self.all(n, oldSelf.exists(o, o.name == n.name))",
        "the set of roles is part of what identifies the deployment: adding, removing or renaming one means creating another deployment",
    )
    return b.keyed(
        "The roles of the deployment: what its replicas do, and how many there are. The set of names is fixed at creation.",
        ("name",),
        _role(),
        low=1,
        high=10,
        **b.rules(frozen),
    )


def _role() -> b.Schema:
    properties: dict[str, b.Schema] = {
        "name": b.text(
            "Name of the role. It becomes the Kueue PodSet name, the component label and part of every object name.",
            low=1,
            high=63,
            pattern=b.DNS_LABEL,
        ),
        "kind": b.enum(
            "What the role serves. Server answers whole requests; Encode, Prefill and Decode are the parts of a disaggregated deployment. "
            "Fixed at creation.",
            "Server",
            "Prefill",
            "Decode",
            "Encode",
            default="Server",
            **b.rules(b.rule("self == oldSelf", "the kind of a role is part of what identifies the deployment and cannot be changed")),
        ),
        "replicas": b.integer(
            "How many independent serving instances run. While a ModelDeploymentScaler is bound, only the scaler may change it.",
            low=1,
            high=1024,
            default=1,
        ),
        "size": b.integer("Pods per replica. A replica is ready only when all of them are.", low=1, high=64, default=1),
        "instanceType": b.text("Name of the InstanceType that every Pod of the role runs on; it names the queue too.", low=1, high=253),
        "resources": _resources(),
        "image": b.text("Image of the engine; derived from the instance type and the engine's version where absent.", high=512),
        "imagePullPolicy": pull_policy(),
        "imagePullSecrets": pull_secrets(),
        "privileged": b.boolean("Whether the engine's container runs privileged. Refused unless the operator's settings allow it."),
        "ports": b.keyed(
            "Ports that the engine listens on. The first is the serving port; without any, 8000 is.",
            ("port", "protocol"),
            b.obj(
                "One port.",
                {
                    "port": b.integer("Port number.", low=1, high=65535),
                    "protocol": b.enum("Transport protocol.", "TCP", "UDP", "SCTP", default="TCP"),
                },
                required=("port",),
            ),
            high=64,
        ),
        "additionalVolumes": _volumes(),
        "shmSize": b.quantity("Size of /dev/shm; 16Gi where absent."),
        "command": arguments(
            "Replaces the engine's whole command line. The role is then unmanaged: extraArgs is inert, no gate is set, nothing is read."
        ),
        "extraArgs": arguments("Appended to the engine's command line. Arguments that the operator owns are refused."),
        "env": _env(),
        "topology": b.obj(
            "Where the Pods of one replica may stand relative to each other.",
            {
                "requiredLevel": b.text(
                    "Node label key within one value of which all Pods of a replica have to fit.",
                    low=1,
                    high=317,
                    **b.rules(
                        b.rule(
                            "self != 'kubernetes.io/hostname'",
                            "a replica cannot be required to fit on one host; name a wider level, or use size 1",
                            reason=b.FORBIDDEN,
                        )
                    ),
                )
            },
        ),
        "terminationGracePeriodSeconds": b.integer("Seconds that a Pod has to end in; 30 where absent.", low=15, high=3600),
        "elasticEp": _elastic(),
    }
    return b.obj("One role.", properties, required=("name", "instanceType"), **b.rules(*_rules()))


def _rules() -> list[b.Schema]:
    commandless = "(!has(self.command) || self.command.size() == 0)"
    no_interface = (
        "(!has(self.resources) || !has(self.resources.interface) || self.resources.interface == 0 || self.resources.interface == '0')"
    )
    return [
        b.rule(
            f"self.kind != 'Encode' || {commandless}",
            "an Encode role cannot replace its command: the router has to know how it is reached",
            at=".command",
            reason=b.FORBIDDEN,
        ),
        b.rule("!has(self.elasticEp) || self.kind == 'Server'", "an elastic role has to be of kind Server", at=".kind"),
        b.rule(
            "!has(self.elasticEp) || self.replicas == 1",
            "an elastic role has exactly one replica; its width is what scales",
            at=".replicas",
        ),
        b.rule("!has(self.elasticEp) || self.size == 1", "an elastic role has size 1; its width is what scales", at=".size"),
        b.rule(f"!has(self.elasticEp) || {commandless}", "an elastic role cannot replace its command", at=".command", reason=b.FORBIDDEN),
        b.rule(
            "!has(self.elasticEp) || !has(self.resources) || ((!has(self.resources.acceleratorSlicedMemoryPercentage) || "
            "self.resources.acceleratorSlicedMemoryPercentage == 0) && (!has(self.resources.acceleratorSlicedCoresPercentage) || "
            "self.resources.acceleratorSlicedCoresPercentage == 0) && (!has(self.resources.acceleratorPartitionedProfile) || "
            "self.resources.acceleratorPartitionedProfile == ''))",
            "an elastic role takes whole accelerators: no slice, no partition profile",
            at=".resources",
            reason=b.FORBIDDEN,
        ),
        b.rule(
            f"!has(self.elasticEp) || {no_interface}",
            "an elastic role takes no fabric interface",
            at=".resources.interface",
            reason=b.FORBIDDEN,
        ),
        b.rule(
            "has(self.elasticEp) == has(oldSelf.elasticEp)",
            "elasticEp cannot be added to or removed from a role",
            at=".elasticEp",
            reason=b.FORBIDDEN,
        ),
        b.rule(
            "!has(self.elasticEp) || !has(oldSelf.elasticEp) || self.instanceType == oldSelf.instanceType",
            "the instance type of an elastic role cannot be changed",
            at=".instanceType",
        ),
    ]


def _resources() -> b.Schema:
    return b.obj(
        "What each Pod of the role asks for beyond what its instance type implies.",
        {
            "accelerator": b.quantity(
                "Accelerator cards per Pod, a whole number. Admission writes 1 where the instance type has cards and none is given."
            ),
            "acceleratorSlicedMemoryPercentage": b.integer(
                "Share of one card's memory, in percent, where the card is sliced.", low=0, high=100
            ),
            "acceleratorSlicedCoresPercentage": b.integer(
                "Share of one card's cores, in percent, where the card is sliced.", low=0, high=100
            ),
            "acceleratorPartitionedProfile": b.text("Partition profile of the card, instead of a slice.", high=64),
            "interface": b.quantity("Fabric interfaces per Pod, a whole number."),
        },
        **b.rules(
            b.rule(
                "!has(self.acceleratorPartitionedProfile) || self.acceleratorPartitionedProfile == '' || "
                "((!has(self.acceleratorSlicedMemoryPercentage) || self.acceleratorSlicedMemoryPercentage == 0) && "
                "(!has(self.acceleratorSlicedCoresPercentage) || self.acceleratorSlicedCoresPercentage == 0))",
                "a partition profile and a slice exclude each other",
                at=".acceleratorPartitionedProfile",
            )
        ),
    )


def _env() -> b.Schema:
    names = ", ".join(f"'{name}'" for name in REPLICA_ENV)
    return b.keyed(
        "Environment of the engine, literal values only. Variables that the operator owns are refused.",
        ("name",),
        b.obj(
            "One variable.",
            {
                "name": b.text("Name of the variable.", low=1, high=253),
                "value": b.text("Its value; empty where absent.", high=32768),
            },
            required=("name",),
            **b.rules(b.rule(f"!(self.name in [{names}])", "the operator sets this variable for replicas of several Pods", at=".name")),
        ),
        high=256,
    )


def _volumes() -> b.Schema:
    sources = ("configMap", "secret", "hostPath")
    given = " + ".join(f"(has(self.{name}) ? 1 : 0)" for name in sources)
    return b.keyed(
        "Volumes mounted into the engine's container beside those of the operator.",
        ("mountPath",),
        b.obj(
            "One volume and where it is mounted; exactly one of configMap, secret and hostPath.",
            {
                "mountPath": b.text("Absolute path in the container.", high=1024, pattern="^(/[^/]+)+$"),
                "subPath": b.text(
                    "Path inside the volume that is mounted instead of its root.",
                    high=1024,
                    pattern="^[^/].*$",
                    **b.rules(b.rule("!self.matches('(^|/)[.][.](/|$)')", "a path inside the volume may not step out of it with '..'")),
                ),
                "readOnly": b.boolean("Whether the mount is read-only."),
                "configMap": _projected("A ConfigMap of the same namespace.", "ConfigMap"),
                "secret": _projected("A Secret of the same namespace.", "Secret"),
                "hostPath": b.obj(
                    "A path of the node. Refused unless the operator's settings allow it.",
                    {
                        "path": b.text("Path on the node.", low=1, high=1024),
                        "type": b.enum(
                            "What has to be found there; nothing is checked where empty.",
                            "",
                            "DirectoryOrCreate",
                            "Directory",
                            "FileOrCreate",
                            "File",
                            "Socket",
                            "CharDevice",
                            "BlockDevice",
                        ),
                    },
                    required=("path",),
                ),
            },
            required=("mountPath",),
            **b.rules(
                b.rule(f"{given} >= 1", "one of configMap, secret and hostPath is needed", reason=b.REQUIRED),
                b.rule(f"{given} <= 1", "only one of configMap, secret and hostPath may be given", reason=b.FORBIDDEN),
            ),
        ),
        high=64,
    )


def _projected(description: str, what: str) -> b.Schema:
    mode = "Permission bits of the files, in decimal."
    properties: dict[str, Any] = {
        "name": b.text(f"Name of the {what}.", low=1, high=253),
        "optional": b.boolean("Whether it may be missing."),
        "defaultMode": b.integer(mode, low=0, high=511),
        "items": b.atomic(
            "The keys to project; all where absent.",
            b.obj(
                "One key.",
                {
                    "key": b.text("Key to project.", low=1, high=253),
                    "path": b.text("File that it becomes, relative to the mount.", low=1, high=1024),
                    "mode": b.integer(mode, low=0, high=511),
                },
                required=("key", "path"),
            ),
            high=256,
        ),
    }
    return b.obj(description, properties, required=("name",))


def _elastic() -> b.Schema:
    shrink = b.rule("self >= oldSelf", "the width cannot be decreased: scaling down is not supported", reason=b.FORBIDDEN)
    return b.obj(
        "Makes the role one elastic expert-parallel instance, whose width grows in place. vLLM only, as the only role.",
        {
            "width": b.integer("GPU engines in all, the master included. It can grow, not shrink.", low=2, high=64, **b.rules(shrink)),
            "headInstanceType": b.text(
                "InstanceType of the Ray head, one without accelerators; kept for objects of older releases.", low=1, high=253
            ),
        },
        required=("width",),
    )
