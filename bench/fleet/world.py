"""The fleet that is served: deployments, their Pods, a Workload a replica, Services, instance types and artifacts, as bytes.

Everything follows from the number of deployments, so two runs of one size serve the same world. Every third deployment has two roles, the
others one; a role's replicas are single Pods. Routers, KV caches and wide replicas are left out: they make the controller dial addresses,
which are nobody's here.
"""

import hashlib
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

import msgspec

from bench.fleet.templates import DEPLOYMENT, POD, SERVICE, WORKLOAD, Template
from controller.status.rollout import spec_hash

PER_NAMESPACE: Final = 20
PODS_PER_NODE: Final = 8
ROLES: Final = ("server", "Server"), ("encode", "Encode")


def digest(*parts: object) -> bytes:
    """64 hex digits that follow from the parts."""
    return hashlib.sha256("/".join(map(str, parts)).encode()).hexdigest().encode()


def uid(*parts: object) -> bytes:
    """A UID that follows from the parts."""
    text = digest(*parts)
    return b"-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:32]))


def address(net: int, number: int) -> bytes:
    """One of 16 million addresses of a private network that nobody here routes."""
    return b"%d.%d.%d.%d" % (net, number >> 16 & 255, number >> 8 & 255, number & 255)


@dataclass(slots=True)
class Place:
    """Where a Pod stands: its deployment, role and ordinal, and its two templates with all but the changing parts filled in."""

    deployment: int
    name: str
    namespace: str
    uid: str
    pod: Template
    workload: bytes


@dataclass(slots=True)
class Owner:
    """A deployment: what identifies it, its spec as bytes, and the numbers of its Pods."""

    name: str
    namespace: str
    uid: str
    spec: bytes
    pods: range
    template: Template


class World:
    """`size` deployments of `pods` Pods each."""

    def __init__(self, size: int, pods: int = 10) -> None:
        self.size = size
        self.owners: list[Owner] = []
        self.places: list[Place] = []
        self._numbers = count()
        for number in range(size):
            self._add(number, pods)

    def _add(self, number: int, pods: int) -> None:
        namespace, name = f"team-{number // PER_NAMESPACE:04d}", f"chat-{number:05d}"
        owner = uid("deployment", number)
        split = (pods - pods // 5, pods // 5) if number % 3 == 2 and pods >= 5 else (pods,)
        args = [_args(number, role) for role in range(len(split))]
        roles: list[dict[str, Any]] = [
            {
                "name": ROLES[role][0],
                "kind": ROLES[role][1],
                "replicas": replicas,
                "size": 1,
                "instanceType": "h100-8x",
                "resources": {"accelerator": "8"},
                "ports": [{"port": 8000, "protocol": "TCP"}],
                "extraArgs": args[role],
                "env": [{"name": "VLLM_LOGGING_LEVEL", "value": "INFO"}],
            }
            for role, replicas in enumerate(split)
        ]
        spec = {
            "model": {"name": f"org/model-{number:05d}", "artifactRef": {"name": "weights"}},
            "engine": {"name": "vLLM", "version": "0.25.1"},
            "roles": roles,
        }
        shared = {"deployment": name.encode(), "namespace": namespace.encode(), "owner": owner}
        first = len(self.places)
        for role, replicas in enumerate(split):
            common = {
                **shared,
                "role": ROLES[role][0].encode(),
                "kind": ROLES[role][1].lower().encode(),
                "hash": spec_hash(spec, roles[role], None).encode(),
                "j_args": msgspec.json.encode(["--model", f"org/model-{number:05d}", *args[role]]),
            }
            pod, workload = POD.half(common), WORKLOAD.half(common)
            self.places += [self._place(number, common, (pod, workload), ordinal) for ordinal in range(replicas)]
        fixed = {"name": name.encode(), "namespace": namespace.encode(), "uid": owner}
        self.owners.append(
            Owner(
                name,
                namespace,
                owner.decode(),
                msgspec.json.encode(spec),
                range(first, len(self.places)),
                DEPLOYMENT.half(fixed),
            )
        )

    def _place(self, number: int, common: dict[str, bytes], templates: tuple[Template, Template], ordinal: int) -> Place:
        index = next(self._numbers)
        name = f"{common['deployment'].decode()}-{common['role'].decode()}-{ordinal}-{digest(index)[:5].decode()}"
        mine = uid("pod", index)
        values = {
            "name": name.encode(),
            "uid": mine,
            "ordinal": b"%d" % ordinal,
            "address": address(10, index),
            "host": address(100, index // PODS_PER_NODE),
            "node": b"gpu-%05d" % (index // PODS_PER_NODE),
            "digest": digest("container", index),
            "suffix": mine[:5],
        }
        pod, workload = templates
        row = workload.fill({"name": name.encode(), "uid": uid("workload", index), "version": b"1", "pod": mine})
        return Place(number, name, common["namespace"].decode(), mine.decode(), pod.half(values), row)

    # ---------------------------------------------------------------------------------------------------------- rendering

    def pod(self, index: int, ready: bool, version: int) -> bytes:
        """A Pod as of that version."""
        word = b"True" if ready else b"False"
        turned = b"2026-11-01T09:%02d:%02dZ" % (version // 60 % 60, version % 60)
        return self.places[index].pod.fill(
            {"version": b"%d" % version, "ready": word, "j_ready": word.lower(), "turned": turned},
        )

    def deployment(self, number: int, spec: bytes, generation: int, version: int, status: bytes) -> bytes:
        """A ModelDeployment as of that version; an empty status is left null, as nothing reads it otherwise."""
        return self.owners[number].template.fill(
            {"version": b"%d" % version, "j_generation": b"%d" % generation, "j_spec": spec, "j_status": status or b"{}"},
        )

    def workloads(self) -> list[bytes]:
        """Every Workload: they do not change."""
        return [place.workload for place in self.places]

    def services(self) -> list[bytes]:
        """One Service a deployment and one a role."""
        found = []
        for number, owner in enumerate(self.owners):
            roles = [role["name"] for role in msgspec.json.decode(owner.spec)["roles"]]
            for offset, (name, role) in enumerate([(owner.name, roles[0]), *((f"{owner.name}-{role}", role) for role in roles)]):
                found.append(
                    SERVICE.fill(
                        {
                            "name": name.encode(),
                            "namespace": owner.namespace.encode(),
                            "uid": uid("service", number, offset),
                            "deployment": owner.name.encode(),
                            "owner": owner.uid.encode(),
                            "role": role.encode(),
                            "address": address(172, number * 4 + offset),
                        }
                    )
                )
        return found

    def instance_types(self) -> list[bytes]:
        """The one that every role names, and two that none does."""
        return [
            msgspec.json.encode(
                {
                    "metadata": {"name": name, "uid": uid("type", name).decode(), "resourceVersion": "1"},
                    "spec": {"acceleratable": True, "acceleratorGroup": "nvidia-h100"},
                    "status": {"entrance": name, "accelerator": {"capacity": "8000"}, "detail": {"manufacturer": "nvidia"}},
                }
            )
            for name in ("h100-8x", "h100-1x", "l40s-4x")
        ]

    def artifacts(self) -> list[bytes]:
        """One a namespace, resolved, on a volume."""
        condition = {
            "type": "Resolved",
            "status": "True",
            "reason": "Resolved",
            "message": "",
            "lastTransitionTime": "2026-11-01T08:00:00Z",
        }
        return [
            msgspec.json.encode(
                {
                    "metadata": {"name": "weights", "namespace": name, "uid": uid("artifact", name).decode(), "resourceVersion": "1"},
                    "spec": {"source": {"persistentVolumeClaim": {"claimName": "weights"}}},
                    "status": {"delivery": "PVC", "resolved": {"revision": "1f0c2d"}, "conditions": [condition]},
                }
            )
            for name in sorted({owner.namespace for owner in self.owners})
        ]


def edited(spec: bytes) -> bytes:
    """The spec after somebody changed an argument, so that every replica of it is outdated."""
    return spec.replace(b'"--max-num-seqs","256"', b'"--max-num-seqs","512"')


def _args(number: int, role: int) -> list[str]:
    return [
        "--served-model-name",
        f"chat-{number:05d}",
        "--tensor-parallel-size",
        "8",
        "--max-model-len",
        "32768",
        "--max-num-seqs",
        "256",
        "--gpu-memory-utilization",
        "0.92",
        "--enable-prefix-caching",
        *(["--no-enable-chunked-prefill"] if role else []),
    ]
