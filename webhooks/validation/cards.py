"""What a role asks of its InstanceType. Source: admission facts 3.9; how a type is judged: the cases' README.

A type that does not exist is a finding; a type that has not been observed yet cannot be judged (CannotJudgeError, HTTP 500).
"""

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from api.objects import InstanceType, RoleResources
from webhooks.errors import CannotJudgeError
from webhooks.quantity import parse_quantity, whole
from webhooks.validation.findings import Problem, rule
from webhooks.validation.subject import RoleView, Subject


def sliced(resources: RoleResources | None) -> bool:
    """Whether a part of a card is asked for."""
    return resources is not None and bool(resources.accelerator_sliced_memory_percentage or resources.accelerator_sliced_cores_percentage)


def partitioned(resources: RoleResources | None) -> bool:
    """Whether a hardware partition is asked for."""
    return resources is not None and bool(resources.accelerator_partitioned_profile)


@rule(
    "MD701",
    "PartitionOrSlice",
    "A partition profile and slice percentages exclude each other.",
    "spec.roles[i].resources.acceleratorPartitionedProfile",
    when="parts",
    source="3.9",
)
def partition_or_slice(subject: Subject) -> Iterator[Problem]:
    """Needs no look at the type."""
    for view in subject.roles:
        resources = view.role.resources
        if resources is not None and partitioned(resources) and sliced(resources):
            yield Problem(
                field=f"{view.path}.resources.acceleratorPartitionedProfile",
                value=resources.accelerator_partitioned_profile,
                said="slice percentages are asked for too",
            )


@rule(
    "MD702",
    "InterfaceWhole",
    "A fabric interface count is whole and not negative.",
    "spec.roles[i].resources.interface",
    when="interface",
    source="3.9",
)
def interface_whole(subject: Subject) -> Iterator[Problem]:
    """Needs no look at the type."""
    for view in subject.roles:
        written = view.role.resources.interface if view.role.resources else None
        if written is None:
            continue
        count = whole(written)
        if count is None or count < 0:
            yield Problem(field=f"{view.path}.resources.interface", value=written, said="must be a whole number of at least 0")


@rule("MD711", "InstanceTypeExists", "Every role's instance type exists.", "spec.roles[i].instanceType", phase="types", source="3.9")
def type_exists(subject: Subject) -> Iterator[Problem]:
    """Read when the write is judged, not from a cache."""
    for view in subject.roles:
        name = view.role.instance_type
        if name and name in subject.types and subject.types[name] is None:
            yield Problem(field=f"{view.path}.instanceType", reason="NotFound", value=name, said="no such InstanceType")


def _asking(subject: Subject) -> Iterator[tuple[RoleView, RoleResources, InstanceType]]:
    """Roles that ask something of a type with accelerators."""
    for view in subject.roles:
        kind = subject.types.get(view.role.instance_type)
        if view.role.resources is not None and kind is not None and kind.spec.acceleratable:
            yield view, view.role.resources, kind


def _slicing(view: RoleView, kind: InstanceType) -> dict[str, Any]:
    """`status.detail.slicedDetail` of a type. Raises CannotJudgeError while the type has not been observed."""
    if not kind.status.detail:
        raise CannotJudgeError(f"InstanceType {view.role.instance_type!r} has not been observed yet: retry")
    found = kind.status.detail.get("slicedDetail")
    return found if isinstance(found, dict) else {}


def _offered(slicing: dict[str, Any], how: str) -> dict[str, Any] | None:
    found = slicing.get(how)
    return found if isinstance(found, dict) and _count(found.get("count")) > 0 else None


def _count(written: Any) -> Fraction:
    value = parse_quantity(written) if isinstance(written, str | int | float) else None
    return value if value is not None else Fraction(0)


@rule(
    "MD712",
    "PartitionOffered",
    "A partition profile is one that the type's cards offer.",
    "spec.roles[i].resources.acceleratorPartitionedProfile",
    phase="types",
    when="parts",
    source="3.9",
)
def partition_offered(subject: Subject) -> Iterator[Problem]:
    """Forbidden on a type without hardware partitions."""
    for view, resources, kind in _asking(subject):
        if not partitioned(resources):
            continue
        field = f"{view.path}.resources.acceleratorPartitionedProfile"
        physical = _offered(_slicing(view, kind), "physical")
        if physical is None:
            yield Problem(field=field, reason="Forbidden", said=f"{view.role.instance_type} offers no partitions")
            continue
        names = sorted(str(profile.get("name")) for profile in physical.get("profiles") or () if isinstance(profile, dict))
        if resources.accelerator_partitioned_profile not in names:
            yield Problem(
                field=field,
                value=resources.accelerator_partitioned_profile,
                said=f"{view.role.instance_type} offers {', '.join(names) or 'none'}",
            )


@rule(
    "MD713",
    "SliceOffered",
    "Slices are asked of a type whose cards can be sliced.",
    "spec.roles[i].resources.acceleratorSlicedMemoryPercentage",
    phase="types",
    when="parts",
    source="3.9",
)
def slice_offered(subject: Subject) -> Iterator[Problem]:
    """Logical slicing is a property of the type. Whichever share is asked for, the memory's names the slice."""
    for view, resources, kind in _asking(subject):
        if sliced(resources) and _offered(_slicing(view, kind), "logical") is None:
            yield Problem(
                field=f"{view.path}.resources.acceleratorSlicedMemoryPercentage",
                reason="Forbidden",
                said=f"{view.role.instance_type} offers no slices",
            )


@rule(
    "MD714",
    "PartOfOneCard",
    "A slice or a partition is of exactly one card.",
    "spec.roles[i].resources.accelerator",
    phase="types",
    when="parts",
    source="3.9",
)
def part_of_one(subject: Subject) -> Iterator[Problem]:
    """Two halves of two cards are two Pods."""
    for view, resources, _ in _asking(subject):
        written = resources.accelerator
        if (sliced(resources) or partitioned(resources)) and written is not None and parse_quantity(written) != 1:
            yield Problem(field=f"{view.path}.resources.accelerator", value=written, said="must be 1 for a part of a card")


@rule(
    "MD715",
    "CardsWithinType",
    "A Pod asks for no more whole cards than its type has.",
    "spec.roles[i].resources.accelerator",
    phase="types",
    when="cards",
    source="3.9",
)
def cards_within(subject: Subject) -> Iterator[Problem]:
    """The capacity counts, not what is free just now."""
    for view, resources, kind in _asking(subject):
        written = resources.accelerator
        if written is None or sliced(resources) or partitioned(resources) or kind.status.accelerator is None:
            continue
        asked, capacity = parse_quantity(written), kind.status.accelerator.get("capacity")
        if asked is not None and capacity is not None and asked > _count(capacity):
            yield Problem(
                field=f"{view.path}.resources.accelerator", value=written, said=f"{view.role.instance_type} has {capacity} cards in all"
            )


@rule(
    "MD716",
    "NoCardsAlone",
    "A role without cards has its accelerated type to itself.",
    "spec.roles[i].resources.accelerator",
    phase="types",
    when="several",
    source="3.9",
)
def no_cards_alone(subject: Subject) -> Iterator[Problem]:
    """Alone on its type, 0 is fine."""
    for view, resources, _ in _asking(subject):
        written = resources.accelerator
        if written is None or parse_quantity(written) != 0:
            continue
        if sum(other.role.instance_type == view.role.instance_type for other in subject.roles) > 1:
            yield Problem(
                field=f"{view.path}.resources.accelerator", value=written, said=f"{view.role.instance_type} is used by another role too"
            )


@rule(
    "MD717",
    "PairNotSlicedTogether",
    "A Prefill and a Decode role are not both sliced on one group of accelerators.",
    "spec.roles",
    phase="types",
    when="parts",
    source="3.9",
)
def pair_not_sliced(subject: Subject) -> Iterator[Problem]:
    """Their transfer would run within a card."""
    groups: dict[str, tuple[str, str]] = {}
    for view, resources, kind in _asking(subject):
        if sliced(resources) and view.role.effective_kind in {"Prefill", "Decode"}:
            groups.setdefault(view.role.effective_kind, (view.role.name, kind.spec.accelerator_group))
    prefill, decode = groups.get("Prefill"), groups.get("Decode")
    if prefill and decode and prefill[1] and prefill[1] == decode[1]:
        yield Problem(field="spec.roles", value=f"{prefill[0]}, {decode[0]}", said=f"both are slices of {prefill[1]}")


RULES = (
    partition_or_slice,
    interface_whole,
    type_exists,
    partition_offered,
    slice_offered,
    part_of_one,
    cards_within,
    no_cards_alone,
    pair_not_sliced,
)
