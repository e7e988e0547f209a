"""Names that follow from the deployment's and the roles': Services and member host names. Source: admission facts 3.3."""

import re
from collections.abc import Iterator

from api.objects import ObjectMeta
from webhooks.validation.findings import Problem, rule
from webhooks.validation.subject import Subject

_DNS_1035 = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
_DNS_1123 = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_INSTANCE = re.compile(r"(.+)-r(0|[1-9][0-9]{0,5})")

_GENERATED_BASE, _GENERATED_SUFFIX = 58, "xxxxx"


def expected_name(metadata: ObjectMeta) -> str:
    """The object's name or, before an API server gave it one, a name as it makes them: five characters behind `generateName`."""
    base = metadata.generate_name
    return metadata.name or (base[:_GENERATED_BASE] + _GENERATED_SUFFIX if base else "")


@rule(
    "MD111",
    "RoleServiceName",
    "`<deployment>-<role>` is a DNS-1035 label: at most 63 characters, no dots, a letter first.",
    "spec.roles[i].name",
    when="new-role",
    source="3.3",
)
def role_service_name(subject: Subject) -> Iterator[Problem]:
    """A role that the stored object has is left alone."""
    for view in subject.roles:
        service = f"{subject.name}-{view.role.name}"
        if view.old is None and not _DNS_1035.fullmatch(service):
            yield Problem(
                field=f"{view.path}.name", value=view.role.name, said=f"its Service would be {service!r} ({len(service)} characters)"
            )


@rule(
    "MD112",
    "ServiceNamesDistinct",
    "No role takes the Service name of the router, of another role, or of another role's instance.",
    "spec.roles[i].name",
    when="crossed",
    source="3.3",
)
def service_names_distinct(subject: Subject) -> Iterator[Problem]:
    """Judged on every request: a change of replicas can trip it. A role of one Pod per replica claims no instance names."""
    services: dict[str, str] = {"router": "the router"} if subject.spec.router is not None else {}
    instances: dict[str, int] = {}
    for view in subject.roles:
        role = view.role
        own = services.get(role.name) or _instance(role.name, instances)
        if own is not None:
            yield Problem(field=f"{view.path}.name", value=role.name, said=f"the Service {subject.name}-{role.name} belongs to {own} too")
        services.setdefault(role.name, f"role {role.name!r}")
        if role.size > 1:
            instances[role.name] = role.replicas
            for service, owner in services.items():
                if _instance(service, {role.name: role.replicas}):
                    yield Problem(
                        field=f"{view.path}.name",
                        value=role.name,
                        said=f"its instance's Service {subject.name}-{service} belongs to {owner} too",
                    )


def _instance(name: str, instances: dict[str, int]) -> str | None:
    """The role whose instance Service has that name, in words. Names are matched, not listed: a role may have 1024 replicas."""
    match = _INSTANCE.fullmatch(name)
    if match and int(match[2]) < instances.get(match[1], 0):
        return f"an instance of role {match[1]!r}"
    return None


@rule(
    "MD113",
    "MemberName",
    "The longest member host name of a role of several Pods is a DNS-1123 label.",
    "spec.roles[i]",
    when="members",
    source="3.3",
)
def member_name(subject: Subject) -> Iterator[Problem]:
    """Judged on every request: replicas and size lengthen it."""
    for view in subject.roles:
        role = view.role
        if role.size <= 1:
            continue
        member = f"{subject.name}-{role.name}-r{max(role.replicas - 1, 0)}-m{role.size - 1}"
        if not _DNS_1123.fullmatch(member):
            yield Problem(field=view.path, value=member, said=f"its longest member name has {len(member)} characters, 63 are allowed")


RULES = (role_service_name, service_names_distinct, member_name)
