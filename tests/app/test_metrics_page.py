"""The metrics: every name that the field's dashboards and our own contract ask for, units in names, labels with an end."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from app import metricspage
from app.metricspage import LABELS, Family
from controller import metrics

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"

KNOWN = (
    "controller_runtime_reconcile_total{controller,result}",
    "controller_runtime_reconcile_errors_total{controller}",
    "controller_runtime_reconcile_time_seconds{controller}",
    "controller_runtime_reconcile_panics_total{controller}",
    "controller_runtime_active_workers{controller}",
    "controller_runtime_max_concurrent_reconciles{controller}",
    "controller_runtime_webhook_requests_total{webhook,code}",
    "controller_runtime_webhook_latency_seconds{webhook}",
    "controller_runtime_webhook_requests_in_flight{webhook}",
    "controller_runtime_webhook_panics_total{}",
    "workqueue_depth{name}",
    "workqueue_adds_total{name}",
    "workqueue_queue_duration_seconds{name}",
    "workqueue_work_duration_seconds{name}",
    "workqueue_retries_total{name}",
    "workqueue_unfinished_work_seconds{name}",
    "workqueue_longest_running_processor_seconds{name}",
    "rest_client_requests_total{code,method,host}",
    "leader_election_master_status{name}",
    "certwatcher_read_certificate_total{}",
    "modelwarden_deployment_phase{namespace,name,phase}",
    "modelwarden_deployment_condition{namespace,name,type,status}",
    "modelwarden_role_replicas_desired{namespace,name,role}",
    "modelwarden_role_replicas_ready{namespace,name,role}",
    "modelwarden_role_replicas_quota_reserved{namespace,name,role}",
    "modelwarden_role_endpoints_eligible{namespace,name,role}",
    "modelwarden_role_endpoints_serving{namespace,name,role}",
    "modelwarden_retirement_step{namespace,name,step}",
    "modelwarden_retirement_age_seconds{namespace,name}",
    "modelwarden_fence_decisions_total{rule,verdict}",
    "modelwarden_admission_refusals_total{rule}",
    "modelwarden_status_writes_total{outcome}",
    "modelwarden_status_writes_elided_total{}",
    "modelwarden_status_write_conflicts_total{}",
    "modelwarden_watch_restarts_total{kind,reason}",
    "modelwarden_list_seconds{kind}",
    "modelwarden_list_bytes{kind}",
    "modelwarden_cache_age_seconds{kind}",
    "modelwarden_event_loop_lag_seconds{}",
    "modelwarden_certificate_expiry_seconds{certificate}",
)

# What is counted in things has no unit to name.
THINGS = (
    *(
        "_info",
        "_phase",
        "_condition",
        "_conditions",
        "_deployments",
        "_step",
        "_objects",
        "_readable",
        "_stale",
        "_status",
        "_in_flight",
        "_depth",
    ),
    *("_shards", "_held", "_workers", "_reconciles", "_desired", "_ready", "_quota_reserved", "_eligible", "_serving"),
)


def families() -> Iterator[Family]:
    for found in metricspage.rooms().values():
        yield from found


@pytest.mark.parametrize("wanted", KNOWN)
def test_a_name_that_dashboards_know_is_exposed(wanted: str) -> None:
    """Name and labels, as the field's dashboards and the contract spell them."""
    assert wanted in {f"{family.name}{{{','.join(family.labels)}}}" for family in families()}


def test_no_name_stands_twice() -> None:
    """Two parts that count under one name would end the scrape."""
    names = [family.name for family in families()]
    assert len(names) == len(set(names))


def test_names_tell_units() -> None:
    """Counters end in _total; gauges and histograms in seconds or bytes, or in the things that they count."""
    for family in families():
        ends = ("_total",) if family.kind == "counter" else ("_seconds", "_bytes", *THINGS)
        assert family.name.endswith(ends), family
        assert family.says.endswith("."), family


def test_every_label_s_values_have_an_end() -> None:
    """The page says of each label what its values are; one that nobody thought about fails here."""
    assert {label for family in families() for label in family.labels} == LABELS.keys()


def test_a_histogram_is_asked_by_its_parts() -> None:
    """What a query may name: parts of histograms, whole names of everything else, nothing invented."""
    names = metricspage.sample_names()
    assert {"modelwarden_list_seconds_bucket", "modelwarden_deployments", "process_resident_memory_bytes"} <= names
    assert not {"modelwarden_list_seconds", "modelwarden_nothing"} & names


def test_the_page_is_current() -> None:
    """docs/metrics.md is generated (make docs) and lists what the collectors expose."""
    assert PAGE.read_text(encoding="utf-8") == metricspage.page()


def test_a_cache_s_age_grows_while_nothing_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted at the scrape. A kind that was never heard of has no age."""
    registry = CollectorRegistry()
    heard = metrics.Gauge("heard_timestamp_seconds", "Test.", ["kind"], registry=None)
    monkeypatch.setattr(metrics, "CACHE_EVENT", heard)
    heard.labels("Pod").set(1000.0)
    heard.labels("Workload").set(0)
    now = [1030.0]
    registry.register(metrics.CacheAge(lambda: now[0]))
    assert registry.get_sample_value("modelwarden_cache_age_seconds", {"kind": "Pod"}) == 30
    now[0] = 1090.0
    assert registry.get_sample_value("modelwarden_cache_age_seconds", {"kind": "Pod"}) == 90
    assert b"Workload" not in generate_latest(registry)
