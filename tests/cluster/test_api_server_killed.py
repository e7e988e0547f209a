"""A kube-apiserver that is killed, and both replicas with it: they start into an API server that is only just starting itself."""

import asyncio
from pathlib import Path

import pytest
from assets import HOW_TO_GET_ONE, RealServer, assets_folder
from clusterkit import real
from ledger import world
from replicas import SHORT, now, pair

pytestmark = [pytest.mark.cluster, pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(300)]


async def test_everything_is_killed_and_comes_back_at_once(tmp_path: Path, cluster_kind: str, figures: list[str]) -> None:
    """What is answered too early (kinds that are not served yet, lists that are refused) becomes no status; then statuses go on."""
    folder = assets_folder()
    if cluster_kind != "real" or folder is None:
        pytest.skip(HOW_TO_GET_ONE)
    server = RealServer(folder)
    await asyncio.to_thread(server.start)
    try:
        kubeconfig = server.kubeconfig_for("test-admin", ("system:masters",))
        async with (
            real(kubeconfig, server.kubeconfig_for) as cluster,
            pair(cluster, tmp_path / "homes", SHORT) as both,
            world(both) as built,
        ):
            await built.flip(False)
            await built.told(0)
            await built.quiet()
            version = built.newest()
            for each in both.replicas:
                await each.kill()
            server.kill_api()
            for each in both.replicas:
                await each.start()
            await asyncio.sleep(8)
            assert all(each.alive for each in both.replicas), "a server that is away is no reason to end"
            began = now()
            await asyncio.to_thread(server.start_api)
            up = now() - began
            await both.whole()
            whole = now() - began
            await built.quiet(3)
            assert built.status_versions(version) == []
            await built.flip(True)
            told = await built.told(1)
            assert built.counts_told(version) == built.each(1)
            assert built.overlaps(version) == []
            assert built.strangers(version) == []
            figures.append(
                f"real      everything killed: API server up after {up:.1f} s, replicas ready {whole - up:.1f} s later, told {told:.1f} s"
            )
    finally:
        await asyncio.to_thread(server.stop)
