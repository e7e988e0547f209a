"""What objects of every kind carry: metadata, conditions, references, variables.

Source: status facts 1.2 and 2.
"""

import msgspec


class Struct(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """A frozen value with the wire's camelCase names."""


class OwnerReference(Struct, frozen=True):
    """`metadata.ownerReferences[]`."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class ObjectMeta(Struct, frozen=True):
    """`metadata`, as far as it is read."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    generate_name: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[OwnerReference, ...] = ()

    @property
    def deleting(self) -> bool:
        """Whether the object is on its way out."""
        return self.deletion_timestamp is not None

    @property
    def controller(self) -> OwnerReference | None:
        """The owner that controls the object, if it has one."""
        for ref in self.owner_references:  # a generator would cost four times as much, and this is asked of every Pod in every pass
            if ref.controller:
                return ref
        return None


class Condition(Struct, frozen=True):
    """One entry of `status.conditions` of any kind."""

    type: str = ""
    status: str = "Unknown"
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None
    observed_generation: int | None = None


def condition(conditions: tuple[Condition, ...], kind: str) -> Condition | None:
    """The condition of that type, or None when nobody reported it."""
    for found in conditions:  # as above
        if found.type == kind:
            return found
    return None


class LocalRef(Struct, frozen=True):
    """A reference by name within the namespace."""

    name: str = ""


class EnvVar(Struct, frozen=True):
    """`env[]`: a role's values are literal; a Pod's may come from elsewhere, then `value` is None."""

    name: str = ""
    value: str | None = None
