"""What a start of the service leaves out is left out, and what it puts off happens when somebody needs it."""

import json
import ssl
import subprocess
import sys

import pytest
from pydantic import BaseModel

from app import lean

# What `mdctl serve` imports until it serves, in its order, and then what the libraries can still do.
SERVE = """
import json, sys
from app.cli import main
main.get_command(None, "serve")
from app import lean
lean.prepare()
import app.logging, app.loop, app.serving, kube.borrowed
kube.borrowed.borrow()
loaded = sorted(sys.modules)

from aiohttp import connector
from fastapi import FastAPI
shown = FastAPI()
shown.get("/x")(lambda number: number)
import rich.console, structlog
print(json.dumps({
    "loaded": loaded,
    "store": [type(connector._SSL_CONTEXT_VERIFIED).__name__, len(connector._SSL_CONTEXT_VERIFIED.get_ca_certs())],
    "schema": sorted(shown.openapi()["paths"]["/x"]["get"]["responses"]),
    "plain": structlog.dev.default_exception_formatter is structlog.dev.plain_traceback,
}))
"""

NEEDLESS = (
    *("rich", "pygments", "celpy", "lark", "ruamel", "httpx", "requests"),
    *("api.schema", "api.crd", "local", "deploy", "opentelemetry.sdk", "kubernetes.client", "kubernetes.aio.client.api"),
)


def test_a_service_imports_no_more_than_it_serves_with() -> None:
    """No highlighter, no CEL, no schema engine, no laptop's cluster, no typed models, no trust store; all can be had afterwards."""
    done = subprocess.run([sys.executable, "-W", "error", "-c", SERVE], capture_output=True, text=True, check=True)
    told = json.loads(done.stdout)
    assert [name for name in told["loaded"] if name.startswith(tuple(f"{root}." for root in NEEDLESS)) or name in NEEDLESS] == []
    assert told["store"] == ["LaterTrust", 0]
    assert told["schema"] == ["200", "422"]
    assert told["plain"] is True


def test_a_trust_store_is_read_at_the_first_handshake_and_not_before() -> None:
    """Until then it accepts nobody; then whom the standard library's own context accepts, under the same conditions."""
    usual = ssl.create_default_context()
    with lean._trust_later():
        later = ssl.create_default_context()
    assert isinstance(later, lean.LaterTrust)
    assert later.get_ca_certs() == []
    assert (later.verify_mode, later.check_hostname, later.verify_flags, later.options) == (
        usual.verify_mode,
        usual.check_hostname,
        usual.verify_flags,
        usual.options,
    )
    later.wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_hostname="a.example")
    assert later.get_ca_certs() == usual.get_ca_certs()
    assert type(ssl.create_default_context()) is ssl.SSLContext


def test_a_model_is_built_when_it_is_first_used() -> None:
    """A module's own call to build it early is no use; one that fails at its first use fails as ever."""
    with lean._models_later():

        class Described(BaseModel):
            count: int

        Described.model_rebuild()
        assert not Described.__pydantic_complete__
    with pytest.raises(ValueError, match="valid integer"):
        Described.model_validate({"count": "many"})
    assert Described.model_validate({"count": "3"}).count == 3

    class Usual(BaseModel):
        count: int

    assert Usual.__pydantic_complete__
