"""What a managed router can stand in front of, and which of its arguments are the operator's. Source: admission facts 3.7."""

from collections.abc import Iterator

from webhooks.validation.findings import Problem, rule
from webhooks.validation.subject import Subject

_COMMON = frozenset(
    {
        "--host",
        "--port",
        "--prometheus-host",
        "--prometheus-port",
        "--service-discovery",
        "--service-discovery-namespace",
        "--service-discovery-port",
        "--selector",
        "--prefill-selector",
        "--decode-selector",
    }
)
ARGUMENTS = {
    "llm-d-router": frozenset(
        {
            "--endpoint-selector",
            "--endpoint-target-ports",
            "--config-file",
            "--secure-serving",
            "--grpc-health-port",
            "--metrics-endpoint-auth",
        }
    ),
    "vllm-router": _COMMON | {"--kv-connector", "--vllm-pd-disaggregation"},
    "sglang-gateway": _COMMON | {"--pd-disaggregation"},
}
ENGINES = {"llm-d-router": ("vLLM", "SGLang"), "vllm-router": ("vLLM",), "sglang-gateway": ("SGLang",)}
METRICS = frozenset({"vLLM", "SGLang"})


@rule(
    "MD501",
    "RouterOwnedArgument",
    "A router's addresses, ports and selectors are the operator's.",
    "spec.router.extraArgs[i]",
    when="router-arguments",
    source="3.7",
)
def router_owned_argument(subject: Subject) -> Iterator[Problem]:
    """Exact names; --policy and the cache thresholds are free."""
    router, old = subject.spec.router, subject.old_spec
    if router is None or (old is not None and old.router is not None and old.router.extra_args == router.extra_args):
        return
    owned = ARGUMENTS.get(router.name, frozenset())
    for position, token in enumerate(router.extra_args):
        name = token.split("=", 1)[0]
        if name in owned:
            yield Problem(field=f"spec.router.extraArgs[{position}]", value=name, said=f"{name} is set by the operator on {router.name}")


@rule(
    "MD502",
    "ThresholdIsLlmd",
    "Only llm-d-router splits by a token threshold.",
    "spec.router.disaggregationThresholdTokens",
    when="router",
    source="3.7",
)
def threshold(subject: Subject) -> Iterator[Problem]:
    """The other routers have no such thing."""
    router = subject.spec.router
    if router is not None and router.disaggregation_threshold_tokens is not None and router.name != "llm-d-router":
        yield Problem(
            field="spec.router.disaggregationThresholdTokens",
            value=router.disaggregation_threshold_tokens,
            said=f"{router.name} has no threshold; llm-d-router has",
        )


@rule("MD503", "RouterMatchesEngine", "The router speaks to the engine.", "spec.router.name", when="router", source="3.7")
def router_engine(subject: Subject) -> Iterator[Problem]:
    """llm-d-router speaks to both, the others to their own."""
    router, engine = subject.spec.router, subject.spec.engine.name
    if router is not None and router.name in ENGINES and engine not in ENGINES[router.name]:
        yield Problem(
            field="spec.router.name", value=router.name, said=f"{router.name} serves {' and '.join(ENGINES[router.name])}, not {engine}"
        )


@rule("MD504", "RouterMetricsMapped", "llm-d-router knows the engine's metrics.", "spec.engine", when="strange", source="3.7")
def router_metrics(subject: Subject) -> Iterator[Problem]:
    """Holds for both engines; here for the next one."""
    router, engine = subject.spec.router, subject.spec.engine.name
    if router is not None and router.name == "llm-d-router" and engine not in METRICS:
        yield Problem(field="spec.engine", value=engine, said="llm-d-router has no metrics mapping for it")


@rule("MD505", "RouterNeedsTcp", "Behind a router every role serves TCP.", "spec.router", when="declared", source="3.7")
def router_tcp(subject: Subject) -> Iterator[Problem]:
    """The first declared port decides."""
    if subject.spec.router is None:
        return
    for view in subject.roles:
        protocol = view.role.serving_protocol or "TCP"
        if protocol != "TCP":
            yield Problem(
                field="spec.router", value=subject.spec.router.name, said=f"role {view.role.name!r} serves {protocol}, a router needs TCP"
            )


@rule("MD506", "RouterNeedsPlaintext", "Behind a router no role serves HTTPS.", "spec.router", when="s-flags", source="3.7")
def router_plaintext(subject: Subject) -> Iterator[Problem]:
    """A managed router speaks plaintext to its engines; only a certificate or a key turns TLS on."""
    router = subject.spec.router
    if router is None or not subject.known_engine:
        return
    for view in subject.roles:
        if "--s" in view.heads and (view.judges_line or not subject.router_kept) and view.reading(subject.spec).tls.enabled:
            yield Problem(
                field="spec.router", value=router.name, said=f"role {view.role.name!r} serves HTTPS, the router speaks plaintext to it"
            )


@rule("MD507", "RouterNeedsOnePort", "Behind a router all roles share one serving port.", "spec.router", when="declared", source="3.7")
def router_one_port(subject: Subject) -> Iterator[Problem]:
    """8000 where none is declared."""
    router = subject.spec.router
    ports = sorted({view.role.serving_port for view in subject.roles})
    if router is not None and len(ports) > 1:
        yield Problem(field="spec.router", value=router.name, said=f"roles serve on {', '.join(map(str, ports))}; a router needs one port")


@rule(
    "MD508",
    "DirectDecoderPort",
    "The engine of a Decode role behind llm-d-router does not take the published port.",
    "spec.router",
    when="p-flags",
    source="3.7",
)
def direct_decoder_port(subject: Subject) -> Iterator[Problem]:
    """A proxy owns the published port there; the engine sits behind it."""
    router = subject.spec.router
    if router is None or router.name != "llm-d-router" or not subject.known_engine:
        return
    for view in subject.managed():
        if (
            "--p" not in view.heads
            or view.role.effective_kind != "Decode"
            or not (view.judges_line or not subject.router_kept or view.ports_changed)
        ):
            continue
        listener = view.reading(subject.spec).listener
        if listener.port_declared and listener.port == view.role.serving_port:
            yield Problem(
                field="spec.router",
                value=router.name,
                said=f"role {view.role.name!r} passes --port {listener.port}, which the router's proxy in front of it publishes",
            )


RULES = (
    router_owned_argument,
    threshold,
    router_engine,
    router_metrics,
    router_tcp,
    router_plaintext,
    router_one_port,
    direct_decoder_port,
)
