"""A real Prometheus scrapes the service as the ServiceMonitor says, and loads the alerts: names, types and expressions hold together."""

import asyncio
import shutil
import socket
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from app_world import EXAMPLES, documents, whole

import deploy
from app.metricspage import PROCESS, rooms

PROMETHEUS = shutil.which("prometheus")
OBSERVABILITY = Path(deploy.__file__).parent / "observability"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(120),
    pytest.mark.skipif(PROMETHEUS is None, reason="prometheus is not installed (Debian's package of that name has it)"),
]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _configured(folder: Path, target: tuple[str, int], bundle: bytes) -> Path:
    """What the Prometheus operator would make of the ServiceMonitor and the PrometheusRule."""
    monitor = yaml.safe_load((OBSERVABILITY / "servicemonitor.yaml").read_text(encoding="utf-8"))
    (endpoint,) = monitor["spec"]["endpoints"]
    rules = yaml.safe_load((OBSERVABILITY / "alerts.yaml").read_text(encoding="utf-8"))
    (folder / "rules.yaml").write_text(yaml.safe_dump({"groups": rules["spec"]["groups"]}), encoding="utf-8")
    (folder / "ca.crt").write_bytes(bundle)
    scrape = {
        "job_name": "modelwarden",
        "scheme": endpoint["scheme"],
        "metrics_path": endpoint["path"],
        "honor_labels": endpoint["honorLabels"],
        "tls_config": {"ca_file": str(folder / "ca.crt"), "server_name": endpoint["tlsConfig"]["serverName"]},
        "static_configs": [{"targets": ["{}:{}".format(*target)], "labels": {"namespace": "modelwarden-system", "pod": "modelwarden-0"}}],
    }
    settings = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(folder / "rules.yaml")],
        "scrape_configs": [scrape],
    }
    path = folder / "prometheus.yaml"
    path.write_text(yaml.safe_dump(settings), encoding="utf-8")
    return path


async def test_prometheus_scrapes_what_is_exposed_and_evaluates_the_alerts(tmp_path: Path) -> None:
    """Every family arrives with its type, deployments keep their own namespace, and no alert's expression fails."""
    async with whole(tmp_path / "world") as world:
        for document in _first():
            await world.apply(document)
        held = world.service.keeper.held
        assert held is not None
        port = _free_port()
        process = await asyncio.create_subprocess_exec(
            *(str(PROMETHEUS), f"--config.file={_configured(tmp_path, world.service.https.address, held.bundle)}"),
            *(f"--storage.tsdb.path={tmp_path / 'tsdb'}", f"--web.listen-address=127.0.0.1:{port}", "--log.level=error"),
        )
        try:
            async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}/api/v1/", timeout=5) as client:
                async with asyncio.timeout(60):
                    while not await _evaluated(client):  # noqa: ASYNC110  # another program, which tells nobody when it is done
                        await asyncio.sleep(0.5)
                await _holds(client)
        finally:
            process.terminate()
            await process.wait()


def _first() -> list[dict[str, Any]]:
    """The first example that is a deployment, with what stands beside it."""
    for path in sorted(EXAMPLES.glob("*.yaml")):
        found = documents(path)
        if path.name != "00-prerequisites.yaml" and any(document["kind"] == "ModelDeployment" for document in found):
            return found
    raise AssertionError("no example is a deployment")


async def _asked(client: httpx.AsyncClient, path: str, **query: str) -> Any:
    try:
        answer = await client.get(path, params=query)
    except httpx.TransportError:
        return None
    return answer.json().get("data") if answer.status_code == 200 else None  # 503 until it has read its own files


async def _result(client: httpx.AsyncClient, query: str) -> list[dict[str, Any]]:
    found = await _asked(client, "query", query=query)
    result: list[dict[str, Any]] = found["result"] if found else []
    return result


async def _rules(client: httpx.AsyncClient) -> list[dict[str, Any]]:
    found = await _asked(client, "rules")
    return [rule for group in found["groups"] for rule in group["rules"]] if found else []


async def _evaluated(client: httpx.AsyncClient) -> bool:
    """A deployment was scraped, and every rule was looked at once (until then its last evaluation lies in the year 1)."""
    rules = await _rules(client)
    seen = bool(rules) and all(rule["lastEvaluation"] > "2" for rule in rules)
    return seen and bool(await _result(client, 'modelwarden_deployment_phase{phase="Starting"} == 1'))


async def _holds(client: httpx.AsyncClient) -> None:
    (up,) = await _result(client, 'up{job="modelwarden"}')
    assert up["value"][1] == "1"
    (phase, *_) = await _result(client, 'modelwarden_deployment_phase{phase="Starting"} == 1')
    assert phase["metric"]["namespace"] == "team-a", "the deployment's namespace, not the target's"
    known = await _asked(client, "metadata")
    listed = [family for families in rooms().values() for family in families]
    for family in listed:
        entry = known.get(family.name) or known.get(family.name.removesuffix("_total"))
        assert entry is not None, family.name
        assert {item["type"] for item in entry} == {family.kind}, family.name
    assert {name for name in PROCESS if name in known or name.removesuffix("_total") in known} == PROCESS
    assert {rule["name"]: rule.get("lastError", "") for rule in await _rules(client) if rule["health"] != "ok"} == {}
