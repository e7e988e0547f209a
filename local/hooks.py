"""Which webhooks a request reaches: rules, scopes, match policy, and the two selectors."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from local.kinds import WEBHOOK_CONFIGURATIONS, Registry, Served
from local.operation import Operation
from local.selectors import label_selector_matches
from local.wire import JSON


@dataclass(frozen=True, slots=True)
class Hook:
    """One webhook that will be called, with the version of the resource that its rule named."""

    spec: JSON
    configuration: str
    sent_as: Served
    mutating: bool

    @property
    def name(self) -> str:
        """The webhook's own name."""
        return str(self.spec.get("name", ""))

    @property
    def fails_closed(self) -> bool:
        """failurePolicy Fail."""
        return str(self.spec.get("failurePolicy", "Fail")) != "Ignore"


NamespaceLabels = Callable[[str], Mapping[str, str]]


def candidates(
    configurations: list[JSON], op: Operation, registry: Registry, obj: JSON | None, old: JSON | None, *, namespace_labels: NamespaceLabels
) -> Iterator[Hook]:
    """The webhooks whose rules and namespaces fit, configurations by name and hooks in their order.

    Whether they select the object is told at their turn: it may change until then.
    """
    if op.served.plural in WEBHOOK_CONFIGURATIONS:
        return  # the API server never lets webhooks guard webhooks
    for configuration in sorted(configurations, key=lambda item: item["metadata"]["name"]):
        for spec in configuration.get("webhooks") or ():
            sent_as = _sent_as(spec, op, registry)
            if sent_as is None or not _in_scope_of_namespace(spec, op, obj, old, namespace_labels):
                continue
            mutating = configuration.get("kind") == "MutatingWebhookConfiguration"
            yield Hook(spec, configuration["metadata"]["name"], sent_as, mutating)


def _sent_as(spec: JSON, op: Operation, registry: Registry) -> Served | None:
    rules = spec.get("rules") or ()
    if any(rule_matches(rule, op, op.served) for rule in rules):
        return op.served
    if spec.get("matchPolicy", "Equivalent") != "Equivalent":
        return None
    others = (row for row in registry.versions(op.served.group, op.served.plural) if row.version != op.served.version)
    return next((row for row in others if any(rule_matches(rule, op, row) for rule in rules)), None)


def rule_matches(rule: JSON, op: Operation, served: Served) -> bool:
    """Whether a rule names the request, read as a request for that version."""

    def named(key: str, value: str) -> bool:
        values = rule.get(key) or ()
        return value in values or "*" in values

    scope = rule.get("scope", "*")
    if scope == "Namespaced" and not served.namespaced:
        return False
    if scope == "Cluster" and served.namespaced:
        return False
    return (
        named("operations", op.kind)
        and named("apiGroups", served.group)
        and named("apiVersions", served.version)
        and any(_resource_matches(pattern, served.plural, op.subresource) for pattern in rule.get("resources") or ())
    )


def _resource_matches(pattern: str, plural: str, subresource: str) -> bool:
    resource, _, sub = pattern.partition("/")
    return resource in {"*", plural} and (sub in {"*", subresource} if "/" in pattern else not subresource)


def _labels(obj: JSON | None) -> Mapping[str, str]:
    return ((obj or {}).get("metadata") or {}).get("labels") or {}


def selected(hook: Hook, obj: JSON | None, old: JSON | None) -> bool:
    """Whether the webhook's objectSelector selects the object or the one before it."""
    selector = hook.spec.get("objectSelector")
    if not selector:
        return True
    return any(label_selector_matches(selector, _labels(item)) for item in (obj, old) if item is not None)


def _in_scope_of_namespace(spec: JSON, op: Operation, obj: JSON | None, old: JSON | None, namespace_labels: NamespaceLabels) -> bool:
    selector = spec.get("namespaceSelector")
    if not selector:
        return True
    if op.served.kind == "Namespace" and not op.served.group:
        return label_selector_matches(selector, _labels(obj if obj is not None else old))
    return not op.served.namespaced or label_selector_matches(selector, namespace_labels(op.namespace))
