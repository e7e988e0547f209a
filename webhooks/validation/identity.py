"""What answers "which deployment is this" is frozen; what answers "how is it run now" is editable.

Source: admission facts 3.2, newest form.
"""

from collections.abc import Iterator

from webhooks.validation.findings import Problem, rule
from webhooks.validation.subject import Subject

_FROZEN = "is part of what identifies the deployment: another value means creating another deployment"


@rule("MD801", "ModelFrozen", "The model does not change.", "spec.model", when="moved", source="3.2")
def model_frozen(subject: Subject) -> Iterator[Problem]:
    """The whole block, the artifact reference included."""
    old = subject.old_spec
    if old is not None and old.model != subject.spec.model:
        yield Problem(field="spec.model", value=_model(subject), said=_FROZEN)


def _model(subject: Subject) -> str:
    model = subject.spec.model
    return model.name + (f" (artifact {model.artifact_ref.name})" if model.artifact_ref else "")


@rule("MD802", "EngineFrozen", "The engine does not change; its version may.", "spec.engine.name", when="moved", source="3.2")
def engine_frozen(subject: Subject) -> Iterator[Problem]:
    """Versions are how it is run."""
    old = subject.old_spec
    if old is not None and old.engine.name != subject.spec.engine.name:
        yield Problem(field="spec.engine.name", value=subject.spec.engine.name, said=_FROZEN)


@rule("MD803", "KVCacheFrozen", "The KV cache is not added, removed or changed.", "spec.kvCache", when="moved", source="3.2")
def kv_cache_frozen(subject: Subject) -> Iterator[Problem]:
    """It decides whose blocks are read."""
    old, new = subject.old_spec, subject.spec
    if old is not None and old.kv_cache != new.kv_cache:
        value = None if new.kv_cache is None else new.kv_cache.pool_ref.name
        yield Problem(field="spec.kvCache", value=value or "removed", said=_FROZEN)


@rule("MD804", "RolesFrozen", "No role is added, removed or renamed.", "spec.roles[i].name", "spec.roles", when="moved", source="3.2")
def roles_frozen(subject: Subject) -> Iterator[Problem]:
    """Matched by name: another order is no change."""
    if subject.old_spec is None:
        return
    names = {view.role.name for view in subject.roles}
    for view in subject.roles:
        if view.old is None:
            yield Problem(field=f"{view.path}.name", value=view.role.name, said=_FROZEN)
    for role in subject.old_spec.roles:
        if role.name not in names:
            yield Problem(field="spec.roles", value=role.name, said=f"role {role.name!r} was removed; the set of roles {_FROZEN}")


@rule("MD805", "KindFrozen", "A role's kind does not change.", "spec.roles[i].kind", when="moved", source="3.2")
def kind_frozen(subject: Subject) -> Iterator[Problem]:
    """An unset kind is Server."""
    for view in subject.roles:
        if view.old is not None and view.old.effective_kind != view.role.effective_kind:
            yield Problem(field=f"{view.path}.kind", value=view.role.effective_kind, said=_FROZEN)


@rule(
    "MD806",
    "RouterNameFrozen",
    "A router is added or removed, but not turned into another.",
    "spec.router.name",
    when="moved",
    source="3.2",
)
def router_name_frozen(subject: Subject) -> Iterator[Problem]:
    """Remove the block in one write and add another in the next."""
    old = subject.old_spec
    if old is None or old.router is None or subject.spec.router is None:
        return
    if old.router.name != subject.spec.router.name:
        yield Problem(
            field="spec.router.name", value=subject.spec.router.name, said="field is immutable: remove the router first, then add another"
        )


RULES = (model_frozen, engine_frozen, kv_cache_frozen, roles_frozen, kind_frozen, router_name_frozen)
