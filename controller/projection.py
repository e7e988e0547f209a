"""Making a projected object small: only keys that somebody reads, and one copy of what many objects have in common.

The Pods of a role differ in name, UID, ordinal and state; their containers, owners and annotations are alike. A hundred thousand of them
fit into memory because alike parts are one object. What is shared is kept by value in a bounded table, which forgets everything when it is
full: that costs sharing for a while, never correctness.
"""

from typing import Any, Final, TypeVar

import msgspec

from api import keys
from api.objects import Condition, ObjectMeta, Pod, Workload

T = TypeVar("T")

# Every label and annotation key that any room can name.
READ_KEYS: Final = frozenset(value for value in vars(keys).values() if isinstance(value, str) and "/" in value)
# Conditions of a Pod that some judgement looks at.
POD_CONDITIONS: Final = frozenset({"Ready", "PodReadyToStartContainers"})
BOUND: Final = 1 << 16


class Commons:
    """One copy of equal values."""

    def __init__(self, bound: int = BOUND) -> None:
        self._bound = bound
        self._values: dict[Any, Any] = {}

    def one(self, value: T) -> T:
        """The copy that stands for all values equal to this one, which has to be hashable and never changed."""
        found: T = self._values.setdefault(value, value)
        if len(self._values) > self._bound:
            self._values.clear()
        return found

    def mapping(self, value: dict[str, str]) -> dict[str, str]:
        """The read keys of a label or annotation map, shared with every equal one."""
        kept = tuple((self.one(key), self.one(text)) for key, text in value.items() if key in READ_KEYS)
        found: dict[str, str] | None = self._values.get(kept)
        if found is None:
            found = self._values[kept] = dict(kept)
        return found

    def metadata(self, meta: ObjectMeta, *, keyed: bool) -> ObjectMeta:
        """`keyed`: labels and annotations are read."""
        return msgspec.structs.replace(
            meta,
            namespace=self.one(meta.namespace),
            generate_name="",
            labels=self.mapping(meta.labels) if keyed else {},
            annotations=self.mapping(meta.annotations) if keyed else {},
            finalizers=self.one(meta.finalizers),
            owner_references=self.one(meta.owner_references),
        )

    def conditions(self, conditions: tuple[Condition, ...]) -> tuple[Condition, ...]:
        """Conditions, each shared with its equals."""
        return tuple(self.one(each) for each in conditions)

    def pod(self, pod: Pod) -> Pod:
        """A Pod's projection, made small."""
        status = pod.status
        return Pod(
            metadata=self.metadata(pod.metadata, keyed=True),
            spec=msgspec.structs.replace(pod.spec, containers=self.one(pod.spec.containers), node_name=self.one(pod.spec.node_name)),
            status=msgspec.structs.replace(
                status,
                phase=self.one(status.phase),
                conditions=self.conditions(tuple(each for each in status.conditions if each.type in POD_CONDITIONS)),
                container_statuses=self.one(status.container_statuses),
            ),
        )

    def workload(self, workload: Workload) -> Workload:
        """A Workload's projection, made small."""
        status = workload.status
        return Workload(
            metadata=self.metadata(workload.metadata, keyed=False),
            spec=self.one(workload.spec),
            status=msgspec.structs.replace(status, conditions=self.conditions(status.conditions)),
        )
