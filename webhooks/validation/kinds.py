"""Which kinds of role stand beside each other. Source: admission facts 3.4, decisions D5 (Encode)."""

from collections.abc import Iterator

from engines.table import ENGINES
from webhooks.validation.features import KINDS
from webhooks.validation.findings import Problem, rule
from webhooks.validation.subject import Subject


def _mixed(subject: Subject) -> bool:
    return len(subject.kinds) > 1 and "Server" in subject.kinds


@rule("MD121", "ServerStandsAlone", "Roles of kind Server stand beside no other kind.", "spec.roles[i].kind", when="kinds", source="3.4")
def server_alone(subject: Subject) -> Iterator[Problem]:
    """One problem per role; an unset kind is Server."""
    if not _mixed(subject):
        return
    kinds = ", ".join(sorted(subject.kinds))
    for view in subject.roles:
        yield Problem(field=f"{view.path}.kind", value=view.role.effective_kind, said=f"Server stands beside another kind ({kinds})")


@rule("MD122", "KindOnce", "Prefill, Decode and Encode occur at most once each.", "spec.roles[i].kind", when="kindred", source="3.4, D5")
def kind_once(subject: Subject) -> Iterator[Problem]:
    """The second role of a kind is at fault."""
    if _mixed(subject):
        return
    first: dict[str, str] = {}
    for view in subject.roles:
        kind = view.role.effective_kind
        if kind != "Server" and kind in first:
            yield Problem(field=f"{view.path}.kind", value=kind, said=f"role {first[kind]!r} is the {kind} role already")
        first.setdefault(kind, view.role.name)


@rule("MD123", "KindRendered", "Every kind is one that the engine renders.", "spec.roles[i].kind", when="strange", source="3.4")
def kind_rendered(subject: Subject) -> Iterator[Problem]:
    """Fires only where the schema did not look: unknown kinds and unknown engines."""
    if _mixed(subject):
        return
    engine = subject.spec.engine.name
    for view in subject.roles:
        kind = view.role.effective_kind
        if kind not in KINDS or engine not in ENGINES:
            yield Problem(field=f"{view.path}.kind", value=kind, said=f"engine {engine!r} renders no {kind}")


@rule(
    "MD124",
    "EncodeNeedsPair",
    "An Encode role stands beside at least one Prefill and one Decode.",
    "spec.roles[i].kind",
    when="encode",
    source="D5",
)
def encode_needs_pair(subject: Subject) -> Iterator[Problem]:
    """An encoder feeds a pair."""
    if _mixed(subject):
        return
    missing = sorted({"Prefill", "Decode"} - subject.kinds)
    for view in subject.roles:
        if view.role.effective_kind == "Encode" and missing:
            yield Problem(field=f"{view.path}.kind", value="Encode", said=f"no {' and no '.join(missing)} role stands beside it")


@rule("MD125", "EncodeNeedsRouter", "An Encode role is served behind a router only.", "spec.router", when="encode", source="D5")
def encode_needs_router(subject: Subject) -> Iterator[Problem]:
    """Nobody else sends it work."""
    if not _mixed(subject) and subject.spec.router is None and "Encode" in subject.kinds:
        yield Problem(field="spec.router", reason="Required", said="a deployment with an Encode role needs a router")


@rule("MD126", "EncodeOwnsNoCommand", "An Encode role does not replace the command.", "spec.roles[i].command", when="encode", source="D5")
def encode_command(subject: Subject) -> Iterator[Problem]:
    """The operator renders an encoder's line."""
    if _mixed(subject):
        return
    for view in subject.roles:
        if view.role.effective_kind == "Encode" and view.taken_over:
            yield Problem(field=f"{view.path}.command", reason="Forbidden", said="an Encode role cannot replace the command")


RULES = (server_alone, kind_once, kind_rendered, encode_needs_pair, encode_needs_router, encode_command)
