"""A run inside the test's own process: what it shows, what it prints, and how it ends when something goes wrong."""

import asyncio
from pathlib import Path

import pytest
import structlog
import yaml
from app_world import own_collectors

from app.local_run import LocalRun, Plan, find_scenario, scenario_names
from app.settings import load

FLAGS = {"serve.host": "127.0.0.1", "serve.port": 0, "serve.drainSeconds": 0, "observers.enabled": False}

pytestmark = pytest.mark.timeout(110)


@pytest.fixture(autouse=True)
def collectors():
    """A service of its own per test, and its log not between what is printed."""
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    with own_collectors():
        yield
    structlog.reset_defaults()


async def played(folder: Path, scenario: str | Path) -> int:
    plan = Plan(find_scenario(str(scenario)), folder, keep_state=True, once=True, speed=100)
    return await LocalRun(plan, load(environ={}, flags=FLAGS).settings).run(asyncio.Event())


def test_the_scenarios_that_come_with_it():
    """The default one is among them, and an unknown one is answered with their names."""
    assert {"prefill-decode", "scaler-bound", "partial-preemption"} <= set(scenario_names())
    with pytest.raises(LookupError, match="prefill-decode"):
        find_scenario("nothing-like-it")
    assert find_scenario("none") is None


async def test_a_scenario_with_several_users_and_refusals(tmp_path, capsys):
    """The scaler writes as itself, a person is refused, and the story tells the refusal in the API server's words."""
    assert await played(tmp_path, "scaler-bound") == 0
    out, err = capsys.readouterr()
    assert "ReplicasOwnedByScaler" in err
    assert "ScalerAlive" in err
    (status,) = (document["status"] for document in yaml.safe_load_all(out))
    assert status["phase"] == "Ready"


async def test_a_scenario_that_fails_ends_the_run_with_its_reason(tmp_path, capsys):
    """Exit code 1, the API server's words, and where the log is; no traceback."""
    story = tmp_path / "story.yaml"
    story.write_text("steps:\n- at: 0\n  delete: {apiVersion: v1, kind: Namespace, name: nobody}\n", encoding="utf-8")
    assert await played(tmp_path / "state", story) == 1
    _, err = capsys.readouterr()
    assert 'the scenario failed: 404 NotFound: namespaces "nobody" not found' in err
    assert "service.log" in err
    assert "Traceback" not in err
