"""Listener, TLS and gates: the one judgement that four rooms share."""

import pytest

from api.objects import EngineSpec, Role, RolePort
from engines import gates
from engines.facade import RoleReading, read_argv, read_role

CERT = ("--ssl-certfile", "/c")


def read(*argv: str, engine: str = "vLLM", ports: tuple[RolePort, ...] = ()) -> RoleReading:
    """A line of the newest release."""
    return read_argv(engine, None, argv, ports=ports)


GATES = {
    "a plain role is gated, both listen flags filled": (read(), True, "HTTP", 8000, ("host", "port"), ()),
    "the probe follows the serving port": (read(ports=(RolePort(port=9000),)), True, "HTTP", 9000, ("host", "port"), ()),
    "an own host withdraws and is not filled": (read("--host", "::"), False, "HTTP", 8000, ("port",), ("host",)),
    "an own port withdraws and is not filled": (read("--port=9"), False, "HTTP", 8000, ("host",), ("port",)),
    "an abbreviated host is a host": (read("--ho", "h"), False, "HTTP", 8000, ("port",), ("host",)),
    "an underscored name is not SGLang's": (read("--ho_st", "h", engine="SGLang"), True, "HTTP", 8000, ("host", "port"), ()),
    "a host without a value still withdraws": (read("--host"), False, "HTTP", 8000, ("port",), ("host",)),
    "vLLM's word None is no host": (read("--host", "None"), True, "HTTP", 8000, ("host", "port"), ()),
    "the word None is a host to SGLang": (read("--host", "None", engine="SGLang"), False, "HTTP", 8000, ("port",), ("host",)),
    "TLS moves the gates to HTTPS": (read(*CERT), True, "HTTPS", 8000, ("host", "port"), ()),
    "a demanded client certificate withdraws": (
        read(*CERT, "--ssl-cert-reqs", "2"),
        False,
        "HTTPS",
        8000,
        ("host", "port"),
        ("clientCertificate",),
    ),
    "UDP withdraws": (read(ports=(RolePort(port=1, protocol="UDP"),)), False, "HTTP", 1, ("host", "port"), ("protocol",)),
    "a host behind a bare -- is no host": (read("--", "--host", "h"), True, "HTTP", 8000, ("host", "port"), ()),
    "every reason is named": (
        read("--host", "h", "--port", "1", *CERT, "--ssl-cert-reqs=2", ports=(RolePort(port=1, protocol="SCTP"),)),
        False,
        "HTTPS",
        1,
        (),
        ("host", "port", "clientCertificate", "protocol"),
    ),
}


@pytest.mark.parametrize(("reading", "gated", "scheme", "port", "fills", "withheld"), GATES.values(), ids=GATES.keys())
def test_the_gates_are(  # noqa: PLR0917 - one row of the table
    reading: RoleReading, gated: bool, scheme: str, port: int, fills: tuple[str, ...], withheld: tuple[str, ...]
) -> None:
    """Gated or not, over what, where, with what filled in, and why not."""
    found = reading.gates
    assert (found.gated, found.scheme, found.port, found.fills, found.withheld_by) == (gated, scheme, port, fills, withheld)


DEMANDS = {
    "nothing said": ((), "NotDemanded"),
    "0": (("--ssl-cert-reqs", "0"), "NotDemanded"),
    "1": (("--ssl-cert-reqs", "1"), "Optional"),
    "1 with blanks": (("--ssl-cert-reqs= 1 ",), "Optional"),
    "2": (("--ssl-cert-reqs", "2"), "Demanded"),
    "02 is 2": (("--ssl-cert-reqs", "02"), "Demanded"),
    "any other integer demands": (("--ssl-cert-reqs", "-1"), "Demanded"),
    "a word cannot be read": (("--ssl-cert-reqs", "required"), "Unreadable"),
    "a missing value cannot be read": (("--ssl-cert-reqs",), "Unreadable"),
    "a reference cannot be read": (("--ssl-cert-reqs", "$(X)"), "Unreadable"),
    "the last one wins": (("--ssl-cert-reqs=2", "--ssl-cert-reqs=0"), "NotDemanded"),
}


@pytest.mark.parametrize("engine", ["vLLM", "SGLang"])
@pytest.mark.parametrize(("argv", "demand"), DEMANDS.values(), ids=DEMANDS.keys())
def test_the_client_certificate_demand(engine: str, argv: tuple[str, ...], demand: str) -> None:
    """On SGLang the exact spelling is judged although the engine does not register it; without TLS nothing is demanded."""
    assert read(*argv, *CERT, engine=engine).tls.client_cert == demand
    assert read(*argv, engine=engine).tls.client_cert == "NotDemanded"
    assert read(*argv, engine=engine).gates.gated


def test_sglang_is_told_that_it_has_no_such_flag() -> None:
    """The engine refuses to start with it."""
    assert any(f.id == "EA302" for f in read(*CERT, "--ssl-cert-reqs", "0", engine="SGLang").findings)


TLS = {
    "a certificate": (CERT, True),
    "a key": (("--ssl-keyfile=/k",), True),
    "an empty certificate": (("--ssl-certfile=",), False),
    "a certificate withdrawn by a later one": ((*CERT, "--ssl-certfile="), False),
    "a key beside a withdrawn certificate": (("--ssl-keyfile=/k", *CERT, "--ssl-certfile="), True),
    "a CA alone": (("--ssl-ca-certs", "/ca"), False),
    "a certificate from a reference": (("--ssl-certfile", "$(CERT)"), True),
    "a flag's name as a value": (("--served-model-name=--ssl-certfile",), False),
}


@pytest.mark.parametrize("engine", ["vLLM", "SGLang"])
@pytest.mark.parametrize(("argv", "enabled"), TLS.values(), ids=TLS.keys())
def test_tls_is_on_with_a_certificate_or_a_key(engine: str, argv: tuple[str, ...], enabled: bool) -> None:
    """Set and non-empty after the last use."""
    assert read(*argv, engine=engine).tls.enabled is enabled


def test_the_word_none_is_a_file_to_sglang_and_nothing_to_vllm() -> None:
    """vLLM's optional texts know the word."""
    assert not read("--ssl-certfile", "None").tls.enabled
    assert read("--ssl-certfile", "None", engine="SGLang").tls.enabled


COMMANDS = {
    "the engine itself": (("vllm", "serve", "m", "--ssl-certfile", "/c"), True),
    "the engine as a module": (("python3", "-m", "vllm.entrypoints.openai.api_server", "--ssl-keyfile=/k"), True),
    "behind a wrapper's own --": (("tini", "--", "vllm", "serve", "m", "--ssl_certfile", "/c"), True),
    "behind a wrapper's options": (("tini", "-g", "-v", "--", "vllm", "serve", "m", "--ssl-certf=/c"), True),
    "withdrawn again": (("vllm", "serve", "m", "--ssl-certfile", "/c", "--ssl-certfile", "None"), False),
    "in a shell's text, which is not read": (("sh", "-c", "vllm serve m --ssl-certfile /c"), False),
}


@pytest.mark.parametrize(("command", "encrypted"), COMMANDS.values(), ids=COMMANDS.keys())
def test_a_replaced_command_tells_its_scheme(command: tuple[str, ...], encrypted: bool) -> None:
    """The extra arguments are ignored then; no engine starts with a bare --, so one in a command is a wrapper's."""
    reading = read_argv("vLLM", None, ("--ssl-certfile", "/ignored"), command=command)
    assert reading.tls.enabled is encrypted
    assert reading.gates.withheld_by == ("command",)
    assert reading.parallelism.source.unreadable_reason == "Unmanaged"


def test_a_replaced_command_is_read_for_tls_and_listener_only() -> None:
    """The extra arguments beside it are not read at all, and nothing is filled."""
    role = Role(name="r", command=("serve", "--ssl-certfile", "/c", "--port", "9"), extra_args=("--host", "h", "-tp", "2"))
    reading = read_role(EngineSpec(name="vLLM", version="0.33.0"), role)
    assert reading.tls.enabled
    assert (reading.listener.port, reading.listener.port_declared, reading.listener.host) == (9, True, None)
    assert reading.gates == gates.Gates(False, "HTTPS", 8000, (), ("command",))
    assert reading.refusals == ()


def test_the_thresholds_keep_their_order() -> None:
    """A slow engine is not killed while it loads, and readiness goes long before a restart."""
    assert gates.STARTUP_FAILURES > gates.LIVENESS_FAILURES > gates.READINESS_FAILURES
    assert gates.STARTUP_FAILURES * gates.PERIOD_SECONDS == 30 * 60
    assert gates.TIMEOUT_SECONDS < gates.PERIOD_SECONDS
    assert gates.PATH == "/health"


def test_every_reason_to_withhold_has_a_sentence() -> None:
    """`explain` and `mdctl args` say it."""
    assert set(gates.REASONS) == {"command", "host", "port", "clientCertificate", "protocol"}
