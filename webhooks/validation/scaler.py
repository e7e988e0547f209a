"""Rules on a ModelDeploymentScaler. Source: admission facts 2.1 and 2.2."""

from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from typing import Any

import msgspec

from api.objects import ModelDeploymentScaler
from webhooks.quantity import parse_quantity
from webhooks.validation.findings import Finding, Problem, finding


class ScalerSubject(msgspec.Struct, frozen=True, gc=False):
    """One write of a scaler, with the other scalers of its namespace where they matter."""

    new: ModelDeploymentScaler
    old: ModelDeploymentScaler | None = None
    others: tuple[ModelDeploymentScaler, ...] = ()


class ScalerRule(msgspec.Struct, frozen=True, kw_only=True):
    """One rule of the scaler's registry."""

    id: str
    name: str
    sentence: str
    fields: tuple[str, ...]
    check: Callable[[ScalerSubject], Iterable[Problem]]
    source: str = "2"


Check = Callable[[ScalerSubject], Iterable[Problem]]


def _rule(number: str, name: str, sentence: str, *fields: str) -> Callable[[Check], ScalerRule]:
    def made(check: Check) -> ScalerRule:
        return ScalerRule(id=number, name=name, sentence=sentence, fields=fields, check=check)

    return made


def acts(scaler: ModelDeploymentScaler) -> bool:
    """Whether a scaler writes: Active and not suspended."""
    return scaler.spec.mode == "Active" and not scaler.spec.suspend and not scaler.metadata.deleting


def others_to_read(subject: ScalerSubject) -> bool:
    """Whether the other scalers of the namespace matter: this one begins to act on its target."""
    old = subject.old
    return acts(subject.new) and not (old is not None and acts(old))


@_rule("MD901", "TargetNamed", "A scaler names its ModelDeployment.", "spec.targetRef.name")
def target_named(subject: ScalerSubject) -> Iterator[Problem]:
    """The target need not exist."""
    if not subject.new.spec.target_ref.name:
        yield Problem(field="spec.targetRef.name", reason="Required", said="names the ModelDeployment to scale")


@_rule("MD902", "TargetFrozen", "A scaler's target does not change.", "spec.targetRef")
def target_frozen(subject: ScalerSubject) -> Iterator[Problem]:
    """Another target is another scaler."""
    old = subject.old
    if old is not None and old.spec.target_ref != subject.new.spec.target_ref:
        yield Problem(field="spec.targetRef", value=subject.new.spec.target_ref.name, said="field is immutable: create another scaler")


@_rule(
    "MD903", "OneAlgorithm", "A scaler has one algorithm and that algorithm's parameters only.", "spec.algorithm.type", "spec.algorithm.*"
)
def one_algorithm(subject: ScalerSubject) -> Iterator[Problem]:
    """A block is named as its type, first letter small."""
    algorithm = subject.new.spec.algorithm
    kind = algorithm.get("type")
    if not isinstance(kind, str) or not kind:
        yield Problem(field="spec.algorithm.type", reason="Required", said="names the algorithm")
        return
    wanted = kind[:1].lower() + kind[1:]
    blocks = sorted(key for key, value in algorithm.items() if key != "type" and value is not None)
    if wanted not in blocks:
        yield Problem(field=f"spec.algorithm.{wanted}", reason="Required", said=f"holds the parameters of {kind}")
    for block in blocks:
        if block != wanted:
            yield Problem(field=f"spec.algorithm.{block}", reason="Forbidden", said=f"the algorithm is {kind}")


@_rule(
    "MD904",
    "BoundsOrdered",
    "A role's upper bound is not below its lower bound; each role is bounded once.",
    "spec.roles[i].maxReplicas",
    "spec.roles[i].name",
)
def bounds_ordered(subject: ScalerSubject) -> Iterator[Problem]:
    """At least one role."""
    roles = subject.new.spec.roles
    if not roles:
        yield Problem(field="spec.roles", reason="Required", said="bounds every role of the target")
    seen: set[str] = set()
    for index, role in enumerate(roles):
        if role.name in seen:
            yield Problem(field=f"spec.roles[{index}].name", reason="Duplicate", value=role.name, said="is bounded already")
        seen.add(role.name)
        if role.max_replicas < role.min_replicas:
            yield Problem(
                field=f"spec.roles[{index}].maxReplicas", value=role.max_replicas, said=f"is below minReplicas {role.min_replicas}"
            )


@_rule(
    "MD905",
    "ProportionalParameters",
    "Proportional parameters name a metric, a tolerance above 0 and at most 1, and a positive target for scaled roles.",
    "spec.algorithm.proportional.metric",
    "spec.algorithm.proportional.tolerance",
    "spec.algorithm.proportional.roleTargets[i]",
)
def proportional(subject: ScalerSubject) -> Iterator[Problem]:
    """Only where the block is there."""
    block = subject.new.spec.algorithm.get("proportional")
    if not isinstance(block, dict):
        return
    path = "spec.algorithm.proportional"
    if not block.get("metric"):
        yield Problem(field=f"{path}.metric", reason="Required", said="names the metric")
    tolerance = block.get("tolerance")
    if tolerance is not None:
        value = _quantity(tolerance)
        if value is None or not 0 < value <= 1:
            yield Problem(field=f"{path}.tolerance", value=tolerance, said="must be above 0 and at most 1")
    yield from _targets(subject, block.get("roleTargets"), path)


def _targets(subject: ScalerSubject, targets: Any, path: str) -> Iterator[Problem]:
    scaled = {role.name for role in subject.new.spec.roles}
    seen: set[str] = set()
    for index, target in enumerate(targets if isinstance(targets, list) else []):
        name = target.get("name") if isinstance(target, dict) else None
        if not isinstance(name, str) or name not in scaled:
            yield Problem(field=f"{path}.roleTargets[{index}].name", value=name, said="is no role of this scaler")
        elif name in seen:
            yield Problem(field=f"{path}.roleTargets[{index}].name", reason="Duplicate", value=name, said="has a target already")
        seen.add(str(name))
        written = target.get("target") if isinstance(target, dict) else None
        value = _quantity(written)
        if value is None or value <= 0:
            yield Problem(field=f"{path}.roleTargets[{index}].target", value=written, said="must be a quantity above zero")


def _quantity(written: Any) -> Fraction | None:
    return parse_quantity(written) if isinstance(written, str | int | float) and not isinstance(written, bool) else None


@_rule("MD906", "OneActiveScaler", "At most one scaler that is Active and not suspended targets a deployment.", "spec.mode")
def one_active(subject: ScalerSubject) -> Iterator[Problem]:
    """Judged when a scaler begins to act; the binding fence arbitrates what slips through."""
    if not others_to_read(subject):
        return
    me = subject.new
    rivals = sorted(
        other.metadata.name
        for other in subject.others
        if other.metadata.name != me.metadata.name and other.spec.target_ref == me.spec.target_ref and acts(other)
    )
    if rivals:
        yield Problem(field="spec.mode", reason="Forbidden", said=f"{', '.join(rivals)} is Active on {me.spec.target_ref.name} already")


RULES = (target_named, target_frozen, one_algorithm, bounds_ordered, proportional, one_active)


def judge_scaler(subject: ScalerSubject) -> tuple[Finding, ...]:
    """Everything that is wrong with a scaler."""
    return tuple(finding(rule.id, rule.name, problem) for rule in RULES for problem in rule.check(subject))
