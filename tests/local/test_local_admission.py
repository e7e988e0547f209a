"""Which webhooks a request reaches, and which answers count as one."""

import base64
import json
from typing import Any

import pytest

from local.admission import Admission, apply_patch, refusal
from local.dialing import WebhookCallError, response_of
from local.hooks import Hook, candidates, rule_matches, selected
from local.kinds import NAMESPACES, PODS, Registry, Served
from local.operation import CREATE, UPDATE, Operation
from local.statuses import StatusError

V1 = Served("g.example", "v1", "things", "Thing", custom=True, storage_version="v1")
V2 = Served("g.example", "v2", "things", "Thing", custom=True, storage_version="v1")


def rule(**more: Any) -> dict[str, Any]:
    """A rule for creations of things in version v1."""
    return {"operations": ["CREATE"], "apiGroups": ["g.example"], "apiVersions": ["v1"], "resources": ["things"], "scope": "*", **more}


RULES: dict[str, tuple[dict[str, Any], str, bool]] = {
    "the resource": (rule(), "", True),
    "another operation": (rule(operations=["UPDATE", "DELETE"]), "", False),
    "every operation": (rule(operations=["*"]), "", True),
    "another group": (rule(apiGroups=[""]), "", False),
    "every group and version": (rule(apiGroups=["*"], apiVersions=["*"]), "", True),
    "another version": (rule(apiVersions=["v2"]), "", False),
    "the resource does not mean its subresource": (rule(), "status", False),
    "every resource does not mean subresources": (rule(resources=["*"]), "status", False),
    "one subresource": (rule(resources=["things/status"]), "status", True),
    "the subresource does not mean the resource": (rule(resources=["things/status"]), "", False),
    "every subresource of one": (rule(resources=["things/*"]), "status", True),
    "that subresource of every resource": (rule(resources=["*/status"]), "status", True),
    "everything": (rule(resources=["*/*"]), "status", True),
    "namespaced scope": (rule(scope="Namespaced"), "", True),
    "cluster scope": (rule(scope="Cluster"), "", False),
}


@pytest.mark.parametrize(("given", "subresource", "matches"), RULES.values(), ids=RULES)
def test_rules(given: dict[str, Any], subresource: str, matches: bool) -> None:
    """A rule names operations, groups, versions, resources and a scope, all of which have to fit."""
    assert rule_matches(given, Operation(V1, CREATE, subresource=subresource), V1) is matches


def hook(**more: Any) -> dict[str, Any]:
    """A webhook on things."""
    return {"name": "h.example.com", "rules": [rule(operations=["*"])], **more}


def reached(*hooks: dict[str, Any], op: Operation | None = None, obj: Any = None, old: Any = None, labels: Any = None) -> list[str]:
    """The versions that the called webhooks are sent."""
    configuration = {"kind": "ValidatingWebhookConfiguration", "metadata": {"name": "c"}, "webhooks": list(hooks)}
    registry = Registry((V1, V2))
    asked = op or Operation(V1, UPDATE, namespace="n", name="x")
    new = obj or {"metadata": {}}
    found = candidates([configuration], asked, registry, new, old, namespace_labels=lambda name: labels or {})
    return [each.sent_as.version for each in found if selected(each, new, old)]


def test_an_equivalent_version_is_converted_and_an_exact_one_is_not() -> None:
    """matchPolicy Equivalent is the default."""
    op = Operation(V2, UPDATE, namespace="n", name="x")
    assert reached(hook(), op=op) == ["v1"]
    assert reached(hook(matchPolicy="Exact"), op=op) == []


SELECTORS: dict[str, tuple[dict[str, Any], bool]] = {
    "labels of the new object": ({"objectSelector": {"matchLabels": {"new": "yes"}}}, True),
    "labels of the old object": ({"objectSelector": {"matchLabels": {"old": "yes"}}}, True),
    "labels of neither": ({"objectSelector": {"matchLabels": {"new": "yes", "old": "yes"}}}, False),
    "labels of the namespace": ({"namespaceSelector": {"matchLabels": {"team": "a"}}}, True),
    "other labels of the namespace": ({"namespaceSelector": {"matchLabels": {"team": "b"}}}, False),
}


@pytest.mark.parametrize(("more", "called"), SELECTORS.values(), ids=SELECTORS)
def test_selectors(more: dict[str, Any], called: bool) -> None:
    """Of the object, old or new, and of its namespace."""
    new, old = ({"metadata": {"labels": {key: "yes"}}} for key in ("new", "old"))
    assert bool(reached(hook(**more), obj=new, old=old, labels={"team": "a"})) is called


def test_a_namespaces_own_labels_count_for_its_namespace_selector() -> None:
    """And cluster-scoped objects are reached whatever the selector."""
    registry = Registry((NAMESPACES, PODS))
    every = {"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["namespaces"]}
    entry = {"name": "h", "rules": [every], "namespaceSelector": {"matchLabels": {"a": "b"}}}
    configuration = {"kind": "ValidatingWebhookConfiguration", "metadata": {"name": "c"}, "webhooks": [entry]}
    for labels, count in (({"a": "b"}, 1), ({}, 0)):
        op = Operation(NAMESPACES, CREATE, name="n")
        found = candidates([configuration], op, registry, {"metadata": {"labels": labels}}, None, namespace_labels=lambda name: {})
        assert len(list(found)) == count


def test_webhook_configurations_are_beyond_webhooks() -> None:
    """Or a broken one could never be removed."""
    registry = Registry()
    served = registry.get("admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations")
    assert served is not None
    every = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}
    configuration = {"kind": "ValidatingWebhookConfiguration", "metadata": {"name": "c"}, "webhooks": [{"name": "h", "rules": [every]}]}
    op = Operation(served, CREATE, name="x")
    assert list(candidates([configuration], op, registry, {"metadata": {}}, None, namespace_labels=lambda name: {})) == []


def review(**response: Any) -> bytes:
    """An answer's body."""
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": {"uid": "u", **response}}).encode()


NO_ANSWERS: dict[str, tuple[bytes, str]] = {
    "no JSON": (b"<html>", "json parse error"),
    "another kind": (b'{"kind":"Status"}', "expected webhook response"),
    "another version": (review().replace(b"/v1", b"/v1beta1"), "expected webhook response"),
    "no response": (b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}', "response was absent"),
    "another uid": (review(uid="z", allowed=True), 'expected response.uid="u", got "z"'),
    "an unknown patch type": (review(allowed=True, patch="W10=", patchType="Merge"), "invalid response.patchType"),
}


@pytest.mark.parametrize(("raw", "words"), NO_ANSWERS.values(), ids=NO_ANSWERS)
def test_answers_that_are_none(raw: bytes, words: str) -> None:
    """Each counts as a failed call: failurePolicy decides."""
    with pytest.raises(WebhookCallError, match=words.replace("[", "\\[")):
        response_of(raw, "u", "v1", mutating=True)


def test_a_validating_webhook_may_not_patch() -> None:
    """Its patch is no answer."""
    with pytest.raises(WebhookCallError, match="may not return"):
        response_of(review(allowed=True, patch="W10=", patchType="JSONPatch"), "u", "v1", mutating=False)


REFUSALS: dict[str, tuple[dict[str, Any], int, str]] = {
    "message and code": ({"code": 403, "message": "no"}, 403, "denied the request: no"),
    "a reason only": ({"code": 422, "reason": "Invalid"}, 422, "denied the request: Invalid"),
    "nothing": ({}, 400, "denied the request without explanation"),
    "a code that is no refusal": ({"code": 200, "message": "no"}, 400, "denied the request: no"),
}


@pytest.mark.parametrize(("status", "code", "words"), REFUSALS.values(), ids=REFUSALS)
def test_refusals(status: dict[str, Any], code: int, words: str) -> None:
    """The webhook's own Status, under the API server's sentence."""
    found = refusal("h.example.com", status)
    assert (found.code, found.message) == (code, f'admission webhook "h.example.com" {words}')


@pytest.mark.parametrize(
    "patch", ["%%%", "e30=", "W3sib3AiOiJyZW1vdmUiLCJwYXRoIjoiL3oifV0="], ids=["no base64", "no list", "does not apply"]
)
def test_a_patch_that_cannot_be_applied_is_500(patch: str) -> None:
    """Also under Ignore: half a mutation is worse than none."""
    with pytest.raises(StatusError) as refused:
        apply_patch("h", patch, {"metadata": {}})
    assert refused.value.code == 500


async def test_a_mutating_webhook_is_chosen_by_what_the_object_is_when_its_turn_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one adds a label that the second one selects by, and takes off what the third one selects by."""
    entries = [
        hook(name="a.x.y", objectSelector={"matchLabels": {"old": "yes"}}),
        hook(name="b.x.y", objectSelector={"matchLabels": {"new": "yes"}}),
        hook(name="c.x.y", objectSelector={"matchLabels": {"old": "yes"}}),
    ]
    configuration = {"kind": "MutatingWebhookConfiguration", "metadata": {"name": "c"}, "webhooks": entries}
    admission = Admission(Registry((V1, V2)), lambda plural: [configuration], lambda name: {})
    asked = []

    async def call(found: Hook, op: Operation, obj: Any, old: Any) -> dict[str, Any]:
        asked.append(found.name)
        change = [{"op": "replace", "path": "/metadata/labels", "value": {"new": "yes"}}]
        return {"allowed": True, "patch": base64.b64encode(json.dumps(change).encode()).decode()}

    monkeypatch.setattr(admission.dialer, "call", call)
    operation = Operation(V1, CREATE, namespace="n", name="x")
    made = await admission.mutate(operation, {"metadata": {"labels": {"old": "yes"}}}, None, lambda patched: patched)
    assert asked == ["a.x.y", "b.x.y"]
    assert made == {"metadata": {"labels": {"new": "yes"}}}
