"""`mdctl dump`, `status` and `explain` against a cluster, as programs with a pipe between them, and the status that a controller stored."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from clusterkit import TestCluster
from household import House, controller, house

from controller.settings import ObserverSettings
from kube.resources import PODS

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(115)]

BLIND = ObserverSettings(enabled=False)
SECRET = "hf_abcdefgh"


async def mdctl(*words: str, given: bytes = b"", told: str = "") -> bytes:
    """What the program prints. It has to succeed and to tell no more than this besides."""
    program = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "app.cli", *words),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    )
    out, err = await program.communicate(given)
    assert (program.returncode, err.decode()) == (0, told), out.decode()[-500:]
    return out


def where(at: House) -> tuple[str, ...]:
    """How the deployment is named on a command line."""
    return ("md/chat", "-n", at.namespace, "--kubeconfig", str(at.cluster.kubeconfig))


async def prefill_and_decode(at: House) -> None:
    """Ready behind a router, with a variable whose value is nobody's business."""
    env = [{"name": "HF_TOKEN", "value": SECRET}]
    await at.declare(
        {"name": "prefill", "kind": "Prefill", "size": 2, "env": env}, {"name": "decode", "kind": "Decode"}, router="vllm-router"
    )
    await at.cast.converge("chat")
    await at.cast.quota("chat")
    await at.cast.ready("chat")
    await at.cast.router("chat", ready=1)
    await at.until(lambda s: s.get("phase") == "Ready", "never ready")


async def a_lost_member(at: House) -> None:
    """The same, with one Pod of the pair gone and no room for it."""
    await prefill_and_decode(at)
    await at.client.delete(PODS, "chat-prefill-r0-m1", at.namespace, grace_seconds=0)
    await at.cast.quota("chat", roles=["prefill"], reserved=False, reason="Preempted", message="to make room")
    await at.until(lambda s: s["phase"] == "Degraded" and "preempted" in json.dumps(s["conditions"]), "never degraded")


async def a_held_retirement(at: House) -> None:
    """A replica too many that no router can confirm to be let go of."""
    await at.whole({"name": "server", "replicas": 2}, router="")
    await at.until(lambda s: s.get("phase") == "Ready", "never ready")
    await at.scale(server=1)
    await at.until(lambda s: "No router is declared" in (s.get("retirement") or {}).get("reason", ""), "never held")


@pytest.mark.parametrize("scene", [prefill_and_decode, a_lost_member, a_held_retirement], ids=lambda scene: scene.__name__)
async def test_a_dump_gives_the_status_that_the_controller_stored(cluster: TestCluster, scene: Any) -> None:
    """Piped from one verb into the other, to the letter; two dumps differ in their moment alone; nothing secret leaves the cluster."""
    async with house(cluster) as at:
        async with controller(at, observers=BLIND):
            await scene(at)
        dump = await mdctl("dump", *where(at))
        stored = await at.found()
        assert SECRET not in dump.decode()
        (judged,) = yaml.safe_load_all(await mdctl("status", "-f", "-", given=dump))
        assert (judged["namespace"], judged["name"]) == (at.namespace, "chat")
        assert judged["status"] == stored["status"]
        again = await mdctl("dump", *where(at), "-o", "json")

        def timeless(documents: Any) -> list[Any]:
            return [{name: value for name, value in each.items() if name != "now"} for each in documents]

        assert timeless(yaml.safe_load_all(dump)) == timeless(json.loads(again)["items"])
        (found,) = json.loads(await mdctl("status", "-f", "-", "-o", "json", given=again))["deployments"]
        assert found["status"] == stored["status"]


async def test_a_dump_of_nothing_says_so_beside_its_output(cluster: TestCluster) -> None:
    """An empty namespace, or one misspelled: a pipe gets an empty stream, the reader is told."""
    async with house(cluster) as at:
        where = ("-n", "nowhere", "--kubeconfig", str(at.cluster.kubeconfig))
        told = "no ModelDeployment in the namespace nowhere\n"
        assert await mdctl("dump", *where, told=told) == b""
        assert json.loads(await mdctl("dump", *where, "-o", "json", told=told))["items"] == []


async def test_explain_says_why_and_who_acts_from_a_cluster_as_from_a_dump(cluster: TestCluster) -> None:
    """The verdicts are those that are stored, each with what was read; the dump of that cluster is explained alike."""
    async with house(cluster) as at:
        async with controller(at, observers=BLIND):
            await a_lost_member(at)
        stored = await at.status()
        text = (await mdctl("explain", *where(at))).decode()
        for words in ("Degraded", "PreemptedInPart", "chat-prefill-r0-m0", "change ", "acts ", "whoever runs the cluster"):
            assert words.lower() in text.lower(), words
        (direct,) = json.loads(await mdctl("explain", *where(at), "-o", "json"))["deployments"]
        dump = await mdctl("dump", *where(at))
        (dumped,) = json.loads(await mdctl("explain", "-f", "-", "md/chat", "-o", "json", given=dump))["deployments"]
        assert direct == dumped
        assert SECRET not in json.dumps(direct)
        told = json.dumps(direct)
        for condition in stored["conditions"]:
            assert condition["type"] in told
            assert condition["reason"] in told
