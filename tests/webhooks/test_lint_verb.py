"""`mdctl lint` as a person and a pipeline call it."""

import json
from pathlib import Path
from typing import Any

import pytest
from calling import EXPORTED, run, write
from reviewing import deployment, instance_type, role, scaler

from app.verbs.lint import command as lint

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


def test_an_exported_object_is_linted_like_any_other(tmp_path: Path) -> None:
    """`kubectl get -o yaml` prints a status: it hides nothing, in the object itself and in the stored one beside it."""
    bad = deployment(role(shmSize="0"))._with("status", value=EXPORTED)
    assert "MD101" in run(lint, write(tmp_path, "bad.yaml", bad)).output
    old = deployment()._with("status", value=EXPORTED)
    assert "MD101" in run(lint, write(tmp_path, "bad.yaml", bad), "--old", write(tmp_path, "old.yaml", old)).output
