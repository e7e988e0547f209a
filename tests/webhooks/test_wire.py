"""Bytes in, bytes out: the envelope is mirrored on every path, and bytes that are no review are told so with 400."""

import asyncio
import json
from typing import Any

import msgspec
import pytest
from prometheus_client import CollectorRegistry
from reviewing import UID, Answer, Deployment, compact, deployment, envelope, instance_type, request, review, role, scaler
from structlog.testing import capture_logs

from webhooks import judgements
from webhooks.errors import LookupFailedError
from webhooks.lookups import KubeLookup, ObjectLookup
from webhooks.metrics import AdmissionMetrics
from webhooks.server import MUTATE_DEPLOYMENT, MUTATE_POD, PATHS, REVIEW_SECONDS, VALIDATE_DEPLOYMENT, VALIDATE_SCALER, ReviewServer
from webhooks.settings import AdmissionSettings
from webhooks.wire import MOST_VALUES


def server(metrics: AdmissionMetrics | None = None) -> ReviewServer:
    """A server that finds the instance type of the builders."""
    return ReviewServer(ObjectLookup([instance_type()]), AdmissionSettings(), metrics)


async def post(body: bytes, path: str = VALIDATE_DEPLOYMENT) -> Answer:
    """One call."""
    return Answer(*await server().review(path, body), None)


GOOD = envelope(request(deployment().body))


def changed(old: str, new: str) -> bytes:
    """The good review with one text replaced."""
    assert old.encode() in GOOD
    return GOOD.replace(old.encode(), new.encode(), 1)


BROKEN: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", ""),
    "no JSON": (b"hello", ""),
    "half a review": (GOOD[: len(GOOD) // 2], ""),
    "a list": (b"[]", ""),
    "a number": (b"1", ""),
    "another kind": (b'{"apiVersion":"v1","kind":"Pod","request":{"uid":"u"}}', "u"),
    "no request": (b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}', ""),
    "a null request": (b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":null}', ""),
    "a request that is a text": (b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":"x"}', ""),
    "no uid": (changed(f'"uid":"{UID}",', ""), ""),
    "a uid that is a number": (changed(f'"uid":"{UID}"', '"uid":7'), ""),
    "bad UTF-8 in a name that is read": (GOOD.replace(b'"name":"server"', b'"name":"ser\xffver"'), UID),
    "bad UTF-8 in the user's name": (GOOD.replace(b'"username":"alice"', b'"username":"al\xffice"'), UID),
    "a lone surrogate": (changed('"name":"server"', '"name":"\\ud800"'), UID),
    "a spec of another shape": (changed('"engine":{', '"engine":[{').replace(b'"0.29.0"}', b'"0.29.0"}]', 1), UID),
    "a spec that is true": (envelope(request({**deployment().body, "spec": True})), UID),
    "roles that are a text": (envelope(request({**deployment().body, "spec": {"roles": "x"}})), UID),
    "metadata that is a list": (
        envelope(request({**deployment().body, "metadata": {"name": "a"}})).replace(b'"metadata":{"name":"a"}', b'"metadata":[]'),
        UID,
    ),
    "a depth bomb in the spec": (changed('"spec":{', '"spec":{"x":' + "[" * 50_000 + "]" * 50_000 + ","), UID),
    "a depth bomb as the body": (b"[" * 200_000, ""),
    "the uid twice": (changed(f'"uid":"{UID}"', f'"uid":"{UID}","uid":"{UID}"'), UID),
    "the operation twice": (changed('"operation":"CREATE"', '"operation":"UPDATE","operation":"CREATE"'), UID),
    "the object twice": (changed('"object":{', '"object":{},"object":{'), UID),
    "the spec twice": (changed('"spec":{', '"spec":{},"spec":{'), UID),
    "a member of the spec twice": (changed('"model":{', '"model":{},"model":{'), UID),
    "a member of a role twice": (changed('"replicas":1', '"replicas":1,"replicas":2'), UID),
    "a member of the metadata twice": (changed('"generation":7', '"generation":7,"generation":8'), UID),
    "an annotation twice": (changed('"generation":7', '"generation":7,"annotations":{"a":"1","a":"2"}'), UID),
    "an annotation twice, once escaped": (changed('"generation":7', '"generation":7,"annotations":{"a":"1","\\u0061":"2"}'), UID),
    "a key twice in a part that blanks hide": (
        json.dumps(json.loads(GOOD)).replace('"replicas": 1', '"replicas": 1, "replicas": 2').encode(),
        UID,
    ),
    # 1e14 is thirteen characters longer once it is written out: exactly what the second `replicas` takes.
    "a key twice behind a number that grows": (changed('"replicas":1', '"replicas":1,"replicas":2,"x":1e14'), UID),
}


@pytest.mark.parametrize("name", BROKEN)
async def test_bytes_that_are_no_review(name: str) -> None:
    """400 with a reason, as a review whose envelope is what could be read of the one that came."""
    body, uid = BROKEN[name]
    answer = await post(body)
    assert answer.http == 400
    assert answer.review["kind"] == "AdmissionReview"
    assert answer.review["apiVersion"] == "admission.k8s.io/v1"
    assert answer.response["uid"] == uid or not uid
    assert answer.response["allowed"] is False
    assert answer.code == 400
    assert answer.message
    assert ("nested too deeply" in answer.message) is (name == "a depth bomb in the spec")


INCOMPLETE = {
    "no operation": ({"operation": None}, "the operation '' is none of CONNECT, CREATE, DELETE, UPDATE"),
    "an operation in small letters": ({"operation": "create"}, "the operation 'create' is none of"),
    "an operation of another kind": ({"operation": "PATCH"}, "the operation 'PATCH' is none of"),
    "a create without its object": ({"object": None}, "the CREATE has no object"),
    "an update without its object": ({"operation": "UPDATE", "object": None, "oldObject": deployment().body}, "the UPDATE has no object"),
    "an update without the stored object": ({"operation": "UPDATE"}, "the UPDATE has no oldObject"),
}


@pytest.mark.parametrize("path", sorted(PATHS))
@pytest.mark.parametrize("name", INCOMPLETE)
async def test_what_cannot_be_judged_is_not_let_through(name: str, path: str) -> None:
    """A write of which a side is missing would pass every rule that compares the two."""
    changes, said = INCOMPLETE[name]
    asked = {key: value for key, value in (request(deployment().body) | changes).items() if value is not None}
    answer = await post(envelope(asked), path)
    assert (answer.http, answer.code, answer.allowed, answer.response["uid"]) == (400, 400, False, UID)
    assert said in answer.message


EMPTY = {
    "a scaler without a spec": ({"kind": "ModelDeploymentScaler", "metadata": None}, VALIDATE_SCALER, 422),
    "a Pod without labels": ({"kind": "Pod", "metadata": {"name": "p"}}, MUTATE_POD, None),
    "a Pod without metadata": ({"kind": "Pod"}, MUTATE_POD, None),
    "a deployment of nothing": ({}, MUTATE_DEPLOYMENT, None),
}


@pytest.mark.parametrize("name", EMPTY)
async def test_what_is_absent_is_empty(name: str) -> None:
    """It is judged like what is there and says nothing, without a crash."""
    obj, path, code = EMPTY[name]
    answer = await post(envelope(request({"kind": "", "metadata": {}}, object=obj)), path)
    assert (answer.http, answer.code) == (200, code)


@pytest.mark.parametrize("operation", ["DELETE", "CONNECT"])
async def test_an_operation_that_writes_nothing_needs_no_side(operation: str) -> None:
    """What is connected to, or deleted by an old server, comes without the stored object."""
    wrong = deployment(role(shmSize="0")).body
    assert (await post(envelope(request(wrong, operation=operation, object=None)))).allowed
    assert (await post(envelope(request(wrong, operation=operation)))).allowed


async def test_a_label_twice_is_seen_where_labels_are_read() -> None:
    """Which of the two says whose Pod it is?"""
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {"a": "1"}}, "spec": {"containers": []}}
    body = envelope(request(pod, resource="pods")).replace(b'"a":"1"', b'"a":"1","a":"2"')
    assert (await post(body, MUTATE_POD)).http == 400


FINE = {
    "compact": GOOD,
    "with the newline that Go writes": GOOD + b"\n",
    "with blanks": json.dumps(json.loads(GOOD), indent=1).encode(),
    "with members nobody names": changed('"dryRun":false', '"dryRun":false,"future":{"a":[1,2]}'),
    "with bad UTF-8 where nobody reads": changed('"spec":{', '"status":{"phase":"PHASE"},"spec":{').replace(b"PHASE", b"\xff\xfe"),
    "without kind and apiVersion": GOOD.replace(b'"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1",', b""),
    "with a null old object": changed('"oldObject":null', '"oldObject":null'),
    "without annotations": changed('"generation":7', '"generation":7,"annotations":null,"labels":null'),
    "with a null for every text that is not there": envelope(
        request(deployment().body, subResource=None, requestSubResource=None, userInfo={"username": None, "uid": None}, dryRun=None)
    ),
    "of an object without metadata": envelope(request(deployment().body, name="qwen", object=deployment().body | {"metadata": None})),
    "of an object without a spec, which the schema refuses": envelope(request(deployment().body, object={"kind": "ModelDeployment"})),
    "with a null user": envelope(request(deployment().body, userInfo=None)),
    "with numbers in every writing": changed('"spec":{', '"spec":{"x":[1e14,-0.0,1E+2,0.10,12345678901234567890123],'),
    "with escapes in the spec": changed("Qwen/Qwen3-8B", "\\u0051wen\\/Qwen3-8B"),
    "with the escapes that Go writes in an annotation": changed('"generation":7', '"generation":7,"annotations":{"a":"\\u003cb\\u003e"}'),
}


@pytest.mark.parametrize("name", FINE)
async def test_reviews_however_written(name: str) -> None:
    """The same review in other writings is the same review."""
    answer = await post(FINE[name])
    assert answer.allowed, answer.message
    assert answer.response["uid"] == UID
    assert (answer.review["kind"], answer.review["apiVersion"]) == ("AdmissionReview", "admission.k8s.io/v1")


@pytest.mark.parametrize("path", sorted(PATHS))
async def test_a_delete_with_a_null_object_passes(path: str) -> None:
    """A delete carries no object; no webhook is tripped by it."""
    answer = await post(envelope(request(None, deployment().body, operation="DELETE")), path)
    assert answer.http == 200
    assert answer.allowed
    assert answer.response["uid"] == UID


@pytest.mark.parametrize("path", [VALIDATE_DEPLOYMENT, MUTATE_DEPLOYMENT, VALIDATE_SCALER, MUTATE_POD])
async def test_the_envelope_is_mirrored(path: str) -> None:
    """Another apiVersion of the review comes back as it came."""
    answer = await post(GOOD.replace(b"admission.k8s.io/v1", b"admission.k8s.io/v9"), path)
    assert answer.review["apiVersion"] == "admission.k8s.io/v9"
    assert answer.review["kind"] == "AdmissionReview"
    assert answer.response["uid"] == UID


class Crashing(ObjectLookup):
    """A look-up in which something unforeseen happens."""

    async def get(self, kind: Any, namespace: str | None, name: str) -> Any:
        raise ZeroDivisionError("unforeseen")


class Failing(ObjectLookup):
    """A look-up whose API server is away."""

    async def get(self, kind: Any, namespace: str | None, name: str) -> Any:
        raise LookupFailedError("reading InstanceType 'h20' failed: timed out")


class Silent:
    """A client whose API server takes the question and never answers."""

    async def get(self, *_: Any) -> bytes:
        await asyncio.Event().wait()
        return b""


@pytest.mark.parametrize("path", [VALIDATE_DEPLOYMENT, MUTATE_DEPLOYMENT])
async def test_a_review_ends_before_its_caller_stops_waiting(path: str) -> None:
    """One deadline for all reads of a review: what could not be judged is told in our own words."""
    silent = ReviewServer(KubeLookup(Silent()), AdmissionSettings(), seconds=0.01)  # type: ignore[arg-type]  # a client that only gets
    answer = Answer(*await silent.review(path, GOOD.replace(b'"accelerator"', b'"unset"')), None)
    assert (answer.http, answer.allowed, answer.code) == (500, False, 500)
    assert answer.response["uid"] == UID
    assert "timed out" in answer.response["status"]["message"]
    assert REVIEW_SECONDS < 10


async def test_a_crash_is_a_complete_500() -> None:
    """uid and all; the traceback is logged, the panic counted, and nothing of the object is said."""
    metrics = AdmissionMetrics(CollectorRegistry())
    crashing = ReviewServer(Crashing([]), AdmissionSettings(), metrics)
    secret = deployment(role().env(TOKEN="do-not-log-me"))
    with capture_logs() as entries:
        answer = await review(secret, server=crashing)
    assert (answer.http, answer.allowed, answer.code) == (500, False, 500)
    assert answer.response["uid"] == UID
    assert metrics.panics._value.get() == 1
    (entry,) = entries
    assert entry["log_level"] == "error"
    assert entry["uid"] == UID
    assert "ZeroDivisionError" in entry["traceback"]
    assert "do-not-log-me" not in str(entry)
    assert "do-not-log-me" not in json.dumps(answer.review)


async def test_a_rule_that_crashes_is_a_complete_500(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same, from inside a rule."""

    def broken(*_: object) -> None:
        raise RuntimeError("a rule")

    monkeypatch.setattr(judgements.registry, "judge", broken)
    answer = await review(deployment())
    assert (answer.http, answer.code, answer.response["uid"]) == (500, 500, UID)


SECRET = "do-not-log-me"

OURS = {
    "a decoder of ours": lambda: msgspec.json.decode(f'{{"TOKEN":"{SECRET}"', type=dict[str, int]),
    "a type of ours": lambda: msgspec.convert({SECRET: "x"}, dict[str, int]),
    "bytes of ours that are no text": b"\xff".decode,
    "a recursion of ours": lambda: json.loads("[" * 100_000),
    "words that quote the object": lambda: int(SECRET),
}


@pytest.mark.parametrize("name", OURS)
async def test_a_decode_fault_inside_a_rule_is_ours_and_no_bad_request(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """400 is for a review that cannot be read; what a rule fails to decode is a crash, and its words are not logged."""

    def broken(*_: object) -> None:
        OURS[name]()

    monkeypatch.setattr(judgements.registry, "judge", broken)
    with capture_logs() as entries:
        answer = await review(deployment())
    assert (answer.http, answer.code, answer.response["uid"]) == (500, 500, UID)
    (entry,) = entries
    assert "test_wire.py" in entry["traceback"]
    assert SECRET not in str(entry)


async def test_a_failed_read_is_500_and_no_finding() -> None:
    """failurePolicy decides; no cause is made up."""
    answer = await review(deployment(), lookup=Failing([]))
    assert (answer.http, answer.code, answer.response["uid"]) == (500, 500, UID)
    assert "timed out" in answer.message
    assert answer.causes == []


async def test_a_failed_read_never_opens_the_hatch() -> None:
    """An API server that is away does not unbind a deployment."""
    bound: Deployment = deployment().bound(3)
    answer = await review(bound.unbound(), bound, lookup=Failing([]))
    assert (answer.http, answer.allowed) == (500, False)


async def test_a_failed_read_of_the_pods_deployment_is_500() -> None:
    """A Pod is not let through without its gates."""
    pod = {
        "kind": "Pod",
        "metadata": {"labels": {"app.kubernetes.io/name": "model-deployment", "app.kubernetes.io/instance": "qwen"}},
        "spec": {"containers": []},
    }
    status, _ = await ReviewServer(Failing([]), AdmissionSettings()).review(MUTATE_POD, envelope(request(pod, resource="pods")))
    assert status == 500


async def test_metrics_carry_the_names_that_dashboards_know() -> None:
    """Requests by webhook and code, latency, in-flight, fence decisions and refusals by rule; dry runs count no decision."""
    registry = CollectorRegistry()
    counting = server(AdmissionMetrics(registry))
    bound = deployment().bound(3)
    await review(bound.scaled(7), bound, server=counting)
    await review(bound.scaled(7), bound, server=counting, dryRun=True)
    await review(deployment(role(shmSize="0")), server=counting)
    await review(deployment(role(shmSize="0")), server=counting, dryRun=True)
    await review(bound.unbound(), bound, server=counting)
    await review(bound.labelled(a="b"), bound, server=counting)
    await counting.review(VALIDATE_DEPLOYMENT, b"{")
    value = registry.get_sample_value
    webhook = {"webhook": "validate-modeldeployment"}
    assert value("controller_runtime_webhook_requests_total", {**webhook, "code": "200"}) == 6
    assert value("controller_runtime_webhook_requests_total", {**webhook, "code": "400"}) == 1
    assert value("controller_runtime_webhook_latency_seconds_count", webhook) == 7
    assert value("controller_runtime_webhook_requests_in_flight", webhook) == 0
    assert value("controller_runtime_webhook_panics_total") == 0
    assert value("modelwarden_fence_decisions_total", {"rule": "ReplicasOwnedByScaler", "verdict": "refused"}) == 1
    assert value("modelwarden_fence_decisions_total", {"rule": "ScalerGone", "verdict": "allowed"}) == 1
    assert value("modelwarden_fence_decisions_total", {"rule": "", "verdict": "allowed"}) is None
    assert value("modelwarden_admission_refusals_total", {"rule": "MD101"}) == 1


async def test_objects_of_the_wrong_shape_are_left_to_the_schema_when_mutating() -> None:
    """The mutating call comes before the schema: what it cannot read, the schema refuses in better words."""
    answer = await post(envelope(request({**deployment().body, "spec": {"roles": "x"}})), MUTATE_DEPLOYMENT)
    assert answer.allowed
    assert answer.patch == []


def test_an_answer_is_compact_json() -> None:
    """No blanks; what says nothing is left out."""
    from webhooks import response

    assert (
        response.write_answer(response.Envelope(UID), response.allow())
        == compact({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": {"uid": UID, "allowed": True}}).encode()
    )


LEAVING = deployment().deleting().finalizers("a/b")
BROKEN_SPECS = {"roles that are a text": {"roles": "x"}, "masses of values": {"x": [1] * (MOST_VALUES + 2)}, "none": None}


@pytest.mark.parametrize("name", BROKEN_SPECS)
async def test_no_spec_keeps_the_finalizers_of_an_object_on_its_way_out(name: str) -> None:
    """F87: neither a rule nor a spec that nobody can read; the annotations are judged as ever."""
    old = LEAVING._with("spec", value=BROKEN_SPECS[name])
    assert (await review(old.finalizers(), old)).allowed
    assert (await review(old.finalizers().bound(1), old)).rules == {"ScalerAnnotationForged"}
    leaving = scaler() | {"metadata": {"name": "s", "deletionTimestamp": "2026-01-01T00:00:00Z"}, "spec": BROKEN_SPECS[name]}
    assert (await post(envelope(request(leaving, leaving, resource="modeldeploymentscalers")), VALIDATE_SCALER)).allowed


async def test_a_hostile_write_does_not_become_a_hostile_answer() -> None:
    """A word of the line may have 32 KiB, and a hundred words may be wrong: the answer shows the beginnings."""
    words = ["--kv-transfer-config." + "x" * 30_000] * 100
    answer = await review(deployment(role().args(*words)))
    assert answer.code == 422
    assert len(compact(answer.review)) < 150_000
    assert "…" in answer.causes[0]["message"]


async def test_masses_of_values_are_refused_before_they_are_read():
    """Each would cost a hundred times its bytes; no API server stores such a spec. One value less is judged."""
    few, many = (
        changed('"spec":{', '"spec":{"x":[' + ",".join("1" for _ in range(count)) + "],") for count in (MOST_VALUES - 200, MOST_VALUES + 2)
    )
    answer = await post(many)
    assert (answer.http, answer.code, answer.review["response"]["uid"]) == (413, 413, UID)
    assert "50000 values" in answer.message
    assert (await post(few)).http == 200
    assert (await post(many, MUTATE_DEPLOYMENT)).http == 413
