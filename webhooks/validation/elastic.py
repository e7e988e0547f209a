"""Elastic expert parallelism: one role, one shape, and a width that only grows. Source: admission facts 3.6, newest form."""

from collections.abc import Iterator

from api.objects import RoleResources
from engines.facade import RoleReading
from webhooks.quantity import parse_quantity, same_quantity
from webhooks.readings import tensor_size
from webhooks.validation.findings import Problem, rule
from webhooks.validation.parallel import cards_kept, elastic_maximum_fits
from webhooks.validation.subject import RoleView, Subject

FLAGS = frozenset(
    {
        "data-parallel-size",
        "dp",
        "data-parallel-size-local",
        "dpl",
        "data-parallel-backend",
        "dpb",
        "data-parallel-address",
        "dpa",
        "enable-expert-parallel",
        "enable-elastic-ep",
        "enable-eplb",
        "distributed-executor-backend",
        "ray-address",
    }
)
VARIABLES = frozenset(
    {
        "VLLM_DP_SIZE",
        "VLLM_DATA_PARALLEL_SIZE_LOCAL",
        "VLLM_ENABLE_ELASTIC_EP",
        "VLLM_ENABLE_EPLB",
        "VLLM_TENSOR_PARALLEL_SIZE",
        "VLLM_PIPELINE_PARALLEL_SIZE",
        "VLLM_RAY_ADDRESS",
        "RAY_ADDRESS",
        "GPUSTACK_ELASTIC_POD_UID",
        "GPUSTACK_ELASTIC_POD_IP",
        "VLLM_RAY_DP_PACK_STRATEGY",
        "RAY_OVERRIDE_LABELS",
    }
)
NARROWEST, WIDEST = 2, 64

_MAX = "elastic_ep_max_dp_size"


def _elastic(subject: Subject) -> Iterator[tuple[RoleView, int]]:
    for view in subject.roles:
        if view.role.elastic_ep is not None:
            yield view, view.role.elastic_ep.width


def max_size(reading: RoleReading) -> int | None:
    """The last `--elastic-ep-max-dp-size` that can be read, or None."""
    given = reading.option(_MAX)
    return given.stored if given is not None and isinstance(given.stored, int) and given.stored >= 1 else None


def _vllm(subject: Subject) -> bool:
    return subject.spec.engine.name == "vLLM"


@rule("MD401", "ElasticEngine", "Elastic expert parallelism is vLLM's.", "spec.engine.name", when="elastic", source="3.6")
def elastic_engine(subject: Subject) -> Iterator[Problem]:
    """SGLang has no such profile."""
    if subject.spec.engine.name != "vLLM" and any(True for _ in _elastic(subject)):
        yield Problem(field="spec.engine.name", value=subject.spec.engine.name, said="elasticEp needs vLLM")


@rule("MD402", "ElasticAlone", "An elastic role is the only role.", "spec.roles", when="elastic", source="3.6")
def elastic_alone(subject: Subject) -> Iterator[Problem]:
    """At most one elastic role, and nothing beside it."""
    count = sum(1 for _ in _elastic(subject))
    if count > 1:
        yield Problem(field="spec.roles", reason="Forbidden", said="at most one role may be elastic")
    if count and len(subject.roles) > 1:
        yield Problem(field="spec.roles", reason="Forbidden", said="an elastic role stands beside no other role")


@rule(
    "MD403",
    "ElasticWidth",
    "An elastic width is 2 to 64 and not above --elastic-ep-max-dp-size.",
    "spec.roles[i].elasticEp.width",
    when="elastic",
    source="3.6",
)
def elastic_width(subject: Subject) -> Iterator[Problem]:
    """The engine reserves for the maximum."""
    for view, width in _elastic(subject):
        field = f"{view.path}.elasticEp.width"
        if not NARROWEST <= width <= WIDEST:
            yield Problem(field=field, value=width, said=f"must be {NARROWEST} to {WIDEST}")
        widened = view.old is None or view.old.elastic_ep is None or view.old.elastic_ep.width != width
        if _vllm(subject) and not view.taken_over and (widened or view.judges_line):
            most = max_size(view.reading(subject.spec))
            if most is not None and width > most:
                yield Problem(field=field, value=width, said=f"is above --elastic-ep-max-dp-size {most}")


@rule(
    "MD404",
    "ElasticArguments",
    "An elastic role's degrees can be read, and its pipeline and prefill-context sizes are 1.",
    "spec.roles[i].extraArgs",
    when="elastic",
    source="3.6",
)
def elastic_arguments(subject: Subject) -> Iterator[Problem]:
    """The operator derives the rest of the shape from them. What never refuses (D5) does not here either: the reader's warnings tell it."""
    if not _vllm(subject):
        return
    for view, _ in _elastic(subject):
        if not view.judges_line or view.taken_over:
            continue
        reading = view.reading(subject.spec)
        field = f"{view.path}.extraArgs"
        fault = next((fault for fault in reading.refusals if fault.variable is None), None)
        if fault is not None:
            yield Problem(field=field, said=fault.message, value=view.role.name)
        elif not elastic_maximum_fits(reading):
            yield Problem(field=field, said="--elastic-ep-max-dp-size is below its minimum 1", value=view.role.name)
        for dest, flag in (
            ("pipeline_parallel_size", "--pipeline-parallel-size"),
            ("prefill_context_parallel_size", "--prefill-context-parallel-size"),
        ):
            given = reading.option(dest)
            if given is not None and isinstance(given.stored, int) and given.stored > 1:
                yield Problem(field=field, said=f"{flag} is 1 on an elastic role", value=given.stored)


@rule(
    "MD405",
    "ElasticCards",
    "An elastic role's cards are its tensor size: whole, unsliced, without interfaces.",
    "spec.roles[i].resources.accelerator",
    "spec.roles[i].resources.acceleratorSlicedMemoryPercentage",
    "spec.roles[i].resources.acceleratorSlicedCoresPercentage",
    "spec.roles[i].resources.acceleratorPartitionedProfile",
    "spec.roles[i].resources.interface",
    when="elastic",
    source="3.6",
)
def elastic_cards(subject: Subject) -> Iterator[Problem]:
    """One rank per Pod."""
    for view, _ in _elastic(subject):
        resources = view.role.resources
        if resources is None:
            continue
        path = f"{view.path}.resources"
        tensor = tensor_size(view.reading(subject.spec)) if _vllm(subject) and not view.taken_over and not cards_kept(view) else None
        if resources.accelerator is not None and tensor is not None and not same_quantity(resources.accelerator, tensor):
            yield Problem(field=f"{path}.accelerator", value=resources.accelerator, said=f"must be the tensor size {tensor}")
        if resources.accelerator_sliced_memory_percentage:
            yield Problem(field=f"{path}.acceleratorSlicedMemoryPercentage", reason="Forbidden", said="an elastic role takes whole cards")
        if resources.accelerator_sliced_cores_percentage:
            yield Problem(field=f"{path}.acceleratorSlicedCoresPercentage", reason="Forbidden", said="an elastic role takes whole cards")
        if resources.accelerator_partitioned_profile:
            yield Problem(field=f"{path}.acceleratorPartitionedProfile", reason="Forbidden", said="an elastic role takes whole cards")
        if resources.interface is not None and parse_quantity(resources.interface) != 0:
            yield Problem(field=f"{path}.interface", reason="Forbidden", said="an elastic role takes no fabric interface")


@rule(
    "MD406",
    "ElasticShape",
    "An elastic role is one Server replica of size 1 that keeps the operator's command.",
    "spec.roles[i].kind",
    "spec.roles[i].replicas",
    "spec.roles[i].size",
    "spec.roles[i].command",
    when="elastic",
    source="3.6",
)
def elastic_shape(subject: Subject) -> Iterator[Problem]:
    """Its width is what scales."""
    for view, _ in _elastic(subject):
        role = view.role
        if role.effective_kind != "Server":
            yield Problem(field=f"{view.path}.kind", value=role.effective_kind, said="an elastic role is a Server")
        if role.replicas != 1:
            yield Problem(field=f"{view.path}.replicas", value=role.replicas, said="an elastic role has one replica: change its width")
        if role.size != 1:
            yield Problem(field=f"{view.path}.size", value=role.size, said="an elastic role has size 1: change its width")
        if role.command:
            yield Problem(field=f"{view.path}.command", reason="Forbidden", said="an elastic role keeps the operator's command")


@rule(
    "MD407",
    "ElasticOwnedArgument",
    "On an elastic role the operator sets data and expert parallelism.",
    "spec.roles[i].extraArgs",
    when="elastic",
    source="3.6",
)
def elastic_owned_argument(subject: Subject) -> Iterator[Problem]:
    """The name is compared as written, without its dashes and its value."""
    for view, _ in _elastic(subject):
        if not view.judges_arguments:
            continue
        for token in view.tokens:
            if token.startswith("-") and token.lstrip("-").split("=", 1)[0] in FLAGS:
                yield Problem(
                    field=f"{view.path}.extraArgs", reason="Forbidden", said=f"{token.split('=', 1)[0]} is set by the operator here"
                )


@rule(
    "MD408",
    "ElasticOwnedVariable",
    "On an elastic role the operator sets the variables of data parallelism and Ray's address.",
    "spec.roles[i].env[j].name",
    when="elastic",
    source="3.6",
)
def elastic_owned_variable(subject: Subject) -> Iterator[Problem]:
    """Other RAY_* variables are free."""
    for view, _ in _elastic(subject):
        for position, variable in enumerate(view.role.env):
            if variable.name in VARIABLES:
                yield Problem(
                    field=f"{view.path}.env[{position}].name", reason="Forbidden", said=f"{variable.name} is set by the operator here"
                )


@rule(
    "MD409",
    "ElasticProfileKept",
    "The elastic profile is not added, removed, or moved to another role.",
    "spec.roles.elasticEp",
    "spec.roles[i].name",
    when="elastic",
    source="3.6",
)
def elastic_kept(subject: Subject) -> Iterator[Problem]:
    """It decides how the Pods are made."""
    if subject.old_spec is None:
        return
    before = {role.name for role in subject.old_spec.roles if role.elastic_ep is not None}
    after = {view.role.name: view for view, _ in _elastic(subject)}
    if bool(before) != bool(after):
        yield Problem(field="spec.roles.elasticEp", reason="Forbidden", said=f"the profile cannot be {'removed' if before else 'added'}")
        return
    for name, view in after.items():
        if name not in before:
            yield Problem(field=f"{view.path}.name", reason="Forbidden", said="the profile cannot move to another role")


@rule(
    "MD410",
    "ElasticShapeKept",
    "An elastic role keeps its instance type, resources, tensor size and maximum, and does not get narrower.",
    "spec.roles[i].instanceType",
    "spec.roles[i].resources",
    "spec.roles[i].extraArgs",
    "spec.roles[i].elasticEp.width",
    when="elastic",
    source="3.6",
)
def elastic_shape_kept(subject: Subject) -> Iterator[Problem]:
    """Equal values in other spellings are equal."""
    former = subject.old_spec
    if former is None:
        return
    for view, width in _elastic(subject):
        old = view.old
        if old is None or old.elastic_ep is None:
            continue
        if old.instance_type != view.role.instance_type:
            yield Problem(field=f"{view.path}.instanceType", value=view.role.instance_type, said="an elastic role keeps its instance type")
        if not _same_resources(view):
            yield Problem(field=f"{view.path}.resources", value=view.role.name, said="an elastic role keeps its resources")
        if width < old.elastic_ep.width:
            yield Problem(
                field=f"{view.path}.elasticEp.width", reason="Forbidden", said=f"cannot shrink from {old.elastic_ep.width} to {width}"
            )
        if view.judges_line and _vllm(subject) and former.engine.name == "vLLM":
            yield from _arguments_kept(view, RoleView(view.index, old, None, former).reading(former), view.reading(subject.spec))


def _arguments_kept(view: RoleView, before: RoleReading, after: RoleReading) -> Iterator[Problem]:
    field = f"{view.path}.extraArgs"
    was, now = tensor_size(before), tensor_size(after)
    if was is not None and now is not None and was != now:
        yield Problem(field=field, value=now, said=f"an elastic role keeps its tensor size {was}")
    if max_size(before) != max_size(after):
        yield Problem(field=field, reason="Forbidden", said="--elastic-ep-max-dp-size is not added, removed or changed")


def _same_resources(view: RoleView) -> bool:
    old, new = (view.old.resources if view.old else None) or RoleResources(), view.role.resources or RoleResources()
    return (
        # Cards that the stored object left open are filled on the way here; whether by the right number is another rule's business.
        (old.accelerator is None or same_quantity(old.accelerator, new.accelerator))
        and same_quantity(old.interface, new.interface)
        and (old.accelerator_sliced_memory_percentage or 0) == (new.accelerator_sliced_memory_percentage or 0)
        and (old.accelerator_sliced_cores_percentage or 0) == (new.accelerator_sliced_cores_percentage or 0)
        and (old.accelerator_partitioned_profile or "") == (new.accelerator_partitioned_profile or "")
    )


RULES = (
    elastic_engine,
    elastic_alone,
    elastic_width,
    elastic_arguments,
    elastic_cards,
    elastic_shape,
    elastic_owned_argument,
    elastic_owned_variable,
    elastic_kept,
    elastic_shape_kept,
)
