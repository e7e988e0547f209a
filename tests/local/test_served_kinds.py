"""Which versions come first, and definitions that cannot be used."""

from typing import Any

import pytest

from local import crds
from local.kinds import version_order
from local.kueue import workload_definition
from local.wire import copy


def test_versions_are_ordered_as_the_api_server_orders_them() -> None:
    """GA before beta before alpha, higher first, everything else behind."""
    wanted = ["v10", "v2", "v1", "v11beta2", "v10beta3", "v3beta1", "v12alpha1", "v11alpha2", "foo1"]
    assert sorted(set(wanted), key=version_order) == wanted


def _broken(path: str, value: Any) -> dict[str, Any]:
    out: dict[str, Any] = copy(workload_definition())
    here: Any = out
    *parents, last = path.split(".")
    for part in parents:
        here = here[int(part)] if part.isdigit() else here[part]
    here[last] = value
    return out


BROKEN: dict[str, tuple[str, Any, str]] = {
    "a name that is not plural.group": ("metadata.name", "x", "metadata.name"),
    "no kind": ("spec.names.kind", "", "spec.names.kind"),
    "an unknown scope": ("spec.scope", "World", "spec.scope"),
    "no version that stores": ("spec.versions.0.storage", False, "spec.versions"),
    "a version without a schema": ("spec.versions.0.schema", {}, "spec.versions[0].schema.openAPIV3Schema"),
    "a schema of no object": ("spec.versions.0.schema.openAPIV3Schema.type", "array", "spec.versions[0].schema.openAPIV3Schema.type"),
    "conversion by webhook": ("spec.conversion", {"strategy": "Webhook"}, "spec.conversion.strategy"),
}


@pytest.mark.parametrize(("path", "value", "field"), BROKEN.values(), ids=BROKEN)
def test_definitions_that_cannot_be_used(path: str, value: Any, field: str) -> None:
    """Each fault has its field."""
    assert field in {cause.field for cause in crds.faults(_broken(path, value))}


def test_a_definition_without_fault_is_served_in_its_versions() -> None:
    """With the storage version, names, columns and subresources that it states."""
    definition = workload_definition()
    crds.complete(definition)
    assert crds.faults(definition) == []
    rows = crds.served_by(definition)
    assert [(row.version, row.storage_version) for row in rows] == [("v1beta2", "v1beta2"), ("v1beta1", "v1beta2")]
    assert rows[0].short == ("wl",)
    assert rows[0].subresources == {"status"}
    assert rows[0].lists_as == "WorkloadList"
