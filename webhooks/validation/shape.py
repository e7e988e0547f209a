"""Rules on the object alone that belong to no other family. Source: admission facts 3.3, 3.8."""

from collections.abc import Iterator

from webhooks.quantity import parse_quantity
from webhooks.validation.findings import Problem, rule
from webhooks.validation.subject import Subject

MOST_ROLES = 10


@rule("MD101", "ShmSizePositive", "A declared shared-memory size is above zero.", "spec.roles[i].shmSize", when="shm", source="3.8")
def shm_size(subject: Subject) -> Iterator[Problem]:
    """`shmSize` of 0 or less renders no usable volume."""
    for view in subject.roles:
        written = view.role.shm_size
        if written is None:
            continue
        value = parse_quantity(written)
        if value is None or value <= 0:
            yield Problem(field=f"{view.path}.shmSize", value=written, said="must be a quantity above zero")


@rule("MD102", "RoleCount", "A deployment has at most ten roles.", "spec.roles", when="several", source="3.3")
def role_count(subject: Subject) -> Iterator[Problem]:
    """The operator's own bound."""
    count = len(subject.roles)
    if count > MOST_ROLES:
        yield Problem(field="spec.roles", value=count, said=f"has {count} roles, at most {MOST_ROLES} are allowed")


@rule("MD103", "RoleNamesUnique", "No two roles have one name.", "spec.roles[i].name", when="namesakes", source="3.3")
def role_names_unique(subject: Subject) -> Iterator[Problem]:
    """The schema answers first; this holds where it did not."""
    seen: set[str] = set()
    for view in subject.roles:
        name = view.role.name
        if name in seen:
            yield Problem(field=f"{view.path}.name", reason="Duplicate", value=name, said="is the name of an earlier role")
        seen.add(name)


@rule(
    "MD104",
    "EngineVersionNeeded",
    "The engine's version is declared unless every role brings an image of its own.",
    "spec.engine.version",
    when="unversioned",
    source="3.8",
)
def engine_version(subject: Subject) -> Iterator[Problem]:
    """Without a version there is no image to run."""
    if subject.spec.engine.version:
        return
    bare = next((view.role.name for view in subject.roles if not view.role.image), None)
    if bare is not None:
        yield Problem(field="spec.engine.version", reason="Required", said=f"role {bare!r} declares no image, so the version chooses it")


@rule("MD105", "PoolNamed", "A declared KV cache names its pool binding.", "spec.kvCache.poolRef.name", when="cache", source="3.8")
def pool_named(subject: Subject) -> Iterator[Problem]:
    """The binding may be missing; its name may not."""
    cache = subject.spec.kv_cache
    if cache is not None and not cache.pool_ref.name:
        yield Problem(field="spec.kvCache.poolRef.name", reason="Required", said="names the KVCachePoolBinding to use")


RULES = (shm_size, role_count, role_names_unique, engine_version, pool_named)
