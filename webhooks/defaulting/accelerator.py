"""`resources.accelerator` where a role leaves it open: one card, or an elastic role's tensor size.

It refuses nothing: a type that does not exist and a tensor size that cannot be read are findings of the rules, which see the same request
next and name everything that is wrong together. Source: admission facts 4.
"""

from collections.abc import Mapping

from api.objects import InstanceType, ModelDeployment, Role
from webhooks.patch import Operation, add
from webhooks.readings import read_line, tensor_size


def _open(role: Role) -> bool:
    return bool(role.instance_type) and (role.resources is None or role.resources.accelerator is None)


def types_to_read(deployment: ModelDeployment) -> tuple[str, ...]:
    """The InstanceTypes of the roles that leave their cards open, each once. None while the deployment is being deleted."""
    if deployment.metadata.deleting:
        return ()
    return tuple(dict.fromkeys(role.instance_type for role in deployment.spec.roles if _open(role)))


def default_accelerators(deployment: ModelDeployment, types: Mapping[str, InstanceType | None]) -> list[Operation]:
    """What to add; an explicit 0 is kept, a type without accelerators is left alone. The quantity is text, as the API server writes it."""
    if deployment.metadata.deleting:
        return []
    operations: list[Operation] = []
    for index, role in enumerate(deployment.spec.roles):
        if not _open(role):
            continue
        kind = types.get(role.instance_type)
        cards = _cards(deployment, role) if kind is not None and kind.spec.acceleratable else None
        if cards is None:
            continue
        path = f"/spec/roles/{index}/resources"
        operations.append(add(path, {"accelerator": str(cards)}) if role.resources is None else add(f"{path}/accelerator", str(cards)))
    return operations


def _cards(deployment: ModelDeployment, role: Role) -> int | None:
    engine = deployment.spec.engine
    if role.elastic_ep is None or engine.name != "vLLM":
        return 1
    return tensor_size(read_line(engine.name, engine.version, role.extra_args, role.env))
