"""`mdctl review` and `mdctl fence` as a person and a pipeline call them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from calling import EXPORTED, run, write
from reviewing import Deployment, deployment, instance_type, request, role, scaler

from app.verbs.fence import command as fence
from app.verbs.review import command as review
from webhooks.fence.gitops import ARGO_SNIPPET


@pytest.fixture(autouse=True)
def _logging() -> Iterator[None]:
    """A verb sends logs to standard error; the next test has them as they were."""
    yield
    structlog.reset_defaults()


def envelope(new: Deployment, old: Deployment | None = None, **more: Any) -> dict[str, Any]:
    """A review as an object."""
    return {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request(new.body, old.body if old else None, **more)}


# ------------------------------------------------------------------------------------------------------------- review


def test_review_of_a_file(tmp_path: Path) -> None:
    """Defaulted first and judged then; the exit code is the verdict."""
    objects = write(tmp_path, "objects.yaml", {"kind": "List", "items": [instance_type()]})
    good = run(review, "-f", write(tmp_path, "a.yaml", envelope(deployment())), "--objects", objects)
    assert good.exit_code == 0
    assert json.loads(good.output)["patchedObject"]["spec"]["roles"][0]["resources"] == {"accelerator": "1"}
    bad = run(review, "-f", write(tmp_path, "b.yaml", envelope(deployment(role().args("-tp", "2")))), "--objects", objects)
    assert bad.exit_code == 1
    assert "MD303" in bad.output
    assert "patchedObject" not in json.loads(bad.output)


def test_review_that_cannot_be_judged(tmp_path: Path) -> None:
    """Exit code 2, as for a call that is wrong."""
    assert run(review, "-f", write(tmp_path, "a.yaml", {"kind": "AdmissionReview"})).exit_code == 2
    assert run(review).exit_code == 2
    assert run(review, "-f", str(tmp_path / "absent.yaml")).exit_code == 2
    assert run(review, "-f", write(tmp_path, "b.yaml", envelope(deployment())), "--set", "no-such=1").exit_code == 2


SHAPELESS = {
    "a resource that is a text": ({"uid": "u", "operation": "CREATE", "resource": "pods"}, []),
    "an operation nobody knows": ({"uid": "u", "operation": "create", "object": {}}, []),
    "a request that is a list": ([1], []),
    "a spec of too many values": (request({**deployment().body, "spec": {"x": [1] * 60_000}}), []),
    "a type of another shape": (request(deployment().body), [instance_type() | {"spec": 1}]),
}


@pytest.mark.parametrize("name", SHAPELESS)
def test_review_of_what_has_no_shape(tmp_path: Path, name: str) -> None:
    """A sentence and exit code 2, never a traceback: it is neither allowed nor refused."""
    asked, objects = SHAPELESS[name]
    file = write(tmp_path, "a.yaml", {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": asked})
    result = run(review, "-f", file, "--objects", write(tmp_path, "objects.yaml", {"kind": "Pod", "metadata": [1]}, *objects))
    assert result.exit_code == 2, result.output
    assert '"allowed": false' in result.output


def test_review_settings(tmp_path: Path) -> None:
    """`--set` speaks the settings' own names."""
    file = write(tmp_path, "a.yaml", envelope(deployment(role(privileged=True))))
    objects = write(tmp_path, "objects.yaml", instance_type())
    assert run(review, "-f", file, "--objects", objects).exit_code == 1
    assert run(review, "-f", file, "--objects", objects, "--set", "instance-privileged-allowed=true").exit_code == 0
    assert run(review, "-f", file, "--set", "instance-privileged-allowed=perhaps").exit_code == 2


def test_review_lines() -> None:
    """One answer a line, in order; a bad line is answered and the run goes on."""
    good = {"review": envelope(deployment()), "objects": [instance_type()], "settings": {}}
    lines = [
        json.dumps(good),
        "{",
        "[]",
        json.dumps({"review": 1}),
        json.dumps(good | {"settings": {"fence.scalerUsernames": 1}}),
        json.dumps(good | {"settings": [1]}),
        json.dumps(good | {"objects": [1]}),
        json.dumps(good).replace('"replicas": 1', '"replicas": 1, "replicas": 2'),
        json.dumps(good),
    ]
    answers = [json.loads(line) for line in run(review, "--jsonl", stdin="\n".join(lines) + "\n\n").output.splitlines()]
    assert [set(answer) == {"error"} for answer in answers] == [False, *[True] * 7, False]
    assert answers[0] == answers[-1]
    assert answers[0]["allowed"] is True


# -------------------------------------------------------------------------------------------------------------- fence

BOUND = deployment(role(replicas=2)).bound(3).decided(2)


def test_fence_explains_a_refusal(tmp_path: Path) -> None:
    """Verdict, writer, rule with its sentence, the values, and the ways out."""
    old, new = write(tmp_path, "old.yaml", BOUND), write(tmp_path, "new.yaml", BOUND.scaled(5))
    result = run(fence, "explain", "-f", old, "-f", new, "--as", "alice")
    assert result.exit_code == 1
    for text in ("refused", "alice, no scaler", "queue-scaler, term 3", "ReplicasOwnedByScaler", "present 2", "attempted 5", "Argo CD"):
        assert text in result.output


def test_fence_explains_exported_objects(tmp_path: Path) -> None:
    """A status, as every stored object has one, is no obstacle."""
    stored = BOUND._with("status", value=EXPORTED)
    old, new = write(tmp_path, "old.yaml", stored), write(tmp_path, "new.yaml", stored.scaled(5))
    assert run(fence, "explain", "-f", old, "-f", new, "--as", "alice").exit_code == 1


def test_fence_explains_what_passes(tmp_path: Path) -> None:
    """A write that is none of its business, a hatch, and a scaler's own."""
    old, free = write(tmp_path, "old.yaml", BOUND), write(tmp_path, "free.yaml", BOUND.unbound())
    nothing = run(fence, "explain", "-f", old, "-f", old, "--as", "alice")
    assert nothing.exit_code == 0
    assert "no say" in nothing.output
    hatch = run(fence, "explain", "-f", old, "-f", free, "--as", "alice")
    assert hatch.exit_code == 0
    assert "ScalerGone" in hatch.output
    shut = run(fence, "explain", "-f", old, "-f", free, "--as", "alice", "--scaler", write(tmp_path, "scaler.yaml", scaler()))
    assert shut.exit_code == 1
    assert "ScalerAlive" in shut.output
    other = write(tmp_path, "other.yaml", scaler(name="other"))
    mistaken = run(fence, "explain", "-f", old, "-f", free, "--as", "alice", "--scaler", other)
    assert mistaken.exit_code == 2
    assert "the binding names ModelDeploymentScaler 'queue-scaler'" in mistaken.output
    named = run(fence, "explain", "-f", old, "-f", free, "--as", "me", "--scaler-username", "me")
    assert "Release" in named.output


def test_fence_explains_a_create(tmp_path: Path) -> None:
    """One file is a create."""
    result = run(fence, "explain", "-f", write(tmp_path, "a.yaml", BOUND))
    assert result.exit_code == 1
    assert "(nobody), no scaler" in result.output
    assert "ScalerAnnotationForged" in result.output
    assert "bound:" not in result.output
    assert "attempt: queue-scaler, term 3" in result.output


def test_fence_wants_its_objects(tmp_path: Path) -> None:
    """A call that is wrong is exit code 2."""
    other = write(tmp_path, "a.yaml", {"kind": "Pod"})
    assert run(fence, "explain", "-f", other).exit_code == 2
    assert run(fence, "explain", "-f", other, "-f", other, "-f", other).exit_code == 2
    assert run(fence, "explain").exit_code == 2


def test_fence_prints_ignore_rules() -> None:
    """The exact snippet, and what it must hold."""
    import yaml

    argo = run(fence, "ignore-rules", "argocd").output
    assert argo == ARGO_SNIPPET
    spec = yaml.safe_load(argo)["spec"]
    (ignored,) = spec["ignoreDifferences"]
    assert ignored["jqPathExpressions"] == [".spec.roles[].replicas"]
    assert ignored["jsonPointers"] == [
        "/metadata/annotations/modeldeployment.gpustack.ai~1scaler-binding",
        "/metadata/annotations/modeldeployment.gpustack.ai~1scaler-decision",
    ]
    assert "RespectIgnoreDifferences=true" in spec["syncPolicy"]["syncOptions"]
    flux = run(fence, "ignore-rules", "flux").output
    assert yaml.safe_load(flux)["spec"]["patches"]
    assert run(fence, "ignore-rules", "other").exit_code == 2
