"""Logs never carry what a user's object holds: no value of a variable, no argument, no foreign annotation, no object, at any level.

The most talkative level is on; writes are admitted, refused, unreadable, cut short by a failed read and by a crash; and the whole service
judges a deployment that is full of secrets.
"""

import asyncio
import copy
import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from app_world import whole
from test_whole import judged

from app.logging import configure
from kube.errors import ApiError
from webhooks import judgements
from webhooks.errors import LookupFailedError
from webhooks.lookups import ObjectLookup
from webhooks.server import MUTATE_DEPLOYMENT, MUTATE_POD, VALIDATE_DEPLOYMENT, VALIDATE_SCALER, ReviewServer
from webhooks.settings import AdmissionSettings, default_scaler_usernames

LONGEST = 8192
SECRETS = ("hunter2-env", "hunter2-argument", "hunter2-note", "hunter2-decision", "hunter2-volume", "hunter2-label")


@pytest.fixture
def logged() -> Iterator[io.StringIO]:
    """Everything that is logged, as the service writes it."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    stream = io.StringIO()
    configure("debug", "json", stream=stream)
    structlog.configure(cache_logger_on_first_use=False)  # loggers of modules outlive this test
    yield stream
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


def secretive(name: str = "vault", **role: Any) -> dict[str, Any]:
    """A deployment with something to hide in every place that is the user's."""
    fields = {
        "name": "server",
        "instanceType": "h100-8x",
        "resources": {"accelerator": "1"},
        "env": [{"name": "HF_TOKEN", "value": "hunter2-env"}],
        "extraArgs": ["--api-key", "hunter2-argument"],
        "additionalVolumes": [{"mountPath": "/x", "configMap": {"name": "hunter2-volume"}}],
    }
    return {
        "apiVersion": "worker.gpustack.ai/v1",
        "kind": "ModelDeployment",
        "metadata": {
            "name": name,
            "namespace": "team-a",
            "annotations": {"example.com/note": "hunter2-note"},
            "labels": {"example.com/label": "hunter2-label"},
        },
        "spec": {"model": {"name": "m"}, "engine": {"name": "vLLM", "version": "0.29.0"}, "roles": [fields | role]},
    }


def found_in(stream: io.StringIO) -> list[str]:
    """The secrets that stand in the log."""
    return [secret for secret in SECRETS if secret in stream.getvalue()]


def body(new: Any, old: Any = None, user: str = "alice") -> bytes:
    """A review's bytes."""
    request = {
        "uid": "u-1",
        "operation": "UPDATE" if old else "CREATE",
        "namespace": "team-a",
        "name": "vault",
        "userInfo": {"username": user},
        "object": new,
        "oldObject": old,
    }
    return json.dumps({"kind": "AdmissionReview", "request": request}).encode()


def bound(decision: str | None = None) -> dict[str, Any]:
    """The same, bound; its decision is rubbish with a secret in it."""
    found = copy.deepcopy(secretive())
    notes = found["metadata"]["annotations"]
    notes["modeldeployment.gpustack.ai/scaler-binding"] = (
        '{"version":1,"scaler":"s","uid":"u","term":3,"acquiredAt":"2026-01-01T00:00:00Z"}'
    )
    if decision is not None:
        notes["modeldeployment.gpustack.ai/scaler-decision"] = decision
    return found


class Failing(ObjectLookup):
    """Every read fails."""

    async def get(self, kind: Any, namespace: str | None, name: str) -> Any:
        raise LookupFailedError(f"reading {kind.__name__} {name!r} failed: timed out")


POD = {
    "kind": "Pod",
    "metadata": {
        "name": "p",
        "labels": {
            "app.kubernetes.io/name": "model-deployment",
            "app.kubernetes.io/instance": "vault",
            "app.kubernetes.io/component": "server",
        },
    },
    "spec": {"containers": [{"name": "main", "args": ["hunter2-argument"], "env": [{"name": "A", "value": "hunter2-env"}]}]},
}
SCALER_USER = default_scaler_usernames()[0]
CALLS = {
    "admitted or refused by rules": (VALIDATE_DEPLOYMENT, body(secretive())),
    "defaulted": (MUTATE_DEPLOYMENT, body(secretive(resources={}))),
    "refused by the fence": (VALIDATE_DEPLOYMENT, body(bound('{"x":"hunter2-decision"}'), bound())),
    "a scaler's rubbish": (VALIDATE_DEPLOYMENT, body(bound('{"x":"hunter2-decision"}'), bound(), SCALER_USER)),
    "no shape": (VALIDATE_DEPLOYMENT, body(secretive(env="hunter2-env"))),
    "no JSON": (VALIDATE_DEPLOYMENT, body(secretive())[:-20]),
    "a key twice": (VALIDATE_DEPLOYMENT, body(secretive()).replace(b'"extraArgs"', b'"extraArgs":["hunter2-argument"],"extraArgs"')),
    "a Pod": (MUTATE_POD, body(POD)),
    "a scaler": (VALIDATE_SCALER, body(secretive())),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("lookup", [ObjectLookup([secretive()]), Failing([])], ids=["found", "failing"])
async def test_no_review_is_told_in_the_log(logged: io.StringIO, lookup: ObjectLookup, name: str) -> None:
    """However it is answered."""
    path, review = CALLS[name]
    await ReviewServer(lookup, AdmissionSettings()).review(path, review)
    assert found_in(logged) == []


async def test_a_crash_tells_where_and_nothing_of_what(logged: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error whose words quote the object, raised from another one that does too."""

    def broken(subject: Any, _phases: Any) -> None:
        try:
            int(subject.spec.roles[0].env[0].value)
        except ValueError as error:
            raise KeyError(subject.spec.roles[0].extra_args) from error

    monkeypatch.setattr(judgements.registry, "judge", broken)
    types = ObjectLookup([{"kind": "InstanceType", "metadata": {"name": "h100-8x"}, "spec": {"acceleratable": True}}])
    status, _ = await ReviewServer(types, AdmissionSettings()).review(VALIDATE_DEPLOYMENT, body(secretive()))
    assert status == 500
    assert found_in(logged) == []
    (line,) = [json.loads(text) for text in logged.getvalue().splitlines()]
    assert (line["msg"], line["uid"]) == ("a rule crashed", "u-1")
    assert "KeyError" in line["traceback"]
    assert "ValueError" in line["traceback"]


async def test_the_whole_service_keeps_secrets(logged: io.StringIO, tmp_path: Path) -> None:
    """Admission, cache, judgement and status of a secretive deployment, and refusals of another, with every library at debug."""
    async with asyncio.timeout(90), whole(tmp_path) as world:
        with pytest.raises(ApiError):
            await world.apply(secretive("refused", shmSize="0"))
        await world.apply(secretive())
        await judged(world, "vault")
    assert "stopped" in logged.getvalue()
    assert found_in(logged) == []
    assert max(len(line) for line in logged.getvalue().splitlines()) < LONGEST
    assert "PRIVATE KEY" not in logged.getvalue()
