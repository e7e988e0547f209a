"""`mdctl review`, `mdctl lint` and `mdctl fence` as a person and a pipeline call them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from click.testing import CliRunner, Result
from reviewing import Deployment, deployment, instance_type, request, role, scaler

from app.verbs.fence import command as fence
from app.verbs.lint import command as lint
from app.verbs.review import command as review
from webhooks.fence.gitops import ARGO_SNIPPET


@pytest.fixture(autouse=True)
def _logging() -> Iterator[None]:
    """A verb sends logs to standard error; the next test has them as they were."""
    yield
    structlog.reset_defaults()


def run(verb: Any, *args: str, stdin: str | bytes | None = None) -> Result:
    """One call; its output and exit code."""
    return CliRunner().invoke(verb, args, input=stdin, catch_exceptions=False)


def write(folder: Path, name: str, *objects: Any) -> str:
    """A YAML stream in a file (JSON is YAML)."""
    file = folder / name
    file.write_text("\n---\n".join(json.dumps(obj.body if isinstance(obj, Deployment) else obj) for obj in objects), "utf-8")
    return str(file)


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


# --------------------------------------------------------------------------------------------------------------- lint

MANIFEST = """\
apiVersion: worker.gpustack.ai/v1
kind: ModelDeployment
metadata:
  name: qwen
  namespace: team-a
spec:
  model: {name: Qwen/Qwen3-8B}
  engine:
    name: vLLM
    version: 0.29.0
  roles:
    - name: server
      instanceType: h20
      shmSize: "0"
      extraArgs:
        - --max-model-len
        - "4096"
        - --kv_transfer_conf=x
        - --unknown
"""


@pytest.fixture
def manifest(tmp_path: Path) -> str:
    """A manifest with two errors of ours and one of the engine's."""
    file = tmp_path / "md.yaml"
    file.write_text(MANIFEST, "utf-8")
    return str(file)


def test_lint_points_at_lines(manifest: str) -> None:
    """File, line, severity, rule, field; exit code 1."""
    result = run(lint, manifest)
    assert result.exit_code == 1
    places = [line.split(" ")[:3] for line in result.output.splitlines()]
    assert places == [
        [f"{manifest}:14:", "error:", "MD101"],
        [f"{manifest}:18:", "error:", "MD201"],
        [f"{manifest}:19:", "error:", "EA002"],
    ]


UNQUOTED = {
    "a label that is a number": ("labels: {version: 1}", "metadata.labels"),
    "an annotation that is a switch": ("annotations: {canary: true}", "metadata.annotations"),
    "a name that is a number": ("name: 7", "metadata.name"),
    "finalizers that are a text": ("finalizers: a/b", "metadata.finalizers"),
}


@pytest.mark.parametrize("name", UNQUOTED)
def test_lint_of_metadata_of_other_types(name: str) -> None:
    """Every server refuses it, and it keeps nothing else from being told."""
    written, field = UNQUOTED[name]
    text = MANIFEST.replace("  name: qwen\n", f"  {written}\n" + ("" if "name:" in written else "  name: qwen\n"))
    told = json.loads(run(lint, "-", "-o", "json", stdin=text).output)["findings"]
    assert [one["id"] for one in told if one["field"] == field] == ["MD000"]
    assert {"MD101", "MD201"} <= {one["id"] for one in told}


def test_lint_reads_a_whole_number_however_written(manifest: str) -> None:
    """`2.0` is 2 to a server; it keeps nothing from being told."""
    text = Path(manifest).read_text("utf-8").replace("instanceType: h20", "instanceType: h20\n      replicas: 2.0")
    assert {"MD101", "MD201"} <= {one["id"] for one in json.loads(run(lint, "-", "-o", "json", stdin=text).output)["findings"]}


def test_lint_beside_a_stored_object_that_nobody_can_read(manifest: str, tmp_path: Path) -> None:
    """It is told: silence would say that all is well."""
    stored = deployment().named("qwen").labelled(a="b")
    stored.body["metadata"]["labels"] = {"a": 1}
    result = run(lint, manifest, "--old", write(tmp_path, "old.json", stored))
    assert (result.exit_code, "MD000 spec: it or the stored object cannot be read" in result.output) == (1, True)


def test_lint_of_a_name_that_is_not_given_yet(tmp_path: Path) -> None:
    """Five characters come behind `generateName`: with them the names of Services are judged, and no other way."""
    for base, code in (("qwen-", 0), ("q" * 50 + "-", 0), ("q" * 51 + "-", 1), ("9-", 1)):
        named = deployment().named("x")._with("metadata", "name", value=None)._with("metadata", "generateName", value=base)
        assert run(lint, write(tmp_path, "a.yaml", named)).exit_code == code, base


def test_lint_of_a_folder_and_of_standard_input(manifest: str) -> None:
    """A folder is walked; `-` is standard input; other kinds are stepped over."""
    folder = Path(manifest).parent
    (folder / "sub").mkdir()
    (folder / "sub" / "fine.yml").write_text(MANIFEST.replace('      shmSize: "0"\n', "").split("      extraArgs")[0], "utf-8")
    (folder / "sub" / "other.yaml").write_text("kind: ConfigMap\n", "utf-8")
    (folder / "readme.txt").write_text("{", "utf-8")
    assert run(lint, str(folder)).output == run(lint, manifest).output
    assert run(lint, str(folder / "sub")).exit_code == 0
    assert run(lint, "-", stdin=MANIFEST).output.startswith("<stdin>:14:")


def test_lint_fails_on_what_it_is_told_to(manifest: str) -> None:
    """Documented exit codes."""
    assert run(lint, manifest, "--fail-on", "never").exit_code == 0
    assert run(lint, "-", "--fail-on", "warning", stdin=MANIFEST.split("      shmSize", maxsplit=1)[0]).exit_code == 0
    assert run(lint).exit_code == 2
    assert run(lint, "absent.yaml").exit_code == 2


TEXTS: dict[str, tuple[str, str, int]] = {
    "a key twice": ("a: 1\nb:\n  c: 1\n  c: 1\n", "YAML001", 4),
    "no YAML": ("a: [\n", "YAML002", 2),
    "an argument that is a number": (MANIFEST.replace('"4096"', "4096"), "MD000", 17),
    "a member that nobody knows is dropped, as the API server does": (MANIFEST.replace('shmSize: "0"', 'sharedMemory: "0"'), "MD201", 18),
    "an unknown engine": (MANIFEST.replace("vLLM", "TGI"), "MD000", 9),
    "a scaler annotation in a manifest": (
        MANIFEST.replace("  namespace: team-a\n", "  annotations:\n    modeldeployment.gpustack.ai/scaler-binding: x\n"),
        "ScalerAnnotationForged",
        6,
    ),
    "a List": ("kind: List\napiVersion: v1\nitems:\n" + "".join(f"- {MANIFEST}".replace("\n", "\n  ").rstrip(" ")), "MD101", 17),
}


@pytest.mark.parametrize("name", TEXTS)
def test_lint_of_texts(name: str) -> None:
    """Each is found at its line."""
    text, rule, line = TEXTS[name]
    result = run(lint, "-", "-o", "json", stdin=text)
    assert result.exit_code == 1
    found = json.loads(result.output)["findings"]
    assert (rule, line) in [(one["id"], one["line"]) for one in found]


def test_lint_with_the_stored_object(manifest: str, tmp_path: Path) -> None:
    """`--old`: the rules of updates, the fence among them."""
    stored = deployment(role(replicas=2)).bound(3).decided(2)
    old = write(tmp_path, "old.json", stored)
    new = write(tmp_path, "new.json", stored.model("other").scaled(5))
    result = run(lint, new, "--old", old)
    assert {line.split(" ")[2] for line in result.output.splitlines()} >= {"MD801", "ReplicasOwnedByScaler"}
    assert "ignoreDifferences" in result.output
    assert run(lint, new).exit_code == 1
    assert run(lint, old, "--old", old).exit_code == 0


def test_lint_looks_up_what_stands_beside(tmp_path: Path) -> None:
    """An InstanceType among the manifests is judged by; one that is not there is not made up."""
    wide = deployment(role().args("-tp", "2"))
    assert run(lint, write(tmp_path, "a.json", wide)).exit_code == 0
    assert "MD303" in run(lint, write(tmp_path, "b.json", wide, instance_type())).output
    assert "MD715" in run(lint, write(tmp_path, "c.json", deployment(role().cards(9)), instance_type())).output


def test_lint_beside_a_type_that_nobody_observed_yet(tmp_path: Path) -> None:
    """What can be told without it is told; that it cannot be judged by is a warning."""
    half = deployment(role(shmSize="0").cards(1, acceleratorSlicedMemoryPercentage=50))
    unobserved = instance_type() | {"status": {"accelerator": {"capacity": "8"}}}
    result = run(lint, write(tmp_path, "a.json", half, unobserved))
    assert [line.split(" ")[1:3] for line in result.output.splitlines()] == [["error:", "MD101"], ["warning:", "MD001"]]


def test_lint_of_what_is_on_its_way_out(tmp_path: Path) -> None:
    """As in admission: beside a stored object that is being deleted only forged annotations are wrong."""
    wrong = scaler(targetRef={"name": "other"})
    leaving = scaler() | {"metadata": scaler()["metadata"] | {"deletionTimestamp": "2026-01-01T00:00:00Z"}}
    old = write(tmp_path, "old.json", deployment().deleting(), leaving)
    new = write(tmp_path, "new.json", deployment(role(privileged=True)).deleting().bound(1), wrong)
    told = [line.split(" ")[2] for line in run(lint, new, "--old", old).output.splitlines()]
    assert told == ["ScalerAnnotationForged", "MD000"]  # the definition itself holds the target


CACHED = deployment(role("p", "Prefill").cards(1, interface="1"), role("d", "Decode").cards(1)).cache()


def cache_of(namespace: str, *protocols: str) -> list[dict[str, Any]]:
    """A binding named pool in a namespace, and its pool."""
    groups = [{"name": protocol.lower(), "protocol": protocol} for protocol in protocols]
    return [
        {"kind": "KVCachePoolBinding", "metadata": {"name": "pool", "namespace": namespace}, "spec": {"poolRef": {"name": "shared"}}},
        {"kind": "KVCachePool", "metadata": {"name": "shared"}, "spec": {"memberGroups": groups}},
    ]


BESIDE = {
    "no cache object": ([], []),
    "a pool over TCP": (cache_of("team-a", "TCP"), ["MD722"]),
    "a pool over EFA": (cache_of("team-a", "EFA"), []),
    "a pool over TCP, and another fault": (
        [*cache_of("team-a", "TCP"), instance_type(cards=0) | {"spec": {"acceleratable": True}}],
        ["MD715", "MD715"],
    ),
    "a binding of another namespace": (cache_of("team-b", "TCP"), []),
    "a binding without its pool": (cache_of("team-a", "TCP")[:1], []),
    "a pool without a binding": (cache_of("team-a", "TCP")[1:], []),
}


@pytest.mark.parametrize("name", BESIDE)
def test_lint_judges_the_cache_as_far_as_it_is_there(tmp_path: Path, name: str) -> None:
    """Binding and pool among the manifests are judged by; what is not there is not held against anybody."""
    objects, rules = BESIDE[name]
    told = run(lint, write(tmp_path, "a.json", CACHED, *objects), "-o", "json")
    assert [one["id"] for one in json.loads(told.output)["findings"]] == rules


def test_lint_compares_with_the_stored_object_of_the_same_name_and_namespace(tmp_path: Path) -> None:
    """And with no other."""
    new = write(tmp_path, "new.json", deployment().model("another"), scaler(targetRef={"name": "another"}))
    for old, rules in (
        ([deployment()], {"MD000", "MD801"}),
        ([deployment().named("other"), deployment()._with("metadata", "namespace", value="team-b"), scaler(name="other")], set()),
        ([scaler()], {"MD000", "MD902"}),
    ):
        told = run(lint, new, "--old", write(tmp_path, "old.json", *old), "-o", "json")
        assert {one["id"] for one in json.loads(told.output)["findings"]} == rules


def test_lint_names_objects_and_rules(tmp_path: Path) -> None:
    """Kind, namespace and name, or what stands for it; the rule's name before what is wrong."""
    unnamed = deployment(role(shmSize="0"))._with("metadata", "name", value=None)._with("metadata", "generateName", value="qwen-")
    (one,) = json.loads(run(lint, write(tmp_path, "a.json", unnamed), "-o", "json").output)["findings"]
    assert (one["object"], one["severity"]) == ("ModelDeployment team-a/qwen-", "error")
    assert one["message"].startswith("ShmSizePositive: ")


def test_lint_leaves_a_namesake_of_another_group_alone(manifest: str) -> None:
    """Somebody else's ModelDeployment is none of ours."""
    text = Path(manifest).read_text("utf-8").replace("worker.gpustack.ai/v1", "example.com/v1")
    assert json.loads(run(lint, "-", "-o", "json", stdin=text).output)["findings"] == []


def test_lint_of_scalers(tmp_path: Path) -> None:
    """The other kind too, and two that act on one target."""
    result = run(lint, write(tmp_path, "a.json", scaler(name="a"), scaler(name="b")))
    assert [line.split(" ")[2] for line in result.output.splitlines()] == ["MD906", "MD906"]


def test_lint_for_github(manifest: str) -> None:
    """Workflow commands, with what has a meaning there escaped."""
    lines = run(lint, manifest, "-o", "github").output.splitlines()
    assert lines[0].startswith(f"::error file={manifest},line=14,title=MD101::spec.roles[0].shmSize: ")
    assert len(lines) == 3


def test_lint_as_sarif(manifest: str) -> None:
    """One run, a result each, the rules with their sentences."""
    log = json.loads(run(lint, manifest, "-o", "sarif").output)
    (only,) = log["runs"]
    assert log["version"] == "2.1.0"
    assert [one["ruleId"] for one in only["results"]] == ["MD101", "MD201", "EA002"]
    rules = only["tool"]["driver"]["rules"]
    assert all(rules[one["ruleIndex"]]["id"] == one["ruleId"] for one in only["results"])
    assert rules[1]["shortDescription"]["text"] == "A declared shared-memory size is above zero."
    assert only["results"][0]["locations"][0]["physicalLocation"]["region"] == {"startLine": 14}


def test_lint_lines() -> None:
    """D8: exactly the members of a result; a bad line goes on."""
    line = json.dumps({"objects": [deployment(role(shmSize="0")).body]})
    answers = [json.loads(text) for text in run(lint, "--jsonl", stdin=f"{line}\n{{\n{line}\n").output.splitlines()]
    assert set(answers[1]) == {"error"}
    assert answers[0] == answers[2]
    (finding,) = answers[0]["findings"]
    assert set(finding) == {"id", "severity", "object", "field", "message", "fix"}
    assert (finding["id"], finding["object"], finding["field"]) == ("MD101", "ModelDeployment team-a/qwen", "spec.roles[0].shmSize")


EXPORTED = {"phase": "Ready", "conditions": [{"type": "Ready", "status": "True"}]}


def test_an_exported_object_is_linted_like_any_other(tmp_path: Path) -> None:
    """`kubectl get -o yaml` prints a status: it hides nothing, in the object itself and in the stored one beside it."""
    bad = deployment(role(shmSize="0"))._with("status", value=EXPORTED)
    assert "MD101" in run(lint, write(tmp_path, "bad.yaml", bad)).output
    old = deployment()._with("status", value=EXPORTED)
    assert "MD101" in run(lint, write(tmp_path, "bad.yaml", bad), "--old", write(tmp_path, "old.yaml", old)).output


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
