"""Kubeconfig, exec plugins, token files and service accounts, read through the borrowed half of kubernetes.aio."""

import json
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import certifi
import pytest

from kube.access import InClusterSource, KubeconfigSource, find_source
from kube.errors import ConfigError


def kubeconfig(folder: Path, user: dict[str, object], *, server: str = "http://127.0.0.1:1", namespace: str = "") -> str:
    path = folder / "config"
    context: dict[str, object] = {"cluster": "c", "user": "u"}
    if namespace:
        context["namespace"] = namespace
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "x",
        "contexts": [{"name": "x", "context": context}],
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": user}],
    }
    path.write_text(json.dumps(document))
    return str(path)


async def test_a_literal_token(tmp_path: Path) -> None:
    """A token in the file is the credential until it is refused; the context's namespace is the default one."""
    access = await KubeconfigSource(kubeconfig(tmp_path, {"token": "t"}, namespace="team")).load()
    assert (access.host, access.authorization, access.namespace, access.good_for) == ("http://127.0.0.1:1", "Bearer t", "team", None)


async def test_a_token_file_is_read_again(tmp_path: Path) -> None:
    """A rotated token is seen at the next load, and its newline never reaches a header."""
    token = tmp_path / "token"
    token.write_text("one\n")
    source = KubeconfigSource(kubeconfig(tmp_path, {"tokenFile": "token"}))
    first = await source.load()
    token.write_text("two\n")
    assert (first.authorization, first.good_for) == ("Bearer one", 60.0)
    assert (await source.load()).authorization == "Bearer two"


def plugin(tmp_path: Path, status: dict[str, str]) -> dict[str, object]:
    script = tmp_path / "plugin.py"
    answer = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}
    script.write_text(f"print({json.dumps(answer)!r})")
    return {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": sys.executable, "args": [str(script)]}}


async def test_an_exec_plugin(tmp_path: Path) -> None:
    """A plugin's token is used, and asked for again before it expires."""
    user = plugin(tmp_path, {"token": "p", "expirationTimestamp": "2999-01-01T00:00:00Z"})
    access = await KubeconfigSource(kubeconfig(tmp_path, user)).load()
    assert access.authorization == "Bearer p"
    assert access.good_for is not None
    assert access.good_for > 1e6


async def test_a_token_of_a_few_minutes_is_not_asked_for_each_second(tmp_path: Path) -> None:
    """Half of its life is enough."""
    soon = (datetime.now(UTC) + timedelta(seconds=240)).strftime("%Y-%m-%dT%H:%M:%SZ")
    access = await KubeconfigSource(kubeconfig(tmp_path, plugin(tmp_path, {"token": "p", "expirationTimestamp": soon}))).load()
    assert access.good_for is not None
    assert 100 < access.good_for <= 120


async def test_a_token_that_no_header_can_hold_is_told_without_being_shown(tmp_path: Path) -> None:
    """A token file of two lines is a fault of the configuration."""
    (tmp_path / "token").write_text("secret-one\nsecret-two\n")
    with pytest.raises(ConfigError, match="line break") as caught:
        await KubeconfigSource(kubeconfig(tmp_path, {"tokenFile": "token"})).load()
    assert "secret" not in str(caught.value)


async def test_an_exec_plugin_that_gives_nothing_is_an_error(tmp_path: Path) -> None:
    """Going on as nobody would turn a broken plugin into 403s."""
    with pytest.raises(ConfigError, match="gave no credential"):
        await KubeconfigSource(kubeconfig(tmp_path, plugin(tmp_path, {}))).load()


@pytest.mark.parametrize("text", ["", "{}", "current-context: nowhere\ncontexts: []\nclusters: []\nusers: []\n", "[1]"])
async def test_an_unusable_file_is_a_config_error(tmp_path: Path, text: str) -> None:
    """Whatever is wrong with the file, the error is ours and names it."""
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(ConfigError, match="config"):
        await KubeconfigSource(str(path)).load()


async def test_a_missing_file_is_a_config_error(tmp_path: Path) -> None:
    """No file, no connection, and one sentence about it."""
    with pytest.raises(ConfigError, match="no kubeconfig at"):
        await KubeconfigSource(str(tmp_path / "none")).load()


async def test_in_cluster(tmp_path: Path) -> None:
    """The service account's token is read again every minute, and gives the namespace."""
    (tmp_path / "token").write_text("sa\n")
    (tmp_path / "namespace").write_text("system\n")
    (tmp_path / "ca.crt").write_text("x")
    environ = {"KUBERNETES_SERVICE_HOST": "::1", "KUBERNETES_SERVICE_PORT": "443"}
    source = InClusterSource(tmp_path, environ)
    with pytest.raises(ConfigError, match="certificates"):
        await source.load()  # the CA is no certificate

    shutil.copyfile(certifi.where(), tmp_path / "ca.crt")
    access = await source.load()
    assert (access.host, access.authorization, access.namespace, access.good_for) == ("https://[::1]:443", "Bearer sa", "system", 60.0)


def test_where_access_comes_from(tmp_path: Path) -> None:
    """Flag, then $KUBECONFIG, then the home file, then the Pod's own account, else a sentence."""
    home = {"HOME": str(tmp_path)}
    assert find_source("f", environ={"KUBECONFIG": "e"}).paths == "f"  # type: ignore[attr-defined]
    assert find_source(environ={"KUBECONFIG": "e", **home}).paths == "e"  # type: ignore[attr-defined]
    assert isinstance(find_source(environ={"KUBERNETES_SERVICE_HOST": "h", **home}), InClusterSource)
    with pytest.raises(ConfigError, match="no cluster"):
        find_source(environ=home)
    with pytest.raises(ConfigError, match="the context 'staging'"):  # not the cluster that the Pod happens to run in
        find_source(context="staging", environ={"KUBERNETES_SERVICE_HOST": "h", **home})


def test_the_typed_models_are_not_imported() -> None:
    """Configuration comes without the API classes, and the real package stays importable afterwards."""
    code = (
        "import sys; from kube.borrowed import borrow; borrow();"
        "assert not [m for m in sys.modules if m.startswith('kubernetes.aio.client')];"
        "import kubernetes.aio.config as real; assert real.load_kube_config; assert borrow() is borrow()"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2])
