"""The Helm chart is the base with places for values: generated, current, and with a schema that knows every value."""

import json
import re
from importlib.metadata import version
from typing import Any

import pytest
import yaml
from manifest_reading import DEPLOY, by_identity

from api.crd import owned
from app.settings import FIELDS, variable
from app.verbs.install import command
from deploy.manifests import Options, manifests
from scripts import chart

CHART = DEPLOY / "chart"
FILES = dict(chart.files())
VALUES: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
SCHEMA: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
TEMPLATES = sorted(path.name for path in (CHART / "templates").iterdir())


@pytest.mark.parametrize("name", FILES)
def test_a_generated_file_is_current(name: str) -> None:
    """`make chart` was run after the base was edited."""
    assert (CHART / name).read_text(encoding="utf-8") == FILES[name]


def test_a_base_that_lost_a_place_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a value would silently stop meaning anything."""
    monkeypatch.setitem(chart.TEMPLATES, "service", chart.Template("base/service.yaml", places=(("  no such line\n", ""),)))
    with pytest.raises(ValueError, match=r"no such line.* 0 times"):
        list(chart.files())


def test_every_object_of_an_installation_has_a_template() -> None:
    """What the installer makes and no template does would be missing from every Helm installation."""
    sources = {template.source for template in chart.TEMPLATES.values()}
    parsed = [obj for source in sources for obj in yaml.safe_load_all((DEPLOY / source).read_text(encoding="utf-8")) if obj]
    everything = by_identity(manifests(Options(act="retire", shards=4, network_policy=True)))
    made = by_identity(parsed).keys() | by_identity(owned()).keys()
    assert everything.keys() <= made


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_template_reads_only_values_that_exist(name: str) -> None:
    """A misspelt value renders as nothing, silently."""
    for path in re.findall(r"\.Values\.([\w.]+)", (CHART / "templates" / name).read_text(encoding="utf-8")):
        value: Any = VALUES
        for part in path.split("."):
            assert part in value, f"{name}: {path}"
            value = value[part]


def test_every_value_is_used_by_a_template() -> None:
    """A value that nobody reads is a promise that nobody keeps."""
    text = "".join((CHART / "templates" / name).read_text(encoding="utf-8") for name in TEMPLATES)
    for name, value in VALUES.items():
        paths = [f"{name}.{inner}" for inner in value] if isinstance(value, dict) and value and name != "resources" else [name]
        for path in paths:
            assert f".Values.{path}" in text, path


def _closed(schema: dict[str, Any], values: dict[str, Any], where: str = "") -> None:
    assert schema["additionalProperties"] is False, where
    assert values.keys() <= schema["properties"].keys(), where
    assert schema["properties"].keys() - values.keys() <= {"global", "claims"}, where
    for name, inner in schema["properties"].items():
        if "properties" in inner and isinstance(values.get(name), dict):
            _closed(inner, values[name], f"{where}.{name}")


def test_the_schema_knows_every_value_and_nothing_else() -> None:
    """A misspelt value is refused by Helm instead of being believed."""
    _closed(SCHEMA, VALUES)


def test_settings_of_the_schema_are_settings() -> None:
    """Variables that the chart sets by itself, and that `settings` therefore refuses, are settings of ours."""
    refused = SCHEMA["properties"]["settings"]["propertyNames"]["not"]["enum"]
    assert set(refused) <= {variable(key) for key in FIELDS}


def test_what_the_templates_bind_by_name_is_no_setting() -> None:
    """Roles, Service, mounts and port are bound to these: another name would be forbidden, or never found, once it runs."""
    bound = ("namespace", "leader.lease", "certs.secret", "certs.service", "certs.folder", "serve.port", "shard")
    assert {variable(key) for key in bound} <= set(SCHEMA["properties"]["settings"]["propertyNames"]["not"]["enum"])


def test_the_definitions_stay_when_a_release_goes() -> None:
    """For each age of API server, both definitions with Helm's own word for it, and what the installer would send."""
    for name, server in (("rules", (1, 30)), ("older", (1, 26)), ("plain", (1, 24))):
        ours = by_identity(obj for obj in manifests(Options(version=server)) if obj["kind"] == "CustomResourceDefinition")
        charted = by_identity(yaml.safe_load_all(FILES[f"definitions/{name}.yaml"]))
        assert ours.keys() == charted.keys()
        for key, definition in charted.items():
            assert definition["metadata"]["annotations"].pop("helm.sh/resource-policy") == "keep"
            assert definition["metadata"].get("annotations", {}) == ours[key]["metadata"].get("annotations", {})
            assert definition["spec"] == ours[key]["spec"]


def test_the_hook_runs_what_the_verb_knows() -> None:
    """The Job that takes the configurations away calls an option that exists, and may delete those two and nothing else."""
    text = (CHART / "templates" / "withdraw.yaml").read_text(encoding="utf-8")
    assert "args: [install, --withdraw]" in text
    assert "--withdraw" in {option for parameter in command.params for option in parameter.opts}
    assert text.count("helm.sh/hook: pre-delete") == 4


def test_the_chart_s_version_is_this_version() -> None:
    """A release that forgets the chart would install its predecessor."""
    about = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    assert (about["version"], about["appVersion"]) == (version("modelwarden"), version("modelwarden"))
