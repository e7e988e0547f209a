"""The registry: every rule that judges a ModelDeployment, in the order of judgement, and the judgement itself.

Source: admission facts 3.0 (order, aggregation), decisions D5.
"""

from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import islice

from webhooks.validation import cards, elastic, fabric, host, identity, kinds, names, owned, parallel, ports, router, shape
from webhooks.validation.fabric import wants_interface
from webhooks.validation.findings import Feature, Finding, Phase, Rule, finding
from webhooks.validation.subject import Subject

RULES: tuple[Rule, ...] = (
    *shape.RULES,
    *names.RULES,
    *kinds.RULES,
    *owned.RULES,
    *parallel.RULES,
    *elastic.RULES,
    *router.RULES,
    *ports.RULES,
    *host.RULES,
    *cards.RULES,
    *identity.RULES,
    *fabric.RULES,
)

MOST_FINDINGS = 1024
"""A hostile object must not become a hostile answer; an answer tells far fewer anyway."""


def types_to_read(subject: Subject) -> tuple[str, ...]:
    """The InstanceTypes that the rules look at, each once."""
    return tuple(dict.fromkeys(view.role.instance_type for view in subject.roles if view.role.instance_type))


def fabric_to_read(subject: Subject) -> bool:
    """Whether the rules look at the KV cache's binding and pool."""
    cache, old = subject.spec.kv_cache, subject.old_spec
    if cache is None or not cache.pool_ref.name:
        return False
    return old is None or old.kv_cache != cache or any(wants_interface(view) for view in subject.roles)


def judge(subject: Subject, phases: Iterable[Phase] = ("object", "types")) -> tuple[Finding, ...]:
    """What is wrong, by the rules of the phases; bounded. Raises CannotJudgeError where an object has not been observed yet."""
    return tuple(islice(_walk(subject, phases), MOST_FINDINGS))


@lru_cache(maxsize=1024)
def _applicable(phase: Phase, features: frozenset[Feature]) -> tuple[Rule, ...]:
    """The rules of a phase that can have anything to say about a write with those features."""
    return tuple(rule for rule in RULES if rule.phase == phase and rule.when in features)


def _walk(subject: Subject, phases: Iterable[Phase]) -> Iterator[Finding]:
    for phase in phases:
        for rule in _applicable(phase, subject.features):
            for problem in rule.check(subject):
                yield finding(rule.id, rule.name, problem)


def judge_rest(subject: Subject) -> tuple[Finding, ...]:
    """The last two phases, each only when nothing is wrong so far."""
    return judge(subject, ("fabric",)) or judge(subject, ("transport",))
