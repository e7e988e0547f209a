"""Ports that a role declares, passes to its engine, or must leave to the operator's listeners. Source: admission facts 3.5 (Ports)."""

from collections.abc import Iterator

from api import keys
from api.objects import ModelDeploymentSpec, Role
from engines.table import ENGINES
from webhooks.validation.findings import Problem, rule
from webhooks.validation.subject import RoleView, Subject


def _direct_decoder(spec: ModelDeploymentSpec, role: Role) -> bool:
    return spec.router is not None and spec.router.name == "llm-d-router" and role.effective_kind == "Decode" and not role.command


@rule(
    "MD511",
    "PortMatchesDeclared",
    "An engine's own --port is the first declared port.",
    "spec.roles[i].extraArgs",
    "spec.roles[i].command",
    when="declared",
    source="3.5",
)
def port_matches(subject: Subject) -> Iterator[Problem]:
    """Not for a Decode role behind llm-d-router, whose published port is the proxy's; unchanged ports and arguments are let be."""
    if not subject.known_engine:
        return
    for view in subject.roles:
        role = view.role
        if not role.ports or not (view.judges_line or view.ports_changed) or _direct_decoder(subject.spec, role):
            continue
        port = own_port(view, subject.spec)
        if port is not None and port != role.ports[0].port:
            yield Problem(
                field=f"{view.path}.{'command' if role.command else 'extraArgs'}",
                value=f"--port={port}",
                said=f"the role declares port {role.ports[0].port}, where its Service sends traffic",
            )


def own_port(view: RoleView, spec: ModelDeploymentSpec) -> int | None:
    """The port that a role's line passes itself, where it can be read."""
    if "--p" not in view.heads or spec.engine.name not in ENGINES:
        return None
    tokens = view.role.command or view.tokens
    if not any("$" in token or "--port".startswith(token.split("=", 1)[0]) for token in tokens if token.startswith(("--p", "$"))):
        return None
    listener = view.reading(spec).listener
    return listener.port if listener.port_declared else None


def reserved_ports(spec: ModelDeploymentSpec, role: Role) -> dict[int, str]:
    """Ports of the operator's own listeners in the Pods of a role, with what listens there."""
    if role.command:
        return {}
    kinds = {other.effective_kind for other in spec.roles}
    pair = {"Prefill", "Decode"} <= kinds
    router = spec.router
    ports: dict[int, str] = {}
    if spec.engine.name == "vLLM":
        # Encode produces no cache blocks, so nothing listens in its Pods (seed "KVEventsPublishing").
        if router is not None and router.name == "llm-d-router" and role.effective_kind not in {"Decode", "Encode"}:
            ports[keys.KV_EVENTS_PORT] = "KV events"
            ports[keys.KV_REPLAY_PORT] = "KV event replay"
        if router is not None and role.effective_kind == "Prefill" and pair:
            ports[keys.BOOTSTRAP_PORT] = "the Mooncake bootstrap"
    elif spec.engine.name == "SGLang" and role.effective_kind == "Prefill" and pair and (router is not None or spec.kv_cache is not None):
        ports[keys.BOOTSTRAP_PORT] = "the disaggregation bootstrap"
    return ports


@rule(
    "MD512",
    "ReservedPortDeclared",
    "A role declares no port of the operator's own listeners.",
    "spec.router",
    "spec.roles[i].ports",
    when="declared",
    source="3.5",
)
def reserved_declared(subject: Subject) -> Iterator[Problem]:
    """KV events 5557 and 5558, bootstrap 8998, where they are rendered. A stored collision is refused too."""
    for view in subject.roles:
        if not view.role.ports:
            continue
        reserved = reserved_ports(subject.spec, view.role)
        for port in dict.fromkeys(port.port for port in view.role.ports):
            if port in reserved:
                yield Problem(
                    field="spec.router" if subject.spec.router is not None else f"{view.path}.ports",
                    value=port,
                    said=f"port {port} of role {view.role.name!r} is taken by {reserved[port]}",
                )


@rule(
    "MD513",
    "ReservedPortPassed",
    "A role without declared ports passes no --port of the operator's own listeners.",
    "spec.router",
    "spec.roles[i].extraArgs",
    when="p-flags",
    source="3.5",
)
def reserved_passed(subject: Subject) -> Iterator[Problem]:
    """Let be when the stored role collided in the same way; a router that makes the collision is refused."""
    if not subject.known_engine:
        return
    for view in subject.managed():
        if view.role.ports or not (view.judges_line or view.ports_changed or not subject.router_kept):
            continue
        port = own_port(view, subject.spec)
        reserved = reserved_ports(subject.spec, view.role) if port is not None else {}
        if port is None or port not in reserved:
            continue
        if _passed_before(subject, view, port):
            continue
        yield Problem(
            field="spec.router" if subject.spec.router is not None else f"{view.path}.extraArgs",
            value=f"--port={port}",
            said=f"port {port} of role {view.role.name!r} is taken by {reserved[port]}",
        )


def _passed_before(subject: Subject, view: RoleView, port: int) -> bool:
    """Whether the stored role passed the same port into the same reservation."""
    old, former = subject.old_spec, view.old
    if old is None or former is None or former.ports or port not in reserved_ports(old, former):
        return False
    return own_port(RoleView(view.index, former, None, old), old) == port


RULES = (port_matches, reserved_declared, reserved_passed)
