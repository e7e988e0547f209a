"""What the fence's tests share: deployments planted before any webhook watched, and one write in every form a client knows.

A stored object is put down first, as one that is older than the webhooks; then the product is started, and every write goes through it.
"""

import copy
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest
from clusterkit import Answer, TestCluster, Wire, embedded, real
from product import SCALER, product, put

from api.crd.variants import fitted
from deploy.manifests import Options, manifests
from kube.resources import CRDS, Resource
from webhooks.fence import digest_of

JSON = dict[str, Any]
Form = Literal["put", "json", "merge", "apply"]
FORMS: tuple[Form, ...] = ("put", "json", "merge", "apply")

ROOT = "/apis/worker.gpustack.ai/v1"
BINDING = "modeldeployment.gpustack.ai/scaler-binding"
DECISION = "modeldeployment.gpustack.ai/scaler-decision"
STRANGER = "7e57ab1e-0000-4000-8000-000000000000"
TYPE = "fence-cards"
MASTERS = ("system:masters",)


@dataclass(frozen=True)
class Stored:
    """A deployment as it stands before the write. `scaler` is what has become of the owner that its binding names."""

    counts: dict[str, int] = field(default_factory=lambda: {"server": 2})
    term: int | None = None
    decided: tuple[int, int] | None = None
    scaler: Literal["active", "suspended", "shadow", "elsewhere", "reborn", "gone"] = "active"
    texts: dict[str, str] = field(default_factory=dict)
    deleting: bool = False
    by_stranger: bool = False


def compact(value: Any) -> str:
    """Compact JSON."""
    return json.dumps(value, separators=(",", ":"))


def binding(uid: str, scaler: str, term: int, **more: Any) -> str:
    """A binding's text."""
    return compact({"version": 1, "scaler": scaler, "uid": uid, "term": term, "acquiredAt": "2026-01-01T00:00:00Z", **more})


def decision(uid: str, term: int, sequence: int, counts: dict[str, int], generation: int, **more: Any) -> str:
    """A decision's text with the digest that belongs to it."""
    members = {"version": 1, "uid": uid, "term": term, "sequence": sequence, "scalerGeneration": 1, "targetGeneration": generation}
    told = {"replicas": counts, "digest": digest_of(uid, term, sequence, counts), "decidedAt": "2026-01-01T00:00:00Z"}
    return compact(members | told | more)


def role(name: str, count: int) -> JSON:
    """A role of one Pod a replica."""
    resources = {"accelerator": "1"}
    return {"name": name, "kind": "Server", "replicas": count, "size": 1, "instanceType": TYPE, "image": "engine:1", "resources": resources}


def body_of(name: str, counts: dict[str, int], annotations: dict[str, str] | None = None) -> JSON:
    """A ModelDeployment."""
    spec = {
        "model": {"name": "Qwen/Qwen3-8B"},
        "engine": {"name": "vLLM", "version": "0.29.0"},
        "roles": [role(each, count) for each, count in counts.items()],
    }
    meta: JSON = {"name": name, **({"annotations": annotations} if annotations else {})}
    return {"apiVersion": "worker.gpustack.ai/v1", "kind": "ModelDeployment", "metadata": meta, "spec": spec}


def scaler_body(name: str, target: str, roles: dict[str, int], **spec: Any) -> JSON:
    """A ModelDeploymentScaler, Active unless said otherwise."""
    targets = [{"name": each, "target": "8"} for each in roles]
    algorithm = {"type": "Proportional", "proportional": {"metric": "QueueDepth", "roleTargets": targets}}
    bounds = [{"name": each, "minReplicas": 1, "maxReplicas": 64} for each in roles]
    whole = {"targetRef": {"name": target}, "mode": "Active", "roles": bounds, "algorithm": algorithm, **spec}
    return {"apiVersion": "worker.gpustack.ai/v1", "kind": "ModelDeploymentScaler", "metadata": {"name": name}, "spec": whole}


class Draft:
    """The object a client wants, made from the one that stands."""

    def __init__(self, live: JSON, uid: str, scaler: str) -> None:
        self.live = live
        self.obj: JSON = copy.deepcopy(live)
        self.uid = uid
        self.scaler_name = scaler

    @property
    def notes(self) -> dict[str, str]:
        """The annotations."""
        found: dict[str, str] = self.obj["metadata"].setdefault("annotations", {})
        return found

    @property
    def counts(self) -> dict[str, int]:
        """The roles' counts; one that is left out is 1."""
        return {each["name"]: each.get("replicas", 1) for each in self.obj["spec"]["roles"]}

    def scale(self, *counts: int | None) -> "Draft":
        """Other counts; None leaves the field out."""
        for each, count in zip(self.obj["spec"]["roles"], counts, strict=True):
            each.pop("replicas", None)
            if count is not None:
                each["replicas"] = count
        return self

    def bind(self, term: int, *, uid: str = "", scaler: str = "", **more: Any) -> "Draft":
        """A binding, of the planted scaler unless another is named."""
        self.notes[BINDING] = binding(uid or self.uid, scaler or self.scaler_name, term, **more)
        return self

    def decide(self, term: int, sequence: int = 1, *, uid: str = "", counts: dict[str, int] | None = None, **more: Any) -> "Draft":
        """A decision that fits the write, unless `more` says otherwise."""
        generation = self.live["metadata"]["generation"]
        self.notes[DECISION] = decision(uid or self.uid, term, sequence, counts or self.counts, generation, **more)
        return self

    def note(self, key: str, text: str | None) -> "Draft":
        """An annotation set or removed."""
        if text is None:
            self.notes.pop(key, None)
        else:
            self.notes[key] = text
        return self

    def unbind(self) -> "Draft":
        """Without its binding."""
        return self.note(BINDING, None)

    def label(self) -> "Draft":
        """With a label more."""
        self.obj["metadata"].setdefault("labels", {})["team"] = "a"
        return self

    def image(self) -> "Draft":
        """With another image in its first role."""
        self.obj["spec"]["roles"][0]["image"] = "engine:2"
        return self

    def reorder(self) -> "Draft":
        """Roles the other way round."""
        self.obj["spec"]["roles"].reverse()
        return self

    def finalizers(self, *names: str) -> "Draft":
        """Other finalizers."""
        self.obj["metadata"]["finalizers"] = list(names)
        return self

    def forms(self) -> tuple[Form, ...]:
        """The forms that can say this write: an apply neither takes away what it never owned nor turns a list round."""
        before, after = self.live["metadata"], self.obj["metadata"]
        removed = set(before.get("annotations") or {}) - set(after.get("annotations") or {})
        names = [[each["name"] for each in obj["spec"]["roles"]] for obj in (self.live, self.obj)]
        sayable = not removed and before.get("finalizers") == after.get("finalizers") and names[0] == names[1]
        return FORMS if sayable else FORMS[:-1]

    def patch(self, form: Form) -> Any:
        """The write in that form."""
        meta, spec = self.obj["metadata"], self.obj["spec"]
        changed = [name for name in ("annotations", "labels", "finalizers") if (meta.get(name) or None) != (self._old(name) or None)]
        roles = spec["roles"] != self.live["spec"]["roles"]
        if form == "json":
            operations = [{"op": "add", "path": f"/metadata/{name}", "value": meta[name]} for name in changed]
            return operations + ([{"op": "replace", "path": "/spec/roles", "value": spec["roles"]}] if roles else [])
        if form == "merge":
            said: JSON = {"metadata": {name: self._merged(name) for name in changed}}
            return said | ({"spec": {"roles": spec["roles"]}} if roles else {})
        identity = {key: self.obj[key] for key in ("apiVersion", "kind")}
        kept = {"name": meta["name"]} | {name: meta[name] for name in ("annotations", "labels") if meta.get(name)}
        return identity | {"metadata": kept, "spec": spec}

    def _old(self, name: str) -> Any:
        return self.live["metadata"].get(name)

    def _merged(self, name: str) -> Any:
        after = self.obj["metadata"][name]
        return after if name == "finalizers" else dict.fromkeys(self._old(name) or {}) | after


Edit = Callable[[Draft], Draft]


class Fence:
    """A namespace behind the running service's webhooks."""

    def __init__(self, cluster: TestCluster, space: str) -> None:
        self.cluster = cluster
        self.space = space
        self.uids: dict[str, str] = {}
        self.scaler = cluster.wire_as(SCALER, MASTERS)
        self.alice = cluster.wire_as("alice", MASTERS)
        self.admin = cluster.wire

    def path(self, name: str = "") -> str:
        """A deployment, or all of them."""
        return f"{ROOT}/namespaces/{self.space}/modeldeployments" + (f"/{name}" if name else "")

    def scaler_path(self, name: str = "") -> str:
        """A scaler, or all of them."""
        return f"{ROOT}/namespaces/{self.space}/modeldeploymentscalers" + (f"/{name}" if name else "")

    async def live(self, name: str) -> JSON:
        """The deployment as it stands."""
        found: JSON = (await self.admin("GET", self.path(name))).ok()
        return found

    async def plant(self, name: str, stored: Stored) -> None:
        """Put down a scaler, and the deployment that it owns or owned."""
        uid = STRANGER
        if stored.scaler != "gone":
            spec: JSON = {"suspend": stored.scaler == "suspended"}
            spec |= {"mode": "Shadow"} if stored.scaler == "shadow" else {}
            target = "somewhere-else" if stored.scaler == "elsewhere" else name
            made = (await self.admin("POST", self.scaler_path(), scaler_body(name, target, stored.counts, **spec))).ok()
            uid = STRANGER if stored.scaler == "reborn" else made["metadata"]["uid"]
        self.uids[name] = uid
        notes = {BINDING: binding(uid, name, stored.term)} if stored.term is not None else {}
        if stored.decided is not None:
            notes[DECISION] = decision(STRANGER if stored.by_stranger else uid, *stored.decided, stored.counts, 1)
        body = body_of(name, stored.counts, notes | stored.texts)
        if stored.deleting:
            body["metadata"]["finalizers"] = ["example.com/hold", "example.com/second"]
        (await self.admin("POST", self.path(), body)).ok()
        if stored.deleting:
            (await self.admin("DELETE", self.path(name))).ok()

    async def write(self, wire: Wire, name: str, edit: Edit, form: Form, **params: Any) -> Answer:
        """One write in one form; a PUT that lost a race against the status is sent again."""
        for _ in range(8):
            draft = await self.draft(name, edit)
            if form == "put":
                answer = await wire("PUT", self.path(name), draft.obj, **params)
            elif form == "apply":
                answer = await wire.patch(self.path(name), draft.patch(form), form, fieldManager="gitops", force="true", **params)
            else:
                answer = await wire.patch(self.path(name), draft.patch(form), form, **params)
            if answer.code != 409:
                return answer
        raise AssertionError(f"{name} is written by somebody else all the time")

    async def draft(self, name: str, edit: Edit) -> Draft:
        """What the client wants, from what stands now."""
        live = await self.live(name)
        live["metadata"].pop("managedFields", None)
        return edit(Draft(live, self.uids.get(name, STRANGER), name))


def told(answer: Answer) -> dict[str, str]:
    """Rule by field of a refusal by the fence."""
    assert (answer.code, answer.body["reason"]) == (403, "Forbidden"), answer.body
    assert "denied the request" in answer.body["message"]
    return {cause["field"]: cause["reason"] for cause in answer.body["details"]["causes"]}


@asynccontextmanager
async def on_either(request: pytest.FixtureRequest, kind: str, folders: pytest.TempPathFactory) -> AsyncIterator[TestCluster]:
    """The cluster that the command line asks for, for fixtures that live as long as a module."""
    if kind == "real":
        kubeconfig, certificates = request.getfixturevalue("real_server")
        async with real(kubeconfig, certificates) as cluster:
            yield cluster
    else:
        async with embedded(folders.mktemp("cluster") / "state") as cluster:
            yield cluster


@asynccontextmanager
async def fenced(cluster: TestCluster, planted: dict[str, Stored]) -> AsyncIterator[Fence]:
    """Definitions, the planted objects, then the product."""
    client = await cluster.client()
    for obj in manifests(Options(companions=True, version=(1, cluster.minor))):
        if obj["kind"] == "CustomResourceDefinition":
            await put(client, CRDS, fitted(obj, (1, cluster.minor)))
    kinds = {"modeldeployments": "ModelDeployment", "modeldeploymentscalers": "ModelDeploymentScaler", "instancetypes": "InstanceType"}
    for plural, kind in kinds.items():
        resource = Resource("worker.gpustack.ai", "v1", plural, kind, namespaced=kind != "InstanceType")
        await cluster.eventually(lambda resource=resource: client.serves(resource), f"{plural} are never served")
    cards = {"apiVersion": "worker.gpustack.ai/v1", "kind": "InstanceType", "metadata": {"name": TYPE}}
    await put(client, resource, cards | {"spec": {"acceleratable": True, "acceleratorGroup": "nvidia-h20"}})
    fence = Fence(cluster, await cluster.namespace("fence"))
    for name, stored in planted.items():
        await fence.plant(name, stored)
    try:
        async with product(cluster):
            yield fence
    finally:
        for name, stored in planted.items():
            if stored.deleting:
                await fence.admin.patch(fence.path(name), {"metadata": {"finalizers": None}})
