"""Settings: precedence, origins, and errors that name the nearest known key."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from app import layers as module
from app.cli import main
from app.layers import SettingsError
from app.settings import ATTRIBUTES, FIELDS, flag, load, variable


@pytest.fixture(autouse=True)
def no_pod(monkeypatch, tmp_path):
    """Not in a cluster, whatever machine the tests run on."""
    monkeypatch.setattr(module, "ACCOUNT_NAMESPACE", tmp_path / "absent")


def written(folder: Path, text: str) -> Path:
    path = folder / "settings.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_defaults_are_the_contract():
    """Without a word from outside: Kueue required, status only, our namespace's scaler account, and the three switches of the facts."""
    settings = load(environ={}).settings
    assert settings.kueue == "required"
    assert settings.act == "status"
    admission = settings.admission()
    assert admission.scaler_usernames == ("system:serviceaccount:modelwarden-system:modeldeployment-scaler",)
    assert not admission.instance_privileged_allowed
    assert not admission.instance_host_path_volume_allowed
    assert admission.model_deployment_kv_cache_dtype_owned
    controller = settings.controller("me")
    assert (controller.lease_duration, controller.renew_deadline, controller.retry_period) == (15, 10, 2)
    assert controller.status.reserved_namespaces == ("gpustack-system",)
    assert settings.serve_keep_alive_seconds == 120


PRECEDENCE = {
    "default": ({}, None, {}, "required", "default"),
    "the file beats the default": ({}, "kueue: absent", {}, "absent", "file {path}"),
    "the environment beats the file": ({"MODELWARDEN_KUEUE": "required"}, "kueue: absent", {}, "required", "environment MODELWARDEN_KUEUE"),
    "a flag beats both": ({"MODELWARDEN_KUEUE": "required"}, "kueue: required", {"kueue": "absent"}, "absent", "flag --kueue"),
}


@pytest.mark.parametrize("sentence", PRECEDENCE)
def test_precedence(sentence, tmp_path):
    """Flag, environment, file, default; and the origin is told."""
    environ, text, flags, value, origin = PRECEDENCE[sentence]
    path = written(tmp_path, text) if text else None
    effective = load(config=path, environ=environ, flags=flags)
    assert effective.settings.kueue == value
    assert effective.origins.get("kueue", "default") == origin.format(path=path)


FORMS = {
    "dotted": "fence.scalerUsernames: [a, b]",
    "nested": "fence:\n  scalerUsernames: [a, b]",
    "one text": "fence.scalerUsernames: a, b",
    "JSON text": 'fence.scalerUsernames: \'["a", "b"]\'',
}


@pytest.mark.parametrize("sentence", FORMS)
def test_a_list_in_a_file(sentence, tmp_path):
    """Every way people write it means the same."""
    assert load(config=written(tmp_path, FORMS[sentence]), environ={}).settings.scaler_usernames == ("a", "b")


def test_an_empty_list_means_nobody():
    """Switching the default off has to be possible: then no scaler may write at all."""
    assert load(environ={"MODELWARDEN_FENCE_SCALER_USERNAMES": ""}).settings.scaler_usernames == ()


def test_the_scaler_default_follows_the_namespace():
    """Whoever says where we run, the scaler's account is expected there."""
    effective = load(environ={"POD_NAMESPACE": "gpus"})
    assert effective.settings.scaler_usernames == ("system:serviceaccount:gpus:modeldeployment-scaler",)
    assert effective.origins["namespace"] == "environment POD_NAMESPACE"
    flagged = load(environ={"POD_NAMESPACE": "gpus"}, flags={"namespace": "other"})
    assert flagged.settings.scaler_usernames == ("system:serviceaccount:other:modeldeployment-scaler",)


FAULTS = {
    "an unknown key in the file names the nearest": ("kueu: absent", {}, "kueu is no setting; the nearest is kueue"),
    "a nested unknown key names the nearest": ("fence:\n  scalerUsername: [a]", {}, "the nearest is fence.scalerUsernames"),
    "a key without its group names the nearest": ("scalerUsernames: [a]", {}, "the nearest is fence.scalerUsernames"),
    "an unknown variable names the nearest": (None, {"MODELWARDEN_KUEU": "x"}, "the nearest is MODELWARDEN_KUEUE"),
    "a value of another type names key and origin": ("serve.port: many", {}, "setting serve.port (file"),
    "a value out of its choices names the variable": (None, {"MODELWARDEN_ACT": "maybe"}, "setting act (environment MODELWARDEN_ACT)"),
    "a keep-alive shorter than the API server's is refused": ("serve.keepAliveSeconds: 60", {}, "serve.keepAliveSeconds"),
    "lease figures in the wrong order": ("leader.renewSeconds: 20", {}, "leader.leaseSeconds has to be greater"),
    "a Lease of broken seconds, which it cannot carry": (None, {"MODELWARDEN_LEADER_LEASE_SECONDS": "10.9"}, "setting leader.leaseSeconds"),
    "a Lease without end": (None, {"MODELWARDEN_LEADER_LEASE_SECONDS": "inf"}, "setting leader.leaseSeconds"),
    "a drain of no number of seconds": (None, {"MODELWARDEN_SERVE_DRAIN_SECONDS": "nan"}, "setting serve.drainSeconds"),
    "a certificate beyond the calendar": ("certs.servingDays: .inf", {}, "setting certs.servingDays (file"),
    "an authority beyond the calendar": ("certs.authorityDays: 1e9", {}, "setting certs.authorityDays (file"),
    "the same key twice": ("kueue: absent\nkueue: required", {}, 'line 2: duplicate key "kueue"'),
    "the same key nested and dotted": (
        "fence.scalerUsernames: [a]\nfence:\n  scalerUsernames: [b]",
        {},
        "fence.scalerUsernames is there twice",
    ),
    "no mapping": ("- kueue", {}, "has to hold a mapping"),
    "no YAML": ("kueue: [", {}, "line 2: did not find expected node content"),
}


@pytest.mark.parametrize("sentence", FAULTS)
def test_faults(sentence, tmp_path):
    """A fault says which setting, where it was said, and what to do."""
    text, environ, message = FAULTS[sentence]
    with pytest.raises(SettingsError) as caught:
        load(config=written(tmp_path, text) if text else None, environ=environ)
    assert message in str(caught.value)


def test_every_fault_is_told_at_once(tmp_path):
    """Two mistakes cost one restart, not two."""
    with pytest.raises(SettingsError) as caught:
        load(config=written(tmp_path, "kueue: maybe\nact: maybe"), environ={})
    assert "setting kueue" in str(caught.value)
    assert "setting act" in str(caught.value)


def test_service_links_of_the_kubelet_are_no_settings():
    """A Service named modelwarden puts these into our own Pods: they must not keep us from starting."""
    links = {
        "MODELWARDEN_SERVICE_HOST": "10.0.0.1",
        "MODELWARDEN_SERVICE_PORT": "443",
        "MODELWARDEN_SERVICE_PORT_HTTPS": "443",
        "MODELWARDEN_PORT": "tcp://10.0.0.1:443",
        "MODELWARDEN_PORT_443_TCP": "tcp://10.0.0.1:443",
        "MODELWARDEN_PORT_443_TCP_ADDR": "10.0.0.1",
        "MODELWARDEN_METRICS_SERVICE_HOST": "10.0.0.2",
    }
    assert load(environ=links).settings == load(environ={}).settings


def test_no_setting_looks_like_a_service_link():
    """Otherwise the rule above would swallow it."""
    assert not [key for key in FIELDS if module._SERVICE_LINK.search(variable(key)) and key not in {"serve.port", "serve.healthPort"}]
    assert load(environ={"MODELWARDEN_SERVE_PORT": "9443", "MODELWARDEN_SERVE_HEALTH_PORT": "8080"}).settings.serve_port == 9443


def test_names_are_unique_in_every_form():
    """Two settings that share a flag or a variable would shadow each other."""
    assert len({flag(key) for key in FIELDS}) == len({variable(key) for key in FIELDS}) == len(ATTRIBUTES)


def test_config_prints_values_with_their_origin(tmp_path):
    """`mdctl config` answers the question of where a value came from."""
    path = written(tmp_path, "act: retire")
    result = CliRunner(env={"MODELWARDEN_KUEUE": "absent"}).invoke(
        main,
        [
            "config",
            "--config",
            str(path),
            "--serve-port",
            "9443",
            "--reserved-namespaces",
            "a",
            "--reserved-namespaces",
            "b*",
            "-o",
            "json",
        ],
    )
    assert result.exit_code == 0, result.output
    shown = json.loads(result.output)
    assert shown["act"] == {"value": "retire", "origin": f"file {path}"}
    assert shown["kueue"] == {"value": "absent", "origin": "environment MODELWARDEN_KUEUE"}
    assert shown["serve.port"] == {"value": 9443, "origin": "flag --serve-port"}
    assert shown["reservedNamespaces"]["value"] == ["a", "b*"]
    assert shown["log.level"] == {"value": "info", "origin": "default"}


def test_config_yaml_reads_back(tmp_path):
    """What `-o yaml` prints is a settings file that means the same."""
    printed = CliRunner().invoke(main, ["config", "--kueue", "absent", "--no-leader-elect", "-o", "yaml"])
    assert printed.exit_code == 0
    again = load(config=written(tmp_path, printed.output), environ={}).settings
    assert again == load(environ={}, flags={"kueue": "absent", "leader.elect": False}).settings


def test_a_bad_setting_is_a_usage_error():
    """Exit code 2 and the sentence, no traceback."""
    result = CliRunner(env={"MODELWARDEN_KUEU": "absent"}).invoke(main, ["config"])
    assert result.exit_code == 2
    assert "the nearest is MODELWARDEN_KUEUE" in result.output


def test_version_says_what_this_is():
    """One line for people, one object for programs."""
    assert CliRunner().invoke(main, ["version"]).output.startswith("modelwarden ")
    assert set(json.loads(CliRunner().invoke(main, ["version", "-o", "json"]).output)) == {"version", "revision", "python"}
