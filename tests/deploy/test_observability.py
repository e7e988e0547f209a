"""Dashboard, alerts and ServiceMonitor ask for what is exposed, and promtool takes them as Prometheus would."""

import json
import re
import shutil
import subprocess
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from manifest_reading import DEPLOY, KUBECTL, by_identity, kustomized
from promql import selectors

from app.metricspage import rooms, sample_names
from certs.material import CA_CERT
from deploy.manifests import Options, manifests

OBSERVABILITY = DEPLOY / "observability"
ALERTS_PAGE = DEPLOY.parent / "docs" / "alerts.md"
UNIT_TESTS = Path(__file__).parent / "alerts_test.yaml"
PROMTOOL = shutil.which("promtool")
RULES: dict[str, Any] = yaml.safe_load((OBSERVABILITY / "alerts.yaml").read_text(encoding="utf-8"))
ALERTS = {rule["alert"]: rule for group in RULES["spec"]["groups"] for rule in group["rules"]}
DASHBOARD: dict[str, Any] = json.loads((OBSERVABILITY / "dashboard.json").read_text(encoding="utf-8"))
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]

# What Prometheus adds to every sample of a target, and the bounds of histograms.
TARGET = frozenset({"job", "instance", "pod", "service", "le"})


@cache
def _labels() -> dict[str, frozenset[str]]:
    labels = {family.name: frozenset(family.labels) for families in rooms().values() for family in families}
    return {name: labels.get(re.sub(r"_(bucket|sum|count)$", "", name), labels.get(name, frozenset())) for name in sample_names()}


def _queries() -> dict[str, list[str]]:
    queries = defaultdict(list, {name: [rule["expr"]] for name, rule in ALERTS.items()})
    for panel in PANELS:
        queries[panel["title"]] += [target["expr"] for target in panel["targets"]]
    return queries


@pytest.mark.parametrize("where", _queries())
def test_a_query_names_only_metrics_and_labels_that_are_exposed(where: str) -> None:
    """A dashboard that asks for a name nobody exposes shows an empty panel, and an alert on it never fires."""
    exposed = _labels()
    for expression in _queries()[where]:
        asked = list(selectors(expression))
        assert asked, expression
        for name, labels in asked:
            assert name in exposed, name
            assert labels <= exposed[name] | TARGET, f"{name}{set(labels)}"


READING = {
    "a name alone": ("up", [("up", set())]),
    "functions, ranges and lists of labels are no names": ("sum by (le) (rate(a_bucket[5m]))", [("a_bucket", set())]),
    "matchers name labels, their texts do not": ('a{b="c{d=1}",e!~"f"} > 0', [("a", {"b", "e"})]),
    "words between two are no names": ("a and on (x) b or vector(0)", [("a", set()), ("b", set())]),
}


@pytest.mark.parametrize("sentence", READING)
def test_reading_a_query(sentence: str) -> None:
    """What the check above sees in an expression."""
    expression, seen = READING[sentence]
    assert [(name, set(labels)) for name, labels in selectors(expression)] == seen


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_says_what_it_means_and_leads_to_its_paragraph(name: str) -> None:
    """Summary and description are sentences, the severity is one of two, and the runbook's heading exists."""
    rule = ALERTS[name]
    assert rule["labels"]["severity"] in {"critical", "warning"}
    assert rule["annotations"]["summary"].endswith(".")
    assert rule["annotations"]["description"].endswith((".", ".)"))
    headings = {
        line.removeprefix("### ").lower() for line in ALERTS_PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("### ")
    }
    assert rule["annotations"]["runbook"] == f"docs/alerts.md#{name.lower()}"
    assert name.lower() in headings


def test_no_paragraph_is_about_an_alert_that_does_not_exist() -> None:
    """The page and the rules have the same alerts."""
    lines = ALERTS_PAGE.read_text(encoding="utf-8").splitlines()
    assert {line.removeprefix("### ") for line in lines if line.startswith("### ")} == ALERTS.keys()


def test_the_dashboard_can_be_laid_out() -> None:
    """Panels have their own ids, do not overlap and stay on the grid; each asks the data source that the reader chose."""
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert at["x"] + at["w"] <= 24, panel["title"]
        assert not cells & taken, panel["title"]
        taken |= cells
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(ids) == len(set(ids))
    for panel in PANELS:
        assert panel["datasource"]["uid"] == "${datasource}"
        assert {target["datasource"]["uid"] for target in panel["targets"]} == {"${datasource}"}


def test_variables_of_the_dashboard_are_declared() -> None:
    """Every `$name` of a query is a variable of the dashboard or Grafana's own."""
    declared = {variable["name"] for variable in DASHBOARD["templating"]["list"]} | {"__rate_interval"}
    used = {name for expressions in _queries().values() for expression in expressions for name in re.findall(r"\$(\w+)", expression)}
    assert used <= declared
    for variable in DASHBOARD["templating"]["list"]:
        for metric, label in re.findall(r"label_values\((\w+), (\w+)\)", variable.get("definition", "")):
            assert label in _labels()[metric] | TARGET


def test_the_service_monitor_reaches_the_service() -> None:
    """It selects our Service, scrapes its port over HTTPS trusting our authority, and keeps the deployments' own namespaces."""
    monitor = yaml.safe_load((OBSERVABILITY / "servicemonitor.yaml").read_text(encoding="utf-8"))
    service = by_identity(manifests(Options()))[("Service", "modelwarden")]
    (endpoint,) = monitor["spec"]["endpoints"]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert endpoint["port"] in {port["name"] for port in service["spec"]["ports"]}
    assert (endpoint["scheme"], endpoint["path"], endpoint["honorLabels"]) == ("https", "/metrics", True)
    assert endpoint["tlsConfig"]["ca"]["secret"] == {"name": "modelwarden-certs", "key": CA_CERT}
    assert endpoint["tlsConfig"]["serverName"] == f"{service['metadata']['name']}.{service['metadata']['namespace']}.svc"


@pytest.mark.skipif(KUBECTL is None, reason="kubectl brings kustomize, and is not installed")
def test_kustomize_carries_the_dashboard_to_grafana() -> None:
    """A labelled ConfigMap with the dashboard as it stands here."""
    objects = kustomized("observability")
    assert {kind for kind, _ in objects} == {"ConfigMap", "PrometheusRule", "ServiceMonitor"}
    config = objects[("ConfigMap", "modelwarden-dashboard")]
    assert config["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert json.loads(config["data"]["modelwarden.json"]) == DASHBOARD


@pytest.fixture(name="groups")
def _groups(tmp_path: Path) -> Path:
    """The groups as Prometheus itself reads them, without the operator's envelope, beside their unit tests."""
    path = tmp_path / "alerts.yaml"
    path.write_text(yaml.safe_dump({"groups": RULES["spec"]["groups"]}), encoding="utf-8")
    shutil.copy(UNIT_TESTS, tmp_path)
    return path


def _promtool(*words: str | Path) -> str:
    assert PROMTOOL is not None
    done = subprocess.run([PROMTOOL, *map(str, words)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


no_promtool = pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed (Debian's package prometheus has it)")


@no_promtool
def test_promtool_takes_the_rules(groups: Path) -> None:
    """Every expression and template parses."""
    assert f"{len(ALERTS)} rules found" in _promtool("check", "rules", groups)


@no_promtool
def test_the_rules_fire_and_stay_silent_where_they_should(groups: Path) -> None:
    """The unit tests beside this file: series in, alerts out."""
    assert "SUCCESS" in _promtool("test", "rules", groups.parent / UNIT_TESTS.name)


def test_the_unit_tests_name_alerts_that_exist() -> None:
    """promtool is silent about a misspelt name that is expected not to fire."""
    cases = yaml.safe_load(UNIT_TESTS.read_text(encoding="utf-8"))["tests"]
    assert {check["alertname"] for case in cases for check in case["alert_rule_test"]} <= ALERTS.keys()
