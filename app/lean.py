"""Third parties, imported without the work that a service has no use for: it would be half of a cold start.

Three libraries do costly things the moment they are imported. `prepare` imports each of them early, with that put off or left out:

* aiohttp reads the system's trust store. We trust the cluster's own authority; the store is read when a certificate is first held to it.
* structlog draws tracebacks with rich where rich is installed, which brings a syntax highlighter along. A service writes plain ones.
* FastAPI builds the validators of thirty models of OpenAPI. We publish no schema; pydantic builds each on first use (`defer_build`).

All of it stays usable by whoever needs it later. What was imported before is left as it is.
"""

import importlib
import ssl
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from app import collector


def prepare() -> None:
    """Import them. Costs nothing the second time."""
    for library, spared in (("structlog", _no_rich), ("aiohttp", _trust_later), ("fastapi", _models_later)):
        if library not in sys.modules:
            with collector.resting(), spared():
                importlib.import_module(library)


class LaterTrust(ssl.SSLContext):
    """A context that reads the system's store at its first handshake. Until then it trusts nobody."""

    read = False

    def wrap_bio(self, *args: Any, **kwargs: Any) -> ssl.SSLObject:
        """A handshake over memory, as event loops make it."""
        self._read()
        return super().wrap_bio(*args, **kwargs)

    def wrap_socket(self, *args: Any, **kwargs: Any) -> ssl.SSLSocket:
        """A handshake over a socket."""
        self._read()
        return super().wrap_socket(*args, **kwargs)

    def _read(self) -> None:
        if not self.read:
            self.set_default_verify_paths()
            self.read = True


@contextmanager
def _trust_later() -> Iterator[None]:
    asked: list[ssl.SSLContext] = []

    def note(context: ssl.SSLContext) -> None:
        asked.append(context)

    ssl.SSLContext.set_default_verify_paths = note  # type: ignore[assignment,method-assign]  # hides the inherited one
    try:
        yield
    finally:
        del ssl.SSLContext.set_default_verify_paths
        for context in asked:
            context.__class__ = LaterTrust


@contextmanager
def _no_rich() -> Iterator[None]:
    if "rich" in sys.modules:
        yield
        return
    sys.modules["rich"] = None  # type: ignore[assignment]  # the import system's own sign for: not to be had
    try:
        yield
    finally:
        del sys.modules["rich"]


@contextmanager
def _models_later() -> Iterator[None]:
    from pydantic import BaseModel, ConfigDict

    config, rebuild = BaseModel.model_config, BaseModel.__dict__["model_rebuild"]

    def rebuilt(model: type[BaseModel], /, **known: Any) -> bool | None:
        # Bare, it is a module's last line: all names are there now. First use finds that out by itself, and says what it knows.
        return rebuild.__get__(None, model)(**known) if known else None

    BaseModel.model_config = ConfigDict(**config, defer_build=True)
    BaseModel.model_rebuild = classmethod(rebuilt)  # type: ignore[assignment,method-assign]  # the same but for when
    try:
        yield
    finally:
        BaseModel.model_config = config
        BaseModel.model_rebuild = rebuild  # type: ignore[method-assign]  # as it was
