"""`--cluster=embedded|real`: the same scenarios on the embedded cluster (default) or on a real kube-apiserver."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from assets import HOW_TO_GET_ONE, RealServer, assets_folder
from clusterkit import Certificates, Columns, TestCluster, embedded, named_kubeconfig, real

_COLUMNS = pytest.StashKey[Columns]()
_FIGURES = pytest.StashKey[list[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """The option counts where this folder is named on the command line; elsewhere the embedded cluster is taken."""
    parser.addoption("--cluster", choices=("embedded", "real"), default="embedded", help="which cluster the scenarios run on")


@pytest.fixture(scope="session")
def cluster_kind(request: pytest.FixtureRequest) -> str:
    """embedded or real."""
    kind: str = request.config.getoption("--cluster", default="embedded")
    return kind


@pytest.fixture(scope="session")
def real_server(cluster_kind: str) -> Iterator[tuple[Path, Certificates | None]]:
    """Kubeconfig of the real cluster, and how to make one for another user where its authority is ours."""
    if cluster_kind != "real":
        pytest.fail("a real server was asked for without --cluster=real")
    try:
        named = named_kubeconfig()
    except ValueError as fault:
        pytest.exit(str(fault), returncode=4)
    if named is not None:
        yield named, None
        return
    folder = assets_folder()
    if folder is None:
        pytest.exit(HOW_TO_GET_ONE, returncode=4)
    server = RealServer(folder)
    server.start()
    try:
        yield server.kubeconfig_for("test-admin", ("system:masters",)), server.kubeconfig_for
    finally:
        server.stop()


@pytest.fixture
async def embedded_cluster(tmp_path: Path) -> AsyncIterator[TestCluster]:
    """A fresh embedded cluster."""
    async with embedded(tmp_path / "cluster") as cluster:
        yield cluster


@pytest.fixture
async def cluster(request: pytest.FixtureRequest, cluster_kind: str) -> AsyncIterator[TestCluster]:
    """The cluster that the command line asks for."""
    if cluster_kind == "real":
        kubeconfig, certificates = request.getfixturevalue("real_server")
        async with real(kubeconfig, certificates) as found:
            yield found
    else:
        folder: Path = request.getfixturevalue("tmp_path")
        async with embedded(folder / "cluster") as found:
            yield found


@pytest.fixture(scope="session")
def columns(pytestconfig: pytest.Config) -> Columns:
    """What each check came to, by sentence and column."""
    return pytestconfig.stash.setdefault(_COLUMNS, {})


@pytest.fixture(scope="session")
def figures(pytestconfig: pytest.Config) -> list[str]:
    """What was measured, a line each."""
    return pytestconfig.stash.setdefault(_FIGURES, [])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print what was measured, and the conformance table."""
    measured = config.stash.get(_FIGURES, [])
    if measured:
        terminalreporter.section("measured")
        for line in measured:
            terminalreporter.write_line(line)
    columns = config.stash.get(_COLUMNS, {})
    if not columns:
        return
    names = [name for name in ("embedded", "real") if any(name in row for row in columns.values())]
    terminalreporter.section("conformance: " + ", ".join(names))
    width = max(len(sentence) for sentence in columns)
    for sentence, row in columns.items():
        terminalreporter.write_line(f"{sentence:<{width}}  " + "  ".join(f"{row.get(name, '-'):<10}" for name in names))
    for name in names:
        counts = [row.get(name, "-") for row in columns.values()]
        passed = sum(text == "yes" for text in counts)
        newer = sum(text == "newer" for text in counts)
        terminalreporter.write_line(f"{name}: {passed} of {len(counts)} hold, {newer} ask for a newer server")
