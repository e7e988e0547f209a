"""`mdctl status` and `mdctl explain` from a dump, and what explaining says."""

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result
from status_builders import ago, scene

from app.cli import main
from controller.dump import snapshots
from controller.status.explain import Explanation, explain
from controller.status.judge import assess

NOW = ago(0)


def troubled() -> list[dict[str, object]]:
    """One of two replicas lost its quota to preemption, and a departed Pod is kept by a finalizer."""
    found = scene(replicas=2, extraArgs=["--host", "127.0.0.1"]).replicas("a").tap(lambda s: s.pod("b", ordinal=1).unready())
    found.workload("b", Preempted="True").pod("old", ordinal=1).departing("kueue.x-k8s.io/managed")
    return found.document()


@pytest.fixture
def dump(tmp_path: Path) -> str:
    """The dump as a file."""
    path = tmp_path / "dump.yaml"
    path.write_text(yaml.safe_dump_all(troubled()))
    return str(path)


def run(*arguments: str, stdin: str | None = None) -> Result:
    """The command's result; an exit status other than 0 or 1 is a crash."""
    result = CliRunner().invoke(main, list(arguments), input=stdin)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def test_status_as_yaml(dump: str) -> None:
    """One document a deployment."""
    (document,) = yaml.safe_load_all(run("status", "-f", dump, "--now", NOW).output)
    assert (document["name"], document["status"]["phase"]) == ("qwen", "Degraded")
    assert list(document["status"])[:3] == ["observedGeneration", "phase", "phaseMessage"]


def test_status_as_json_is_the_line_form(dump: str) -> None:
    """-o json is the --jsonl result, indented."""
    shown = json.loads(run("status", "-f", dump, "--now", NOW, "-o", "json").output)
    line = json.dumps({"objects": troubled(), "now": NOW})
    assert shown == json.loads(run("status", "--jsonl", stdin=line + "\n").output)


def test_status_as_a_table(dump: str) -> None:
    """The columns of kubectl get md, and the message."""
    head, row = run("status", "-f", dump, "--now", NOW, "-o", "table").output.splitlines()
    assert head.split() == ["NAMESPACE", "NAME", "ENGINE", "ROLES", "PHASE", "ENDPOINT", "MESSAGE"]
    assert row.split()[:6] == ["team-a", "qwen", "vLLM", "1S", "Degraded", "http://qwen.team-a.svc:8000"]


def test_a_bad_line_is_an_error_and_the_run_goes_on() -> None:
    """One result line for each input line, in order."""
    good = json.dumps({"objects": scene().document(), "now": NOW})
    clockless = json.dumps({"objects": [*scene().document()], "now": "noon"})
    lines = run("status", "--jsonl", stdin=f"{{\n[]\n{clockless}\n{good}" + "\n").output.splitlines()
    results = [json.loads(line) for line in lines]
    assert [set(result) for result in results] == [{"error"}, {"error"}, {"error"}, {"deployments"}]


HOSTILE = {
    "nested beyond every stack": '{"objects": [' + '{"kind": "List", "items": [' * 3000 + "]}" * 3000 + "]}",
    "a spec nested beyond every stack": json.dumps({"objects": scene().document()}).replace(
        '"spec": {', '"spec": {"x": ' + '{"x": ' * 900 + "1" + "}" * 900 + ", ", 1
    ),
    "a clock before the calendar": json.dumps({"objects": scene().document(), "now": "0001-01-01T00:00:00+14:00"}),
    "a clock whose budgets lie behind the calendar": json.dumps(
        {"objects": scene().replicas("a", "b").document(), "now": "9999-12-31T23:59:59Z"}
    ),
    "no UTF-8": "\udcff",
}


@pytest.mark.parametrize("sentence", HOSTILE)
def test_no_line_ends_the_run(sentence: str) -> None:
    """Whatever a line holds, it has one result, and the next line is answered."""
    good = json.dumps({"objects": scene().document(), "now": NOW})
    stdin = f"{HOSTILE[sentence]}\n{good}\n".encode(errors="surrogateescape")
    first, second = CliRunner().invoke(main, ["status", "--jsonl"], input=stdin).output.splitlines()
    assert set(json.loads(first)) == {"error"}
    assert set(json.loads(second)) == {"deployments"}


def test_what_could_not_be_read_is_named_and_the_rest_judged() -> None:
    """In the line form beside the deployments, on the terminal as a warning."""
    found = [*scene().replicas("a").document(), {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "odd", "labels": 3}}]
    result = json.loads(run("status", "--jsonl", stdin=json.dumps({"objects": found, "now": NOW}) + "\n").output)
    assert [entry["status"]["phase"] for entry in result["deployments"]] == ["Ready"]
    assert "Pod /odd" in result["unreadable"][0]
    shown = run("status", "-f", "-", "--now", NOW, stdin=yaml.safe_dump_all(found))
    assert (shown.exit_code, "Warning: " in shown.stderr, "Pod /odd" in shown.stderr) == (0, True, True)


def test_settings_of_a_line() -> None:
    """A flat map of dotted names; names of other rooms are passed over."""
    line = {"objects": scene().replicas("a").document(), "now": NOW, "settings": {"kueue": "absent", "fence.scalerUsernames": ["x"]}}
    (result,) = json.loads(run("status", "--jsonl", stdin=json.dumps(line) + "\n").output)["deployments"]
    assert "quotaReserved" not in result["status"]["roles"][0]


@pytest.mark.parametrize(
    ("arguments", "stdin", "said"),
    [
        (("status",), None, "a dump is needed"),
        (("status", "-f", "-"), "a: [", "line 2: did not find"),
        (("status", "-f", "-"), "a: 1", "no ModelDeployment"),
        (("explain",), None, "name a deployment"),
        (("explain", "-f", "-", "md/other"), yaml.safe_dump_all(troubled()), "no ModelDeployment other"),
        (("dump", "pod/x"), None, "'pod/x' names no ModelDeployment"),
        (("explain", "md/x", "--now", "yesterday", "--kubeconfig", "/nowhere"), None, "'yesterday' is no RFC 3339 time"),
        (("dump", "md/x", "--kubeconfig", "/nowhere"), None, "Error: no kubeconfig at /nowhere\n"),
    ],
)
def test_what_cannot_be_done_is_said(arguments: tuple[str, ...], stdin: str | None, said: str) -> None:
    """A message and a status, never a traceback."""
    result = run(*arguments, stdin=stdin)
    assert result.exit_code in {1, 2}
    assert said in result.output


def test_explain_says_why(dump: str) -> None:
    """Verdict, rule, what was read, what would change it, who acts; settled parts take one line."""
    text = run("explain", "-f", dump, "md/qwen", "-n", "team-a", "--now", NOW).output
    assert text.startswith("team-a/qwen  Degraded  1S")
    for part in (
        "conditions[QuotaReserved]: False/PreemptedInPart",
        'docs/conditions.md, section "QuotaReserved"',
        "Workload wl-b (server ordinal 1): status.conditions[Preempted] = True",
        "Add capacity",
        "whoever owns the deployment",
        "finalizers kueue.x-k8s.io/managed",
        "roles[server].gates: NotGated",
        "--host",
    ):
        assert part in text, part
    assert "conditions[WeightsReady]: True/NotApplicable  The deployment references no artifact.\n" in text


def test_explain_without_kueue() -> None:
    """As `mdctl status`, and as the service that was told so: no Workload is missed where there are none."""
    found = yaml.safe_dump_all(scene().replicas("a").document())
    assert (
        "conditions[QuotaReserved]: Unknown/KueueNotInstalled"
        in run("explain", "-f", "-", "--now", NOW, "--kueue", "absent", stdin=found).output
    )
    assert "KueueNotInstalled" not in run("explain", "-f", "-", "--now", NOW, stdin=found).output


def test_explain_all_shows_settled_parts_in_full(dump: str) -> None:
    """--all leaves nothing out."""
    assert run("explain", "-f", dump, "--now", NOW, "--all").output.count("    rule ") == len(explained())


def explained() -> tuple[Explanation, ...]:
    """The parts of the troubled deployment."""
    (snapshot,) = snapshots(troubled(), NOW)
    return explain(assess(snapshot))


def test_explain_as_json_has_every_part(dump: str) -> None:
    """The phase, all conditions, the role's gates and groups, with their evidence."""
    (shown,) = json.loads(run("explain", "-f", dump, "--now", NOW, "-o", "json").output)["deployments"]
    assert [part["part"] for part in shown["parts"]] == [part.part for part in explained()]
    assert all(part["rule"] and part["actor"] for part in shown["parts"])


def test_a_retirement_is_explained() -> None:
    """The step, its clocks, the targets and what the drain read."""
    found = scene().replicas("a", "b").router().view("a", "!b").retiring("Draining", "b").drained("b", "Busy 2 running").assess()
    (part,) = [part for part in explain(found) if part.part == "retirement"]
    assert part.verdict == "Draining"
    assert "Busy" in str(part.read)
    assert "deadline" in str(part.read)


def test_nobody_has_to_wait_for_an_elastic_collective() -> None:
    """It is never evaluated as one group and never counted: no observation is missing, and none will come."""
    found = scene(elasticEp={"width": 2}).replicas("m", "w").router().elastic(record=False, observed=2, known=True)
    parts = {part.part: part for part in explain(found.assess())}
    for name in ("roles[server].groups[0]", "roles[server].endpoints"):
        assert (parts[name].actor, parts[name].settled) == ("nobody", True)
    assert not parts["roles[server].endpoints"].message


def test_every_state_of_a_status_can_be_explained() -> None:
    """No verdict of any part lacks its row."""
    scenes = [
        scene(),
        scene().deleting(),
        scene(elasticEp={"width": 2}).replicas("m").elastic(record=False),
        scene(size=2).group("server", 0, "a", "b").router(),
        scene().cache(None).artifact("").replicas("a"),
        scene().cache(blocks=1).artifact().replicas("a").router(ready=None),
        scene().replicas("a", "b").retiring("Aborted", "b"),
        scene().engine("Other").replicas("a"),
    ]
    for found in scenes:
        for part in explain(found.assess()):
            assert part.meaning, part
            assert part.change, part
