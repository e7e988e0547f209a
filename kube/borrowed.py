"""The configuration half of `kubernetes.aio`, without its typed models.

Its `config` package asks `kubernetes.aio.client` for two names only, `Configuration` and `ApiClient`, and that package's `__init__`
brings in every API class, which costs a third of a second and some 20 MiB that nothing here uses. So the import runs with hollow
parent packages, which have the real `__path__` but run no `__init__`; afterwards `sys.modules` is left as it was found, so that anybody
else who imports `kubernetes` gets the real one. Where the real one is already loaded it is simply used.
"""

import importlib
import importlib.util
import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple


class Borrowed(NamedTuple):
    """The parts that are used. They carry no types of their own, so `Any` is what can be said of them."""

    Configuration: Any
    KubeConfigLoader: Any
    KubeConfigMerger: Any
    InClusterConfigLoader: Any
    ConfigException: type[Exception]


@cache
def borrow() -> Borrowed:
    """Import once. Raises ImportError when the `kubernetes` package is absent."""
    if "kubernetes.aio.config" in sys.modules:
        return _parts()
    spec = importlib.util.find_spec("kubernetes")  # a top-level name: found without being run
    if spec is None or not spec.submodule_search_locations:
        raise ImportError("the kubernetes package is not installed")
    root = Path(next(iter(spec.submodule_search_locations)))
    before = {name: module for name, module in sys.modules.items() if name.split(".")[0] == "kubernetes"}
    try:
        for name in ("kubernetes", "kubernetes.aio", "kubernetes.aio.client", "kubernetes.aio.config"):
            hollow = ModuleType(name)
            hollow.__path__ = [str(root.joinpath(*name.split(".")[1:]))]
            sys.modules[name] = hollow
        client = sys.modules["kubernetes.aio.client"]
        vars(client)["Configuration"] = importlib.import_module("kubernetes.aio.client.configuration").Configuration
        vars(client)["ApiClient"] = None
        return _parts()
    finally:
        for name in [name for name in sys.modules if name.split(".")[0] == "kubernetes"]:
            del sys.modules[name]
        sys.modules.update(before)


def _parts() -> Borrowed:
    kube_config = importlib.import_module("kubernetes.aio.config.kube_config")
    incluster = importlib.import_module("kubernetes.aio.config.incluster_config")
    failure = importlib.import_module("kubernetes.aio.config.config_exception")
    configuration = importlib.import_module("kubernetes.aio.client.configuration")
    return Borrowed(
        configuration.Configuration,
        kube_config.KubeConfigLoader,
        kube_config.KubeConfigMerger,
        incluster.InClusterConfigLoader,
        failure.ConfigException,
    )
