"""Builders of reviews, and one call that puts them to the server: `await review(deployment().role(...))`."""

import base64
import copy
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from webhooks.fence import digest_of
from webhooks.lookups import Lookup, ObjectLookup
from webhooks.patch import Operation, apply_patch
from webhooks.server import MUTATE_DEPLOYMENT, MUTATE_POD, VALIDATE_DEPLOYMENT, VALIDATE_SCALER, ReviewServer
from webhooks.settings import AdmissionSettings, default_scaler_usernames

SCALER_USER = default_scaler_usernames()[0]
UID = "0f9d2c1e-5a7b-4c3d-9e8f-102030405060"
OWNER, RIVAL = "owner-uid", "rival-uid"
BINDING = "modeldeployment.gpustack.ai/scaler-binding"
DECISION = "modeldeployment.gpustack.ai/scaler-decision"


class Role:
    """A role, fluently."""

    def __init__(self, name: str, **fields: Any) -> None:
        self.fields: dict[str, Any] = {"name": name, "kind": "Server", "replicas": 1, "size": 1, "instanceType": "h20", "image": "engine:1"}
        self.fields |= fields

    def args(self, *tokens: str) -> "Role":
        self.fields["extraArgs"] = list(tokens)
        return self

    def env(self, **variables: str) -> "Role":
        self.fields["env"] = [{"name": name, "value": value} for name, value in variables.items()]
        return self

    def cards(self, count: int | str, **more: Any) -> "Role":
        self.fields["resources"] = {"accelerator": str(count), **more}
        return self

    def ports(self, *ports: int, protocol: str = "TCP") -> "Role":
        self.fields["ports"] = [{"port": port, "protocol": protocol} for port in ports]
        return self

    def volumes(self, *volumes: dict[str, Any]) -> "Role":
        self.fields["additionalVolumes"] = list(volumes)
        return self


def role(name: str = "server", kind: str = "Server", **fields: Any) -> Role:
    """A role of kind Server with one replica of one Pod."""
    return Role(name, kind=kind, **fields)


class Deployment:
    """A ModelDeployment, fluently. Every step gives a new one."""

    def __init__(self, body: dict[str, Any]) -> None:
        self.body = body

    def _with(self, *path: str, value: Any) -> "Deployment":
        body = copy.deepcopy(self.body)
        place = body
        for step in path[:-1]:
            place = place.setdefault(step, {})
        if value is None:
            place.pop(path[-1], None)
        else:
            place[path[-1]] = value
        return Deployment(body)

    def named(self, name: str) -> "Deployment":
        return self._with("metadata", "name", value=name)

    def roles(self, *roles: Role) -> "Deployment":
        return self._with("spec", "roles", value=[copy.deepcopy(role.fields) for role in roles])

    def scaled(self, *counts: int | None) -> "Deployment":
        roles = copy.deepcopy(self.body["spec"]["roles"])
        for fields, count in zip(roles, counts, strict=True):
            fields.pop("replicas", None)
            if count is not None:
                fields["replicas"] = count
        return self._with("spec", "roles", value=roles)

    def engine(self, name: str, version: str | None = None) -> "Deployment":
        return self._with("spec", "engine", value={"name": name, **({"version": version} if version else {})})

    def model(self, name: str, artifact: str | None = None) -> "Deployment":
        return self._with("spec", "model", value={"name": name, **({"artifactRef": {"name": artifact}} if artifact else {})})

    def cache(self, binding: str | None = "pool") -> "Deployment":
        return self._with("spec", "kvCache", value=None if binding is None else {"poolRef": {"name": binding}, "connector": "Mooncake"})

    def transfer(self, protocol: str) -> "Deployment":
        return self._with("spec", "kvTransfer", value={"protocol": protocol})

    def router(self, name: str | None, **fields: Any) -> "Deployment":
        return self._with("spec", "router", value=None if name is None else {"name": name, **fields})

    def generation(self, number: int) -> "Deployment":
        return self._with("metadata", "generation", value=number)

    def deleting(self) -> "Deployment":
        return self._with("metadata", "deletionTimestamp", value="2026-01-01T00:00:00Z")

    def finalizers(self, *names: str) -> "Deployment":
        return self._with("metadata", "finalizers", value=list(names))

    def labelled(self, **labels: str) -> "Deployment":
        return self._with("metadata", "labels", value=labels)

    def annotated(self, key: str, text: str | None) -> "Deployment":
        return self._with("metadata", "annotations", key, value=text)

    def bound(self, term: int = 3, uid: str = OWNER, scaler: str = "queue-scaler", **more: Any) -> "Deployment":
        return self.annotated(BINDING, binding(term, uid, scaler, **more))

    def decided(self, *counts: int, term: int = 3, sequence: int = 1, uid: str = OWNER, **more: Any) -> "Deployment":
        names = [fields["name"] for fields in self.body["spec"]["roles"]]
        return self.annotated(DECISION, decision(dict(zip(names, counts, strict=True)), term, sequence, uid, **more))

    def unbound(self) -> "Deployment":
        return self.annotated(BINDING, None)


def binding(term: int = 3, uid: str = OWNER, scaler: str = "queue-scaler", **more: Any) -> str:
    """A binding's text."""
    return compact({"version": 1, "scaler": scaler, "uid": uid, "term": term, "acquiredAt": "2026-01-01T00:00:00Z", **more})


def decision(counts: Mapping[str, int], term: int = 3, sequence: int = 1, uid: str = OWNER, *, target: int = 7, **more: Any) -> str:
    """A decision's text, its digest right unless `more` says otherwise."""
    members = {
        "version": 1,
        "uid": uid,
        "term": term,
        "sequence": sequence,
        "scalerGeneration": 2,
        "targetGeneration": target,
        "replicas": dict(counts),
        "digest": digest_of(uid, term, sequence, counts),
        "decidedAt": "2026-01-01T00:00:00Z",
    }
    return compact(members | more)


def compact(value: Any) -> str:
    """Compact JSON."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def deployment(*roles: Role) -> Deployment:
    """A valid ModelDeployment of one vLLM server, or of the roles given; generation 7."""
    return Deployment(
        {
            "apiVersion": "worker.gpustack.ai/v1",
            "kind": "ModelDeployment",
            "metadata": {"name": "qwen", "namespace": "team-a", "uid": "md-uid", "generation": 7},
            "spec": {"model": {"name": "Qwen/Qwen3-8B"}, "engine": {"name": "vLLM", "version": "0.29.0"}, "roles": []},
        }
    ).roles(*(roles or (role(),)))


def scaler(uid: str = OWNER, name: str = "queue-scaler", namespace: str = "team-a", **spec: Any) -> dict[str, Any]:
    """A scaler object: Active on the deployment above unless `spec` says otherwise."""
    algorithm = {"type": "Proportional", "proportional": {"metric": "QueueDepth", "roleTargets": [{"name": "server", "target": "8"}]}}
    return {
        "apiVersion": "worker.gpustack.ai/v1",
        "kind": "ModelDeploymentScaler",
        "metadata": {"name": name, "namespace": namespace, "uid": uid},
        "spec": {
            "targetRef": {"name": "qwen"},
            "mode": "Active",
            "suspend": False,
            "roles": [{"name": "server", "minReplicas": 1, "maxReplicas": 8}],
            "algorithm": algorithm,
        }
        | spec,
    }


def instance_type(name: str = "h20", *, cards: int = 8, detail: dict[str, Any] | None = None, group: str = "nvidia-h20") -> dict[str, Any]:
    """An InstanceType with whole cards only, unless `detail` says what its cards offer."""
    return {
        "apiVersion": "worker.gpustack.ai/v1",
        "kind": "InstanceType",
        "metadata": {"name": name},
        "spec": {"acceleratable": cards > 0, "acceleratorGroup": group},
        "status": {"accelerator": {"capacity": str(cards)}, "detail": {"slicedDetail": {}} if detail is None else detail},
    }


class Answer:
    """An answer of the server, in the words of the tests."""

    def __init__(self, status: int, body: bytes, sent: Any) -> None:
        self.http = status
        self.review = json.loads(body)
        self.response = self.review["response"]
        self._sent = sent

    @property
    def allowed(self) -> bool:
        return bool(self.response.get("allowed"))

    @property
    def code(self) -> int | None:
        return (self.response.get("status") or {}).get("code")

    @property
    def message(self) -> str:
        return str((self.response.get("status") or {}).get("message", ""))

    @property
    def causes(self) -> list[dict[str, str]]:
        return ((self.response.get("status") or {}).get("details") or {}).get("causes") or []

    @property
    def fields(self) -> list[str]:
        return [cause["field"] for cause in self.causes]

    @property
    def rules(self) -> set[str]:
        return set(filter(None, self.response.get("auditAnnotations", {}).get("rule", "").split(",")))

    @property
    def audit(self) -> dict[str, str]:
        return self.response.get("auditAnnotations", {})

    @property
    def warnings(self) -> list[str]:
        return self.response.get("warnings", [])

    @property
    def patch(self) -> list[dict[str, Any]]:
        return json.loads(base64.b64decode(self.response["patch"])) if "patch" in self.response else []

    @property
    def patched(self) -> Any:
        return apply_patch(self._sent, [Operation(**operation) for operation in self.patch])


def envelope(request: Mapping[str, Any]) -> bytes:
    """A review's bytes."""
    return compact({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}).encode()


def request(
    new: Any, old: Any = None, *, by: str | None = "alice", resource: str = "modeldeployments", operation: str = "", **more: Any
) -> dict[str, Any]:
    """A request: CREATE, or UPDATE where there is an old object."""
    sample = new or old
    user = {"groups": ["system:authenticated"], **({"username": by} if by is not None else {})}
    return {
        "uid": UID,
        "kind": {"group": "worker.gpustack.ai", "version": "v1", "kind": sample["kind"]},
        "resource": {"group": "worker.gpustack.ai", "version": "v1", "resource": resource},
        "name": sample["metadata"].get("name", ""),
        "namespace": sample["metadata"].get("namespace", "team-a"),
        "operation": operation or ("UPDATE" if old is not None else "CREATE"),
        "userInfo": user,
        "object": new,
        "oldObject": old,
        "dryRun": False,
        "options": None,
    } | more


async def review(
    new: Deployment | None,
    old: Deployment | None = None,
    *,
    objects: Sequence[Mapping[str, Any]] | None = None,
    lookup: Lookup | None = None,
    settings: AdmissionSettings | None = None,
    path: str = VALIDATE_DEPLOYMENT,
    server: ReviewServer | None = None,
    **more: Any,
) -> Answer:
    """One review of a ModelDeployment, validated unless `path` says otherwise. An InstanceType h20 of eight cards exists."""
    known = [instance_type(), *(objects or ())]
    asked = server or ReviewServer(lookup or ObjectLookup(known), settings or AdmissionSettings())
    body = request(new.body if new else None, old.body if old else None, **more)
    return Answer(*await asked.review(path, envelope(body)), body["object"])


async def mutate(new: Deployment, old: Deployment | None = None, **more: Any) -> Answer:
    """One mutating review of a ModelDeployment."""
    return await review(new, old, path=MUTATE_DEPLOYMENT, **more)


async def review_scaler(
    new: dict[str, Any] | None, old: dict[str, Any] | None = None, others: Sequence[Mapping[str, Any]] = (), **more: Any
) -> Answer:
    """One review of a scaler."""
    server = ReviewServer(ObjectLookup(others), AdmissionSettings())
    body = request(new, old, resource="modeldeploymentscalers", **more)
    return Answer(*await server.review(VALIDATE_SCALER, envelope(body)), new)


async def review_pod(pod: dict[str, Any], *owners: Deployment, **more: Any) -> Answer:
    """One mutating review of a Pod."""
    server = ReviewServer(ObjectLookup([owner.body for owner in owners]), AdmissionSettings())
    body = request(pod, resource="pods", **more)
    return Answer(*await server.review(MUTATE_POD, envelope(body)), pod)


async def found(new: Deployment, old: Deployment | None = None, **more: Any) -> set[str]:
    """What the rules say about a write, as `MD101 spec.roles[0].shmSize`; empty where it passes."""
    answer = await review(new, old, **more)
    assert answer.http == 200, answer.message
    assert answer.allowed or answer.code == 422, answer.message
    assert answer.allowed is not bool(answer.causes)
    rules = {f"{re.search(r'MD[0-9]{3}', cause['message'])[0]} {cause['field']}" for cause in answer.causes}  # type: ignore[index]
    assert answer.allowed or {said.split()[0] for said in rules} == answer.rules
    assert all(cause["message"] in answer.message for cause in answer.causes)
    return rules
